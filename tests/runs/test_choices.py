"""Settings that are left open follow from the pairs, the minutes and the machine."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import parse_settings
from dragoman.config.training import TrainingConfig
from dragoman.errors import UsageError
from dragoman.model import TransformerConfig
from dragoman.runs.choices import (
    DECISIONS,
    SCHEDULE_WORDS,
    Resources,
    choose,
    choose_size,
    choose_training,
    needs_throughput,
)

PAIR = 30
"""Tokens of a caption and its translation."""


SPEEDS = {"tiny": 18_000, "small": 8_000, "base": 2_000, "big": 700}
"""Tokens that a machine trains on in a second."""


def chosen(settings=(), *, recipe=None, pairs=29_000, minutes=20.0, pair=PAIR, architecture=None, speeds=SPEEDS):
    config = load_config(
        recipe or {}, parse_settings([*settings, *([f"training.max_minutes={minutes}"] if minutes else [])])
    )
    resources = Resources(pairs, pairs * pair, cores=2, gpus=0)
    choose(config, resources)
    if needs_throughput(config):
        resources = replace(resources, throughput=speeds[config.size])
    choose_training(config, resources, architecture)
    return config


@pytest.mark.parametrize(
    ("pairs", "gpus", "size"),
    [
        (29_000, 0, "tiny"),
        (29_000, 1, "tiny"),
        (500_000, 0, "small"),
        (50_000_000, 0, "small"),
        (50_000_000, 1, "base"),
    ],
)
def test_the_size_follows_from_the_data_and_the_machine(pairs, gpus, size):
    assert choose_size(Resources(pairs, pairs * PAIR, cores=2, gpus=gpus)) == size


def test_pairs_that_are_seen_more_often_get_more_dropout():
    def dropout(pairs, minutes):
        return chosen(["size=tiny"], pairs=pairs, minutes=minutes).model["dropout"]

    by_time = [dropout(160_000, minutes) for minutes in (2, 20, 200, None, 20_000)]
    by_pairs = [dropout(pairs, 20) for pairs in (10**7, 10**6, 10**5, 10**4, 10**2)]
    for rates in (by_time, by_pairs):
        assert rates == sorted(rates)
        assert (rates[0], rates[-1]) == (0, 0.3)


def test_a_head_is_guided_where_pairs_have_the_same_tokens_in_each_epoch():
    assert chosen().training.guided_alignment == 0.1
    assert chosen().transformer(1000, 1000).guided_head
    assert chosen().transformer(1000, 1000).aligned_token == "read"
    without = "tokenizer.dropout=0.1", "training.joined=0.1", "training.guided_alignment=0", "tokenizer.kind=char"
    for setting in without:
        config = chosen([setting])
        assert not config.training.guided_alignment
        assert not config.transformer(1000, 1000).guided_head
        assert config.transformer(1000, 1000).aligned_token == "predicted"
    adapted = {"finetune": {"model": "runs/base"}}
    assert chosen(recipe=adapted).training.guided_alignment is None
    guided = adapted | {"model": {"guided_head": True}}
    assert chosen(recipe=guided).training.guided_alignment == 0.1
    assert chosen(recipe=guided).transformer(1000, 1000).aligned_token == "predicted"  # as the head was taught
    few = chosen(recipe=guided, pairs=500)
    assert few.training.guided_alignment is None
    assert few.transformer(1000, 1000).guided_head
    new = {"finetune": {"model": "runs/base", "vocabulary": "new"}, "model": {"guided_head": True}}
    assert not chosen(["tokenizer.dropout=0.1"], recipe=new).transformer(1000, 1000).guided_head


def test_sources_have_typos_where_pairs_are_enough_and_tokens_spell_them():
    assert chosen().training.typos == 0.2
    assert "typos in 20% of the sources" in chosen().chosen[1]
    assert chosen(["training.typos=0"]).training.typos == 0
    assert [chosen(pairs=pairs).training.typos for pairs in (2_999, 3_000, 2_000_000)] == [None, 0.2, None]
    for setting in ("tokenizer.kind=word", "tokenizer.dropout=0.1"):
        assert chosen([setting]).training.typos is None
    assert chosen(recipe={"finetune": {"model": "runs/base"}}).training.typos is None


def test_what_contradicts_a_guided_head_is_refused():
    for settings, words in (
        (["training.guided_alignment=0.1", "tokenizer.dropout=0.1"], "split words into others in each epoch"),
        (["training.guided_alignment=0.1", "training.joined=0.1"], "than those that were aligned"),
        (["model.guided_head=true"], "needs training.guided_alignment"),
        (["model.aligned_token=read"], "`aligned_token` needs training.guided_alignment"),
        (["training.typos=0.1", "tokenizer.dropout=0.1"], "needs tokens that spell any word"),
        (["training.typos=0.1", "tokenizer.kind=word"], "needs tokens that spell any word"),
    ):
        with pytest.raises(UsageError, match=words):
            load_config({}, parse_settings(settings))


def test_r_drop_is_for_pairs_that_are_seen_often():
    assert [chosen(minutes=minutes).training.r_drop for minutes in (8, 20, 60)] == [0, 0, 3]
    assert chosen(minutes=60).model["dropout"] == 0.2
    assert "dropout 0.2, R-Drop 3, label smoothing 0.1" in chosen(minutes=60).chosen[1]
    assert [chosen(pairs=pairs, minutes=10).training.r_drop for pairs in (100, 1_000, 5_000)] == [0, 3, 0]
    assert chosen(pairs=27_000, pair=20, minutes=20).training.r_drop == 0  # many epochs in too few steps
    assert chosen(["training.r_drop=0"], minutes=60).training.r_drop == 0
    assert chosen(["model.dropout=0"], minutes=60).training.r_drop == 0
    settings = ([], ["training.r_drop=3"])
    assert [chosen(given, minutes=2).model["dropout"] for given in settings] == [0, 0.1]


def test_a_model_is_adapted_to_few_pairs_in_few_epochs():
    adapted = ["finetune.model=base", "model.d_model=128"]
    epochs = {pairs: chosen(adapted, pairs=pairs).training.max_epochs for pairs in (15, 1_000, 1_001)}
    assert epochs == {15: 20, 1_000: 20, 1_001: None}
    assert "20 epochs" in chosen(adapted, pairs=15, minutes=None).chosen[1]
    assert chosen([*adapted, "training.max_epochs=50"], pairs=15).training.max_epochs == 50
    assert chosen([*adapted, "training.max_steps=50"], pairs=15).training.max_epochs is None
    assert chosen([*adapted, "finetune.mix=[general.tsv]"], pairs=15).training.max_epochs is None
    assert chosen(pairs=15).training.max_epochs is None


def test_batches_and_with_them_the_rate_are_larger_where_pairs_are_seen_seldom():
    assert [chosen(pairs=pairs).training.max_tokens for pairs in (29_000, 160_000)] == [2048, 4096]
    assert chosen(["training.max_tokens=2048"], pairs=160_000).training.max_tokens == 2048
    rates = [chosen(pairs=pairs).training.learning_rate for pairs in (29_000, 160_000)]
    assert rates == pytest.approx([0.008, 0.008 * 2**0.5])
    assert chosen(["training.learning_rate=0.008"], pairs=160_000).training.learning_rate == 0.008


def test_short_sentences_are_seen_more_often_in_the_same_time():
    short, long = (chosen(pairs=100_000, pair=size) for size in (15, 150))
    assert (short.model["dropout"], long.model["dropout"]) == (0.1, 0)


def test_what_is_set_is_not_chosen():
    """Be it by a recipe or on the command line, and even if it is set to the default."""
    settings = ["training.learning_rate=8e-3", "model.dropout=0.5", "tokenizer.vocab_size=777", "training.warmup=9"]
    config = chosen(settings, recipe={"size": "base", "training": {"max_tokens": 99}})
    training = config.training
    assert (config.size, config.model["dropout"], config.tokenizer.vocab_size) == ("base", 0.5, 777)
    assert (training.learning_rate, training.warmup, training.max_tokens) == (8e-3, 9, 99)


def test_positions_are_rotary_where_heads_can_be_turned():
    assert chosen().model["positions"] == "rotary"
    assert "positions" not in chosen(["model.num_heads=6", "model.d_model=30"]).model
    assert "positions" not in chosen(["model.decoder_feed_forward=positions"]).model  # these are sinusoidal
    assert chosen(["model.positions=learned"]).model["positions"] == "learned"


def test_rates_fall_with_the_width_and_adam_has_a_quarter_of_muons():
    rates = [chosen(recipe={"size": size}).training.learning_rate for size in ("tiny", "small", "base", "big")]
    assert rates == sorted(rates, reverse=True)
    adam = chosen(["training.optimizer=adam"], recipe={"size": "base"}).training
    assert adam.learning_rate == pytest.approx(rates[2] / 4) == pytest.approx(7e-4, rel=0.02)  # the paper's
    assert adam.warmup > chosen().training.warmup


def test_three_lines_tell_what_was_chosen_and_from_what():
    size, epochs, optimizer = chosen(["training.decay=0.25"], minutes=90.0).chosen
    assert "29,000 pairs and 2 CPU cores: size tiny (4 + 4 layers of width 128)" in size
    assert "8,000" in size
    assert "For 90 minutes at 18,000 tokens a second, about 100 epochs: dropout 0.2" in epochs
    assert optimizer == ("Muon with a learning rate of 0.008, constant, and falling to 0 in the last 25% of the steps.")
    assert "For a night at 18,000 tokens a second, about 670 epochs" in chosen(minutes=None).chosen[1]


def test_steps_and_epochs_limit_how_often_pairs_are_seen():
    for settings in (["training.max_steps=500"], ["training.max_epochs=3"]):
        assert chosen(settings, minutes=None).model["dropout"] == 0
        assert chosen(settings, minutes=None, pairs=100).model["dropout"] == (0.3 if "steps" in settings[0] else 0)


def test_pretrained_models_of_others_go_on_at_a_gentle_rate():
    settings = ["finetune.model=base", "training.max_tokens=2048", "model.d_model=128"]
    kinds = [{}, {"pad_id": 7, "bos_id": 7}, {"positions": "sinusoidal-fairseq"}]
    models = [TransformerConfig(source_vocab_size=9, target_vocab_size=9, **kind) for kind in kinds]
    rates = [chosen(settings, architecture=model).training.learning_rate for model in models]
    assert rates == pytest.approx([0.008, 0.002, 0.002])


def test_a_large_model_that_is_gone_on_from_sees_pairs_less_often():
    lines = [chosen(["finetune.model=base", f"model.d_model={width}"]).chosen[1] for width in (128, 512)]
    epochs = [float(re.search(r"about ([\d.]+) epochs", line)[1]) for line in lines]
    assert epochs[0] > 5 * epochs[1]


def test_what_is_chosen_can_be_read_again():
    for pairs in (100, 3_000, 30_000, 195_000, 10**6):
        for minutes in (2, 20, 180, 600):
            config = chosen(pairs=pairs, minutes=minutes)
            assert RunConfig.validate(config.model_dump(mode="json")) == config


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda decision: decision.setting)
def test_each_decision_fills_in_a_setting_and_names_what_it_rests_on(decision):
    section, _, key = decision.setting.rpartition(".")
    if section == "model":
        assert key in TransformerConfig.__dataclass_fields__
    elif section:
        assert key in type(getattr(RunConfig(), section)).model_fields
    else:
        assert key in RunConfig.model_fields
    trials = (Path(__file__).parents[2] / "docs/trials.md").read_text(encoding="utf-8")
    follows = trials[trials.index("What follows from all of them") :]
    for name in re.findall(r"\*(.+?)\*", decision.reason):
        assert f"*{name}" in follows, name


def test_every_schedule_is_said_in_words():
    assert set(SCHEDULE_WORDS) == set(get_args(TrainingConfig.model_fields["schedule"].annotation))


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("limit", ["training.max_steps=50", "training.max_epochs=1"])
def test_a_schedule_that_ends_has_warmed_up_before(schedule, optimizer, limit):
    settings = [f"training.schedule={schedule}", f"training.optimizer={optimizer}", limit]
    training = chosen(settings, pairs=1_500, minutes=None).training
    steps = training.max_steps or training.max_epochs * 1_500 * PAIR / 2 / training.max_tokens
    assert 1 <= training.warmup <= max(1, steps / 3)
