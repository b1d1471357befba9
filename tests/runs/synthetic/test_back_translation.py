"""Sentences without translations become tagged pairs; what was interrupted goes on; held-out targets stay out."""

import json
from pathlib import Path

import pytest

from dragoman.bulk.lines import BulkTranslator
from dragoman.config.recipes import read_recipe
from dragoman.data.bitext import Bitext
from dragoman.data.twins import training_twins
from dragoman.runs.synthetic import pieces
from dragoman.runs.synthetic.pairs import read_pairs
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.truecasing import CaseTable
from dragoman.training.trainer import Trainer
from tests.cli.test_translation import save_model
from tests.runs.synthetic.test_distill import PAIRS, SMALL
from tests.small import write_pairs

OTHERS = [target for _, target in Bitext.open("builtin:grammar:120:valid")]
MADE = "run/teaching/pairs.back-translated.jsonl"
"""The file of tagged pairs in the folder of a run."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with pairs and with sentences, some of which are targets of the pairs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pieces, "AT_ONCE", 50)
    write_pairs(Path("pairs.tsv"), PAIRS)
    known = [target for _, target in PAIRS]
    lines = [*OTHERS, *known, "", *OTHERS[:5] * 200]
    Path("news.fr").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def command(output: str, *words: str) -> list[str]:
    given = ["--monolingual", "news.fr", "--output", output, "--quiet", "data.languages=[en,fr]"]
    return ["train", "pairs.tsv", *given, *words, *SMALL]


def held_out(run: str) -> list[tuple[str, str]]:
    files = [Path(run, f"run/data/{name}.json") for name in ("valid", "test")]
    return [tuple(pair) for file in files for pair in json.loads(file.read_text())]


@pytest.mark.slow
def test_tagged_pairs_are_learned_beside_the_real_ones(folder, dragoman):
    code, _, err = dragoman(*command("run", "--ratio", "0.5", f"training.mirror={(folder / 'copy').as_uri()}"))
    assert code == 0, err
    config = json.loads(Path("copy/config.json").read_text())
    assert config == json.loads(Path("run/config.json").read_text())  # not the reverse model's, which came first
    made, kept = list(read_pairs(Path("run", MADE))), ModelDirectory.load(Path("run"))
    assert all(source.startswith("<bt> ") for source, _ in made)
    assert kept.source_tokenizer.symbols == ["<bt>"]
    ids = kept.source_tokenizer.encode(made[0][0])
    assert kept.source_tokenizer.pieces(ids)[0] == "<bt>"
    real = sum(1 for _ in read_pairs(Path("run/run/teaching/pairs/pairs.train.jsonl")))
    about = json.loads(Path("run/run/data/about.json").read_text())
    assert about["train_pairs"] == pytest.approx(1.5 * real, rel=0.06)
    assert {*held_out("run")} <= {*PAIRS}
    reverse = ModelDirectory.load(Path("run/run/teaching/reverse"))
    assert (kept.decoding.beam_size, reverse.decoding.beam_size) == (1, 5)  # the search of the run is its own
    assert reverse.languages == ("fr", "en")
    assert {*held_out("run/run/teaching/reverse")} == {(target, source) for source, target in held_out("run")}
    assert "back-translated sentences by reverse, 0.5 for each real pair" in Path("run/README.md").read_text()


@pytest.mark.slow
def test_no_target_of_a_held_out_pair_is_learned(folder, dragoman):
    given, whole = [word for word in command("run", "--ratio", "3") if word != "--quiet"], Path("news.fr").read_bytes()
    for content, words in ((whole + b"\xe9t\xe9\n", "not valid UTF-8"), (b"\n", "give others")):
        Path("news.fr").write_bytes(content)
        code, _, err = dragoman(*given)
        assert (code, words in err, "On the way" in err) == (3, True, False), err
    Path("news.fr").write_bytes(whole)
    code, _, err = dragoman(*given)
    assert code == 0, err
    targets = {target for _, target in held_out("run")}
    made = [target for _, target in read_pairs(Path("run", MADE))]
    assert not targets & {*made}
    assert len(made) == len({*made})
    lines = Path("news.fr").read_text().split("\n")
    assert f"Left out: {sum(line in targets for line in lines)} sentences are targets of held-out pairs." in err
    assert {*made} <= {*lines}
    assert len(made) > 150


@pytest.mark.slow
def test_what_was_interrupted_goes_on_and_nothing_is_done_twice(folder, dragoman, monkeypatch):
    """Interrupted in each of its phases, one after the other."""
    words = ("--ratio", "0.5,2")
    assert dragoman(*command("whole", *words))[0] == 0
    windows, step, steps, translated = BulkTranslator.windows, Trainer.train_step, [], []
    # While it trains the reverse model, translates, tries the second ratio, and trains the run itself.
    stops = ["in step 4", "in piece 2", "in step 16", "in step 22"]

    def stop(now: str) -> None:
        if now in stops:
            stops.remove(now)
            raise KeyboardInterrupt

    def interrupted(self, lines, advance):
        stop(f"in piece {len(translated) + 1}")
        translated.append(list(lines))
        return windows(self, translated[-1], advance)

    def stopped(self):
        stop(f"in step {len(steps) + 1}")
        steps.append(self.progress.step)
        return step(self)

    monkeypatch.setattr(BulkTranslator, "windows", interrupted)
    monkeypatch.setattr(Trainer, "train_step", stopped)
    again = command("run", *words)
    for left in (3, 2, 1, 0):
        code, _, err = dragoman(*again)
        assert (code, len(stops), "train --resume run" in err) == (130, left, True)
        again = ["train", "--resume", "run", "--quiet"]
        if left == 3:
            assert "training.log_evry" in dragoman(*again, "training.log_evry=2")[2]
            again += ["training.log_every=2"]
        if left == 2:  # the same command as before knows what has changed since
            again = command("run", *words)
    code, _, err = dragoman(*again)
    assert code == 0, err
    assert len(steps) == 4 * 6
    assert sum(map(len, translated)) == len({line for piece in translated for line in piece})
    for folder_name in ("run/teaching/reverse", "run/teaching/trial-2", "."):
        assert read_recipe(f"run/{folder_name}/run/config.yaml")["training"]["log_every"] == 2
    for name in ("model.safetensors", MADE):
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes()


@pytest.mark.slow
def test_a_reverse_model_can_be_given(folder, dragoman):
    save_model(Path("reverse"))
    wrong = ModelDirectory.load(Path("reverse"))
    wrong.source_language, wrong.target_language = "en", "fr"
    wrong.save(Path("wrong"))
    code, _, err = dragoman(*command("other", "--reverse", "wrong"))
    assert code == 2
    assert "wrong translates from en to fr; --reverse needs a model from fr to en." in err
    code, _, err = dragoman(*command("other", "--reverse", "reverse"))
    assert code == 0, err
    assert not Path("other/run/teaching/reverse").exists()


def test_a_tag_does_not_hide_the_capital_that_a_source_begins_with():
    sources = ["The red house is old.", "A cat sees it."] * 20
    assert CaseTable.learn([f"<bt> {source}" for source in sources]) == CaseTable.learn(sources)


@pytest.mark.slow
def test_by_groups_no_sentence_that_is_nearly_a_held_out_target_is_learned(folder, dragoman):
    """The pairs that are held out do not depend on the sentences."""
    code, _, err = dragoman(*command("first", "data.split=groups"))
    assert code == 0, err
    kept = {target for _, target in held_out("first")}
    near = [f"{target} oui" for target in kept]
    Path("news.fr").write_text("".join(f"{line}\n" for line in [*near, *OTHERS]), encoding="utf-8")
    code, _, err = dragoman(*command("run", "--ratio", "3", "data.split=groups"))
    assert code == 0, err
    assert {target for _, target in held_out("run")} == kept
    made = list(read_pairs(Path("run", MADE)))
    assert made
    assert list(training_twins(held_out("run"), made)) == []
