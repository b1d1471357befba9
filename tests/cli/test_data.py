"""`data check` as a user meets it: a report on stdout, one line for each finding, exit code 3 for useless data."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.data.builtin.grammar import generate
from dragoman.storage.memory import Memory
from tests.small import write_pairs


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder: pairs.tsv with a duplicate and an empty target, the same in two files, and held-out pairs."""
    pairs = list(generate(211, seed=2))
    pairs[96] = pairs[4]
    pairs[100] = (pairs[100][0], "")
    write_pairs(tmp_path / "pairs.tsv", pairs)
    for language, side in (("en", 0), ("fr", 1)):
        (tmp_path / f"all.{language}").write_text("".join(p[side] + "\n" for p in pairs), encoding="utf-8")
    write_pairs(tmp_path / "test.tsv", pairs[7:30])
    return tmp_path


def test_a_report_has_sizes_findings_verdict_and_the_next_command(dragoman, files):
    code, out, err = dragoman("data", "check", files / "pairs.tsv")
    assert (code, err) == (0, "")
    assert "To train on (pairs): 211 pairs, 209 different" in out
    where = files / "pairs.tsv"
    assert f"Note     pairs that repeat another: 1 (0.48 % of 210 looked at; {where}, line 97); `train` keeps" in out
    assert f"Note     pairs with an empty target: 1 (0.47 % of 211 looked at; {where}, line 101)" in out
    assert "`train` leaves out 2 of 211 pairs (target is empty: 1; repeats another pair: 1)." in out
    assert "209 different pairs are too few for a translator" in out
    assert out.split("\n")[-2].startswith("Next: ")
    assert out.split("\n")[-2].endswith(f"train {files / 'pairs.tsv'}")


def test_pairs_at_random_are_shown_with_their_lines(dragoman, files):
    _, out, _ = dragoman("data", "check", files / "pairs.tsv", "--examples", "4")
    assert "Pairs at random" in out
    assert out.split("\n")[-2].endswith(f"train {files / 'pairs.tsv'}")  # `train` has no such option
    code, out, _ = dragoman("data", "check", files / "all.en", files / "all.fr", "--examples=4", "--json")
    assert code == 0
    sides = [(files / f"all.{language}").read_text(encoding="utf-8").split("\n") for language in ("en", "fr")]
    examples = json.loads(out)["parts"][0]["examples"]
    assert len({example["number"] for example in examples}) == 4
    for example in examples:
        line = example["number"] - 1
        assert (example["source"], example["target"]) == (sides[0][line], sides[1][line])
        assert example["unit"] == "line"


def test_held_out_files_are_looked_at_and_compared(dragoman, files):
    code, out, _ = dragoman("data", "check", files / "all.en", files / "all.fr", "--test", files / "test.tsv")
    assert code == 0
    where = f"{files / 'all.en'} and {files / 'all.fr'}, lines 8, 9, 10"
    assert f"Problem  pairs whose source is also in the test data: 23 (11 % of 210 looked at; {where})" in out
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
    finding = next(entry for entry in report["findings"] if entry["kind"] == "duplicates")
    assert (finding["count"], finding["total"], finding["part"]) == (1, 210, "train")
    assert finding["examples"] == [
        {"files": [str(files / "all.en"), str(files / "all.fr")], "unit": "line", "number": 97}
    ]
    assert part["dropped"] == {"target is empty": 1, "repeats another pair": 1}
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
    assert (code, "--test takes a file" in err) == (2, True)


def memory(*codes: str, units: int = 31) -> str:
    """A translation memory in these languages, a unit on each line from the second on."""
    rows = ["<tmx><body>"]
    for number in range(units):
        variants = (f'<tuv xml:lang="{code}"><seg>{code} {number}</seg></tuv>' for code in codes)
        rows.append(f"<tu>{''.join(variants)}</tu>")
    return "\n".join([*rows, "</body></tmx>"])


def test_languages_choose_the_sides_as_they_do_for_train(dragoman, tmp_path):
    path = tmp_path / "memory.tmx"
    path.write_text(memory("en", "fr", "de") + "\n", encoding="utf-8")
    code, _, err = dragoman("data", "check", path)
    assert (code, "such as 'data.languages=[en,fr]'" in err) == (3, True)
    code, out, err = dragoman("data", "check", path, "data.languages=[en,de]")
    assert (code, err) == (0, "")
    assert "31 pairs" in out
    assert "target de" in out
    assert out.split("\n")[-2].endswith(f"train {path} 'data.languages=[en,de]'")
    code, out, _ = dragoman("data", "check", path, "data.languages=[fr,en]", "--test", path, "--json")
    test = json.loads(out)["parts"][1]
    assert (code, test["source"]["declared"], test["target"]["declared"]) == (3, "fr", "en")


