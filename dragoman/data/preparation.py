"""From sentence pairs to what training reads: held-out pairs, tokenizers and token ids, all in one folder."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, compress, groupby, starmap
from pathlib import Path
from typing import Self

from tokenizers import Encoding

from dragoman.config.run import RunConfig
from dragoman.data.batching import TokenBatches, TokenStore
from dragoman.data.bitext import Bitext, CleanedBitext, open_held_out
from dragoman.data.mixing import Mixture, mix_in
from dragoman.data.preprocessing import SourceStyle, source_rules
from dragoman.data.readers.types import Pair
from dragoman.data.splitting import Splits, split
from dragoman.data.text import folded, share
from dragoman.data.tokenizers.placeholders import SLOTS, mask_pair
from dragoman.data.tokenizers.pretrained import load_tokenizer
from dragoman.data.tokenizers.subword_regularization import training_stores, write_numbered
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.errors import DataError

Pairs = list[Pair]
TOKENIZER_PAIRS = 500_000
"""A tokenizer learns from about this many pairs at most: more of them change it little, but fill the memory."""
CHARACTERS_AT_ONCE = 2_000_000


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
        """Read what `prepare` wrote."""
        source = load_tokenizer(folder / "source_tokenizer.json")
        target = source if config.tokenizer.shared else load_tokenizer(folder / "target_tokenizer.json")
        sizes = {"max_tokens": config.training.max_tokens, "special": (target.special_ids, source.closing)}
        batches = partial(TokenBatches, seed=config.seed, **sizes)
        files = [folder / f"{name}.json" for name in ("valid", "test", "general")]
        # Older runs have no general pairs.
        held_out = (json.loads(file.read_bytes()) if file.exists() else [] for file in files)
        valid, test, general = (list(map(tuple, pairs)) for pairs in held_out)
        about = About(**json.loads((folder / "about.json").read_bytes()))
        train_stores = training_stores(folder, (source, target), config)
        valid_stores = (TokenStore(folder / f"valid-{side}") for side in ("source", "target"))
        # Runs of version 0.1.0 have none.
        style = SourceStyle.load(path) if (path := folder / "source_style.json").exists() else SourceStyle()
        batched = batches(*train_stores), batches(*valid_stores)
        return cls(source, target, style, *batched, valid, test, general, about)


@dataclass(frozen=True)
class TextTools:
    """What turns text into token ids: learnt from the training pairs, or that of a model to go on from."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    style: SourceStyle
    source_language: str | None = None

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.source_tokenizer, self.target_tokenizer


def prepare(bitext: CleanedBitext, config: RunConfig, folder: Path, *, kept: TextTools | None = None) -> None:
    """Split, train the tokenizers on the training part, and write everything into `folder`.

    A run that goes on from a model keeps what that one turns text into ids with.
    """
    num_pairs = bitext.report.weighted  # 0 if there was no pass yet
    # What the user holds out is scored as it is; only what has no other side, or no positions, cannot be.
    given = {name: part.cleaned() for name, part in open_held_out(config.data, bitext.languages).items()}
    if given:
        bitext = bitext.cleaned(held_out=given.values())
    with bitext.cached(folder / "pairs.jsonl"):
        parts = _split(bitext, given, config)
        mixture = mix_in(parts, config, bitext.languages) if config.finetune.model else Mixture(parts.train, [])
        (folder / "general.json").write_text(json.dumps(mixture.general), encoding="utf-8")
        parts = parts._replace(train=mixture.train)
        kept = kept or _learn(parts.train, num_pairs or bitext.report.weighted, config, bitext.languages)
        about = _write(bitext, parts, kept, config, folder)
    (folder / "about.json").write_text(json.dumps(asdict(about)), encoding="utf-8")


def _learn(train: Bitext, num_pairs: int, config: RunConfig, languages: tuple[str, str] | None) -> TextTools:
    vocabulary = _sample(train, num_pairs)
    style = SourceStyle.learn(vocabulary)
    if config.tokenizer.pairs:
        vocabulary = Bitext.open(*config.tokenizer.pairs, languages=languages).cleaned()
    return TextTools(*_train_tokenizers(_masked(vocabulary, config, style=style), config), style)


def _write(bitext: CleanedBitext, parts: Splits, tools: TextTools, config: RunConfig, folder: Path) -> About:
    """Write everything but about.json, whose content is returned."""
    tokenizers, style = tools.tokenizers, tools.style
    rules = source_rules(style, tools.source_language or bitext.source_language)

    def masked(pairs: Iterable[Pair], *, practice: bool = False) -> Iterable[Pair]:
        if style.punctuation:
            pairs = Bitext(lambda raw=pairs: ((rules(source), target) for source, target in raw), name="rules")
        return _masked(pairs, config, style=style, practice=practice)

    held_out = {"valid": list(parts.valid), "test": list(parts.test)}
    beyond = sum(_leave_out_beyond(pairs, masked(pairs), tokenizers[0], config) for pairs in held_out.values())
    for name, pairs in held_out.items():
        # In a sorted corpus the first pairs, which are the ones looked at, would be no sample.
        random.Random(config.seed).shuffle(pairs)
        (folder / f"{name}.json").write_text(json.dumps(pairs), encoding="utf-8")
    limit = config.data.max_length
    train, valid = masked(parts.train, practice=True), masked(held_out["valid"])
    counts = _write_stores(folder / "train", train, tokenizers, limit, sampled=config.tokenizer.samples)
    valid_counts = _write_stores(folder / "valid", valid, tokenizers, limit)
    for name, number in (("train", counts["kept"]), ("valid", valid_counts["kept"]), ("test", len(held_out["test"]))):
        if not number:
            raise DataError(
                f"{bitext.name} leaves no {name} pairs after cleaning, splitting and data.max_length = {limit}; "
                "give more pairs."
            )
    for side, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        tokenizer.save(folder / f"{side}_tokenizer.json")
    (folder / "source_style.json").write_text(style.model_dump_json(), encoding="utf-8")
    dropped = dict(bitext.report.dropped.most_common())
    if counts["long"]:
        dropped[f"more than {limit} tokens"] = counts["long"]
    if beyond:
        dropped[f"held out, but longer than model.max_positions = {config.positions} admits"] = beyond
    leaked = _leaked(parts.train, held_out["test"]) if config.data.split == "line" else []
    return About(bitext.source_language, bitext.target_language, counts["kept"], dropped, leaked)


