"""Numbers as people read them: durations, sizes, a curve in a line of text."""

import math
from collections.abc import Sequence
from unicodedata import category

BLOCKS = "▁▂▃▄▅▆▇█"


def clock(seconds: float) -> str:
    """A duration as m:ss, or h:mm:ss from an hour on: for clocks that run."""
    minutes, seconds = divmod(math.floor(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def duration(seconds: float) -> str:
    """A duration as 12 s, 3 min 20 s or 2 h 05 min: for reports."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def size(num_bytes: float) -> str:
    """A size as 512 MB or 1.5 GB (powers of ten, as disks count)."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 999.5e6 else f"{num_bytes / 1e6:.0f} MB"


def sparkline(values: Sequence[float], width: int) -> str:
    """A line of blocks whose heights show the values, from the lowest to the highest.

    If there are more values than `width`, they are cut into so many parts, and the last value of each is shown.
    """
    shown = values
    if len(values) > width:
        shown = [values[(part + 1) * len(values) // width - 1] for part in range(width)]
    low, high = min(shown), max(shown)
    # Equal values are a flat line at the bottom.
    steps = (len(BLOCKS) - 1) / (high - low or 1)
    return "".join(BLOCKS[round((value - low) * steps)] for value in shown)


def printable(text: str) -> str:
    """A text with U+FFFD in place of characters that would control the terminal."""
    return "".join("\N{REPLACEMENT CHARACTER}" if category(char) == "Cc" else char for char in text)
