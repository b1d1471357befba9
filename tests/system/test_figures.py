"""Numbers as people read them."""

import pytest

from dragoman.system.figures import BLOCKS, clock, duration, printable, size, sparkline


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0:00"), (61, "1:01"), (3599, "59:59"), (3725, "1:02:05")])
def test_clock(seconds, text):
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"), [(0, "0 MB"), (7_600_000, "8 MB"), (999_700_000, "1.0 GB"), (23e9, "23.0 GB")]
)
def test_sizes(num_bytes, text):
    assert size(num_bytes) == text


def test_a_sparkline_has_a_block_for_each_value_between_the_extremes():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 40) == BLOCKS
    assert sparkline([7.0, 0.0, 3.4], 40) == "█▁▄"
    assert sparkline([5, 5, 5], 40) == "▁▁▁"


def test_more_values_than_columns_keep_the_last_of_each_part():
    # Five parts of twenty values: their ends are 3, 7, 11, 15 and 19, evenly spaced.
    assert sparkline(list(range(20)), 5) == sparkline([3, 7, 11, 15, 19], 5)
    assert len(sparkline(list(range(97)), 13)) == 13


def test_text_cannot_control_the_terminal():
    assert (
        printable("a\x1b[31mb\tc\u2009« d »\u200f")
        == "a\N{REPLACEMENT CHARACTER}[31mb\N{REPLACEMENT CHARACTER}c\u2009« d »\u200f"
    )
