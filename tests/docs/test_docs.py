"""The README tells the truth: its commands and its Python run, its links lead somewhere, its tables are complete."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import Field

from dragoman.cli import app
from dragoman.config import recipe_names
from dragoman.config.section import Section
from dragoman.data.bitext import Bitext
from tools import make_docs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FAST = "model.d_model=16 model.d_ff=16 model.num_heads=2 training.max_steps=3 training.validate_every=3"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the files that the README's commands name."""
    path = tmp_path_factory.mktemp("readme")
    pairs = list(Bitext.open("builtin:grammar:120"))
    (path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    for name, part in (("train", pairs[:80]), ("valid", pairs[80:100]), ("test", pairs[100:])):
        for language, side in (("en", 0), ("fr", 1)):
            text = "".join(pair[side] + "\n" for pair in part)
            (path / f"{name}.{language}").write_text(text, encoding="utf-8")
    return path


def test_every_dragoman_command_of_the_readme_runs(folder):
    """In their order, on small files; training is cut to three steps, set-up and demo are run by .ci/run."""
    commands = [line for block in blocks("sh") for line in block.split("\n") if "dragoman " in line]
    commands = [c for c in commands if not c.startswith((".venv", "#"))]
    assert len(commands) >= 7
    for command in commands:
        fast = command + f" {FAST}" if " train " in command and "--resume" not in command else command
        fast = fast.replace("dragoman ", f"{shlex.quote(sys.executable)} -m dragoman ", 1)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(fast, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert (folder / "test.out.fr").read_text(encoding="utf-8").count("\n") == 20


def test_the_python_of_the_readme_runs(folder):
    program = "\n".join(blocks("python"))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", *PAGES])
def test_links_lead_to_files_that_exist(page):
    text = re.sub("```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), target


def test_the_readme_leads_to_every_page():
    assert set(PAGES) <= set(re.findall(r"\]\(([^)#]+)", README))


def test_the_walk_leads_from_chapter_to_chapter():
    chapters = [page for page in PAGES if re.match(r"docs/walk/\d", page)]
    index = (ROOT / "docs/walk/README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\d[\w-]+\.md)\)", index) == [Path(page).name for page in chapters]
    for page, following in itertools.pairwise(chapters):
        assert f"]({Path(following).name})." in (ROOT / page).read_text(encoding="utf-8").split("\nNext: ")[1]


@pytest.mark.parametrize("page", make_docs.pages(), ids=lambda path: path.name)
def test_pages_that_follow_from_the_code_are_up_to_date(page):
    assert page.read_text(encoding="utf-8") == make_docs.pages()[page], "run `make docs`"


def test_the_pages_hold_every_command_setting_and_recipe():
    commands, settings, recipes = make_docs.pages().values()
    for command in ("train", "translate", "doctor"):
        assert f"## dragoman {command}\n" in commands
    assert r"| `--size tiny\|small\|base\|big` | Recipe of this size. Default: by the amount of data. |" in commands
    warmup = "| `training.warmup` | `1000` | whole number from 1 | Steps in which the learning rate rises from 0. |"
    assert warmup in settings
    assert "| `model.norm` | `layer` | layer or rms | LayerNorm, or RMSNorm" in settings
    assert "model.pad_id" not in settings
    for name in recipe_names():
        assert f"## {name}\n" in recipes


def test_settings_of_any_shape_are_described():
    class Corpus(Section):
        """One corpus."""

        path: str
        """Its file."""
        weight: float | None = Field(None, gt=0, le=9)
        """How often."""

    class Config(Section):
        """All."""

        corpora: list[Corpus] = Field([])
        """Several."""
        pair: tuple[int, int] = (3, 5)
        """Two."""

    page = "\n".join(make_docs._section(Config, ""))
    assert "| `pair` | `[3, 5]` | list of 2 whole numbers | Two. |" in page
    assert "## corpora[]\n\nOne corpus.\n" in page
    assert "| `corpora[].path` | required | text | Its file. |" in page
    assert "| `corpora[].weight` |  | number above 0 to 9 | How often. |" in page


def test_every_example_of_the_help_is_a_command_that_parses():
    parsers = {context.command_path: command for command, context in make_docs.commands()}
    for command, _ in make_docs.commands():
        for line in command.epilog.split("\n") if command.epilog else []:
            call = re.search(r"dragoman [^|>]*", line)[0].strip()
            path = max((each for each in parsers if f"{call} ".startswith(f"{each} ")), key=len)
            parsers[path].make_context(path, shlex.split(call.removeprefix(path)))


def test_the_readme_lists_every_command():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    names |= {group.name for group in app.registered_groups}
    listed = set(re.findall(r"^\| `dragoman (\w+)", README, re.MULTILINE))
    assert listed == names


def test_the_architecture_page_lists_every_file():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    listing = page.split("```")[1]
    for path in sorted((ROOT / "dragoman").rglob("*.py")):
        folder = path.parent.relative_to(ROOT / "dragoman").parts
        shown = folder[0] + "/" if folder and folder[0] in ("report", "recipes") else path.name
        assert path.name == "__init__.py" or re.search(rf"(^|\s){re.escape(shown)}\s", listing), path
