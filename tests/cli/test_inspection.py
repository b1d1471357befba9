"""`inspect` as a user meets it: a page, or JSON; one sentence for a mistake."""

import json
from pathlib import Path

import pytest

from dragoman.storage.model_directory import ModelDirectory
from tests.report.models import HEADS, LAYERS, small_model


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "random"
    small_model().save(path)
    return path


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Run commands in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_it_writes_a_page_and_prints_where(model, dragoman, tmp_path):
    code, out, err = dragoman("inspect", model, "The red house.", "--beam-size", 2)
    assert (code, out) == (0, "inspection.html\n")
    assert "score" in err
    page = (tmp_path / "inspection.html").read_text(encoding="utf-8")
    assert "<title>Inspection: The red house.</title>" in page
    code, out, err = dragoman("inspect", model, "The red house.", "--target", "La maison.", "-o", "given.html", "-q")
    assert (code, out, err) == (0, "given.html\n", "")
    assert "La maison." in (tmp_path / "given.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_json_goes_to_stdout_and_no_page_is_written_unless_asked_for(model, dragoman, tmp_path):
    arguments = ["inspect", model, "The red house.", "--target", "La maison.", "--json"]
    code, out, _ = dragoman(*arguments, "--beam-size", 3, "--length-penalty", 0.5)
    result = json.loads(out)
    assert code == 0
    assert not list(tmp_path.glob("*.html"))
    assert set(result) == {"source_language", "target_language", "source", "target", "removals", "search", "attention"}
    assert (result["search"]["beam_size"], result["search"]["length_penalty"]) == (3, 0.5)
    assert len(result["search"]["hypotheses"]) == 3
    cross = result["attention"]["cross"]
    words = [len(result[side]["words"]) for side in ("target", "source")]
    assert [len(cross), len(cross[0]), len(cross[0][0]), len(cross[0][0][0])] == [
        *(LAYERS["num_decoder_layers"], HEADS),
        *words,
    ]
    dragoman(*arguments, "--output", "page.html")
    assert [path.name for path in tmp_path.glob("*.html")] == ["page.html"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere", "old"], 3, ["nowhere"]),
        (["MODEL", " "], 2, ["empty", "quotes"]),
        (["MODEL", "old", "--target", ""], 2, ["target", "empty"]),
        (["MODEL", "old", "-o", "no/such/folder/page.html"], 2, ["no/such/folder", "--output"]),
        (["MODEL", "old " * 600], 3, ["512", "one sentence"]),
        (["MODEL", "old", "--beam-size", 0], 2, ["beam-size"]),
        (["MODEL"], 2, ["TEXT"]),
    ],
)
def test_a_mistake_gets_one_sentence_and_its_exit_code(arguments, code, words, model, dragoman, tmp_path):
    arguments = [{"MODEL": model}.get(argument, argument) for argument in arguments]
    exit_code, out, err = dragoman("inspect", *arguments)
    assert (exit_code, out) == (code, "")
    assert "Traceback" not in err
    flat = " ".join(err.replace("│", " ").split())
    assert all(word in flat for word in words), flat
    assert not list(tmp_path.glob("*.html"))


def test_tokens_are_shown_as_the_model_reads_them(model: Path, dragoman, tmp_path):
    code, out, _ = dragoman("tokenize", model, "The red house.", "--json")
    result = json.loads(out)
    assert (code, result["text"], "".join(result["tokens"])) == (0, "The red house.", "▁The▁red▁house.")
    assert ModelDirectory.load(model).source_tokenizer.decode(result["ids"]) == "The red house."
    (tmp_path / "text").write_text("The red house.\n\n", encoding="utf-8")
    for options in (["The red house."], ["--input", tmp_path / "text", "--target"]):
        code, out, _ = dragoman("tokenize", model, *options)
        tokens, ids, *rest = out.split("\n")
        assert (code, tokens.split(), list(map(int, ids.split()))) == (0, result["tokens"], result["ids"])
        assert not "".join(rest)
    assert dragoman("tokenize", model, "--input", tmp_path / "none")[0] == 3
