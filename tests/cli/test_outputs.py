"""Where the results of commands go: full disks, links that lead to themselves, names that are no text, any encoding."""

import io
import json
import os
import sys

import pytest

from dragoman import cli
from tests.report.models import small_model

TEXT = "The red house is old."
FULL = "/dev/full"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, pairs, and names of which each is a device that is full, or a link to itself."""
    path = tmp_path_factory.mktemp("outputs")
    small_model().save(path / "model")
    (path / "pairs.tsv").write_text("".join(f"A cat, {n}.\tUn chat, {n}.\n" for n in range(12)), encoding="utf-8")
    (path / "text.en").write_text(f"{TEXT}\n" * 3, encoding="utf-8")
    (path / "page.md").write_text(f"# {TEXT}\n", encoding="utf-8")
    for end in ("tsv", "md", "html", "png"):
        (path / f"full.{end}").symlink_to(FULL)
        (path / f"loop.{end}").symlink_to(path / f"loop.{end}")
    return path


WRITERS = [
    ("translate model --input text.en --output {}.tsv", ""),
    ("translate model --document page.md --output {}.md", ""),
    ("score model pairs.tsv --output {}.tsv", ""),
    ("evaluate model pairs.tsv --json --output {}.tsv", '"chrf"'),
    (["inspect", "model", TEXT, "--json", "--output", "{}.html"], '"attention"'),
    ("plot mask --length 5 --output {}.png", ""),
    ("data check pairs.tsv --json --output {}.tsv", '"trainable"'),
]
"""Commands that write a file, and what they print all the same."""


def line_of(command: str | list[str], name: str) -> list[str]:
    return [word.format(name) for word in (command.split() if isinstance(command, str) else command)]


@pytest.mark.first_is_quick
@pytest.mark.skipif(not os.path.exists(FULL), reason="no device that is always full")
@pytest.mark.parametrize(("command", "printed"), WRITERS)
def test_a_full_disk_is_told_with_its_file_and_costs_no_results(command, printed, folder, dragoman, monkeypatch):
    monkeypatch.chdir(folder)
    code, out, err = dragoman(*line_of(command, "full"))
    assert code == 4, err
    assert "full." in err
    assert "no space left on device; make room on the disk" in err
    assert printed in out


@pytest.mark.parametrize(("command", "printed"), WRITERS)
def test_a_link_that_leads_to_itself_is_refused_before_any_work(command, printed, folder, dragoman, monkeypatch):
    monkeypatch.chdir(folder)
    code, out, err = dragoman(*line_of(command, "loop"))
    assert (code, out) == (2, "")
    assert "cannot be written: too many levels of symbolic links; choose another --output" in err


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("translate {} Hello.", 3),
        ("translate model --input {}", 3),
        ("translate model --input text.en --input {} --output out/", 3),
        ("translate model --input text.en --output {}/", 2),
        ("translate model --glossary {} Hello.", 3),
        ("evaluate model {}", 3),
        ("data check {}", 3),
        ("data check --recipe {}", 2),
        ("data prepare pairs.tsv --output {}", 2),
        ("train {} --output new", 3),
        ("train pairs.tsv --output {}", 2),
        ("average model --output {}", 2),
        ("distill model {} --data pairs.tsv", 2),
        ("export model {} --to onnx", 2),
        ("compare model {}", 3),
    ],
)
@pytest.mark.parametrize("name", ["loop.tsv", "x" * 300])
def test_no_path_that_leads_nowhere_is_a_traceback(command, code, name, folder, dragoman, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    exit_code, _, err = dragoman(*line_of(command, name))
    assert exit_code == code, err
    assert err.startswith("Error: ")
    assert "did you mean loop.tsv" not in err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.first_is_quick
@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize(
    "command",
    [
        ["tokenize", "model", "Ā 语 é"],
        ["tokenize", "model", "Ā 语 é", "--json"],
        ["inspect", "model", "Ā 语 é", "--json"],
        ["data", "check", "pairs.tsv"],
        ["data", "check", "pairs.tsv", "--json"],
        ["translate", "nöpe语", "--json"],
    ],
    ids=lambda words: " ".join(words).encode("ascii", "replace").decode(),
)
def test_a_stream_that_cannot_spell_a_character_is_no_traceback(encoding, command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["dragoman", *command])
    streams = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding=encoding, write_through=True))
    with pytest.raises(SystemExit):
        cli.main()
    out, err = (stream.getvalue().decode(encoding) for stream in streams.values())
    assert "▁" not in out
    if "--json" in command:
        for line in (out + err).splitlines():
            json.loads(line)


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of files are Unicode")
def test_a_name_that_is_no_text_is_written_and_told(folder, tmp_path, dragoman, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9")
    os.symlink(folder / "model", name)
    os.symlink(folder / "pairs.tsv", f"{name}.tsv")
    code, _, err = dragoman("translate", name, "--input", folder / "text.en", "--output", f"{name}.out")
    assert code == 0, err
    assert os.path.getsize(f"{name}.out")
    code, out, err = dragoman("data", "check", f"{name}.tsv", "--json", "--output", f"{name}.clean.tsv")
    assert code == 0, err
    assert os.path.getsize(f"{name}.clean.tsv")
    assert json.loads(out)["parts"][0]["name"] == name
    code, _, err = dragoman("evaluate", name, "nowhere.tsv", "--output", name, "--json")
    assert code in (2, 3)
    assert json.loads(err)["error"]["message"]
    code, _, err = dragoman("export", name, f"{name}-onnx", "--to", "onnx")
    assert code == 2
    assert "is no UTF-8" in err
