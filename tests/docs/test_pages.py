"""Pages that hold code say what it prints, show our files as they are, and are the notebooks beside them."""

import dataclasses
import importlib.util
import inspect
import io
import json
import re
from textwrap import dedent
from typing import Literal, get_args, get_origin

import nbformat
import numpy as np
import pytest
from PIL import Image

from dragoman.model import Transformer, TransformerConfig
from dragoman.model.dropout import Dropout
from dragoman.report.pictures.picture import Picture
from tools import make_walk, pages
from tools.outputs import Output, same_drawing, same_picture, same_text, smaller

CODE = "Some text.\n\n```python\nprint(6 * 7)\n```\n\nMore.\n"


LONG = {"1-text", "5-training", "6-decoding", "7-evaluation", "8-heads", "9-variants", "10-today", "errata"}
"""Pages that learn tokenizers or train models."""
PAGES = [
    pytest.param(page, id=page.stem, marks=[pytest.mark.slow] * (page.stem in LONG)) for page in pages.runnable_pages()
]


@pytest.fixture(scope="module")
def run():
    """Runs a page in a kernel that has loaded torch for all of them."""
    with make_walk.kernel() as run:
        yield run


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_and_shows_what_it_says(run, page):
    text = page.read_text(encoding="utf-8")
    found = run(text, page.parent)
    for shown, output in zip(pages.shown_outputs(text, page.parent), found, strict=True):
        assert shown.agrees(output), f"{page.name} says\n{shown.printed}\nbut now prints\n{output.printed}"


@pytest.mark.parametrize(
    ("path", "text"), [pytest.param(path, text, id=path.name) for path, text in pages.up_to_date().items()]
)
def test_excerpts_links_and_notebooks_follow_from_code_and_pages(path, text):
    assert path.read_text(encoding="utf-8") == text, "run `make docs`"


def test_every_picture_of_a_page_is_described_and_none_is_left_over():
    for page in pages.runnable_pages():
        described = re.findall(r"!\[([^]]*)\]\(", page.read_text(encoding="utf-8"))
        assert all(len(text) > 20 for text in described), page
    linked = {
        name for page in pages.chapters() for name in re.findall(r"pictures/[\w-]+\.\w+", page.read_text("utf-8"))
    }
    assert linked == {f"pictures/{path.name}" for path in (pages.CHAPTERS / "pictures").iterdir()}


