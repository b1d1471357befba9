"""Pairs scored by two models, one for each direction: what is left out, what is never scored, and what is refused."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from dragoman.config.settings import parse_settings
from dragoman.data.builtin.grammar import generate
from dragoman.data.pair_file import PairFile
from dragoman.data.preparation import split_off
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError
from dragoman.evaluation import agreement
from dragoman.runs.prepared import prepare_folder
from dragoman.system import processes
from tests.runs.test_train import SMALL
from tests.small import plan, train_run, write_pairs

pytestmark = pytest.mark.usefixtures("annotations_unchecked")
PAIRS = list(generate(211, seed=3))
SWAPPED = [pair[::-1] for pair in PAIRS[::5]]
NOISY = [pair if index % 5 else pair[::-1] for index, pair in enumerate(PAIRS)]
LANGUAGES = "data.languages=[en,fr]"


def tsv(path: Path, pairs: Iterable[tuple[str, str]]) -> str:
    return str(write_pairs(path, pairs))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """English to French, and French to English; trained just long enough to know which language they write."""
    folder = tmp_path_factory.mktemp("models")
    for source, target, pairs in (("en", "fr", PAIRS), ("fr", "en", [pair[::-1] for pair in PAIRS])):
        file, output = tsv(folder / f"{source}.tsv", pairs), folder / f"{source}-{target}"
        given = [*SMALL, f"data.languages=[{source},{target}]", "training.max_steps=24", "training.validate_every=24"]
        train_run(output, file, settings=given)
    return [str(folder / "en-fr"), str(folder / "fr-en")]


def kept(folder: Path, models: list[str], *settings: str, pairs: Iterable[tuple[str, str]] = NOISY) -> PairFile:
    """What is left of pairs after both models have scored them."""
    given = [LANGUAGES, "data.held_out=7", f"data.cleaning.models={json.dumps(models)}", *settings]
    config, bitext = plan(tsv(folder / "pairs.tsv", pairs), settings=given)
    return agreement.best_pairs(bitext, config, near=folder, tell=lambda _: None)


def lines(pairs: PairFile) -> list[str]:
    return list(pairs.lines())


def test_the_score_falls_with_what_both_find_unlikely_and_with_what_they_differ_in():
    assert agreement.agreement(1.0, 3.0) == pytest.approx(math.exp(-2 - 2))
    assert agreement.agreement(0.0, 0.0) == 1.0


def test_the_share_with_the_best_scores_is_kept_and_the_others_are_counted(tmp_path, models):
    pairs = kept(tmp_path, models, "data.cleaning.keep=0.7")
    forward, backward = map(Translator.load, models)
    there, back = forward.score(NOISY), backward.score([pair[::-1] for pair in NOISY])
    scores = {p: agreement.agreement(-a.score, -b.score) for p, a, b in zip(NOISY, there, back, strict=True)}
    config, whole = plan(tmp_path / "pairs.tsv", settings=["data.held_out=7"])
    parts = split_off(whole, config)
    best = sorted(parts.train, key=scores.__getitem__, reverse=True)[: round(0.7 * len(list(parts.train)))]
    held_out = [*parts.valid, *parts.test]
    assert set(pairs) == {*best, *held_out}
    (reason,) = pairs.report.dropped
    limit = min(map(scores.__getitem__, best))
    assert reason == f"two models score it below {limit:.2g}"
    assert pairs.report.dropped[reason] == len(NOISY) - len(best) - len(held_out)


def test_pairs_whose_sides_are_exchanged_score_worst(tmp_path, models):
    given = [
        f"data.{part}=[builtin:grammar:5:{part}]" for part in ("valid", "test")
    ]  # so that none is held out of these
    left = set(kept(tmp_path, models, "data.cleaning.keep=0.78", *given))
    assert not left.intersection(SWAPPED)
    assert len(left) == round(0.78 * len(PAIRS))


def test_pairs_to_validate_and_test_on_are_those_that_are_drawn_without_scores(tmp_path, models):
    config, whole = plan(tsv(tmp_path / "all.tsv", NOISY), settings=["data.held_out=31"])
    scored = split_off(kept(tmp_path, models, "data.held_out=31", "data.cleaning.keep=0.3"), config)
    drawn = split_off(whole, config)
    assert (list(scored.valid), list(scored.test)) == (list(drawn.valid), list(drawn.test))
    assert set(scored.train) < set(drawn.train)


@pytest.mark.slow
def test_weights_stay(tmp_path, models):
    once = kept(tmp_path, models)
    corpora = [{"source": tsv(tmp_path / "a.tsv", NOISY), "weight": 2}]
    given = [LANGUAGES, f"data.corpora={json.dumps(corpora)}", "data.held_out=7"]
    config, pairs = plan(settings=[*given, f"data.cleaning.models={json.dumps(models)}"])
    twice = agreement.best_pairs(pairs, config, near=tmp_path, tell=lambda _: None)
    assert twice.report.weighted == 2 * once.report.weighted == len(list(twice))
    assert len(lines(twice)) == len(lines(once))


@pytest.mark.slow
def test_processes_score_as_one_does(tmp_path, models, monkeypatch):
    monkeypatch.setattr(agreement, "AT_ONCE", 29)
    found, messages = [], []
    for cores in (1, 2):
        monkeypatch.setattr(processes, "cores", lambda cores=cores: cores)
        found.append(lines(kept(tmp_path, models)))
    assert found[0] == found[1]
    config, pairs = plan(tmp_path / "pairs.tsv", settings=["data.held_out=7"])
    config.data.cleaning.models = tuple(models)
    agreement.best_pairs(pairs, config, near=tmp_path, tell=messages.append)
    assert messages[0] == f"two models have scored 29 of about {len(NOISY)}"


@pytest.mark.slow
def test_what_is_too_long_for_a_model_is_left_out(tmp_path, models, monkeypatch):
    long = ("a b c d e f g " * 300, "h i j k l m n " * 300)
    assert long not in set(kept(tmp_path, models, "data.cleaning.keep=0.99", pairs=[*NOISY, long]))
    whole = Translator.score

    def few_positions(self, pairs):
        if any(pair == NOISY[7] for pair in pairs):
            raise DataError("A sentence has more tokens than this model has positions.")
        return whole(self, pairs)

    monkeypatch.setattr(Translator, "score", few_positions)
    monkeypatch.setattr(processes, "cores", lambda: 1)
    left = set(kept(tmp_path, models, "data.cleaning.keep=0.99"))
    assert NOISY[7] not in left
    assert NOISY[8] in left


@pytest.mark.slow
def test_train_and_data_prepare_score_alike_and_tell(tmp_path, models, dragoman):
    file, output = tsv(tmp_path / "pairs.tsv", NOISY), tmp_path / "prepared"
    given = [LANGUAGES, f"data.cleaning.models={json.dumps(models)}", "data.held_out=7", "tokenizer.vocab_size=400"]
    code, _, err = dragoman("data", "prepare", file, "--output", output, *given)
    assert code == 0
    assert "Left out 39 pairs: two models score it below" in err  # a fifth of the 197 that are not held out
    train_run(tmp_path / "run", file, settings=[*SMALL, "training.max_steps=1", *given])
    for name in ("train-source.ids", "train-target.ids", "valid.json", "test.json", "about.json"):
        assert (output / name).read_bytes() == (tmp_path / "run/run/data" / name).read_bytes()
    planned = plan(file, settings=given, recipe=None)[0], plan(output, recipe=None)[0]
    assert planned[0].chosen[0] == planned[1].chosen[0]
    assert planned[0].chosen[0].startswith("For 169 pairs")  # a fifth is left out by then
    weights = Path(models[0]) / "model.safetensors"
    weights.touch()
    with pytest.raises(UsageError, match="prepared from other files"):
        prepare_folder([file], output, recipe=None, settings=parse_settings(given))


@pytest.mark.parametrize(
    ("order", "settings", "words"),
    [
        ((1, 0), [LANGUAGES], "fr-en translates fr-en, but its place in data.cleaning.models is for en-fr; name first"),
        ((0, 0), [LANGUAGES], "en-fr translates en-fr, but its place in data.cleaning.models is for fr-en; name first"),
        (
            (0, 1),
            ["data.languages=[en,de]"],
            "en-fr translates en-fr, but its place in data.cleaning.models is for en-de",
        ),
        ((0,), [], "`data.cleaning.models` is "),
    ],
)
def test_models_for_something_else_are_refused(tmp_path, models, order, settings, words):
    given = [*settings, f"data.cleaning.models={json.dumps([models[i] for i in order])}"]
    with pytest.raises(UsageError) as caught:
        plan(tsv(tmp_path / "pairs.tsv", PAIRS), settings=given, recipe=None)
    assert words in str(caught.value)


@pytest.mark.slow
def test_what_needs_models_is_refused_without_them(tmp_path, models):
    with pytest.raises(UsageError, match=r"`data.cleaning.keep` is a share of what two models have scored; set"):
        plan("builtin:grammar:40", settings=["data.cleaning.keep=0.5"], recipe=None)
    with pytest.raises(DataError, match="nowhere does not exist; give the folder that `dragoman train` wrote"):
        plan("builtin:grammar:40", settings=["data.cleaning.models=[nowhere, nowhere]"], recipe=None)
    corpora = [{"source": tsv(tmp_path / f"{code}.tsv", PAIRS), "languages": ["en", code]} for code in ("fr", "de")]
    given = [f"data.corpora={json.dumps(corpora)}", f"data.cleaning.models={json.dumps(models)}"]
    with pytest.raises(UsageError, match="score pairs of two languages, and these have more"):
        plan(settings=given, recipe=None)
