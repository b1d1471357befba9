"""From sentence pairs to what training reads: held-out pairs, tokenizers and token ids, all in one folder."""

import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Self

from dragoman.config.run import RunConfig
from dragoman.data.batching import TokenBatches, TokenStore
from dragoman.data.bitext import Bitext, CleanedBitext, open_held_out
from dragoman.data.encoding import Encoder, TextTools, masked
from dragoman.data.mixing import mix_in
from dragoman.data.pair_file import PairFile, write_pairs
from dragoman.data.readers.types import Pair
from dragoman.data.soft_targets import SoftTargetStore
from dragoman.data.splitting import Splits, split
from dragoman.data.subword_regularization import training_stores
from dragoman.errors import DataError
from dragoman.text.characters import folded
from dragoman.text.labels import languages_in, only
from dragoman.text.language_codes import Languages
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer

Pairs = list[Pair]
TOKENIZER_PAIRS = 500_000
"""A tokenizer learns from about this many pairs at most: more of them change it little, but fill the memory."""


@dataclass
class About:
    """Facts on the data of a run, for messages and the model card."""

    source_language: str | None
    target_language: str | None
    train_pairs: int
    """Pairs of an epoch, after cleaning, splitting, weighting and the length limit."""
    dropped: dict[str, int]
    """Pairs that were left out, by reason."""
    leaked: list[int] = field(default_factory=list)
    """Indices of test pairs whose source sentence is trained on too, as after a split by line."""
    directions: list[tuple[str | None, str]] = field(default_factory=list)
    """Source and target languages that the model knows, if there are several pairs; their sources have labels."""
    occurrences: dict[str, float] = field(default_factory=dict)
    """How often pairs of each corpus, by its file, occur in an epoch, if `data.temperature` says it."""


