"""docs/notebooks.md tells the truth: it covers every cell of the notebooks, and names what exists here."""

import json
import re
import shlex

import pytest
import torch
import yaml
from torch import nn

from dragoman.config.recipes import read_recipe, recipe_names
from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.interop.imports.styles import STYLES
from dragoman.model import Transformer
from tools import make_docs
from tools.pages import DOCS, ROOT

PAGE = (DOCS / "notebooks.md").read_text(encoding="utf-8")
NOTEBOOKS = ROOT.parent / "shared" / "notebooks"
FILES = {
    "A": "A-prenorm-pytorch.txt", "B": "B-postnorm-pytorch.txt", "C": "C-annotated-style.txt",
    "D": "D-keras-english-french.txt", "E": "E-components.txt",
}  # fmt: skip
SECTIONS = dict(re.findall(r"^## ([A-E]): .*?\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE))
CODE = re.findall(r"`([^`\n]+)`", PAGE)
OF_NOTEBOOK = {"A": "prenorm", "B": "postnorm", "C": "annotated", "D": "keras"}
"""Styles of the notebooks; E has the components of A."""


def table(section: str) -> list[list[str]]:
    """The cells of each row: the notebook's cell, what it shows, where it is here, what differs."""
    rows = re.findall(r"^\|(.*)\|$", SECTIONS[section], re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows[2:]]  # without head and rule


def notebook(name: str) -> str:
    path = NOTEBOOKS / FILES[name]
    if not path.is_file():
        pytest.skip("needs the notebooks beside the checkout")
    return path.read_text(encoding="utf-8")


def headings(name: str) -> list[str]:
    """The headings of a notebook without cell numbers; a comment in its code begins with a small letter."""
    text = notebook(name)
    if name == "E":
        text = "\n".join(cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
    return re.findall(r"^#{1,3} ([A-Z].+)$", text, re.MULTILINE)


def weights(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def recipe_weights(style: str, vocabulary: int) -> int:
    with torch.device("meta"):  # sizes without numbers
        config = load_config(read_recipe(f"notebook-{style}"), {})
        return weights(Transformer(config.transformer(vocabulary, vocabulary)))


# --- what is covered -------------------------------------------------------------------------------


def test_every_notebook_has_a_table_and_thanks():
    assert list(SECTIONS) == list(FILES)
    thanks = PAGE.split("## Thanks\n")[1].split("\n## ")[0]
    for name in FILES:
        assert re.search(rf"^\| {name} \|", thanks, re.MULTILINE)
        assert len(table(name)) >= 4
        assert all(len(row) == 4 and row[0] and row[1] for row in table(name))


@pytest.mark.parametrize("name", "ABC")
def test_every_numbered_cell_of_a_notebook_is_in_its_table(name: str):
    numbers = {int(number) for number in re.findall(r"^In \[(\d+)\]:", notebook(name), re.MULTILINE)}
    covered = set()
    for cell, *_ in table(name):
        mentioned = [int(number) for number in re.findall(r"In \[(\d+)\]", cell)]
        if " to " in cell:
            mentioned = [number for number in numbers if mentioned[0] <= number <= mentioned[1]]
        covered.update(mentioned)
    assert covered == numbers


@pytest.mark.parametrize(
    ("name", "of_several"),
    [
        ("D", {"Transformer from scratch", "Preparing the data", "Building the Transformer"}),
        ("E", {"Let's give a short review of these components."}),
    ],
)
def test_every_heading_of_a_notebook_without_numbers_is_in_its_table(name: str, of_several: set[str]):
    cells = tuple(row[0] for row in table(name))
    left = {heading for heading in headings(name) if not heading.startswith(cells)}
    assert left == of_several


@pytest.mark.parametrize("name", FILES)
def test_every_class_of_a_notebook_is_in_its_table(name: str):
    classes = set(re.findall(r"class (\w+)\(", notebook(name)))
    assert classes
    assert classes <= set(re.findall(r"\w+", SECTIONS[name]))


@pytest.mark.parametrize("name", FILES)
def test_quoted_words_are_those_of_the_notebook(name: str):
    text = " ".join(notebook(name).split()).replace("$", "").casefold()
    for _, shown, *_ in table(name):
        for quote in re.findall(r'"([^"]+)"', shown):
            assert quote.replace("$", "").casefold() in text, quote


@pytest.mark.parametrize("name", FILES)
def test_addresses_in_the_thanks_are_those_that_the_notebook_names(name: str):
    text, own = notebook(name), PAGE.split("## Thanks\n")[1].split("Two more sources")[0]
    row = re.search(rf"^\| {name} \| .*$", own, re.MULTILINE)[0]
    for address in re.findall(r"\((https?://[^)]+)\)", row):
        assert address.split("&")[0] in text, address
    if name == "D":
        credits = text.split("# Credits and stuff")[-1]
        assert set(re.findall(r"https?://\S+", credits)) <= set(credited())
        assert [address for address in credited() if address not in text] == []


def credited() -> list[str]:
    part = PAGE.split("### What D credits\n")[1].split("\n## ")[0]
    return [address.rstrip(")") for address in re.findall(r"https?://[^\s)]+", part)]


def test_the_notebooks_state_no_licence():
    for name in FILES:
        assert not re.search(r"licen[cs]e", notebook(name), re.IGNORECASE)


def test_the_page_leads_to_every_section_of_the_errata():
    errata = (DOCS / "errata.md").read_text(encoding="utf-8").split("\n## What all of them lack")[0]
    sections = re.findall(r"^### (.+)$", errata, re.MULTILINE)
    # GitHub drops the raised nine from its anchor, Python's regular expressions do not.
    anchors = {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in sections if "⁹" not in each}
    assert len(anchors) > 30
    assert anchors <= set(re.findall(r"\(errata\.md#([^)]+)\)", PAGE))


# --- what exists here ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_NOTEBOOK)
def test_recipe_and_style_of_a_notebook_exist(name: str):
    style = OF_NOTEBOOK[name]
    assert f"`notebook-{style}`" in SECTIONS[name]
    assert f"notebook-{style}" in recipe_names()
    assert f"import style `{style}`" in SECTIONS[name]
    assert style in STYLES
    assert set(STYLES) == set(OF_NOTEBOOK.values())


def test_settings_that_are_named_are_accepted():
    named = [code for code in CODE if re.fullmatch(r"[a-z]+\.[a-z_]+=\S+", code)]
    assert len(named) > 15
    for setting in named:
        load_config({"tokenizer": {"kind": "word"}}, parse_settings([setting]))


@pytest.mark.parametrize(
    ("setting", "style"),
    [
        ("model.norm_gain=scalar", "prenorm"),
        ("model.initialisation=xavier-tables", "prenorm"),
        ("model.activation_dropout=0.1", "prenorm"),
        ("training.tensorboard=true", "prenorm"),
        ("model.norm_order=post", "postnorm"),
        ("data.held_out=[0.2,0.1]", "keras"),
        ("data.max_length=30", "keras"),
        ("tokenizer.standardisation=lowercase", "keras"),
        ("model.positions=learned", "keras"),
        ("model.norm_eps=0.001", "keras"),
        ("model.num_encoder_layers=1", "keras"),
        ("model.projection_dropout=0.5", "keras"),
        ("training.optimizer=rmsprop", "keras"),
        ("training.accuracy=true", "keras"),
        ("training.schedule=plateau", "keras"),
        ("training.patience=6", "keras"),
    ],
)
def test_the_settings_of_a_table_are_those_of_its_recipe(setting: str, style: str):
    assert f"`{setting}`" in PAGE
    key, _, value = setting.partition("=")
    section, name = key.split(".")
    assert read_recipe(f"notebook-{style}")[section][name] == yaml.safe_load(value)


def test_commands_that_are_named_parse():
    commands = [code for code in CODE if code.startswith("dragoman ")]
    parsers = {context.command_path: command for command, context in make_docs.commands()}
    assert len(commands) >= 8
    for command in commands:
        path = max((each for each in parsers if f"{command} ".startswith(f"{each} ")), key=len)
        if arguments := shlex.split(command.removeprefix(path)):  # else only the name of the command
            parsers[path].make_context(path, arguments)


# --- what is counted -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "style", "vocabulary"), [("A", "prenorm", 30_000), ("B", "postnorm", 5_000)])
def test_weights_of_the_recipes_are_those_of_the_page(name: str, style: str, vocabulary: int):
    assert f"{recipe_weights(style, vocabulary):,} weights" in SECTIONS[name]


def test_notebook_b_as_written_lacks_six_feed_forward_networks():
    network = 512 * 2048 + 2048 + 2048 * 512 + 512
    assert f"B's own {recipe_weights('postnorm', 5_000) - 6 * network:,}," in SECTIONS["B"]


def test_the_keras_recipe_differs_from_its_notebook_by_positions_alone():
    words, positions, width, inner = 20_000, 30, 512, 2048
    attention, norm = 4 * (width * width + width), 2 * width
    network = width * inner + inner + inner * width + width
    tables = 2 * (words + positions) * width
    own = tables + 3 * attention + 2 * network + 5 * norm + width * words + words
    ours = recipe_weights("keras", words)
    assert ours - own == 2 * (1024 - positions) * width
    assert f"the model of the recipe has {ours:,} weights, D's {own:,}" in SECTIONS["D"]


def test_weights_of_the_notebooks_own_classes_are_those_of_the_page(monkeypatch: pytest.MonkeyPatch):
    notebook("A")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from peers.notebooks import POSTNORM, PRENORM, definitions

    with torch.device("meta"):
        a = definitions(PRENORM)["build_transformer"](30_000, 30_000, 350, 350)
        b, repaired = (
            definitions(POSTNORM, feed_forward=whole)["Transformer"](5000, 5000, 512, 8, 6, 2048, 100, 0.1)
            for whole in (False, True)
        )
    assert weights(a) == recipe_weights("prenorm", 30_000)
    assert weights(repaired) == recipe_weights("postnorm", 5_000)
    assert f"B's own {weights(b):,}" in SECTIONS["B"]
