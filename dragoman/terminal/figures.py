"""Numbers as people read them: durations, sizes, a curve in a line of text."""

import math
from collections.abc import Sequence
from unicodedata import category

BLOCKS = "▁▂▃▄▅▆▇█"


def clock(seconds: float) -> str:
    """m:ss, or h:mm:ss from an hour on."""
    minutes, seconds = divmod(math.floor(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def size(num_bytes: float) -> str:
    """Megabytes below a gigabyte (powers of ten, as disks count)."""
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 999.5e6 else f"{num_bytes / 1e6:.0f} MB"


def sparkline(values: Sequence[float], width: int) -> str:
    """A block a value from lowest to highest; of more values than `width`, the last of each of `width` equal parts."""
    shown = [values[(i + 1) * len(values) // width - 1] for i in range(width)] if len(values) > width else values
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    # Equal values are a flat line at the bottom.
    steps = (len(BLOCKS) - 1) / (high - low or 1)
    return "".join(BLOCKS[round((value - low) * steps)] for value in shown)


def printable(text: str) -> str:
    """`text` without what would steer the terminal: control characters become U+FFFD."""
    return "".join("\N{REPLACEMENT CHARACTER}" if category(each) == "Cc" else each for each in text)
