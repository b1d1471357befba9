"""A run is planned before it starts: settings are chosen, and mistakes are refused."""

from pathlib import Path

import pytest

from dragoman.config.recipes import read_recipe
from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.data.builtin.grammar import generate
from dragoman.data.corpora import open_corpora
from dragoman.data.pair_file import Counts
from dragoman.data.preparation import prepare
from dragoman.data.readers import tables
from dragoman.data.readers.types import ReaderOptions
from dragoman.errors import DataError, UsageError
from dragoman.formats import text_files
from dragoman.runs.plan import build_config, describe_occurrences, plan_resume, plan_run
from tests.data.readers.files import write
from tests.small import plan, write_pairs


def test_settings_win_over_the_recipe_and_the_recipe_over_the_choice(tmp_path):
    path = write_pairs(tmp_path / "pairs.tsv", Bitext.open("builtin:grammar:100"))
    config, _ = plan_run([str(path)], recipe="paper-base", settings=parse_settings(["training.warmup=17"]))
    assert (config.size, config.model["norm_order"], config.training.warmup) == ("base", "post", 17)
    assert config.tokenizer.vocab_size == 37_000
    config, _ = plan_run([str(path)], recipe=None, settings={})
    assert (config.size, config.tokenizer.vocab_size, config.data.held_out) == ("tiny", 2_000, (5, 5))


def test_a_recipe_may_name_the_data_and_files_on_the_command_line_come_before_it(tmp_path):
    for name, pairs in (("a", Bitext.open("builtin:grammar:100")), ("b", Bitext.open("builtin:grammar:40"))):
        write_pairs(tmp_path / f"{name}.tsv", pairs)
    first, second = (str(tmp_path / f"{name}.tsv") for name in "ab")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"data:\n  corpora:\n  - {{source: {first}, weight: 2}}\n  - source: {second}\n")
    config, bitext = plan_run([], recipe=str(recipe), settings={})
    assert [corpus.source for corpus in config.data.corpora] == [first, second]
    assert (bitext.name, bitext.report.read, config.data.held_out) == ("a+b", 140, (7, 7))
    assert bitext.report.weighted == 2 * 100 + 40
    assert load_config(read_recipe_text(config.to_yaml(), tmp_path), {}) == config
    config, bitext = plan_run([second], recipe=str(recipe), settings={})
    assert (config.data.source, config.data.corpora, bitext.name) == (second, [], "b")
    config, bitext = plan_run([], recipe=None, settings=parse_settings([f"data.source={second}"]))
    assert (config.data.source, bitext.report.weighted) == (second, 40)


def read_recipe_text(text, folder):
    (folder / "saved.yaml").write_text(text, encoding="utf-8")
    return read_recipe(str(folder / "saved.yaml"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([], "no pairs to read; give a file of pairs or two aligned files, or a recipe"),
        (["data.source=a.tsv", "data.corpora=[{source: b.tsv}]"], "`data.source` and `data.corpora` both"),
        (["data.target=a.fr"], "`data.target` is the other side of `data.source`"),
        (["data.corpora=[{source: b.tsv, weight: 0}]"], "data.corpora.0.weight"),
    ],
)
def test_data_that_is_not_named_or_twice_is_refused(settings, words):
    with pytest.raises(UsageError) as caught:
        plan_run([], recipe=None, settings=parse_settings(settings))
    assert words in str(caught.value)


def test_rules_of_cleaning_are_settings(tmp_path):
    pairs = [(f"{number}", f"{number} x") for number in range(29)]
    path = write_pairs(tmp_path / "pairs.tsv", [*pairs, *pairs[:5], ("y" * 53, "z" * 53)])
    for settings, kept in (([], 30), (["data.cleaning.drop_repeated=false", "data.cleaning.max_characters=52"], 34)):
        assert plan_run([str(path)], recipe=None, settings=parse_settings(settings))[1].report.weighted == kept


@pytest.mark.parametrize(("by", "sizes"), [("sentence", (8, 4)), ("line", (16, 8))])
def test_shares_become_numbers_before_the_run_starts(tmp_path, by, sizes):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"source {n // 2}\ttarget {n}\n" for n in range(80)), encoding="utf-8")
    settings = ["data.held_out=[0.2, 0.1]", f"data.split={by}"]
    assert plan_run([str(path)], recipe=None, settings=parse_settings(settings))[0].data.held_out == sizes


