"""Training speed beside other people's models: the same batches, step by step in turn, in one process.

    .venv/bin/python benchmarks/training.py SOURCE TARGET [--size tiny] [--steps 10] [--rounds 5] [key=value ...]

Tokens are source and target tokens without padding, of 8,000 shared BPE tokens and batches of 4,096 target tokens.
Everybody has dropout 0.1, label smoothing 0.1, Adam and gradients clipped at 1; Dragoman does what `dragoman train`
does in a step, with its own optimizer where its defaults name another. Each peer is tried in float32 and under
bfloat16 autocast, x-transformers also with and without PyTorch's fused attention, and runs as it was quickest.
Whole toolkits have a command of their own, toolkits.py.
"""

import argparse

import environment
from table import Table, add_options, show, tournament, training_parser


def main() -> None:
    parser = training_parser(__doc__)
    parser.add_argument("--steps", type=int, default=10, help="steps of each contestant in a round (default 10)")
    add_options(parser)
    arguments = parser.parse_intermixed_args()
    environment.enter("peers")
    show([measure(size, arguments) for size in arguments.size or ["tiny"]], arguments)


def measure(size: str, arguments: argparse.Namespace) -> Table:
    """The table of one size."""
    from dragoman.cli import tune_process

    tune_process()
    from corpus import prepared
    from steps import contestants

    table = Table(f"Training, {size}", "tokens/s", [], ("transformers", "x-transformers"))
    with (
        prepared(arguments.source, arguments.target, size=size, settings=arguments.settings) as corpus,
        contestants(corpus, arguments.steps) as (taking_part, table.notes),
    ):
        table.rows = tournament(taking_part, arguments.rounds)
    return table


if __name__ == "__main__":
    main()
