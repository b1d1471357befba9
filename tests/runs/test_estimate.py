"""The memory of a process, computed beforehand, is what sharding leaves on it."""

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.model import Transformer
from dragoman.model.loss import LossOptions
from dragoman.runs.estimate import activation_bytes, estimate
from dragoman.system.ranks import Ranks
from dragoman.training.low_rank import adapt
from dragoman.training.parallel import ShardedExecutor

VOCAB = 37_000


@pytest.fixture
def one_of_64():
    """The first rank of 8 machines with 8 GPUs, whose other ranks are not there."""
    ranks = Ranks()
    ranks.size = 64
    dist.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
    yield ranks
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("size", ["base", pytest.param("big", marks=pytest.mark.slow)])
def test_each_of_64_ranks_has_its_part_of_the_weights(size: str, one_of_64: Ranks):
    config = load_config(
        {}, parse_settings([f"size={size}", f"tokenizer.vocab_size={VOCAB}", "training.max_tokens=524288"])
    )
    with torch.device("meta"):
        model = Transformer(config.transformer(VOCAB, VOCAB))
    numbers = sum(weight.numel() for weight in model.parameters())
    ShardedExecutor(model, torch.float32, LossOptions(0), one_of_64)
    local_numbers = sum(weight.to_local().numel() for weight in model.parameters())
    estimates = {(memory.ranks, memory.parallel): memory for memory in estimate(config)}
    assert estimates[1, "ddp"].weights == 4 * numbers
    # A rank has whole rows of each weight: a few more than its share.
    assert estimates[64, "fsdp"].weights == pytest.approx(4 * local_numbers, rel=0.02)


@pytest.mark.slow
def test_activations_grow_with_tokens_and_muon_keeps_less_than_adam():
    def memory(*settings: str) -> dict:
        config = load_config({}, parse_settings(["size=base", f"tokenizer.vocab_size={VOCAB}", *settings]))
        return estimate(config)[0].to_dict()

    small, large = (memory(f"training.max_tokens={tokens}") for tokens in (25_600, 51_200))
    assert 1.8 < large["activations"] / small["activations"] <= 2
    adam = memory("training.optimizer=adam")
    assert adam["optimizer"] == 2 * adam["weights"]
    assert adam["weights"] < memory("training.optimizer=muon")["optimizer"] < adam["optimizer"]


def test_factors_are_no_activations():
    def kept(rank: int) -> int:
        config = load_config({}, parse_settings(["size=tiny", "tokenizer.vocab_size=300"]))
        with torch.device("meta"):
            model = Transformer(config.transformer(300, 300))
        adapt(model, rank=rank)
        return activation_bytes(model, 64, config)

    assert kept(64) == kept(1)
