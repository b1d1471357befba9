"""`plot` as a user meets it: every command of the page draws, a mistake is one sentence."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from PIL import Image

from dragoman import cli
from dragoman.system.seals import seal
from tests.report.models import small_model
from tests.report.runs import steps, validation

PAGE = (Path(__file__).parents[2] / "docs" / "pictures.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^dragoman (plot .*)$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder with the runs that the page names."""
    path = tmp_path_factory.mktemp("folder") / "runs"
    small_model().save(path / "en-fr")
    data = path / "en-fr" / "run" / "data"
    data.mkdir(parents=True)
    events = [*steps(31), *map(validation, range(1, 31, 4))]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (data.parent / "metrics.jsonl").write_text(lines, encoding="utf-8")
    (data / "about.json").write_text(json.dumps({"train_pairs": 31}), encoding="utf-8")
    for name in ("valid", "test"):
        (data / f"{name}.json").write_text(json.dumps([["a", "b"]] * 3), encoding="utf-8")
    seal(data)
    shutil.copytree(path / "en-fr", path / "en-de")
    return path


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path, runs):
    """Commands run in one that holds `runs` alone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to(runs)


def is_picture(path: Path) -> bool:
    if path.suffix == ".svg":
        return "<svg" in path.read_text(encoding="utf-8")[:500]
    with Image.open(path) as image:
        return image.format == "PNG"


def test_the_page_has_commands_for_every_picture():
    assert {command.split()[1] for command in COMMANDS} == {
        command.callback.__name__ for command in cli.plot.plot.registered_commands
    }


@pytest.mark.first_is_quick
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_draws_and_prints_its_file(command, dragoman, tmp_path):
    code, out, err = dragoman(*shlex.split(command))
    assert (code, err) == (0, "")
    named = re.search(r"--output (\S+)", command)
    assert out == (named[1] if named else f"{command.split()[1]}.png") + "\n"
    assert is_picture(tmp_path / out.strip())


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "docs/pictures.md", "exec"), {})
    assert is_picture(tmp_path / "mask.svg")


def test_every_picture_of_the_page_is_there():
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE)
    folder = Path(__file__).parents[2] / "docs"
    assert {folder / name for name in shown} == set((folder / "pictures").iterdir())
    assert all(map(is_picture, (folder / name for name in shown)))


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    "command",
    [
        "schedules --output schedules.svg",
        "mask --length 20 --output mask.svg",
        "mask 'I see a small cat' --length 9 --output padding.svg",
        "positions --length 100 --d-model 128 --output positions.svg",
        "positions --products --output products.svg",
        "split --train 28999 --valid 1014 --test 1000 --output split.svg",
    ],
)
def test_pictures_of_the_page_are_what_is_drawn_today(command, dragoman, tmp_path):
    """The same shapes at the same places, but for the rounding of other machines."""
    assert dragoman("plot", *shlex.split(command))[0] == 0
    name = command.rpartition(" ")[2]
    drawn, kept = (
        re.findall(r' (?:d|transform|style)="([^"]*)"', (folder / name).read_text(encoding="utf-8"))
        for folder in (tmp_path, Path(__file__).parents[2] / "docs" / "pictures")
    )
    assert len(drawn) == len(kept)
    number = re.compile(r"-?\d+(?:\.\d+)?")
    for ours, theirs in zip(drawn, kept, strict=True):
        assert number.sub("#", ours) == number.sub("#", theirs)
        assert [*map(float, number.findall(ours))] == pytest.approx([*map(float, number.findall(theirs))], abs=0.02)


@pytest.mark.parametrize(
    ("command", "code", "problem"),
    [
        ("mask -o mask.pdf", 2, "mask.pdf is no name for a picture; give a name that ends in .png or .svg."),
        ("mask -o none/mask.png", 2, "none/mask.png cannot be written"),
        ("mask 'I see a cat' --length 2", 2, "give a --length from 5 to"),
        ("mask --length 0", 2, "--length is 0; it must be"),
        ("positions --length 1", 2, "--length is 1; it must be"),
        ("schedules warmup=x", 2, "`training.warmup` is 'x'"),
        ("schedules decay=3", 2, "`training.decay` is 3"),
        ("schedules eps=3", 2, "`eps=3` in `eps=3` is no setting of a schedule"),
        ("split", 2, "`plot split` takes a run, or counts"),
        ("split runs/en-fr --train 3", 2, "`plot split` takes a run, or counts"),
        ("split --train 0", 2, "There is no split to draw"),
        ("split nowhere", 3, "nowhere holds no run"),
        ("curves nowhere", 3, "nowhere holds no run"),
        ("curves runs/en-fr --panel los", 2, "There is no panel 'los'"),
        ("curves runs/en-fr runs/en-de --panel loss", 2, "choose training loss, validation loss"),
        ("attention nowhere a", 3, "nowhere does not exist"),
        ("attention runs/en-fr ' '", 2, "is empty"),
        ("attention runs/en-fr a --layer 9", 2, "There is no layer 9"),
        ("attention runs/en-fr a --kind self", 2, "There is no attention 'self'"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_no_file(command, code, problem, dragoman, tmp_path):
    exit_code, out, err = dragoman("plot", *shlex.split(command))
    assert (exit_code, out) == (code, "")
    assert problem in " ".join(err.split())
    assert "Traceback" not in err
    if err.startswith("Error:"):
        assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.slow
def test_json_names_the_picture_and_quiet_prints_its_name_alone(dragoman):
    code, out, err = dragoman("plot", "mask", "--length", 3, "--json")
    assert (code, json.loads(out), err) == (0, {"picture": "mask.png"}, "")
    assert is_picture(Path("mask.png"))
    assert dragoman("plot", "mask", "--quiet") == (0, "mask.png\n", "")


def test_one_panel_alone_can_be_drawn(dragoman, tmp_path):
    for command in ("runs/en-fr --panel loss", "runs/en-fr runs/en-de --panel 'validation BLEU'"):
        code, _, _ = dragoman("plot", "curves", *shlex.split(command))
        assert code == 0
        with Image.open(tmp_path / "curves.png") as image:
            assert image.width == 960  # one panel is 4.8 inches wide


def test_runs_of_the_same_name_are_told_apart_by_their_paths(runs):
    same = [Path("a/x"), Path("b/x"), Path("c/y")]
    assert [cli.plot._name(path, same) for path in same] == ["a/x", "b/x", "y"]
