"""Pages tell the truth: commands and Python of the first pages run, links lead somewhere, lists are complete."""

import itertools
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from pydantic import Field

from dragoman.cli import app
from dragoman.config.recipes import recipe_names
from dragoman.config.section import Section
from dragoman.data.bitext import Bitext
from tests.small import SIZES, write_pairs
from tools import make_docs
from tools.draw_house import PICTURE, imported, picture, reduced
from tools.pages import DOCS
from tools.pages import chapters as chapters_of_the_walk

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FAST = (
    "model.d_model=16 model.d_ff=16 model.num_heads=2 model.num_encoder_layers=1 model.num_decoder_layers=1 "
    "training.max_steps=3 training.validate_every=3 decoding.beam_size=2"
)


FIRST_PAGES = [README, (ROOT / "docs/start.md").read_text(encoding="utf-8")]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def commands() -> list[str]:
    """The `dragoman` commands of the first pages, each once, in their order; .ci/run runs set-up and demo."""
    lines = [line for page in FIRST_PAGES for block in blocks(page, "sh") for line in block.split("\n")]
    return list(dict.fromkeys(line for line in lines if "dragoman " in line and not line.startswith(".venv")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the files that the first pages name."""
    path = tmp_path_factory.mktemp("readme")
    pairs = list(Bitext.open("builtin:grammar:120"))
    write_pairs(path / "pairs.tsv", pairs)
    for name, part in (("train", pairs[:80]), ("valid", pairs[80:100]), ("test", pairs[100:]), ("letters", pairs[:5])):
        for language, side in (("en", 0), ("fr", 1)):
            text = "".join(pair[side] + "\n" for pair in part)
            (path / f"{name}.{language}").write_text(text, encoding="utf-8")
    (path / "page.html").write_text("<p>The <b>red house</b> is old.</p>", encoding="utf-8")
    (path / "runs").mkdir()
    (path / "runs/demo").symlink_to("pairs")  # the demo itself takes minutes
    return path


def test_every_dragoman_command_of_the_first_pages_runs(folder, dragoman, monkeypatch):
    """In their order, on small files; training is limited to three steps."""
    assert len(commands()) >= 12
    monkeypatch.chdir(folder)
    for command in commands():
        fast = command + f" {FAST}" if " train " in command and "--resume" not in command else command
        if "|" in command:
            fast = fast.replace("dragoman ", f"{shlex.quote(sys.executable)} -m dragoman ", 1)
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            done = subprocess.run(fast, shell=True, env=environment, capture_output=True, text=True)
            code, error = done.returncode, done.stderr
        else:
            code, _, error = dragoman(*shlex.split(fast)[1:])
        assert code == 0, f"{command}\n{error}"
    for output in ("test.out.fr", "test.greedy.fr"):
        assert (folder / output).read_text(encoding="utf-8").count("\n") == 20


def test_the_python_of_the_first_pages_runs(folder, monkeypatch):
    more = [(ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("python", "documents")]
    pages = [*FIRST_PAGES, *more]
    program = "\n".join(block for page in pages for block in blocks(page, "python"))
    program = re.sub('("max_steps": .)0', r"\1", program)
    program, trainings = re.subn(r"(train\(.*)}\)", rf"\1}}, model={SIZES})", program)
    assert trainings == 2
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the pairs on the pages are too few
        exec(program, {"__name__": "__main__"})


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
PROJECT = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]


def without_code(page: Path) -> str:
    return re.sub("^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings: small letters, hyphens for spaces, no punctuation."""
    headings = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PROJECT, *PAGES])
def test_links_lead_to_files_headings_and_lines_that_exist(page):
    for link in re.findall(r"(?:\]\(|src=\")(?!https?:)([^)\"]+)", without_code(ROOT / page)):
        path, _, fragment = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        if target.suffix == ".md" and fragment:
            assert fragment in anchors(target), link
        elif fragment:
            assert int(fragment.removeprefix("L")) <= target.read_text(encoding="utf-8").count("\n"), link


def test_readme_and_index_lead_to_every_page():
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    linked = {f"docs/{target}" for target in re.findall(r"\]\(([^)#]+)", index)}
    walk = {page for page in PAGES if page.startswith("docs/walk/")}  # which has an index of its own
    assert set(PAGES) - walk - {"docs/README.md"} <= linked
    assert {"docs/README.md", "docs/start.md", "CONTRIBUTING.md"} <= set(re.findall(r"\]\(([^)#]+)", README))


def test_the_walk_leads_from_chapter_to_chapter():
    chapters = [page.relative_to(ROOT).as_posix() for page in chapters_of_the_walk()]
    index = (ROOT / "docs/walk/README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\d[\w-]+\.md)\)", index) == [Path(page).name for page in chapters]
    for page, following in itertools.pairwise(chapters):
        assert f"]({Path(following).name})." in (ROOT / page).read_text(encoding="utf-8").split("\nNext: ")[1]


@pytest.mark.parametrize("page", make_docs.pages(), ids=lambda path: path.name)
def test_pages_that_follow_from_the_code_are_up_to_date(page):
    assert page.read_text(encoding="utf-8") == make_docs.pages()[page], "run `make docs`"


@pytest.mark.slow
def test_the_pages_hold_every_command_setting_and_recipe():
    commands, settings, recipes = (
        make_docs.pages()[DOCS / f"{name}.md"] for name in ("commands", "settings", "recipes")
    )
    for command in ("train", "translate", "doctor"):
        assert f"## dragoman {command}\n" in commands
    assert r"| `--size tiny\|small\|base\|big` | Recipe of this size. Default: by the amount of data. |" in commands
    warmup = "| `training.warmup` | chosen | whole number from 1 | Steps in which the learning rate rises from 0. |"
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


def listing() -> set[str]:
    """Paths of all files and folders in the listing of docs/architecture.md."""
    lines = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("```")[1].strip("\n").split("\n")
    folders: list[tuple[int, str]] = []  # indent and path, from the root to the present one
    listed = set()
    for line in lines:
        indent = len(line) - len(line.lstrip())
        while folders and folders[-1][0] >= indent:
            folders.pop()
        parent = folders[-1][1] if folders else ""
        for name in re.match(r"(?:[\w.]+(?:/|\.py)(?: |$))+", line.lstrip())[0].split():
            listed.add(parent + name)
            if name.endswith("/"):
                folders.append((indent, parent + name))
    return listed


def test_the_architecture_page_lists_every_folder_and_nothing_else():
    listed = listing()
    assert {"dragoman/model/", "dragoman/data/batching.py", "dragoman/model/fast/"} <= listed
    assert [path for path in sorted(listed) if not (ROOT / path).exists()] == []
    folders = {path.parent.relative_to(ROOT).as_posix() + "/" for path in (ROOT / "dragoman").rglob("*.py")}
    assert sorted(folders - listed) == []


def test_the_picture_of_the_rooms_is_that_of_their_imports(tmp_path):
    assert (ROOT / "docs" / PICTURE).read_text(encoding="utf-8") == picture(ROOT / "dragoman")
    (tmp_path / "storage").mkdir()
    (tmp_path / "cli").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.py").write_text("")
    (tmp_path / "storage/a.py").write_text("from dragoman.text import a\n")
    (tmp_path / "cli/a.py").write_text("def f():\n    import dragoman.storage.a\n    from dragoman.text.a import b\n")
    graph = imported(tmp_path)
    assert graph == {"cli": {"storage", "text"}, "storage": {"text"}, "text": set()}
    assert reduced(graph) == {"cli": {"storage"}, "storage": {"text"}, "text": set()}
