"""What the notebooks' recipes reach, beside the notebooks.

    .venv/bin/python benchmarks/notebooks.py random [--epochs 14] [--without-feed-forward] [--notebook FILE]
    .venv/bin/python benchmarks/notebooks.py standardised RUN [RUN ...]

`random` is notebook B's experiment with our parts: 64 pairs of 100 random ids, the architecture and the optimizer of
the recipe notebook-postnorm, and for each epoch the loss before its step. Where the notebook's text is found (FILE),
its own classes learn the same pairs in turn, and are what ours are compared with; else it is what the notebook printed.
Its decoder has no feed-forward network, since the line that should make one adds the positions again. That line is
repaired, or with --without-feed-forward ours does the same (`model.decoder_feed_forward=positions`).

`standardised` translates the test pairs of runs, and prints BLEU as it is and without case and marks, which notebook D
leaves out, so that models which write them can be compared with models that do not.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.config.recipes import read_recipe
from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import parse_settings
from dragoman.data.batching import Batch
from dragoman.decoding.translator import Translator
from dragoman.metrics import MAIN
from dragoman.metrics.metric import Translations
from dragoman.model import Transformer
from dragoman.model.loss import LossOptions
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.processes import available_workers
from dragoman.text.tokenizers.algorithms import blank
from dragoman.training.loss import batch_loss
from dragoman.training.optimizer import build_optimizer
from peers.notebooks import POSTNORM, definitions

VOCABULARY, PAIRS, LENGTH = 5000, 64, 100
PRINTED = dict(enumerate((8.677, 8.606, 8.556, 8.514, 8.480, 8.448, 8.418, 8.391, 8.368, 8.345), start=1)) | {
    14: 8.240, 20: 8.077, 25: 7.933, 31: 7.746,
}  # fmt: skip
"""Losses that the notebook prints, its decoder as it is."""
REPAIRED = {1: 8.683, 10: 7.971, 14: 7.643}
"""Losses that the notebook prints with its decoder repaired."""


Pairs = tuple[Tensor, Tensor]


def random_ids(seed: int) -> Pairs:
    """The sources and the targets, as the notebook draws them."""
    generator = torch.Generator().manual_seed(seed)
    source, target = (torch.randint(1, VOCABULARY, (PAIRS, LENGTH), generator=generator) for _ in range(2))
    return source, target


def our_losses(config: RunConfig, pairs: Pairs) -> Iterator[float]:
    """The loss of each epoch, endlessly."""
    source, target = pairs
    model = Transformer(config.transformer(VOCABULARY, VOCABULARY)).train()
    training = config.training
    optimizer = build_optimizer(model, training)
    for group in optimizer.param_groups:
        group["lr"] = training.learning_rate
    # The notebook has no ids that begin and end a sentence: each predicts the next.
    batch = Batch(source, target[:, :-1], target[:, 1:])
    while True:
        total, count = batch_loss(model, batch, LossOptions(0, training.label_smoothing))
        loss = total / count
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        yield loss.item()


def their_losses(config: RunConfig, notebook: Path, pairs: Pairs, *, feed_forward: bool) -> Iterator[float]:
    """The loss of each epoch, endlessly, of the notebook's own classes in the sizes of our model."""
    classes = definitions(notebook, feed_forward=feed_forward)
    ours, (source, target) = config.transformer(VOCABULARY, VOCABULARY), pairs
    sizes = ours.d_model, ours.num_heads, ours.num_encoder_layers, ours.d_ff
    model = classes["Transformer"](VOCABULARY, VOCABULARY, *sizes, LENGTH, ours.dropout).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0001, betas=(0.9, 0.98), eps=1e-9)
    while True:
        logits = model(source, target[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def compare_random(arguments: argparse.Namespace) -> None:
    """A line for each epoch."""
    feed_forward = not arguments.without_feed_forward
    kind = "network" if feed_forward else "positions"
    settings = [f"model.decoder_feed_forward={kind}", *arguments.settings]
    config = load_config(read_recipe("notebook-postnorm"), parse_settings(settings))
    pairs = random_ids(arguments.seed)
    torch.manual_seed(arguments.seed)
    known = REPAIRED if feed_forward else PRINTED
    ours, theirs = our_losses(config, pairs), None
    if arguments.notebook.is_file():
        theirs = their_losses(config, arguments.notebook, pairs, feed_forward=feed_forward)
    print("| epoch | notebook | dragoman | difference |\n| ---: | ---: | ---: | ---: |")
    for epoch in range(1, arguments.epochs + 1):
        loss, reference = next(ours), next(theirs) if theirs else known.get(epoch)
        difference = f"{100 * (loss / reference - 1):+.2f} %" if reference else ""
        print(f"| {epoch} | {f'{reference:.3f}' if reference else ''} | {loss:.3f} | {difference} |", flush=True)


def compare_standardised(arguments: argparse.Namespace) -> None:
    """A row for each run."""
    print("| run | test pairs | BLEU | BLEU standardised | token accuracy |\n| --- | ---: | ---: | ---: | ---: |")
    standardise = blank("word", "lowercase").normalizer.normalize_str
    for path in arguments.runs:
        directory, loaded = RunDirectory(path), ModelDirectory.load(path)
        config = load_config(read_recipe(str(directory.config)), {})
        sources, references = zip(*directory.pairs("test"), strict=True)
        with Translator(loaded, precision="auto", workers=available_workers()) as translator:
            texts = [translation.text for translation in translator.translate(sources, config.decoding, split=False)]
        plain = MAIN.count(Translations(texts, references)).value()
        bare = MAIN.count(Translations([*map(standardise, texts)], [*map(standardise, references)])).value()
        accuracy = json.loads(directory.evaluation.read_bytes())["token_accuracy"]
        print(f"| {path} | {len(texts):,} | {plain:.1f} | {bare:.1f} | {100 * accuracy:.1f} % |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("random")
    verb.add_argument("settings", nargs="*", help="key=value, as for `dragoman train`")
    verb.add_argument("--epochs", type=int, default=14)
    verb.add_argument("--seed", type=int, default=1)
    verb.add_argument("--without-feed-forward", action="store_true")
    verb.add_argument("--notebook", type=Path, default=POSTNORM)
    verb.set_defaults(run=compare_random)
    verb = verbs.add_parser("standardised")
    verb.add_argument("runs", type=Path, nargs="+")
    verb.set_defaults(run=compare_standardised)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
