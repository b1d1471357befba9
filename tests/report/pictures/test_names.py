"""Words and names in pictures that are no text."""

import os

import pytest

from dragoman.report.pictures import plot_example_mask, plot_runs, save_picture
from tests.report.runs import steps

NAME = os.fsdecode(b"caf\xe9")
"""The name of a file in an encoding of old."""


@pytest.mark.first_is_quick
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_name_that_is_no_text_is_drawn_with_a_sign_for_what_it_lacks(tmp_path, suffix):
    for number, figure in enumerate((plot_example_mask([NAME, "x"]), plot_runs({NAME: steps(3), "other": steps(3)}))):
        save_picture(figure, tmp_path / f"{NAME}{number}{suffix}")
    assert {os.fsencode(file.name) for file in tmp_path.iterdir()} == {
        os.fsencode(f"{NAME}{number}{suffix}") for number in range(2)
    }