@dataclass
class PreparedData:
    """The folder `run/data`, opened."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    style: SourceStyle
    train: TokenBatches
    valid: TokenBatches
    valid_pairs: Pairs
    test_pairs: Pairs
    general_pairs: Pairs
    """Pairs that a model is scored on before and after it is adapted to others; none in other runs."""
    about: About

    @classmethod
    def open(cls, folder: Path, config: RunConfig) -> Self:
        """Read what `prepare` wrote, of which the run has checked the seal."""
        tools = TextTools.load(folder, shared=config.tokenizer.shared)
        source, target = tools.tokenizers
        sizes = {"max_tokens": config.training.max_tokens, "special": (target.special_ids, source.closing)}
        batches = partial(TokenBatches, seed=config.seed, **sizes)
        files = [folder / f"{name}.json" for name in ("valid", "test", "general")]
        # Older runs have no general pairs.
        held_out = (json.loads(file.read_bytes()) if file.exists() else [] for file in files)
        valid, test, general = (list(map(tuple, pairs)) for pairs in held_out)
        about = About(**json.loads((folder / "about.json").read_bytes()))
        train_stores = training_stores(folder, (source, target), config)
        valid_stores = (TokenStore(folder / f"valid-{side}") for side in ("source", "target"))
        batched = batches(*train_stores), batches(*valid_stores)
        if config.training.soft_targets:
            batched[0].soft_targets = SoftTargetStore.open(folder, train_stores[1].ends)
        return cls(source, target, tools.style, *batched, valid, test, general, about)


def prepare(
    bitext: CleanedBitext | PairFile, config: RunConfig, folder: Path, *, kept: TextTools | None = None
) -> None:
    """Split, train the tokenizers on the training part, and write everything into `folder`.

    A run that goes on from a model, or has soft targets, keeps what another model turns text into ids with.
    """
    pairs = bitext if isinstance(bitext, PairFile) else write_pairs(bitext, config, near=folder)
    parts, general = split_off(pairs, config), list[Pair]()
    if config.finetune.model:
        mixture = mix_in(parts, config, pairs)
        general = mixture.general
        parts = parts._replace(train=write_pairs(mixture.train.cleaned(), config, near=folder))
    (folder / "general.json").write_text(json.dumps(general), encoding="utf-8")
    if TextTools.are_in(folder):  # a preparation that broke off has learnt them
        tools = TextTools.load(folder, shared=config.tokenizer.shared)
    else:
        tools = kept or _learn(parts.train, config, pairs.languages)
        tools.save(folder)
    about = _write(pairs, parts, tools, config, folder)
    about.occurrences = pairs.counts.occurrences(config.data)
    (folder / "about.json").write_text(json.dumps(asdict(about)), encoding="utf-8")


def _learn(train: PairFile, config: RunConfig, languages: tuple[str, str] | None) -> TextTools:
    vocabulary = train.sample(TOKENIZER_PAIRS)
    style = SourceStyle.learn(vocabulary)
    if config.tokenizer.pairs:
        vocabulary = Bitext.open(*config.tokenizer.pairs, languages=languages).cleaned()
    targets = dict.fromkeys(languages_in(found)[1] for found in train.counts.labels)
    several = [*targets] if len(targets) > 1 else []
    return TextTools(*_train_tokenizers(masked(vocabulary, config, style=style), config, several), style)


def _write(pairs: PairFile, parts: Splits, tools: TextTools, config: RunConfig, folder: Path) -> About:
    """Write everything but about.json, whose content is returned."""
    encoder = Encoder(tools, config, pairs.source_language)
    held_out = {"valid": list(parts.valid), "test": list(parts.test)}
    beyond = sum(_leave_out_beyond(each, encoder) for each in held_out.values())
    for name, part in held_out.items():
        # In a sorted corpus the first pairs, which are the ones looked at, would be no sample.
        random.Random(config.seed).shuffle(part)
        (folder / f"{name}.json").write_text(json.dumps(part), encoding="utf-8")
    kept, long = encoder.write_train(folder / "train", parts.train)
    kept_valid, _ = encoder.write(folder / "valid", held_out["valid"])
    for name, number in (("train", kept), ("valid", kept_valid), ("test", len(held_out["test"]))):
        if not number:
            raise DataError(
                f"{pairs.name} leaves no {name} pairs after cleaning, splitting and data.max_length = "
                f"{config.data.max_length}; give more pairs."
            )
    dropped = dict(pairs.report.dropped.most_common())
    if long:
        dropped[f"more than {config.data.max_length} tokens"] = long
    if beyond:
        dropped[f"held out, but longer than model.max_positions = {config.positions} admits"] = beyond
    directions = [*dict.fromkeys([*tools.directions, *map(languages_in, pairs.counts.labels)])]
    leaked = _leaked(parts.train, held_out["test"]) if config.data.split == "line" else []
    return About(*_languages(pairs, directions), kept, dropped, leaked, directions)


def _languages(pairs: PairFile, directions: list[tuple[str | None, str]]) -> Languages:
    """The only source language and the only target language, as far as there is one."""
    if not directions:
        return pairs.source_language, pairs.target_language
    return only(source for source, _ in directions), only(target for _, target in directions)


def split_off(pairs: PairFile, config: RunConfig) -> Splits:
    """Training, validation and test pairs; those in the files that a config names are not split off."""
    # What the user holds out is scored as it is; only what has no other side, or no positions, cannot be.
    opened = open_held_out(config.data, pairs.languages, labelled=bool(pairs.counts.labels))
    given = {name: part.cleaned() for name, part in opened.items()}
    if len(given) == 2:
        return Splits(pairs, **given)
    sizes = dict(zip(("valid", "test"), config.data.held_out, strict=True)) | dict.fromkeys(given, 0)
    return split(pairs, **sizes, seed=config.seed, by=config.data.split)._replace(**given)


def _leave_out_beyond(pairs: Pairs, encoder: Encoder) -> int:
    """Take out the pairs whose source, with its end, has more tokens than a model has positions; returns how many."""
    positions = encoder.config.positions
    if positions is None:
        return 0
    sources = (source for source, _ in encoder.prepared(pairs))
    fitting = [len(ids) < positions for ids in encoder.tools.source_tokenizer.encode_batch(sources)]
    pairs[:] = compress(pairs, fitting)
    return len(fitting) - len(pairs)


def _leaked(train: Bitext, test: Pairs) -> list[int]:
    """The indices of test pairs whose source sentence is in the training part too."""
    tested = {folded(source) for source, _ in test}
    trained = {sentence for source, _ in train if (sentence := folded(source)) in tested}
    return [index for index, (source, _) in enumerate(test) if folded(source) in trained]


def _train_tokenizers(
    train: Iterable[tuple[str, str]], config: RunConfig, targets: list[str]
) -> tuple[Tokenizer, Tokenizer]:
    """New tokenizers of source and target. `targets` are the languages whose tags the first one has as tokens."""
    settings = config.tokenizer
    symbols = [*settings.symbols, *(SLOTS if settings.placeholders else ())]
    options = settings.model_dump(include={"vocab_size", "kind", "standardisation", "min_frequency"})
    options["vocab_size"] -= len(targets)
    learn = partial(Tokenizer.train, **options, symbols=symbols)
    if settings.shared:
        both = learn(chain.from_iterable(train)).with_targets(targets)
        return both, both
    return learn(source for source, _ in train).with_targets(targets), learn(target for _, target in train)
