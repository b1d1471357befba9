"""How long an optimizer takes for one update of all matrices of a model, without the gradient.

    .venv/bin/python benchmarks/updates.py [--size tiny] [--size base] [--rounds 5] [--threads 2]

Muon with our three polynomials, with five steps of Newton and Schulz, as PyTorch computes it (one matrix after the
other, five steps), and Adam. All have the same random gradients, and take turns. Printed are medians in milliseconds,
with the lowest and the highest round.
"""

import argparse
import time
from statistics import median

import torch

from dragoman.model import Transformer, TransformerConfig
from dragoman.model.transformer import linear_maps
from dragoman.training.muon import NEWTON_SCHULZ, Muon

VOCABULARY = 8_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", choices=("tiny", "small", "base", "big"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    names = ("three polynomials", "five steps", "torch.optim.Muon", "Adam")
    print(f"{arguments.threads} threads, float32 unless the processor has bfloat16; milliseconds")
    print(f"| size | {' | '.join(names)} |\n| --- |{' ---: |' * len(names)}")
    for size in arguments.size or ["tiny", "small", "base"]:
        print(f"| {size} | {' | '.join(cells(size, arguments.rounds))} |", flush=True)


def cells(size: str, rounds: int) -> list[str]:
    """The times of each optimizer for a model of this size."""
    config = TransformerConfig.preset(size, source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY)
    matrices = [linear.weight for linear in linear_maps(Transformer(config))]
    for matrix in matrices:
        matrix.grad = torch.randn_like(matrix)
    optimizers = [
        Muon(matrices),
        Muon(matrices, polynomials=NEWTON_SCHULZ),
        torch.optim.Muon(matrices, lr=0.0),
        torch.optim.Adam(matrices, lr=0.0, fused=True),
    ]
    times: list[list[float]] = [[] for _ in optimizers]
    for _ in range(rounds + 1):
        for optimizer, of_optimizer in zip(optimizers, times, strict=True):
            began = time.perf_counter()
            optimizer.step()
            of_optimizer.append(1e3 * (time.perf_counter() - began))
    return [f"{median(later):,.0f} ({min(later):,.0f}-{max(later):,.0f})" for _, *later in times]


if __name__ == "__main__":
    main()
