"""Numbers as people read them: durations, sizes, a curve in a line of text."""

import math
from collections.abc import Sequence
from unicodedata import category

BLOCKS = "▁▂▃▄▅▆▇█"


def clock(seconds: float) -> str:
    """m:ss, or h:mm:ss from an hour on: for times that change while they are read."""
    minutes, seconds = divmod(math.floor(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def duration(seconds: float) -> str:
    """12 s, 3 min 20 s, 2 h 05 min: for reports."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def size(num_bytes: float) -> str:
    """Megabytes below a gigabyte (powers of ten, as disks count)."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 999.5e6 else f"{num_bytes / 1e6:.0f} MB"


def sparkline(values: Sequence[float], width: int) -> str:
    """A block for each value, from lowest to highest; if there are more than `width`, for the last of each part."""
    shown = [values[(i + 1) * len(values) // width - 1] for i in range(width)] if len(values) > width else values
    low, high = min(shown), max(shown)
    # Equal values are a flat line at the bottom.
    steps = (len(BLOCKS) - 1) / (high - low or 1)
    return "".join(BLOCKS[round((value - low) * steps)] for value in shown)


def printable(text: str) -> str:
    """`text` without characters that would control the terminal: they become U+FFFD."""
    return "".join("\N{REPLACEMENT CHARACTER}" if category(each) == "Cc" else each for each in text)
