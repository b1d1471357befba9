"""`data check` as a user meets it: a report on stdout, one line for each finding, exit code 3 for useless data."""

import json
import sys
from pathlib import Path

import pytest

from dragoman import cli
from dragoman.data.grammar import generate


@pytest.fixture
def dragoman(capsys, monkeypatch):
    """A function that runs a command and gives its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dragoman", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder: pairs.tsv with a duplicate and an empty target, the same in two files, and held-out pairs."""
    pairs = list(generate(211, seed=2))
    pairs[96] = pairs[4]
    pairs[100] = (pairs[100][0], "")
    (tmp_path / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs), encoding="utf-8")
    for language, side in (("en", 0), ("fr", 1)):
        (tmp_path / f"all.{language}").write_text("".join(p[side] + "\n" for p in pairs), encoding="utf-8")
    (tmp_path / "test.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs[7:30]), encoding="utf-8")
    return tmp_path


def test_a_report_has_sizes_findings_verdict_and_the_next_command(dragoman, files):
    code, out, err = dragoman("data", "check", files / "pairs.tsv")
    assert (code, err) == (0, "")
    assert "To train on (pairs): 211 pairs, 209 different" in out
    assert "Note     pairs that repeat another: 1 (0.48 % of 210 looked at, line 97); remove them" in out
    assert "Note     pairs with an empty target: 1 (0.47 % of 211 looked at, line 101)" in out
    assert "209 different pairs are few pairs" in out
    assert out.split("\n")[-2].startswith("Next: ")
    assert out.split("\n")[-2].endswith(f"train {files / 'pairs.tsv'}")


def test_held_out_files_are_looked_at_and_compared(dragoman, files):
    code, out, _ = dragoman("data", "check", files / "all.en", files / "all.fr", "--test", files / "test.tsv")
    assert code == 0
    assert "Problem  pairs whose source is also in the test data: 23 (11 % of 210 looked at, lines 8, 9, 10)" in out
    assert "To test on (test): 23 pairs, 23 different" in out
    assert f"--test {files / 'test.tsv'}" in out


def test_json_holds_everything_and_quiet_only_problems(dragoman, files):
    code, out, err = dragoman("data", "check", files / "all.en", files / "all.fr", "--json")
    report = json.loads(out)
    assert (code, err, report["trainable"]) == (0, "", True)
    (part,) = report["parts"]
    assert (part["pairs"], part["usable"], part["different"]) == (211, 210, 209)
    assert part["source"] | {"characters": 0, "words": 0} == {
        "declared": "en",
        "detected": "en",
        "characters": 0,
        "words": 0,
    }
    assert part["source"]["characters"]["max"] >= part["source"]["characters"]["p95"] > 0
    finding = next(each for each in report["findings"] if each["kind"] == "duplicates")
    assert (finding["count"], finding["examples"], finding["total"], finding["part"]) == (1, [97], 210, "train")
    code, out, err = dragoman("data", "check", files / "pairs.tsv", "--quiet")
    assert (code, err) == (0, "")
    assert "Note" not in out
    assert "different pairs" in out


def test_data_that_cannot_be_trained_on_has_exit_code_3(dragoman, tmp_path):
    few, latin, uneven = tmp_path / "few.tsv", tmp_path / "latin.tsv", tmp_path / "a.en"
    few.write_text("Go.\tVa.\n" * 50, encoding="utf-8")
    code, out, _ = dragoman("data", "check", few)
    assert (code, "Cannot be trained on: 1 different pairs" in out) == (3, True)
    latin.write_bytes("Go.\tVa.\nSummer\tL'été\n".encode("latin-1"))
    uneven.write_text("Go.\nStay.\n", encoding="utf-8")
    (tmp_path / "a.fr").write_text("Va.\n", encoding="utf-8")
    for arguments, words in (
        ([latin], "line 2 is not valid UTF-8"),
        ([uneven, tmp_path / "a.fr"], "2 lines but"),
        ([tmp_path / "nowhere.tsv"], "no file"),
        ([few, "--test", latin], "line 2 is not valid UTF-8"),
    ):
        code, out, err = dragoman("data", "check", *arguments)
        assert (code, out, words in err, err.count("\n")) == (3, "", True, 1)


def test_too_many_files_are_a_mistake_of_usage(dragoman):
    assert dragoman("data", "check", "a", "b", "c")[0] == 2
    code, _, err = dragoman("data", "check", "a", "--test", "b", "--test", "c", "--test", "d")
    assert (code, "--test takes" in err) == (2, True)
