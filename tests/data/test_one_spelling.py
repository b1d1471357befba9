"""Pairs with targets in two spellings are trained on in one."""

import json
from collections import Counter
from pathlib import Path

import pytest

from dragoman.config.run import RunConfig
from dragoman.config.settings import parse_settings
from dragoman.data import one_spelling
from dragoman.data.mixing import mix_in
from dragoman.data.preparation import PreparedData, prepare, split_off
from dragoman.runs.plan import plan_pairs, plan_run
from dragoman.runs.prepared import prepare_folder
from dragoman.system.seals import seal
from dragoman.text.preprocessing import Preprocessor, SourceStyle
from dragoman.text.transliteration import CYRILLIC, LATIN, script_of
from tests.data.test_preparation import config, epoch, tsv
from tests.spellings import in_cyrillic, in_latin, in_two_scripts, mixed, old, texts

NEW = texts(1_500)
SOURCES = [f"{number} {text}" for number, text in enumerate(texts(1_500, seed=5))]

PAIRS = [*zip(SOURCES, NEW, strict=True)]


def prepared(folder: Path, run: RunConfig) -> PreparedData:
    folder.mkdir()
    run, pairs = plan_pairs(run, near=folder)
    prepare(pairs, run, folder)
    seal(folder)
    return PreparedData.open(folder, run)


def written(data: PreparedData) -> set[str]:
    """The targets of the training pairs, with those that are validated."""
    return {target for _, target in epoch(data)} | {target for _, target in data.valid_pairs}


def test_targets_are_trained_on_in_the_spelling_of_most(tmp_path: Path):
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES, mixed(NEW), strict=True)])
    data = prepared(tmp_path / "one", config(f"data.source={pairs}"))
    assert written(data) <= {*NEW}
    assert {target for _, target in data.test_pairs} <= {*NEW}
    (record,) = data.about.respelled
    assert {*str(record["respelling"]).split(", ")} == {"qu > k", "c > k", "hu > w"}
    assert record["targets"] == sum(text != new for text, new in zip(mixed(NEW), NEW, strict=True))

    kept = prepared(tmp_path / "two", config(f"data.source={pairs}", "data.one_spelling=false"))
    assert written(kept) <= {*mixed(NEW)}
    assert kept.about.respelled == []
    assert [source for source, _ in kept.test_pairs] == [source for source, _ in data.test_pairs]


def test_targets_are_trained_on_in_the_script_of_most(tmp_path: Path):
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES, in_two_scripts(1_500), strict=True)])
    data = prepared(tmp_path / "one", config(f"data.source={pairs}"))
    assert written(data) <= {*in_latin(1_500)}
    assert [record["respelling"] for record in data.about.respelled] == ["Cyrillic > Latin"]


def test_sources_in_two_scripts_are_read_in_one(tmp_path: Path):
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(in_two_scripts(1_500), SOURCES, strict=True)])
    data = prepared(tmp_path / "one", config(f"data.source={pairs}"))
    assert SourceStyle.from_json(data.style.model_dump_json().encode(), tmp_path) == data.style
    assert str(data.style.reading) == "Cyrillic > Latin"
    prepare_source = Preprocessor(data.style, data.source_tokenizer, ("hbs", "en"))
    latin, cyrillic = in_latin(1, seed=4)[0], in_cyrillic(1, seed=4)[0]
    assert prepare_source(cyrillic).text == prepare_source(latin).text == latin
    # Texts stay as they are; what is trained on is read in one script, too.
    assert {script_of(source) for source, _ in data.test_pairs} == {LATIN, CYRILLIC}
    assert {script_of(source) for source, _ in epoch(data)} == {LATIN}


@pytest.mark.parametrize("languages", [["sr", "sr"], ["sr", "ru"]])
def test_sources_stay_as_they_are_if_they_are_to_or_are_of_several_languages(tmp_path: Path, languages: list[str]):
    written = [*zip(in_two_scripts(1_500), SOURCES, strict=True)]
    files = tsv(tmp_path / "one.tsv", written), tsv(tmp_path / "other.tsv", written[:900])
    corpora = [{"source": file, "languages": [code, "en"]} for file, code in zip(files, languages, strict=True)]
    is_one = len({*languages}) == 1
    run = config(f"data.corpora={json.dumps(corpora)}", f"data.one_spelling={str(not is_one).lower()}")
    assert prepared(tmp_path / "data", run).style.reading is None


def test_validation_pairs_of_the_user_say_which_spelling_and_test_pairs_stay_as_they_are(tmp_path: Path):
    named = [(source, new if number % 20 == 0 else old(new)) for number, (source, new) in enumerate(PAIRS[:100])]
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES[100:], mixed(NEW[100:]), strict=True)])
    held_out = tsv(tmp_path / "held-out.tsv", named)
    run = config(f"data.source={pairs}", f"data.valid=[{held_out}]", f"data.test=[{held_out}]")
    data = prepared(tmp_path / "one", run)
    assert written(data) <= {old(text) for text in NEW}
    assert {*data.test_pairs} == {*named}


