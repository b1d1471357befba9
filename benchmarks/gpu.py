"""All that is measured on a GPU, in one call: how much of it training uses, and translating beside CTranslate2.

    .venv/bin/python benchmarks/gpu.py SOURCE TARGET [--size base --size big] [--max-tokens 25000] [key=value ...]

First the ceiling: the quickest product of two square matrices in bfloat16. Then steps of `dragoman train`, and what
they multiply (counts.py) as a share of the ceiling. Then the sentences of SOURCE, translated with random weights of
each size that cannot end a sentence, greedily and with beam 5, by Dragoman in bfloat16 and by CTranslate2 in float16,
each in batches of the best of three sizes. `--device cpu` tries the command where there is no GPU.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import environment
from table import OURS, Contestant, Row, Table, add_options, number, rate, show, tournament

BATCHES = (8192, 32_768, 131_072)
"""Tokens of a batch to translate, of which each engine takes the best."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("settings", nargs="*", help="key=value, as for `dragoman train`")
    parser.add_argument("--size", action="append", help="repeatable; default base and big")
    parser.add_argument("--steps", type=int, default=50, help="of training in a round (default 50)")
    parser.add_argument("--max-tokens", type=int, default=25_000, help="target tokens of a batch (default 25,000)")
    parser.add_argument("--sentences", type=int, default=1000, help="to translate (default 1,000)")
    parser.add_argument("--matrix", type=int, default=8192, help="rows of the ceiling's matrices (default 8,192)")
    parser.add_argument("--device", default="cuda", help="(default cuda)")
    add_options(parser, rounds=3)
    arguments = parser.parse_intermixed_args()
    arguments.size = arguments.size or ["base", "big"]
    environment.enter("peers")
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.exit(1, "There is no GPU that this PyTorch can use; --device cpu tries the command without one.\n")
    tables = [training(arguments, ceiling(arguments))]
    for size in arguments.size:
        tables += translation(arguments, size)
    show(tables, arguments)


def ceiling(arguments: argparse.Namespace) -> float:
    """Operations a second, the best of twenty products."""
    import torch

    a, b = (torch.randn(arguments.matrix, arguments.matrix, device=arguments.device).bfloat16() for _ in range(2))
    times = []
    for _ in range(20):
        _wait(arguments.device)
        started = time.perf_counter()
        a @ b
        _wait(arguments.device)
        times.append(time.perf_counter() - started)
    return 2 * arguments.matrix**3 / min(times)


def training(arguments: argparse.Namespace, top: float) -> Table:
    """A row for each size."""
    from corpus import prepared
    from counts import training_flops
    from dragoman.data.batching import Position
    from steps import our_tokens, our_trainer

    note = f"the ceiling is {top / 1e12:.3g} TFLOP/s, of a product of two matrices with {arguments.matrix:,} rows"
    table = Table("Training", "tokens/s", [], notes=[note])
    settings = [f"training.max_tokens={arguments.max_tokens}", *arguments.settings]
    for size in arguments.size:
        with (
            prepared(arguments.source, arguments.target, size=size, settings=settings) as corpus,
            our_trainer(corpus, "bfloat16", arguments.device) as trainer,
        ):
            our_tokens(trainer, 3)
            row, seconds, flops, targets = Row(OURS, size, []), 0.0, 0, 0
            for _ in range(arguments.rounds):
                position = Position(**vars(trainer.progress.position))
                started = time.perf_counter()
                tokens = our_tokens(trainer, arguments.steps)
                _wait(arguments.device)
                elapsed = time.perf_counter() - started
                row.values.append(tokens / elapsed)
                batches = [trainer.batches.next(position) for _ in range(arguments.steps)]
                flops += training_flops(trainer.model.config, batches)
                targets += sum(int((batch.labels != trainer.model.config.pad_id).sum()) for batch in batches)
                seconds += elapsed
            row.about = {
                "target tokens/s": number(targets / seconds),
                "TFLOP/s": f"{flops / seconds / 1e12:.3g}",
                "of the ceiling": f"{100 * flops / seconds / top:.0f} %",
                "MFLOP a target token": number(flops / targets / 1e6),
            }
            table.rows.append(row)
    return table


def translation(arguments: argparse.Namespace, size: str) -> list[Table]:
    """Both engines with the same random weights: a table for greedy search, and one for beam 5."""
    from corpus import prepared
    from dragoman.decoding.translator import Translator
    from dragoman.model import Transformer
    from dragoman.storage.model_directory import ModelDirectory
    from engines import CTranslate2, random_weights
    from peers.ctranslate import save
    from peers.marian import with_weights_of

    texts = arguments.source.read_text(encoding="utf-8").removesuffix("\n").split("\n")[: arguments.sentences]
    with (
        prepared(arguments.source, arguments.target, size="tiny", settings=arguments.settings) as corpus,
        TemporaryDirectory() as folder,
    ):
        tokenizers = corpus.data.source_tokenizer, corpus.data.target_tokenizer
        tiny = Transformer(corpus.config.transformer(corpus.vocab_size, corpus.vocab_size))
        directory = random_weights(ModelDirectory(tiny, *tokenizers), size)
        save(with_weights_of(directory.model), Path(folder))
        precision = "float16" if arguments.device == "cuda" else "float32"
        peer = CTranslate2("", directory, Path(folder), precision, BATCHES, False, arguments.device)
        directory.model.to(arguments.device)
        ours = Translator(directory, precision="bfloat16")

        def by_us(beam_size: int, batch: int) -> int:
            return len(ours.translate(texts, beam_size=beam_size, max_tokens=batch, max_copies=0, split=False))

        def by_peer(beam_size: int, batch: int) -> int:
            return len(peer.translate(texts, beam_size=beam_size, setting=batch))

        engines = {f"{OURS} bfloat16": by_us, f"CTranslate2 {precision}": by_peer}
        tables = []
        for beam_size, search in ((1, "greedy"), (5, "beam 5")):
            runs = {name: partial(run, beam_size) for name, run in engines.items()}
            taking_part = [
                Contestant(name, {f"{n:,} tokens": partial(rate, partial(run, n)) for n in BATCHES})
                for name, run in runs.items()
            ]
            rows = tournament(taking_part, arguments.rounds)
            packages = "transformers", "ctranslate2"
            tables.append(Table(f"Translation, {size}, {search}", "sentences/s", rows, packages))
    return tables


def _wait(device: str) -> None:
    """Wait until the device has finished."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
