"""The split: widths are counts, and each part has its figures."""

import json
from pathlib import Path

import pytest

from dragoman.errors import DataError, UsageError
from dragoman.report.pictures import plot_split, read_split
from dragoman.system.seals import seal


def test_each_part_is_as_wide_as_its_count_and_follows_the_one_before():
    figure = plot_split({"training": 701, "validation": 199, "test": 101})
    bars = figure.axes[0].patches
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(0, 701), (701, 199), (900, 101)]
    assert figure.axes[0].get_xlim() == (0, 1001)
    assert figure.axes[0].get_title(loc="left") == "1,001 sentence pairs"
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["training: 701 (70.0 %)", "validation: 199 (19.9 %)", "test: 101 (10.1 %)"]
    assert [patch.get_facecolor() for patch in legend.get_patches()] == [bar.get_facecolor() for bar in bars]


def test_shares_too_small_for_a_figure_say_so():
    texts = [text.get_text() for text in plot_split({"a": 995_999, "b": 999, "c": 3002, "d": 0}).legends[0].get_texts()]
    assert texts == ["a: 995,999 (99.6 %)", "b: 999 (< 0.1 %)", "c: 3,002 (0.3 %)", "d: 0 (0.0 %)"]


def test_nothing_at_all_is_no_split():
    with pytest.raises(UsageError, match="0 sentence pairs"):
        plot_split({"training": 0, "test": 0})


def test_the_split_of_a_run_is_read_from_its_data(tmp_path: Path):
    data = tmp_path / "run" / "data"
    with pytest.raises(DataError, match="holds no run"):
        read_split(tmp_path)
    data.mkdir(parents=True)
    (data / "about.json").write_text(json.dumps({"train_pairs": 31}), encoding="utf-8")
    for name, count in (("valid", 7), ("test", 3)):
        (data / f"{name}.json").write_text(json.dumps([["a", "b"]] * count), encoding="utf-8")
    seal(data)
    assert read_split(tmp_path) == {"training": 31, "validation": 7, "test": 3}
    (data / "about.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"is damaged \(about.json is not what was written"):
        read_split(tmp_path)
