"""Outputs of the cells of a page, and whether two of them agree on machines that round differently."""

import io
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dragoman.report.pictures.picture import DRAWN

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
ROUNDING = 1.5  # units of the last digit that is printed
LARGEST_DIFFERENCE = 0.02  # of the mean of all dots of a picture, from 0 to 1
LARGEST_SHIFT = 0.03  # of the mean of the numbers of a line or a matrix, as a share of their span


class Output(NamedTuple):
    """The printed text and the picture of a cell."""

    printed: str = ""
    """Ends with a line break, unless it is empty."""
    picture: bytes | None = None
    """A PNG file."""

    def agrees(self, other: "Output") -> bool:
        """Whether the words are the same, the numbers but for their last digit, and the picture looks the same."""
        pictures = (self.picture, other.picture)
        alike = same_picture(*pictures) if all(pictures) else not any(pictures)
        return alike and same_text(self.printed, other.printed)


def same_text(first: str, second: str) -> bool:
    """Whether texts are the same. Whole numbers must be equal; the last digit of others may be rounded differently."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (first, second)]
    numbers = zip(NUMBER.findall(first), NUMBER.findall(second), strict=False)
    return words[0] == words[1] and all(itertools.starmap(_same_number, numbers))


def _same_number(first: str, second: str) -> bool:
    if first == second or "." not in first:
        return first == second
    digits, _, exponent = first.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(float(first.replace(",", "")) - float(second.replace(",", ""))) <= ROUNDING * unit


def same_picture(first: bytes, second: bytes) -> bool:
    """Whether two pictures show the same lines and matrices, and look the same."""
    if not same_drawing(drawn(first), drawn(second)):
        return False
    dots = [
        np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), dtype=float) / 255 for picture in (first, second)
    ]
    return dots[0].shape == dots[1].shape and abs(dots[0] - dots[1]).mean() <= LARGEST_DIFFERENCE


def drawn(picture: bytes) -> str:
    """What was drawn in a picture of ours, as JSON; empty for other pictures."""
    return Image.open(io.BytesIO(picture)).info.get(DRAWN, "")


def same_drawing(first: str, second: str) -> bool:
    """Whether two drawings, as JSON, have the same words, lines and matrices, and nearly the same numbers."""
    if not first or not second:
        return first == second
    trees = [json.loads(drawing) for drawing in (first, second)]
    words = [[NUMBER.sub("#", text) for axes in tree for text in axes.pop("texts", [])] for tree in trees]
    arrays = [list(_arrays(tree)) for tree in trees]
    return words[0] == words[1] and len(arrays[0]) == len(arrays[1]) and all(map(_nearly_the_same, *arrays))


def _arrays(tree: Any) -> Iterator[np.ndarray]:
    """All lists of numbers in a tree of lists and dicts."""
    if isinstance(tree, list) and all(isinstance(entry, int | float) for entry in tree):
        yield np.array(tree, float)
    else:
        for entry in tree.values() if isinstance(tree, dict) else tree:
            yield from _arrays(entry)


def _nearly_the_same(first: np.ndarray, second: np.ndarray) -> bool:
    if len(first) != len(second):
        return False
    if not len(first):
        return True
    span = max(np.ptp(first), np.ptp(second), 1e-9)
    return float(abs(first - second).mean()) <= LARGEST_SHIFT * span


def smaller(picture: bytes) -> bytes:
    """The picture in 256 colours, which needs a third of the room."""
    text = PngInfo()
    if content := drawn(picture):
        text.add_text(DRAWN, content, zip=True)
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True, pnginfo=text)
    return file.getvalue()
