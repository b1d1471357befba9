"""The run's config: recipes, overrides, and a sentence for every mistake."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import dragoman.recipes
from dragoman.config.decoding import DecodingConfig
from dragoman.config.recipes import read_recipe, recipe_names
from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import merged, parse_settings
from dragoman.config.training import TrainingConfig
from dragoman.errors import DataError, UsageError, did_you_mean

RECIPES = Path(dragoman.recipes.__file__).parent


def test_nothing_given_is_all_defaults():
    assert load_config({}, {}) == RunConfig()


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("seed=3", 3),
        ("size=small", "small"),
        ("training.learning_rate=1e-3", 0.001),
        ("training.learning_rate=2", 2.0),
        ("training.betas=[0.8, 0.9]", (0.8, 0.9)),
        ("training.max_steps=", None),
        ("training.max_minutes=2.5", 2.5),
        ("training.precision=bfloat16", "bfloat16"),
        ("tokenizer.shared=false", False),
        ("data.source=a=b.tsv", "a=b.tsv"),
        ("data.valid=[x.en, x.de]", ["x.en", "x.de"]),
        ("data.held_out=0.25", (0.25, 0.25)),
        ("data.held_out=[0.2, 13]", (0.2, 13)),
        ("data.source='2020'", "2020"),
        ("data.languages=[en, no]", ("en", "no")),  # YAML 1.1 takes `no` for false
        ("model.dropout=0.3", 0.3),
        ("model.norm_eps=1.0e-6", 1e-6),
        ("model.norm_order=post", "post"),
    ],
)
def test_an_override_reaches_its_key_with_its_type(override: str, value: Any):
    config = load_config({}, parse_settings([override]))
    *sections, leaf = override.partition("=")[0].split(".")
    for section in sections:
        config = getattr(config, section)
    set_value = config[leaf] if isinstance(config, dict) else getattr(config, leaf)
    assert set_value == value
    assert type(set_value) is type(value)


@pytest.mark.parametrize(
    ("settings", "masked"),
    [
        ([], True),
        (["tokenizer.kind=unigram"], True),
        (["tokenizer.kind=word"], False),
        (["tokenizer.kind=word", "tokenizer.placeholders=true"], True),
        (["tokenizer.placeholders=false"], False),
    ],
)
def test_placeholders_are_copied_unless_a_tokenizer_of_words_would_put_spaces_around_them(settings, masked):
    assert load_config({}, parse_settings(settings)).tokenizer.placeholders is masked


def test_a_number_without_a_point_before_its_exponent_is_a_number_everywhere(tmp_path: Path):
    """YAML 1.1 takes 1e-6 for a text, which nobody means."""
    assert load_config({}, parse_settings(["model.norm_eps=1e-6"])).model["norm_eps"] == 1e-6
    (tmp_path / "r.yaml").write_text("model:\n  norm_eps: 1e-6\n", encoding="utf-8")
    assert load_config(read_recipe(str(tmp_path / "r.yaml")), {}).model["norm_eps"] == 1e-6


def test_a_later_override_wins_and_the_recipe_is_left_alone():
    recipe = {"seed": 2, "training": {"warmup": 5, "eps": 1e-8}, "model": {"dropout": 0.2}}
    config = load_config(recipe, parse_settings(["training.warmup=7", "training.warmup=11", "model.norm=rms"]))
    assert (config.seed, config.training.warmup, config.training.eps) == (2, 11, 1e-8)
    assert config.model == {"dropout": 0.2, "norm": "rms"}
    assert recipe == {"seed": 2, "training": {"warmup": 5, "eps": 1e-8}, "model": {"dropout": 0.2}}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.warmpu=3", r"no setting `training.warmpu` \(did you mean 'training.warmup'\?\)"),
        ("training.warmup=-3", "`training.warmup` is -3; it must be a whole number from 1\\.$"),
        ("training.warmup=2.5", "`training.warmup` is 2.5; it must be a whole number"),
        ("training.warmup=soon", "`training.warmup` is 'soon'; it must be a whole number"),
        ("training.warmup=", "`training.warmup` is missing; it must be a whole number"),
        ("training.warmup={now: 3}", "`training.warmup` is {'now': 3}; it must be"),
        ("training.tensorboard=perhaps", "`training.tensorboard` is 'perhaps'; it must be true or false"),
        ("training.learning_rate=.inf", "`training.learning_rate` is inf; it must be a finite number above 0"),
        ("training.label_smoothing=1", "`training.label_smoothing` is 1; it must be a number from 0 to below 1"),
        ("training.optimizer=lion", "`training.optimizer` is 'lion'; it must be .*muon, rmsprop or sgd"),
        ("training.schedule=cosine", r"^The schedule cosine .*training\.max_steps or training\.max_epochs"),
        ("training.ema=1", "`training.ema` is 1; "),
        ("training.r_drop=-1", "`training.r_drop` is -1; it must be a number from 0 to 1000"),
        ("training.betas=[0.9]", r"`training.betas` is \[0.9\]; it must be a list of 2 numbers from 0 to below 1"),
        ("training.betas=[0.9,1.5]", r"`training.betas` is \[0.9, 1.5\]; it must be a list of 2 numbers"),
        ("training.max_minutes=.nan", "`training.max_minutes` is nan; it must be a finite number"),
        ("data.valid=[a,b,c]", r"`data.valid` is \['a', 'b', 'c'\]; it must be a list of up to 2 texts"),
        ("data.source=2020", "`data.source` is 2020; it must be a text, so put it in quotes"),
        ("data.held_out=none", "`data.held_out`: 'none' is neither"),
        ("data.corpora=3", "`data.corpora` is 3; it must be a list of sections"),
        ("data.corpora=[{source: a, weight: 0}]", "`data.corpora.0.weight` is 0; it must be a number above 0 to 1000"),
        ("data.corpora=[{weight: 2}]", "`data.corpora.0.source` is missing; it must be a text"),
        ("data.target=x", "^`data.target` is the other side of `data.source`"),
        ("training=3", "`training` is 3, but it is a section"),
        ("training.warmup.now=3", "`training.warmup"),
        ("size=huge", "`size` is 'huge'; it must be tiny, small, base or big"),
        ("decoding.beam_size=0", "`decoding.beam_size` is 0; it must be a whole number from 1 to 64"),
        ("decoding.n_best=9", "^`decoding.n_best` is 9, but .*; raise `decoding.beam_size`"),
        ("decoding.glossary={cat: 3}", "`decoding.glossary` is {'cat': 3}; it must be a table \\(dict\\) of texts"),
        ("model.dropout=2", "`model`.* `dropout` is 2; it must be"),
        ("model.dropuot=0.2", "dropuot.*did you mean '(model.)?dropout'"),
        ("model.d_model=30", "`d_model` is 30, not a multiple of `num_heads` 4"),
        ("model.source_vocab_size=7", "set tokenizer.vocab_size instead"),
        ("=3", "no setting"),
    ],
)
def test_a_mistake_becomes_one_sentence_that_names_it(override: str, message: str):
    with pytest.raises(UsageError, match=message) as caught:
        load_config({}, parse_settings([override]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["schedule=linear", "max_minutes=5"], "schedule linear .*max_epochs"),
        (["schedule=cosine", "max_steps=50", "warmup=100"], "max_steps is 50, .*warmup of 100"),
        (["schedule=plateau", "plateau_patience=12"], "plateau_patience is 12, .*patience = 12"),
    ],
)
def test_a_schedule_that_cannot_come_to_its_end_is_refused(overrides: list[str], message: str):
    with pytest.raises(UsageError, match=message) as caught:
        load_config({}, parse_settings([f"training.{override}" for override in overrides]))
    assert "\n" not in str(caught.value)


def test_schedules_that_end_with_the_run_take_steps_or_epochs():
    assert (
        load_config({}, parse_settings(["training.schedule=cosine", "training.max_steps=1000"])).training.max_steps
        == 1000
    )
    assert (
        load_config({}, parse_settings(["training.schedule=linear", "training.max_epochs=3"])).training.max_epochs == 3
    )


def test_r_drop_without_any_dropout_is_refused():
    with pytest.raises(UsageError, match=r"`dropout` is 0, but training\.r_drop"):
        load_config({}, parse_settings(["training.r_drop=5", "model.dropout=0"]))
    assert (
        load_config(
            {}, parse_settings(["training.r_drop=5", "model.dropout=0", "model.activation_dropout=0.1"])
        ).training.r_drop
        == 5
    )


@pytest.mark.parametrize("value", ["0", "1.5", "-3", "true", "many", "[0.1]", "[0.1, 0.2, 0.3]", "[0.5, .nan]"])
def test_a_size_to_hold_out_is_a_number_of_sentences_or_a_share(value: str):
    with pytest.raises(UsageError, match=r"`data.held_out`: .* neither a whole number from 1 nor a share"):
        load_config({}, parse_settings([f"data.held_out={value}"]))


def test_shares_leave_something_to_train_on():
    with pytest.raises(UsageError, match="leave nothing to train on"):
        load_config({}, parse_settings(["data.held_out=[0.5, 0.5]"]))
    assert load_config({}, parse_settings(["data.held_out=[0.5, 500]"])).data.held_out == (0.5, 500)


@pytest.mark.parametrize("override", ["training.max_steps", "data.held_out", "training"])
def test_an_override_without_a_value_is_refused(override: str):
    with pytest.raises(UsageError, match=re.escape(override)):
        load_config({}, parse_settings([override]))


def test_keys_below_a_value_are_refused():
    with pytest.raises(UsageError, match="`seed` holds a value, not keys"):
        load_config({"seed": 3}, parse_settings(["seed.x=1"]))


def test_a_section_whose_keys_are_all_left_out_is_empty(tmp_path: Path):
    file = tmp_path / "r.yaml"
    file.write_text("training:\n  # warmup: 5\nmodel:\n", encoding="utf-8")
    assert load_config(read_recipe(str(file)), {}) == RunConfig()
    assert load_config(read_recipe(str(file)), parse_settings(["training.warmup=5"])).training.warmup == 5


@pytest.mark.parametrize(
    ("size", "override"),
    [("tiny", "d_model=510"), ("base", "d_model=516"), ("big", "num_heads=12")],
)
def test_a_model_that_cannot_be_built_is_refused_before_any_data_is_read(size: str, override: str):
    with pytest.raises(UsageError, match="multiple of `num_heads`"):
        load_config({"size": size}, parse_settings([f"model.{override}"]))


def test_a_model_is_judged_by_its_own_size_and_not_by_another():
    config = load_config({}, parse_settings(["size=big", "model.num_heads=256"]))
    assert config.transformer(11, 11).num_heads == 256


@pytest.mark.parametrize("shared", [True, False])
def test_the_architecture_follows_from_size_choices_and_vocabularies(shared: bool):
    config = load_config({}, parse_settings(["size=small", "model.dropout=0.3", f"tokenizer.shared={shared}"]))
    architecture = config.transformer(997, 997)
    assert (architecture.d_model, architecture.d_ff, architecture.dropout) == (256, 1024, 0.3)
    assert architecture.share_embeddings == shared
    assert architecture.target_vocab_size == 997
    config = load_config({}, parse_settings(["model.share_embeddings=false"]))
    assert not config.transformer(997, 997).share_embeddings


def test_two_vocabularies_cannot_share_a_table():
    """Not even two of the same size, whose numbers mean different tokens."""
    with pytest.raises(UsageError, match=r"tokenizer\.shared=false two vocabularies"):
        load_config({}, parse_settings(["tokenizer.shared=false", "model.share_embeddings=true"]))
    assert not load_config({}, parse_settings(["tokenizer.shared=false"])).transformer(997, 997).share_embeddings


def test_a_mistake_names_settings_as_the_user_gave_them():
    def option(key: str) -> str:
        return "--" + key.replace("_", "-")

    for settings, message in (
        ({"n_best": "9"}, "--n-best is 9, but search keeps 5 hypotheses; raise --beam-size."),
        ({"beam_size": "many"}, "--beam-size is 'many'; it must be a whole number from 1 to 64."),
        ({"top_k": "3"}, "--top-k is for sampling; add --sample, or leave it out."),
    ):
        with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
            DecodingConfig.validate(settings, spell=option)


def test_a_config_survives_its_yaml(tmp_path: Path):
    config = load_config(
        read_recipe("paper-big"),
        parse_settings(
            [
                "data.source=données.tsv",
                "data.valid=[a, b]",
                "training.max_minutes=2.5",
                "model.norm_eps=0.000001",
            ]
        ),
    )
    file = tmp_path / "config.yaml"
    file.write_text(config.to_yaml(), encoding="utf-8")
    assert load_config(read_recipe(str(file)), {}) == config
    assert yaml.safe_load(RunConfig().to_yaml())["training"].keys() == TrainingConfig.model_fields.keys()


@pytest.mark.parametrize("name", recipe_names())
def test_a_packaged_recipe_describes_a_run_that_can_be_built(name: str):
    recipe = read_recipe(name)
    config = load_config(recipe, {})
    config.transformer(37_000, 37_000)
    for section, values in recipe.items():
        if isinstance(values, dict) and section != "model":
            assert values.keys() <= getattr(config, section).model_fields_set


@pytest.mark.parametrize("name", recipe_names())
def test_every_key_of_a_packaged_recipe_has_a_comment(name: str):
    lines = (RECIPES / f"{name}.yaml").read_text(encoding="utf-8").split("\n")
    assert lines[0].startswith("# ")
    bare = [line for line in lines if re.match(r" *\w+: +[^#\s]", line) and not re.search(" # .", line)]
    assert bare == []


def test_the_paper_recipes_hold_the_numbers_of_the_paper():
    base = load_config(read_recipe("paper-base"), {})
    training, decoding = base.training, base.decoding
    assert (training.betas, training.eps, training.warmup) == ((0.9, 0.98), 1e-9, 4000)
    assert (training.label_smoothing, training.max_steps, decoding.beam_size) == (0.1, 100_000, 4)
    assert (decoding.length_penalty, decoding.length_offset) == (0.6, 5)
    assert (decoding.max_ratio, decoding.max_extra) == (1, 50)
    assert training.learning_rate == pytest.approx((512 * 4000) ** -0.5, rel=0.01)
    assert 22_000 < training.max_tokens * training.accumulate < 28_000
    assert base.transformer(37_000, 37_000).norm_order == "post"
    big = load_config(read_recipe("paper-big"), {})
    assert (big.training.max_steps, big.model["dropout"], big.training.average) == (
        300_000,
        0.3,
        20,
    )


def test_an_unknown_recipe_suggests_the_nearest():
    with pytest.raises(UsageError, match=r"no recipe 'tinny' \(did you mean 'tiny'\?\); choose base, "):
        read_recipe("tinny")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [2\nc: 3\n", "line 3 is not YAML"),
        ("a: 1\nb: \x07\n", "is not YAML"),
        ("seed: " + "1" * 5000, "is not YAML"),
        ("seed: 2020-13-01", "is not YAML"),
        ("seed: " + "[" * 5000, "is not YAML"),
        ("- seed\n- 3\n", "not a list"),
        ("seed\n", "not a str"),
    ],
)
def test_a_recipe_that_is_none_is_refused_with_its_name(tmp_path: Path, text: str, message: str):
    file = tmp_path / "bad.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=f"{re.escape(str(file))}.*{message}") as caught:
        read_recipe(str(file))
    assert "\n" not in str(caught.value)


def test_an_empty_recipe_is_all_defaults(tmp_path: Path):
    (tmp_path / "empty.yaml").write_text("# nothing\n", encoding="utf-8")
    assert read_recipe(str(tmp_path / "empty.yaml")) == {}


def test_a_recipe_can_run_no_code(tmp_path: Path):
    file = tmp_path / "evil.yaml"
    file.write_text(f"seed: !!python/object/apply:os.mkdir ['{tmp_path / 'made'}']\n", encoding="utf-8")
    with pytest.raises(DataError):
        read_recipe(str(file))
    assert not (tmp_path / "made").exists()


def test_only_what_is_spelled_alike_is_suggested():
    assert did_you_mean("warmpu", ["warmup", "seed"]) == " (did you mean 'warmup'?)"
    assert did_you_mean("xyz", ["warmup", "seed"]) == ""


@pytest.mark.parametrize("section", ["data", "tokenizer", "training", "decoding"])
def test_every_setting_is_documented(section: str):
    kind = RunConfig.model_fields[section].annotation
    assert kind.descriptions().keys() == kind.model_fields.keys()


def test_another_ratio_takes_the_place_of_the_whole_rule_for_the_shortest_length():
    stored = {"decoding": {"min_ratio": 0.85, "min_slack": 0.9, "beam_size": 3}}
    changed = load_config(stored, {"decoding": {"min_ratio": 0.5}}).decoding
    assert (changed.min_ratio, changed.min_slack, changed.beam_size) == (0.5, None, 3)
    kept = load_config(stored, {"decoding": {"beam_size": 2}}).decoding
    assert (kept.min_ratio, kept.min_slack) == (0.85, 0.9)
    both = load_config(stored, {"decoding": {"min_ratio": 0.5, "min_slack": 0.1}}).decoding
    assert (both.min_ratio, both.min_slack) == (0.5, 0.1)


def test_a_config_without_a_shortest_length_is_read_back_without_one():
    """So a resumed run, or one with the recipe of another, still finds its own."""
    again = load_config(yaml.safe_load(load_config({}, {}).to_yaml()), {}).decoding
    assert (again.min_ratio, again.min_slack) == (None, None)


def test_a_share_of_pairs_that_occur_several_times_is_refused():
    corpora = [{"source": "a.tsv", "weight": 4}]
    with pytest.raises(UsageError, match="above 1"):
        load_config({}, {"data": {"corpora": corpora, "share": 0.5}})


def test_columns_of_the_section_are_those_of_corpora_that_name_none():
    corpora = [{"source": "a.tsv"}, {"source": "b.tsv", "columns": [3, 4], "language_column": 5}]
    data = load_config({}, {"data": {"corpora": corpora, "columns": [1, 2], "language_column": 6}}).data
    assert [(corpus.columns, corpus.language_column) for corpus in data.sources] == [((1, 2), 6), ((3, 4), 5)]


def test_held_out_files_of_a_corpus_are_read_by_the_same_columns_as_the_corpus():
    corpora = [{"source": "a.tsv", "valid": ["v.tsv"]}, {"source": "b.tsv", "test": ["t.tsv"], "columns": [3, 4]}]
    data = load_config({}, {"data": {"corpora": corpora, "columns": [2, 1], "language_column": 6}}).data
    ((_, valid),), ((_, test),) = data.held_out_files("valid"), data.held_out_files("test")
    assert [(corpus.columns, corpus.language_column) for corpus in (valid, test)] == [((2, 1), 6), ((3, 4), 6)]


@pytest.mark.parametrize("key", ["data.language_column", "finetune.add_language"])
def test_norwegian_is_no_negation(key):
    section, name = key.split(".")
    model = {"finetune": {"model": "base"}}
    config = load_config({}, merged(model, {section: {name: yaml.safe_load("no")}}))
    assert getattr(getattr(config, section), name) in ("no", ["no"])
