"""What a cell of a page leaves, and whether two of them say the same on machines that round differently."""

import io
import itertools
import re
from typing import NamedTuple

import numpy as np
from PIL import Image

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
ROUNDING = 1.5  # units of the last digit that is printed
LARGEST_DIFFERENCE = 0.02  # of the mean of all dots of a picture, from 0 to 1


class Output(NamedTuple):
    """What a cell prints and shows."""

    printed: str = ""
    """Ends with a line break, unless it is empty."""
    picture: bytes | None = None
    """A PNG file."""

    def agrees(self, other: "Output") -> bool:
        """The same words, the same numbers but for their last digit, a picture that looks the same."""
        pictures = (self.picture, other.picture)
        alike = same_picture(*pictures) if all(pictures) else not any(pictures)
        return alike and same_text(self.printed, other.printed)


def same_text(one: str, other: str) -> bool:
    """Whole numbers are counted, and must be the same; of others the last digit may be rounded otherwise."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (one, other)]
    numbers = zip(NUMBER.findall(one), NUMBER.findall(other), strict=False)
    return words[0] == words[1] and all(itertools.starmap(_same_number, numbers))


def _same_number(one: str, other: str) -> bool:
    if one == other or "." not in one:
        return one == other
    digits, _, exponent = one.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(float(one.replace(",", "")) - float(other.replace(",", ""))) <= ROUNDING * unit


def same_picture(one: bytes, other: bytes) -> bool:
    dots = [np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"), dtype=float) / 255 for picture in (one, other)]
    return dots[0].shape == dots[1].shape and abs(dots[0] - dots[1]).mean() <= LARGEST_DIFFERENCE


def smaller(picture: bytes) -> bytes:
    """The picture in 256 colours, which needs a third of the room."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()
