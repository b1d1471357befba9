"""Two files of unequal length: the message says where to look, by the command that met them and by the function."""

import re
from pathlib import Path

import pytest

from dragoman.cli import explain
from dragoman.config.data import DataConfig
from dragoman.data.builtin.grammar import generate
from dragoman.data.corpora import open_corpora
from dragoman.data.readers.two_files import UnequalFiles
from tests.data.readers.files import write


def message(source: Path, target: Path) -> str:
    """What a command says of two files that it reads."""
    with pytest.raises(UnequalFiles) as caught:
        list(open_corpora(DataConfig(source=str(source), target=str(target))))
    return str(explain(caught.value))


def test_unequal_sides_name_the_first_line_that_looks_wrong(tmp_path: Path):
    lines = [
        f"This is sentence number {number}, which is long enough to be compared with what stands beside it on its line."
        for number in range(11)
    ]
    source = write(tmp_path / "a.en", "\n".join(lines))
    target = write(tmp_path / "a.fr", "\n".join([*lines[:6], "Oui.", *lines[6:]]).replace("This is", "C'est"))
    assert re.search(r"a.en has 11 lines but .*a.fr has 12; .* look at line 7 first", message(source, target))
    target.write_text("x\n" * 13)
    source.write_text("y\n" * 11)
    assert message(source, target).endswith("find the lines that only one has.")


@pytest.mark.first_is_quick
@pytest.mark.parametrize(("side", "what"), [(0, "a target too many or a source missing"), (1, "a source too many")])
def test_of_unequal_sides_the_line_is_named_from_which_they_are_out_of_step(tmp_path: Path, side: int, what: str):
    sides = [list(sentences) for sentences in zip(*generate(1_501, seed=5), strict=True)]
    del sides[side][700]
    paths = [write(tmp_path / f"a.{n}", "\n".join(each)) for n, each in zip(("en", "fr"), sides, strict=True)]
    told = message(*paths)
    assert re.search(rf"a.(en|fr) has 150\d lines .*; look around line \d+ for {what}", told)
    line = int(re.search(r"around line (\d+)", told)[1])
    assert abs(line - 701) <= 15
    # At the very end, no line tells.
    sides[side].insert(700, "Yes.")
    sides[side].pop()
    write(paths[side], "\n".join(sides[side]))
    assert re.search(r"no line was found .*look at the end of the longer file", message(*paths))