def test_each_chapter_has_exercises_and_folds_stay_folded_in_the_notebook():
    for path in pages.chapters():
        text = path.read_text(encoding="utf-8")
        fold = r"<details markdown=\"1\">\n<summary>(Answer|In the package)</summary>\n\n(.*?)</details>"
        folds = re.findall(fold, text, re.DOTALL)
        assert len(folds) == text.count("<details") == text.count("</details>")
        assert [summary for summary, _ in folds].count("Answer") >= 5
        cells = nbformat.read(path.with_suffix(".ipynb"), as_version=4).cells
        folded = [cell.source for cell in cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
        assert folded == [cell["code"].rstrip("\n") for _, inside in folds for cell in pages.CELL.finditer(inside)]
        prose = [cell.source for cell in cells if cell.source.startswith("<details>")]
        for summary, inside in folds:
            first = pages.CHAPTER_LINK.sub(r"](\1.ipynb", inside.split("\n")[0])
            assert any(source.startswith(f"<details><summary>{summary}</summary>\n\n{first}") for source in prose)
        assert all(cell.source.count("<details") == cell.source.count("</details>") for cell in cells)


def test_the_walk_is_small():
    with_numbers = {"live", "cache", "attention-in-training"}  # pages that hold a model, or what it computed
    left_out = {*with_numbers, "__pycache__"}
    files = [path for path in pages.CHAPTERS.rglob("*.*") if path.parent.name not in left_out]
    assert sum(path.stat().st_size for path in files) < 3_000_000


def test_every_field_of_the_architecture_and_each_of_its_values_is_switched_on():
    program = (pages.CHAPTERS / "evidence.py").read_text(encoding="utf-8")
    given = {"source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id"}
    follows_from_training = {"guided_head", "aligned_token"}
    only_imported = {"decoder_feed_forward"}
    for field in dataclasses.fields(TransformerConfig):
        if field.name in only_imported | follows_from_training:
            continue
        if get_origin(field.type) is Literal:
            # The last one is only for models that are imported.
            for value in set(get_args(field.type)) - {field.default, "sinusoidal-fairseq"}:
                assert f'"{field.name}": "{value}"' in program, value
        elif field.name not in given:
            assert f'"{field.name}":' in program, field.name


def test_the_evidence_has_a_result_of_every_variant_and_seed(monkeypatch):
    monkeypatch.syspath_prepend(pages.CHAPTERS)
    spec = importlib.util.spec_from_file_location("evidence", pages.CHAPTERS / "evidence.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    kept = json.loads((pages.CHAPTERS / "evidence/variants.json").read_text(encoding="utf-8"))
    assert kept["groups"] == {group: list(names) for group, names in program.VARIANTS.items()}
    names = {"many": program.VARIANTS.values(), "few": [program.VARIANTS[program.ON_FEW]]}
    for task, found in kept["found"].items():
        assert found.keys() == {program.AS_IT_IS}.union(*names[task])
        marks = [f"{what} {mark}" for mark in program.MARKS[task] for what in ("train loss", "loss", "whole")]
        assert all(len(each[mark]) == len(program.SEEDS) for each in found.values() for mark in marks)


def test_a_page_leads_from_each_section_and_equation_of_the_paper_to_code():
    page = pages.DOCS / "paper-to-code.md"
    assert page in pages.pages_with_links()  # so its links are renewed
    table = page.read_text(encoding="utf-8").split("| section of the paper")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| (\d[\d.]*)([^\n]*)", table, re.MULTILINE))
    assert {"3.1", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "5.1", "5.3", "5.4", "6.1"} <= rows.keys()
    for row in rows.values():
        assert re.search(r"\[`\w+`\]\(\.\./dragoman/[\w/]+\.py#L\d+\)", row), row
    assert [number for number in "123" if f"equation {number}" in table] == ["1", "2", "3"]


# --- excerpts, links, cells ------------------------------------------------------------------------


def test_an_excerpt_is_what_the_file_has():
    begin = "```python dragoman/model/dropout.py Dropout.forward\n"
    page = f"{begin}old\n```\n"
    expected = dedent(inspect.getsource(Dropout.forward))
    assert pages.refreshed(page, pages.ROOT) == f"{begin}{expected}```\n"


def test_a_link_leads_to_the_line_of_the_definition():
    line = inspect.getsourcelines(Transformer.encode)[1]
    for old in ("", "#L1"):
        page = f"See [`Transformer.encode`](../dragoman/model/transformer.py{old})."
        assert pages.refreshed(page, pages.DOCS) == page.replace(f"py{old})", f"py#L{line})")


@pytest.mark.parametrize(
    "page",
    [
        "[`nothing`](dragoman/model/layers.py)",
        "[`Norm.backward`](dragoman/model/layers.py#L3)",
        "```python dragoman/model/layers.py nothing\n```",
    ],
)
def test_what_is_not_defined_is_refused(page):
    with pytest.raises(LookupError, match=r"layers\.py defines no `(nothing|Norm\.backward)`"):
        pages.refreshed(page, pages.ROOT)


def test_outputs_are_written_after_their_cells_and_replaced():
    page, pictures = pages.with_outputs(CODE, [Output("42\n", b"one")], lambda number: f"pictures/new-{number}.png")
    assert page == CODE.replace("7)\n```\n", "7)\n```\n\n```text\n42\n```\n\n![](pictures/new-1.png)\n")
    described = page.replace("![]", "![The answer]")
    page, pictures = pages.with_outputs(described, [Output("43\n", b"two")], lambda number: "pictures/other.png")
    assert page == described.replace("42", "43")
    assert pictures == {"pictures/new-1.png": b"two"}
    assert pages.with_outputs(described, [Output()], str)[0] == CODE


def test_a_notebook_has_the_text_the_cells_and_their_output(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/a.png").write_bytes(b"a picture")
    shown = CODE.replace("7)\n```\n", "7)\n```\n\n```text\n42\n```\n\n![A](pictures/a.png)\n")
    page = shown + "\nNext: [two](2-two.md).\n"
    made = nbformat.reads(pages.to_json(pages.notebook(page, tmp_path)), as_version=4)
    nbformat.validate(made)
    kinds, sources = zip(*((cell.cell_type, cell.source) for cell in made.cells), strict=True)
    assert kinds == ("markdown", "code", "code", "markdown")
    assert sources == ("Some text.", pages.ON_COLAB, "print(6 * 7)", "More.\n\nNext: [two](2-two.ipynb).")
    printed, picture = made.cells[2].outputs
    assert printed.text == "42\n"
    assert picture.data["image/png"] == "YSBwaWN0dXJl"  # base64
    assert pages.shown_outputs(page, tmp_path) == [Output("42\n", b"a picture")]


def test_a_cell_that_leaves_neither_text_nor_a_picture_is_refused():
    for outputs in (
        [nbformat.v4.new_output("stream", name="stderr", text="a warning")],
        [nbformat.v4.new_output("execute_result", data={"text/plain": "42"}, execution_count=1)],
        [nbformat.v4.new_output("display_data", data={"image/png": "YQ=="}) for _ in range(2)],
    ):
        with pytest.raises(ValueError, match=r"6 \* 7"):
            make_walk.output_of(nbformat.v4.new_code_cell("6 * 7", outputs=outputs))


# --- what agrees -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("loss 2.345", "loss 2.345", True),
        ("loss  2.345\n", "loss 2.346", True),  # rounded otherwise, other spaces
        ("loss 2.345", "loss 2.347", False),
        ("loss 2.345", "gain 2.345", False),
        ("12.3% right", "12.4% right", True),
        ("12.3% right", "12.6% right", False),
        ("8 positions", "9 positions", False),  # counted, not measured
        ("1,234 weights", "1,235 weights", False),
        ("1.5e-05", "1.6e-05", True),
        ("1.5e-05", "1.5e-04", False),
        ("-0.50", "0.50", False),
        ("1.00 2.00", "1.00", False),
    ],
)
def test_texts_agree_but_for_the_last_digit_of_what_was_measured(one, other, agree):
    assert same_text(one, other) is agree


def png(dots: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(dots.astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_pictures_agree_if_they_look_the_same():
    dots = np.random.default_rng(1).integers(0, 256, (31, 37, 3))
    assert same_picture(png(dots), png(np.clip(dots + 3, 0, 255)))
    assert not same_picture(png(dots), png(dots[::-1]))
    assert not same_picture(png(dots), png(dots[:-1]))


def test_pictures_differ_if_a_line_does_however_small_it_is():
    """As with a schedule of the wrong shape: hardly a dot of a hundred is another."""
    steps = np.arange(200)
    shapes = {"rising": steps / 200, "trapezoid": np.clip(steps / 50, 0, np.clip((200 - steps) / 50, 0, 1))}
    pictures = {}
    for name, shape in shapes.items():
        figure = Picture(figsize=(6, 4))
        figure.add_subplot().plot(steps, shape, linewidth=0.5)
        pictures[name] = smaller(figure.to_png(dpi=100))
    assert same_picture(pictures["rising"], pictures["rising"])
    assert not same_picture(pictures["rising"], pictures["trapezoid"])
    nearly = json.dumps([{"lines": [[0.0, 1.0, 2.0]]}])
    assert same_drawing(nearly, json.dumps([{"lines": [[0.0, 1.05, 2.0]]}]))
    assert not same_drawing(nearly, json.dumps([{"lines": [[0.0, 1.5, 2.0]]}]))
    assert not same_drawing(nearly, json.dumps([{"lines": [[0.0, 1.0]]}]))
    assert not same_drawing(nearly, "")
    named, other = (json.dumps([{"lines": [[0.0, 1.0, 2.0]], "texts": [text]}]) for text in ("one", "another"))
    assert same_drawing(named, named)
    assert not same_drawing(named, other)
    assert not same_drawing(named, nearly)


def test_outputs_agree_in_text_and_picture():
    black, white = (png(np.full((5, 7, 3), shade)) for shade in (0, 255))
    assert Output("a", black).agrees(Output("a", black))
    for other in (Output("b", black), Output("a", white), Output("a")):
        assert not Output("a", black).agrees(other)
        assert not other.agrees(Output("a", black))


def test_a_smaller_picture_looks_the_same():
    ramp = np.linspace(0, 255, 101 * 103 * 3).reshape(101, 103, 3)
    assert same_picture(png(ramp), smaller(png(ramp)))


# --- the task of the walk --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def counting():
    spec = importlib.util.spec_from_file_location("counting", pages.CHAPTERS / "counting.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("number", "english", "french"),
    [
        (0, "zero", "zéro"),
        (17, "seventeen", "dix sept"),
        (21, "twenty one", "vingt et un"),
        (71, "seventy one", "soixante et onze"),
        (79, "seventy nine", "soixante dix neuf"),
        (80, "eighty", "quatre vingts"),
        (81, "eighty one", "quatre vingt un"),
        (91, "ninety one", "quatre vingt onze"),
        (100, "one hundred", "cent"),
        (200, "two hundred", "deux cents"),
        (203, "two hundred and three", "deux cent trois"),
        (1001, "one thousand and one", "mille un"),
        (2380, "two thousand three hundred and eighty", "deux mille trois cent quatre vingts"),
        (9999, "nine thousand nine hundred and ninety nine", "neuf mille neuf cent quatre vingt dix neuf"),
    ],
)
def test_numbers_are_spelled_as_they_are_said(counting, number, english, french):
    assert (counting.english(number), counting.french(number)) == (english, french)


def test_every_number_has_a_name_of_its_own(counting):
    for name in (counting.english, counting.french):
        assert len({name(number) for number in range(counting.LARGEST + 1)}) == counting.LARGEST + 1
