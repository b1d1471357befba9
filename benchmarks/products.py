"""The share of matrix products in a step of training, on one thread: what is left to gain, and what nobody can.

    .venv/bin/python benchmarks/products.py SOURCE TARGET [--size tiny] [--steps 3] [--rounds 5] [key=value ...]

A step is that of `dragoman train`, the optimizer included, on the batches of training.py. Its products are counted by
PyTorch while the same steps are taken in float32, where all of them are PyTorch's. Beside their speed stands that of
large products in bfloat16, 2,048 numbers each way; at that speed they would take `share` of the step, and a step that
were nothing but products would be as fast as `limit` says. Times are those of the process, medians of all rounds.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import environment
from table import training_parser

LARGE = 2_048


def main() -> None:
    parser = training_parser(__doc__)
    parser.add_argument("--steps", type=int, default=3, help="steps of a round (default 3)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    arguments = parser.parse_intermixed_args()
    environment.enter("peers")
    from dragoman.cli import tune_process

    tune_process()
    import torch

    torch.set_num_threads(1)
    print("| size | tokens/s | GFLOP for 1,000 tokens | GFLOP/s | of large products | share | limit, tokens/s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in arguments.size or ["tiny"]:
        print(row(size, arguments), flush=True)


def row(size: str, arguments: argparse.Namespace) -> str:
    """The line of one size."""
    from torch.utils.flop_counter import FlopCounterMode

    from corpus import prepared
    from steps import our_tokens, our_trainer

    with prepared(arguments.source, arguments.target, size=size, settings=arguments.settings) as corpus:
        with our_trainer(corpus, "float32") as plain, FlopCounterMode(display=False) as counter:
            tokens = our_tokens(plain, arguments.steps)
            flops = counter.get_total_flops() / tokens
        with our_trainer(corpus, "bfloat16") as ours:
            our_tokens(ours, 1)
            speeds, larges = zip(*(one_round(ours, arguments.steps) for _ in range(arguments.rounds)), strict=True)
    speed, large = median(speeds), median(larges)
    reached, limit = speed * flops / 1e9, large / flops
    return (
        f"| {size} | {speed:,.0f} | {flops / 1e6:,.1f} | {reached:,.0f} | {large / 1e9:,.0f} | {speed / limit:.0%} | "
        f"{limit:,.0f} |"
    )


def one_round(trainer: object, steps: int) -> tuple[float, float]:
    """Tokens a second in some steps, and FLOP a second of large products right after them."""
    import torch

    from steps import our_tokens

    tokens, seconds = timed(lambda: our_tokens(trainer, steps))
    matrix = torch.ones(LARGE, LARGE, dtype=torch.bfloat16)
    _, of_product = timed(lambda: [matrix @ matrix for _ in range(4)])
    return tokens / seconds, 4 * 2 * LARGE**3 / of_product


def timed(work: Callable[[], object]) -> tuple[object, float]:
    """The result of `work`, and the seconds of processor time that it took."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


if __name__ == "__main__":
    main()
