"""Pictures as files: complete, the same each time, and refused by a sentence where they cannot be written."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from PIL import Image

from dragoman.errors import UsageError
from dragoman.report.pictures import plot_causal_mask, save_picture, to_svg
from dragoman.report.pictures.files import FILE_DPI
from tests.report.pictures.examples import EXAMPLES

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mask", "positions", "heads"])
def test_files_are_valid_and_have_the_size_of_the_figure(name, tmp_path: Path):
    figure = EXAMPLES[name]()
    width, height = figure.get_size_inches()
    save_picture(figure, tmp_path / "a.PNG")
    with Image.open(tmp_path / "a.PNG") as image:
        image.load()
        assert image.format == "PNG"
        assert image.size == pytest.approx((FILE_DPI * width, FILE_DPI * height), abs=1)
    save_picture(figure, tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag == SVG + "svg"
    assert float(root.get("width").removesuffix("pt")) == pytest.approx(72 * width)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_picture_has_the_same_bytes_without_a_date(suffix, tmp_path: Path):
    for name in ("one", "two"):
        save_picture(EXAMPLES["mask"](), (tmp_path / name).with_suffix(suffix))
    one, two = ((tmp_path / name).with_suffix(suffix).read_bytes() for name in ("one", "two"))
    assert one == two
    assert not any(word in one for word in (b"<metadata", b"Date", b"Software"))


def test_a_page_has_the_same_picture_each_time():
    assert to_svg(plot_causal_mask(3), "a") == to_svg(plot_causal_mask(3), "a")


@pytest.mark.parametrize("name", ["picture", "picture.pdf", "picture.png.txt"])
def test_other_kinds_of_files_are_refused(name, tmp_path: Path):
    with pytest.raises(UsageError, match=r"ends in \.png or \.svg"):
        save_picture(plot_causal_mask(3), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "folder.png").mkdir()
    for path in (tmp_path / "folder.png", tmp_path / "none" / "a.svg"):
        with pytest.raises(UsageError, match="cannot be written") as caught:
            save_picture(plot_causal_mask(3), path)
        assert str(path) in str(caught.value)