@pytest.mark.slow
def test_the_grammar_brings_held_out_combinations_of_its_own():
    config, _ = plan_run(["builtin:grammar:100"], recipe="demo", settings={})
    assert config.data.valid == ["builtin:grammar:500:valid"]
    assert config.data.test == ["builtin:grammar:500:test"]


def test_a_wrong_setting_is_found_before_the_corpus_is_read(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("I see.\tJe vois.\nno tab in the second line\n", encoding="utf-8")
    with pytest.raises(UsageError, match="warmup"):
        plan_run([str(path)], recipe=None, settings=parse_settings(["training.warmpu=3"]))
    with pytest.raises(DataError, match="line 2"):
        plan_run([str(path)], recipe=None, settings=parse_settings(["training.warmup=3"]))


def test_held_out_files_are_opened_before_the_run_starts(tmp_path):
    path = write_pairs(tmp_path / "pairs.tsv", Bitext.open("builtin:grammar:20"))
    with pytest.raises(DataError, match="nowhere"):
        plan_run([str(path)], recipe=None, settings=parse_settings(['data.test=["nowhere.tsv"]']))


def test_only_training_and_decoding_change_in_a_resumed_run(tmp_path):
    (tmp_path / "run" / "data").mkdir(parents=True)
    (tmp_path / "run" / "data" / "manifest.json").write_text("{}")
    (tmp_path / "run" / "config.yaml").write_text("seed: 7\ntraining:\n  warmup: 11\n")
    config = plan_resume(tmp_path, parse_settings(["training.max_steps=13"]))
    assert (config.seed, config.training.warmup, config.training.max_steps) == (7, 11, 13)
    assert config.chosen == ["Went on with training.max_steps=13."]
    with pytest.raises(UsageError, match=r"data\.max_length"):
        plan_resume(tmp_path, parse_settings(["data.max_length=5"]))


def test_a_run_of_another_version_names_its_file(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("training:\n  wramup: 11\n")
    with pytest.raises(DataError, match=r"config\.yaml cannot be used.*wramup"):
        plan_resume(tmp_path, {})


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_table_is_read_once_and_a_little_of_it_to_find_its_columns(tmp_path, monkeypatch, suffix):
    pairs = list(Bitext.open("builtin:grammar:2003"))
    path = write(tmp_path / f"pairs.tsv{suffix}", "".join(f"{n}\t{s}\t{t}\n" for n, (s, t) in enumerate(pairs)))
    lines, read_lines = [], text_files.read_lines
    monkeypatch.setattr(text_files, "read_lines", lambda *a, **o: (lines.append(x) or x for x in read_lines(*a, **o)))
    monkeypatch.setattr(tables, "BLOCK", 1 << 10)
    config, bitext = plan_run([str(path)], recipe="tiny", settings=parse_settings(["tokenizer.vocab_size=300"]))
    prepare(bitext, config, tmp_path)
    assert 2_003 <= len(lines) <= 2_003 + 5
    assert len(tables.Sample(path, ReaderOptions()).lines) < 2_003 / 10


def tmx(path: Path, pairs: list[tuple[str, str]], *, first: str = "fr") -> Path:
    """Pairs of English and French, with one of the two first."""
    variants = {"en": '<tuv xml:lang="en"><seg>{0}</seg></tuv>', "fr": '<tuv xml:lang="fr"><seg>{1}</seg></tuv>'}
    order = sorted(variants, key=lambda code: code != first)
    units = "".join("<tu>" + "".join(variants[code].format(*pair) for code in order) + "</tu>" for pair in pairs)
    path.write_text(f'<tmx version="1.4"><header srclang="{first}"/><body>{units}</body></tmx>', encoding="utf-8")
    return path


def test_languages_that_nothing_tells_are_identified_before_anything_is_held_out(tmp_path):
    pairs = [*generate(400)]
    data, test = write_pairs(tmp_path / "pairs.tsv", pairs), tmx(tmp_path / "test.tmx", pairs[:20])
    config, planned = plan(data, settings=[f"data.test=[{test}]"])
    assert config.data.languages == ("en", "fr")
    assert planned.languages == ("en", "fr")
    assert any("By their text, the pairs are en to fr" in line for line in config.chosen)
    held_out = {source for source, _ in pairs[:20]}
    assert not held_out & {source for source, _ in planned}


def test_languages_in_doubt_are_asked_for(tmp_path):
    config, planned = plan(write_pairs(tmp_path / "pairs.tsv", [*generate(60)]))
    assert config.data.languages is None
    assert planned.languages is None
    assert any(line.startswith("The languages are not certain; name them") for line in config.chosen)


def test_languages_that_a_file_tells_are_not_guessed(tmp_path):
    config, planned = plan(tmx(tmp_path / "memory.tmx", [*generate(300)]))
    assert planned.languages == ("fr", "en")
    assert config.data.languages is None
    assert not any("languages" in line or "By their text" in line for line in config.chosen)


def test_sentences_that_no_space_separates_are_not_joined(tmp_path):
    path = write_pairs(tmp_path / "pairs.tsv", [(f"a {number}", f"b {number}") for number in range(30)])
    settings = ["training.joined=0.1", "training.max_steps=1"]
    plan_run([str(path)], recipe=None, settings=parse_settings([*settings, "data.languages=[en,fr]"]))
    with pytest.raises(UsageError, match="ja has none"):
        plan_run([str(path)], recipe=None, settings=parse_settings([*settings, "data.languages=[en,ja]"]))


def test_one_pair_of_languages_may_be_spelled_in_several_ways(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in generate(40)), encoding="utf-8")
    corpora = [
        {"source": str(tmp_path / "a.tsv"), "languages": ["en", "fr"]},
        {"source": str(tmp_path / "b.tsv"), "languages": ["eng", "FRA"]},
    ]
    assert not open_corpora(load_config({}, {"data": {"corpora": corpora}}).data).has_labels


def test_files_of_several_corpora_are_those_of_each(tmp_path):
    files = [tmp_path / f"{name}.tsv" for name in "ab"]
    for file in files:
        file.write_text("a\tb\n", encoding="utf-8")
    data = load_config({}, {"data": {"corpora": [{"source": str(file)} for file in files]}}).data
    assert open_corpora(data).files == tuple(map(str, files))


def test_a_recipe_comes_before_what_the_built_in_pairs_have_by_default(tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text("data:\n  source: builtin:grammar:60\n  valid: [mine.tsv]\n", encoding="utf-8")
    assert build_config(str(recipe), {}).data.valid == ["mine.tsv"]


def test_signatures_of_urls_are_not_kept_beside_how_often_pairs_occur():
    urls = ["https://h/x.tsv?X-Amz-Signature=SECRET", "https://h/x.tsv?X-Amz-Signature=OTHER"]
    data = load_config({}, {"data": {"corpora": [{"source": url} for url in urls], "temperature": 2.0}}).data
    occurrences = Counts(10, 10.0, 0, [1.0, 3.0]).occurrences(data)
    assert list(occurrences.values()) == [1.0, 3.0]
    assert "SECRET" not in str(occurrences)
    assert "OTHER" not in describe_occurrences(occurrences)[0]


def test_a_temperature_without_corpora_is_refused(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n", encoding="utf-8")
    data = load_config({}, {"data": {"source": str(tmp_path / "a.tsv"), "temperature": 2.0}}).data
    with pytest.raises(UsageError, match=r"several `data\.corpora`"):
        open_corpora(data)


def test_how_pairs_are_split_off_is_refused_where_none_are(tmp_path):
    pairs = write_pairs(tmp_path / "a.tsv", [(f"a {n}", f"b {n}") for n in range(30)])
    files = {"valid": [str(pairs)], "test": [str(pairs)], "split": "groups"}
    with pytest.raises(UsageError, match=r"data\.split=groups says how pairs are split off, but validation and test"):
        plan_run([str(pairs)], recipe=None, settings={"data": files})


def test_a_share_of_the_pairs_has_the_vocabulary_of_few(tmp_path):
    pairs = write_pairs(tmp_path / "a.tsv", generate(4_000))
    sizes = []
    for share in (1.0, 0.5):
        config, planned = plan_run([str(pairs)], recipe=None, settings={"data": {"share": share}})
        sizes.append(config.tokenizer.vocab_size)
        sample = list(planned.sample(100))
        assert 50 < len(sample) < 200
    assert sizes == [8_000, 2_000]
