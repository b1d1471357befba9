"""What the tables of benchmarks/ conclude from what was measured, on figures that can be checked by hand."""

import argparse
import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.counts import forward_flops, training_flops
from benchmarks.table import Contestant, Row, Table, number, show, tournament
from dragoman.data.batching import Batch
from dragoman.model import Transformer, TransformerConfig

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/scale.py, whose neighbours are found as when it is run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("scale")


def table(*, times: bool = False) -> Table:
    rows = [Row("Dragoman", "", [6.0, 30.0, 12.0]), Row("slow", "", [3.0]), Row("fast", "", [4.0, 8.0, 7.0, 5.0])]
    return Table("title", "tokens/s", rows, times=times, machine="here")


def test_ratios_are_of_medians_to_that_of_the_best_peer():
    # Medians 12, 3 and 6; of times the smallest is the best.
    assert [row["ratio"] for row in table().to_dict()["rows"]] == [2.0, 0.5, 1.0]
    assert [row["ratio"] for row in table(times=True).to_dict()["rows"]] == [4.0, 1.0, 2.0]


def test_the_best_row_is_printed_first():
    first = [line.split("|")[1].strip() for line in str(table()).splitlines()[4:7]]
    assert first == ["Dragoman", "fast", "slow"]
    first = [line.split("|")[1].strip() for line in str(table(times=True)).splitlines()[4:7]]
    assert first == ["slow", "fast", "Dragoman"]


@pytest.mark.parametrize(
    ("times", "goal", "beside", "reached"),
    [
        (False, 2.0, None, True),
        (False, 2.1, None, False),
        (False, 4.0, "slow", True),
        (True, 2.0, "fast", True),
        (True, 1.9, "fast", False),
    ],
)
def test_a_goal_that_is_missed_ends_with_an_error(times: bool, goal: float, beside: str | None, reached: bool, capsys):
    arguments = argparse.Namespace(json=True, goal=goal, beside=beside)
    if reached:
        show([table(times=times)], arguments)
    else:
        with pytest.raises(SystemExit, match=f"falls short of {goal:g} times"):
            show([table(times=times)], arguments)
    assert json.loads(capsys.readouterr().out)[0]["machine"] == "here"


def test_each_runs_at_its_best_setting_in_turn():
    calls: list[str] = []

    def run(name: str, rate: float):
        return lambda: calls.append(name) or rate

    contestants = [Contestant("a", {"1": run("a1", 5.0), "2": run("a2", 7.0)}), Contestant("b", {"": run("b", 3.0)})]
    rows = tournament(contestants, rounds=2)
    assert [(row.setting, row.values) for row in rows] == [("2", [7.0, 7.0]), ("", [3.0, 3.0])]
    assert calls[-4:] == ["a2", "b", "a2", "b"]


def test_a_power_is_found_again(scale: ModuleType):
    growth = scale.Growth.of({size: 3 * size**1.5 for size in (2.0, 5.0, 11.0)})
    assert growth.exponent == pytest.approx(1.5)
    assert growth.at(100) == pytest.approx(3000)


def test_numbers_keep_three_digits():
    assert [number(value) for value in (12345.6, 99.94, 0.123456)] == ["12,346", "99.9", "0.123"]


@pytest.mark.parametrize(
    "choices", [{"activation": "relu"}, {"activation": "swiglu"}, {"decoder_feed_forward": "positions"}], ids=str
)
def test_counted_operations_are_those_of_the_products(choices: dict[str, str]):
    sizes = {"source_vocab_size": 31, "target_vocab_size": 37, "d_model": 12, "d_ff": 20, "num_heads": 3}
    config = TransformerConfig(**sizes, num_encoder_layers=2, num_decoder_layers=3, **choices)
    model = Transformer(config).train()  # not what the compiled kernel does, which no counter sees
    source, target = torch.randint(4, 31, (1, 7)), torch.randint(4, 37, (1, 5))
    with FlopCounterMode(display=False) as counter:
        model(source, target)
    assert forward_flops(config, 7, 5) == counter.get_total_flops()
    batch = Batch(torch.tensor([[5, 6, 3], [5, 0, 0]]), torch.zeros(2, 2).long(), torch.tensor([[7, 3], [3, 0]]))
    assert training_flops(config, [batch]) == 3 * (forward_flops(config, 3, 2) + forward_flops(config, 1, 1))