def test_corpora_of_a_recipe_are_checked_each_by_its_own_lines(dragoman, tmp_path):
    first, second = tmp_path / "a.tmx", tmp_path / "b.tsv"
    units = memory("en", "fr", units=13).replace('<tuv xml:lang="fr"><seg>fr 7</seg></tuv>', "")
    first.write_text(units, encoding="utf-8")
    second.write_text("".join(f"en {n}\tfr {n}\n" for n in range(10, 23)) + "x\t\n", encoding="utf-8")
    recipe = tmp_path / "both.yaml"
    recipe.write_text(f"data:\n  corpora:\n  - source: {first}\n  - source: {second}\n")
    code, out, err = dragoman("data", "check", "--recipe", recipe)
    assert (code, err) == (0, "")
    assert "(a+b): 26 pairs" in out
    assert f"no pairs (unit has no text in fr): 1 (3.7 % of 27 looked at; {first}, line 9); `train` leaves" in out
    assert f"{second}, line 14); `train` leaves them out." in out
    assert f"{second}, lines 1, 2, 3); `train` keeps the first" in out
    assert out.split("\n")[-2].endswith(f"train --recipe {recipe}")


def test_bad_bytes_are_refused_or_counted_with_their_lines(dragoman, files):
    path = files / "latin.tsv"
    lines = (files / "pairs.tsv").read_bytes().split(b"\n")
    lines[6], lines[9] = b"Caf\xe9.\tx", b"x\t\xff\xfe"
    path.write_bytes(b"\n".join(lines))
    code, _, err = dragoman("data", "check", path)
    assert (code, "line 7 is not valid UTF-8" in err) == (3, True)
    assert "or leave such pairs out with data.replace_bad_bytes=true." in err
    code, out, _ = dragoman("data", "check", path, "data.replace_bad_bytes=true")
    assert code == 0
    assert f"pairs with the replacement character U+FFFD: 2 (0.95 % of 211 looked at; {path}, lines 7, 10)" in out
    assert "damaged characters (control characters, U+FFFD): 2" in out


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("data.langauges=[en,fr]", "no setting `data.langauges` (did you mean 'data.languages'?)"),
        ("data.languages=en", "`data.languages` is 'en'"),
        ("training.warmup=3", "`data check` takes no other settings than those of data; leave out training.warmup=3"),
    ],
)
def test_other_settings_are_refused(dragoman, files, setting, words):
    code, out, err = dragoman("data", "check", files / "pairs.tsv", setting)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_what_train_would_keep_is_written_and_the_next_command_trains_on_it(dragoman, files):
    clean = files / "clean.tsv"
    arguments = [files / "all.en", files / "all.fr", "--test", files / "test.tsv", "--output", clean]
    code, out, err = dragoman("data", "check", *arguments)
    assert (code, err) == (0, f"{clean} holds the 186 pairs that are kept.\n")
    lines = clean.read_text(encoding="utf-8").split("\n")[:-1]
    held_out = (files / "test.tsv").read_text(encoding="utf-8")
    assert len(lines) == len(set(lines)) == 186
    assert all(line.count("\t") == 1 and all(line.split("\t")) for line in lines)
    assert not any(line.split("\t")[0] + "\t" in held_out for line in lines)
    assert f"train {clean} --test {files / 'test.tsv'} 'data.languages=[en,fr]'" in out.split("\n")[-2]
    code, out, _ = dragoman("data", "check", clean, "--json")
    assert json.loads(out)["parts"][0]["dropped"] == {}
    clean.unlink()
    _, out, _ = dragoman("data", "check", *arguments, "data.cleaning.max_ratio=9")
    assert out.split("\n")[-2].endswith("data.cleaning.max_ratio=9")


def test_a_tab_inside_of_a_side_shifts_nothing_in_what_is_written(dragoman, tmp_path):
    (tmp_path / "a.en").write_text("".join(f"one\ttwo {n}\n" for n in range(13)), encoding="utf-8")
    (tmp_path / "a.fr").write_text("".join(f"un deux {n}\n" for n in range(13)), encoding="utf-8")
    dragoman("data", "check", tmp_path / "a.en", tmp_path / "a.fr", "--output", tmp_path / "clean.tsv")
    assert (tmp_path / "clean.tsv").read_text(encoding="utf-8").startswith("one two 0\tun deux 0\n")


def test_rows_with_other_columns_are_named_and_many_of_them_are_a_problem(dragoman, tmp_path):
    path = tmp_path / "pairs.tsv"
    rows = [f"{n}\ten {n}\t#\tfr {n}\n" for n in range(211)]
    rows[28] = rows[30] = "We try. Nous essayons.\tCC-BY\n"
    path.write_text("".join(rows), encoding="utf-8")
    code, out, _ = dragoman("data", "check", path, "--columns", "2,4")
    assert code == 0
    where = f"2 (0.95 % of 211 looked at; {path}, lines 29, 31); `train` leaves them out"
    assert f"Note     rows with other columns than most rows: {where}" in out
    assert "(other columns than most rows: 2)" in out
    assert out.split("\n")[-2].endswith(f"train {path} --columns 2,4")
    path.write_text("".join([*rows[:31], *["alone\n"] * 7, *rows[31:]]), encoding="utf-8")
    assert "Problem  rows with other columns than most rows: 9" in dragoman("data", "check", path)[1]