def _split(bitext: CleanedBitext, given: dict[str, CleanedBitext], config: RunConfig) -> Splits:
    """Training, validation and test pairs; those in the files that a user has `given` are not split off."""
    if len(given) == 2:
        return Splits(Bitext(bitext.weighted, name=bitext.name), **given)
    sizes = dict(zip(("valid", "test"), config.data.held_out, strict=True)) | dict.fromkeys(given, 0)
    return split(bitext, **sizes, seed=config.seed, by=config.data.split)._replace(**given)


def _leave_out_beyond(pairs: Pairs, masked: Iterable[Pair], tokenizer: Tokenizer, config: RunConfig) -> int:
    """Take out the pairs whose source, with its end, has more tokens than a model has positions; returns how many."""
    positions = config.positions
    if positions is None:
        return 0
    fitting = [len(ids) < positions for ids in tokenizer.encode_batch(source for source, _ in masked)]
    pairs[:] = compress(pairs, fitting)
    return len(fitting) - len(pairs)


def _leaked(train: Bitext, test: Pairs) -> list[int]:
    """The indices of test pairs whose source sentence is in the training part too."""
    tested = {folded(source) for source, _ in test}
    trained = {sentence for source, _ in train if (sentence := folded(source)) in tested}
    return [index for index, (source, _) in enumerate(test) if folded(source) in trained]


def _sample(train: Bitext, num_pairs: int) -> Bitext:
    """The pairs that tokenizers learn from; which ones of too many follows from their text, not from their order."""
    part = TOKENIZER_PAIRS / max(1, num_pairs)
    return Bitext(lambda: (pair for pair in train if share(pair, "tokenizer") < part), name=train.name)


def _masked(pairs: Iterable[Pair], config: RunConfig, *, style: SourceStyle, practice: bool = False) -> Iterable[Pair]:
    if not config.tokenizer.placeholders:
        return pairs
    masked = partial(mask_pair, excluded={*config.tokenizer.symbols, *style.translated}, practice=practice)
    return Bitext(lambda: starmap(masked, pairs), name="masked")


def _train_tokenizers(train: Iterable[tuple[str, str]], config: RunConfig) -> tuple[Tokenizer, Tokenizer]:
    settings = config.tokenizer
    symbols = [*settings.symbols, *(SLOTS if settings.placeholders else ())]
    options = settings.model_dump(include={"vocab_size", "kind", "standardisation", "min_frequency"})
    learn = partial(Tokenizer.train, **options, symbols=symbols)
    if settings.shared:
        both = learn(chain.from_iterable(train))
        return both, both
    return learn(source for source, _ in train), learn(target for _, target in train)


def _write_stores(
    path: Path, pairs: Iterable[Pair], tokenizers: tuple[Tokenizer, Tokenizer], limit: int, *, sampled: bool = False
) -> Counter[str]:
    """Write `path`-source and `path`-target, side by side, in one pass; words instead of tokens if `sampled`.

    Returns how many pairs are "kept", and how many are left out as too "long".
    """
    counts = Counter[str]()
    paths = [path.with_name(f"{path.name}-{side}") for side in ("source", "target")]
    encoders = [each.encodings if sampled else each.encode_batch for each in tokenizers]

    def encoded() -> Iterator[tuple[Sequence[int] | Encoding, Sequence[int] | Encoding]]:
        for chunk in _chunks(pairs):
            sides = (encode(texts) for encode, texts in zip(encoders, zip(*chunk, strict=True), strict=True))
            for pair in zip(*sides, strict=True):
                fits = max(map(len, pair)) < limit
                counts["kept" if fits else "long"] += 1
                if fits:
                    yield pair

    write = write_numbered if sampled else TokenStore.write
    write(paths, encoded())
    return counts


def _chunks(pairs: Iterable[Pair]) -> Iterator[Pairs]:
    """Consecutive pairs with about CHARACTERS_AT_ONCE characters: the tokens of so many fit into memory."""
    size = 0

    def chunk_of(pair: Pair) -> int:
        nonlocal size
        size += len(pair[0]) + len(pair[1])
        return size // CHARACTERS_AT_ONCE

    return (list(chunk) for _, chunk in groupby(pairs, chunk_of))