@pytest.mark.slow
def test_each_target_language_has_a_spelling_of_its_own(tmp_path: Path):
    one = tsv(tmp_path / "one.tsv", [*zip(SOURCES, mixed(NEW), strict=True)])
    other = tsv(tmp_path / "other.tsv", [*zip(SOURCES, (text.swapcase() for text in map(old, NEW)), strict=True)])
    corpora = [
        f'{{"source": "{one}", "languages": ["en", "xx"]}}',
        f'{{"source": "{other}", "languages": ["en", "yy"]}}',
    ]
    data = prepared(tmp_path / "both", config(f"data.corpora=[{', '.join(corpora)}]"))
    assert [record["language"] for record in data.about.respelled] == ["xx"]
    assert written(data) <= {*NEW} | {text.swapcase() for text in map(old, NEW)}


def test_a_part_of_the_pairs_and_a_split_by_groups_have_the_same_spelling(tmp_path: Path):
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES, mixed(NEW), strict=True)])
    whole = prepared(tmp_path / "whole", config(f"data.source={pairs}"))
    part = prepared(tmp_path / "part", config(f"data.source={pairs}", "data.share=0.1", "data.split=groups"))
    assert part.test_pairs == whole.test_pairs
    assert part.about.respelled == whole.about.respelled


def test_the_config_tells_what_was_replaced_and_that_test_pairs_are_in_the_other_spelling(tmp_path: Path):
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES[100:], mixed(NEW[100:]), strict=True)])
    test = tsv(tmp_path / "test.tsv", [*zip(SOURCES[:100], map(old, NEW[:100]), strict=True)])
    run, _ = plan_pairs(config(f"data.source={pairs}", f"data.test=[{test}]"), near=tmp_path)
    told = " ".join(run.chosen)
    assert "targets were respelled" in told
    assert "hu > w" in told
    assert "% of the test pairs are in a spelling that was replaced" in told


def test_general_pairs_get_the_spelling_of_those_that_a_model_is_adapted_to(tmp_path: Path):
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES[500:], mixed(NEW[500:]), strict=True)])
    general = tsv(tmp_path / "general.tsv", [*zip(SOURCES[:500], map(old, NEW[:500]), strict=True)])
    run, planned = plan_pairs(config(f"data.source={pairs}"), near=tmp_path)
    run.finetune.mix, run.finetune.share = [general], 0.5
    mixture = mix_in(split_off(planned, run), run, planned)
    assert {target for _, target in mixture.train} <= {*NEW}
    assert {target for _, target in mixture.general} <= {*NEW}


def test_prepared_pairs_tell_it_to_the_runs_that_begin_with_them(tmp_path: Path):
    pairs = tsv(tmp_path / "pairs.tsv", [*zip(SOURCES, mixed(NEW), strict=True)])
    folder = tmp_path / "prepared"
    prepare_folder([pairs], folder, recipe=None, settings=parse_settings(["tokenizer.vocab_size=400"]))
    run, _ = plan_run([str(folder)], recipe=None, settings={}, near=tmp_path)
    assert [line for line in run.chosen if "targets were respelled" in line]


@pytest.mark.parametrize("by", ["sentence", "line", "groups"])
def test_pairs_that_become_equal_are_one_and_no_held_out_pair_is_trained_on(tmp_path: Path, by: str):
    written = [*zip(SOURCES, NEW, strict=True), *zip(SOURCES[::3], map(old, NEW[::3]), strict=True)]
    pairs = tsv(tmp_path / "pairs.tsv", written)
    data = prepared(tmp_path / "one", config(f"data.source={pairs}", f"data.split={by}", "data.held_out=100"))
    trained_on = epoch(data)
    held_out = [tuple(pair) for pair in [*data.valid_pairs, *data.test_pairs]]
    assert max(trained_on.values()) == 1
    assert trained_on.total() == len(SOURCES) - len(held_out) == len(SOURCES) - len({*held_out})
    assert not {*held_out} & {*trained_on}
    assert data.about.dropped["repeats another pair"] == len(NEW[::3])


def test_weights_of_corpora_stay_and_rare_corpora_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(one_spelling, "MOST_TEXTS", len(NEW))
    many = tsv(tmp_path / "many.tsv", [(f"{number} a", f"{number} b") for number in range(30_000)])
    few = tsv(tmp_path / "few.tsv", [*zip(SOURCES, mixed(NEW), strict=True)])
    corpora = [{"source": many, "languages": ["en", "fr"]}, {"source": few, "languages": ["en", "xx"], "weight": 3}]
    _, pairs = plan_pairs(config(f"data.corpora={json.dumps(corpora)}"), near=tmp_path)
    assert [record.language for record in pairs.counts.respelled] == ["xx"]
    assert pairs.report.weighted == 30_000 + 3 * len(NEW)
    assert Counter(target for _, target in pairs if target in {*NEW}) == {target: 3 for target in NEW}