def test_pairs_are_put_into_a_memory_once(dragoman, files):
    memory = files / "memory.db"
    pairs = ["data", "memory", files / "pairs.tsv", "--output", memory]
    code, out, err = dragoman(*pairs, "data.languages=[en,fr]", "--json")
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert (figures["read"], figures["memory"]) == (211, str(memory))
    assert 190 < figures["added"] <= 209
    code, _, err = dragoman(*pairs, "data.languages=[en,fr]")
    assert (code, err) == (0, f"0 of 211 pairs are new in {memory}.\n")


def test_a_memory_needs_two_languages_and_another_name_than_its_pairs(dragoman, files):
    code, _, err = dragoman("data", "memory", files / "pairs.tsv", "--output", files / "memory.db")
    assert code == 2
    assert "add 'data.languages=[en,fr]'" in err
    languages = "data.languages=[en,fr]"
    code, _, err = dragoman("data", "memory", files / "pairs.tsv", languages, "--output", files / "pairs.tsv")
    assert code == 2
    code, _, err = dragoman("data", "memory", files / "pairs.tsv", languages, "--output", files / "all.en")
    assert code == 3
    assert "cannot be a translation memory" in err
    assert (files / "all.en").read_text(encoding="utf-8").startswith(next(iter(generate(1, seed=2)))[0][:3])


def test_a_memory_has_no_pair_that_is_held_out(dragoman, files):
    recipe = files / "r.yaml"
    recipe.write_text(
        f"data:\n  source: {files / 'pairs.tsv'}\n  test: [{files / 'test.tsv'}]\n  languages: [en, fr]\n"
    )
    code, _, err = dragoman("data", "memory", "--recipe", recipe, "--output", files / "memory.db")
    assert code == 0, err
    sources = {line.split("\t")[0] for line in (files / "test.tsv").read_text(encoding="utf-8").splitlines()}
    with closing(Memory(files / "memory.db")) as memory:
        kept = {entry.source for entry in memory.pairs()}
    assert kept
    assert not kept & sources


def test_a_sentence_that_is_held_out_for_one_language_is_trained_on_for_none(dragoman, files):
    corpora = []
    for code in ("fr", "de"):
        write_pairs(files / f"{code}.tsv", [(source, f"{target} {code}") for source, target in generate(60)])
        corpora.append(f"{{source: {files / f'{code}.tsv'}, languages: [en, {code}]")
    write_pairs(files / "held.tsv", [(source, f"{target} fr") for source, target in list(generate(60))[:20]])
    recipe = files / "two.yaml"
    held_out = f", test: [{files / 'held.tsv'}]"
    recipe.write_text(f"data:\n  corpora: [{corpora[0]}{held_out}}}, {corpora[1]}}}]\n", encoding="utf-8")
    code, out, err = dragoman("data", "check", "--recipe", recipe, "--json")
    assert code == 0, err
    parts = {name: result["parts"][0] for name, result in json.loads(out)["languages"].items()}
    assert parts.keys() == {"en-fr", "en-de"}
    held_out_sources = parts["en-fr"]["dropped"]["source is in held-out data"]
    assert parts["en-de"]["dropped"]["source is in held-out data"] == held_out_sources >= 20


def test_test_pairs_of_several_corpora_have_no_command(dragoman, files):
    """Two files of --test would be the two sides of the pairs."""
    parts = [f"{{source: {files}/pairs.tsv, test: [{files}/{name}.tsv]}}" for name in ("test", "more")]
    write_pairs(files / "more.tsv", [("a b", "c d")])
    (files / "recipe.yaml").write_text(f"data: {{corpora: [{', '.join(parts)}]}}")
    arguments = ["--recipe", files / "recipe.yaml", "--output", files / "clean.tsv"]
    _, out, err = dragoman("data", "check", *arguments)
    assert "The test pairs are of 2 corpora; to train on" in err
    assert "Next:" not in out
    assert (files / "clean.tsv").is_file()


def test_a_language_with_few_pairs_beside_others_is_trainable(dragoman, tmp_path):
    rows = [(f"the house {n}", f"la maison {n}", "fr") for n in range(40)] + [("a", "ein", "de"), ("b", "bee", "de")]
    (tmp_path / "a.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    code, out, err = dragoman("data", "check", tmp_path / "a.tsv", "data.language_column=3", "data.languages=[en,fr]")
    assert (code, err) == (0, "")
    assert "Cannot be trained on" not in out
    (tmp_path / "a.tsv").write_text("".join("\t".join(row) + "\n" for row in rows[-6:]))
    code, out, _ = dragoman("data", "check", tmp_path / "a.tsv", "data.language_column=3", "data.languages=[en,fr]")
    assert code == 3
    assert "Cannot be trained on: 6 different pairs are left; at least 10 are needed" in out
