"""`import` as a user meets it: a model directory that all other commands take, or one sentence."""

import json
import pickle
import sys
from pathlib import Path

import pytest
import torch

from dragoman import cli
from dragoman.storage.model_directory import ModelDirectory
from tests.interop import pretrained_models as models
from tests.interop.notebook_tokenizers import keras_words, word_level
from tests.interop.notebooks import SOURCES, TARGETS, make
from tests.small import write_pairs


class Hostile:
    def __reduce__(self):
        return (Path.touch, (Path("ran-on-load"),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Notebooks' files: prenorm/ and keras/, a trap, and sentence pairs."""
    pytest.importorskip("h5py")
    path = tmp_path_factory.mktemp("notebooks")
    for style in ("prenorm", "keras"):
        make(style, path / style, encoder_layers=1, decoder_layers=1)
    torch.save({"fc.weight": Hostile()}, path / "hostile.pt")
    (path / "raw.pkl").write_bytes(pickle.dumps(Hostile()))
    pairs = zip(SOURCES[:3], [*TARGETS[:2], "le " * 31], strict=True)
    write_pairs(path / "pairs.tsv", pairs)
    return path


@pytest.fixture
def dragoman(capfd, monkeypatch, folder):
    """A function that runs a command in the folder: exit code, stdout and stderr."""
    monkeypatch.chdir(folder)

    def run(command: str, *more: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dragoman", *command.split(), *more])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code, *capfd.readouterr()

    return run


FILES = {
    "prenorm": "prenorm/model.pt {} --style prenorm --num-heads 3 "
    "--source-tokenizer prenorm/tokenizer_en.json --target-tokenizer prenorm/tokenizer_fr.json",
    "keras": "keras/model.weights.h5 {} --style keras --num-heads 3 "
    "--source-tokenizer keras/english.txt --target-tokenizer keras/french.txt",
}


@pytest.mark.slow
@pytest.mark.parametrize("style", FILES)
def test_every_other_command_takes_the_model_or_says_why_not(dragoman, folder, tmp_path, style):
    code, out, err = dragoman(f"import {FILES[style].format(tmp_path / 'model')}")
    assert (code, out) == (0, "")
    assert "1 + 1 layers of width 21" in err
    assert "Try it:" in err
    model = tmp_path / "model"
    code, out, _ = dragoman(f"translate {model} --workers 1 --alignments", *SOURCES[:3])
    assert (code, out.count("\n")) == (0, 3)
    code, out, _ = dragoman(f"evaluate {model} pairs.tsv --workers 1 --json -q")
    assert code == 0
    references = [*TARGETS[:2], "le " * 31]
    if style == "prenorm":
        lengths = [len(word_level(TARGETS).encode(reference).ids) + 1 for reference in references]
    else:
        # Of a reference that is longer than the positions of the model, what fits counts.
        lengths = [min(19, len(keras_words(reference)) + 1) for reference in references]
    assert json.loads(out)["num_tokens"] == sum(lengths)
    code, out, err = dragoman(f"score {model} pairs.tsv --workers 1")
    assert (code, out.count("\n")) == (0, 3) if style == "prenorm" else (3, 0)
    if style == "keras":
        assert "has 31 tokens and an end, but this model has 19 positions: split the sentence" in err
    code, out, _ = dragoman(f"inspect {model} --json", SOURCES[0])
    assert code == 0
    assert json.loads(out)["source"]["words"][-1]["text"] == "</s>"
    assert dragoman(f"plot attention {model} -o {tmp_path / 'picture.svg'}", SOURCES[0])[0] == 0
    assert dragoman(f"average {model} -o {tmp_path / 'other'}")[2].count("run/snapshots has 0 snapshots") == 1
    assert "holds no run to go on with" in dragoman(f"train --resume {model}")[2]
    assert "holds no run to compare" in dragoman(f"compare {model} {model}")[2]


def test_json_tells_the_architecture_and_quiet_nothing(dragoman, tmp_path):
    code, out, err = dragoman(f"import {FILES['prenorm'].format(tmp_path / 'model')} --json --quiet")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert (result["model"], result["style"]) == (str(tmp_path / "model"), "prenorm")
    assert result["architecture"]["num_heads"] == 3


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("nowhere.pt OUT --style prenorm --num-heads 3", 3, "nowhere.pt cannot be read: No such file"),
        ("prenorm OUT --style prenorm --num-heads 3", 2, "--style, --num-heads, --as-written and tokenizers are"),
        ("pairs.tsv OUT --style prenorm --num-heads 3", 3, "pairs.tsv is refused: PyTorch finds no tensors in it"),
        ("hostile.pt OUT --style postnorm --num-heads 3", 3, "hostile.pt is refused: it asks to run `"),
        ("raw.pkl OUT --style postnorm --num-heads 3", 3, "raw.pkl is refused: PyTorch finds no tensors in it"),
        ("prenorm/model.pt OUT --style postnorm --num-heads 3", 3, "is not of the style 'postnorm' but 'prenorm'"),
        ("keras/model.weights.h5 OUT --style annotated --num-heads 3", 3, "not of the style 'annotated' but 'keras'"),
        ("prenorm/model.pt OUT --style prenorm --num-heads 4", 2, "`d_model` is 21, not a multiple of `num_heads` 4"),
        ("prenorm/model.pt OUT --style prenorm --num-heads 0", 2, "--num-heads"),
        ("prenorm/model.pt OUT --style prenrom --num-heads 3", 2, "no style 'prenrom' (did you mean 'prenorm'?)"),
        ("prenorm/model.pt OUT --style prenorm", 2, "--num-heads"),
        ("prenorm/model.pt OUT --style prenorm --num-heads 3 --as-written", 2, "is for the style postnorm, whose"),
        ("prenorm OUT --as-written", 2, "--as-written and tokenizers are for a notebook"),
        ("prenorm/model.pt . --style prenorm --num-heads 3", 2, "exists and is not empty"),
        ("prenorm/model.pt pairs.tsv/x --style prenorm --num-heads 3", 2, "pairs.tsv is a file"),
        ("prenorm/model.pt OUT --style prenorm --num-heads 3 --source-tokenizer x.json", 2, "the same file twice"),
        (FILES["prenorm"].replace("en.json", "none.json"), 3, "tokenizer_none.json cannot be read: No such file"),
        (FILES["prenorm"].replace("prenorm/tokenizer_en.json", "hostile.pt"), 3, "hostile.pt is no text"),
        (FILES["prenorm"].replace("en.json", "fr.json"), 3, "words, but the source table in prenorm/model.pt has"),
        (FILES["keras"].replace("english", "french"), 3, "french.txt has"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(dragoman, folder, command, code, sentence):
    before = sorted(folder.iterdir())
    exit_code, out, err = dragoman(f"import {command.replace('OUT', 'out').replace('{}', 'out')}")
    assert (exit_code, out) == (code, "")
    assert sentence in err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert sorted(folder.iterdir()) == before
    assert not Path("ran-on-load").exists()


@pytest.mark.slow
def test_a_vocabulary_is_trimmed_to_texts(dragoman, tmp_path):
    models.m2m(tmp_path / "theirs")
    pairs = write_pairs(tmp_path / "pairs.tsv", zip(SOURCES, TARGETS, strict=True))
    command = f"import {tmp_path / 'theirs'} {tmp_path}/{{}} --from en --to fr --trim-vocabulary {{}}"
    assert dragoman(command.format("none", "missing"))[0] == 3
    assert not (tmp_path / "none").exists()
    code, _, said = dragoman(command.format("ours", pairs))
    assert code == 0
    kept = ModelDirectory.load(tmp_path / "ours").target_tokenizer.vocab_size
    assert f"It keeps {kept} pieces of the vocabulary of its targets." in " ".join(said.split())
    code, _, said = dragoman(f"import {FILES['keras'].format(tmp_path / 'keras')}", "--trim-vocabulary", str(pairs))
    assert code == 2
    assert "are for pretrained models" in " ".join(said.split())
