"""Turns sentence pairs into the files that training reads: held-out pairs, tokenizers and token ids, in one folder."""

import json
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, Self

import numpy as np

from dragoman.config.run import RunConfig
from dragoman.data.aligning import NONE, align, continuations
from dragoman.data.arrays import save_array
from dragoman.data.batching import Sentences, Store, TokenBatches, TokenStore
from dragoman.data.bitext import Bitext, CleanedBitext
from dragoman.data.corpora import open_held_out
from dragoman.data.encoded_block import store_paths
from dragoman.data.encoding import Encoder, TextTools, masked
from dragoman.data.hinting import HintedStore
from dragoman.data.joining import JoinedStores, between, refuse_begins
from dragoman.data.misspelling import MisspelledStore
from dragoman.data.mixing import mix_in
from dragoman.data.neighbours import find_neighbours
from dragoman.data.pair_file import PairFile, write_pairs
from dragoman.data.readers.types import Pair
from dragoman.data.sampling import sampled
from dragoman.data.soft_targets import SoftTargetStore
from dragoman.data.splitting import Splits, split
from dragoman.data.subword_regularization import training_stores
from dragoman.data.terms import TermStore
from dragoman.data.twins import MOST_HELD_OUT, find_twins
from dragoman.errors import DataError, UsageError
from dragoman.text.characters import folded, normalised
from dragoman.text.labels import languages_in, only
from dragoman.text.language_codes import Languages
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.respelling import MOST_TEXTS, learn_reading
from dragoman.text.sketch import Sketch
from dragoman.text.tokenizers.hint_tokens import SIMILAR, TERM
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.text.transliteration import Transliteration

Pairs = list[Pair]
POSITIONS = "train-positions.npy"
"""File with the source positions of the tokens of all targets, end to end (`dragoman.data.aligning`)."""
NEIGHBOURS = "train-neighbours.npy"
"""File with the index of the pair that is most like each training pair (`dragoman.data.neighbours`)."""
SKETCH = "sketch"
"""Name of the file of the sketch of the training pairs."""
TOKENIZER_PAIRS = 500_000
"""Most pairs, about, that a tokenizer learns from: more of them change it little, but fill the memory."""
NEAR_DUPLICATE = "nearly the same as a held-out pair (data.split=groups)"
"""Reason to leave a pair out."""


@dataclass
class DataFacts:
    """Facts about the data of a run, for messages and the model card."""

    source_language: str | None
    target_language: str | None
    train_pairs: int
    """Pairs of an epoch, after cleaning, splitting, weighting and the length limit."""
    dropped: dict[str, int]
    """Pairs that were left out, by reason."""
    leaked: list[int] = field(default_factory=list)
    """Indices of test pairs whose source sentence is trained on too, as after a split by line."""
    twins: list[int] | None = None
    """Indices of test pairs that are nearly the same as a training pair, on either side; None: nobody has looked."""
    directions: list[tuple[str | None, str]] = field(default_factory=list)
    """Source and target languages that the model knows, if there are several pairs; their sources have labels."""
    respelled: list[dict[str, Any]] = field(default_factory=list)
    """How targets were written in one spelling: `Respelled.to_dict()` for each language that came in several."""
    occurrences: dict[str, float] = field(default_factory=dict)
    """How often pairs of each corpus, by its file, occur in an epoch, if `data.temperature` decides on it."""


@dataclass
class PreparedData:
    """The folder `run/data`, opened."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    style: SourceStyle
    train: TokenBatches
    train_stores: tuple[Store, ...]
    """Sources and targets of the training pairs, before any are joined."""
    valid: TokenBatches
    valid_pairs: Pairs
    test_pairs: Pairs
    general_pairs: Pairs
    """Pairs that a model is scored on before and after it is adapted to others; none in other runs."""
    about: DataFacts
    sketch: Sketch | None
    """What is known of the training pairs later on; None if they are too few, or nobody wanted it."""

    @classmethod
    def open(cls, folder: Path, config: RunConfig) -> Self:
        """Read the files that `prepare` wrote. The run has checked their seal."""
        tools = TextTools.load(folder, shared=config.tokenizer.shared)
        source, target = tools.tokenizers
        batches = partial(
            TokenBatches,
            max_tokens=config.training.max_tokens,
            seed=config.seed,
            special=(target.special_ids, source.closing),
        )
        stores = train_stores = training_stores(folder, tools.tokenizers, config)
        if config.training.joined:
            for tokenizer in tools.tokenizers:
                refuse_begins(tokenizer)
            stores = JoinedStores(
                train_stores,
                [between(tokenizer) for tokenizer in tools.tokenizers],
                share=config.training.joined,
                seed=config.seed,
                limit=config.data.max_length,
                symbols=[tokenizer.symbol_ids for tokenizer in tools.tokenizers],
            ).sides
        source_store, target_store = stores
        if config.training.typos:
            source_store = MisspelledStore(
                source_store, source, share=config.training.typos, seed=config.seed, limit=config.data.max_length
            )
        if lacking := [hint for hint in _hints_of(config) if hint not in source.hints]:
            raise UsageError(
                f"training.fuzzy and training.terms need tokens in the vocabulary, and this one lacks {lacking[0]}: "
                "leave them out, or give the files of pairs instead of prepared ones, or --new-vocabulary with "
                "--finetune."
            )
        if config.training.fuzzy:
            source_store = HintedStore(
                source_store,
                train_stores[1],
                _neighbours_in(folder),
                begin=source.hints[SIMILAR],
                share=config.training.fuzzy,
                seed=config.seed,
                limit=config.data.max_length,
            )
        if config.training.terms:
            source_store = TermStore(
                source_store,
                train_stores[1],
                target,
                begin=source.hints[TERM],
                share=config.training.terms,
                seed=config.seed,
                limit=config.data.max_length,
            )
        train = batches(source_store, target_store)
        if config.training.guided_alignment:
            train.alignments = Sentences(_positions_in(folder), train_stores[1].ends)
        if config.training.soft_targets:
            train.soft_targets = SoftTargetStore.open(folder, train_stores[1].ends)
        return cls(
            source_tokenizer=source,
            target_tokenizer=target,
            style=tools.style,
            train=train,
            train_stores=train_stores,
            valid=batches(TokenStore(folder / "valid-source"), TokenStore(folder / "valid-target")),
            valid_pairs=_read_pairs(folder / "valid.json"),
            test_pairs=_read_pairs(folder / "test.json"),
            general_pairs=_read_pairs(folder / "general.json"),
            about=DataFacts(**json.loads((folder / "about.json").read_bytes())),
            sketch=_read_sketch(folder / SKETCH),
        )

    @cached_property
    def train_tokens(self) -> tuple[int, int]:
        """Number of source and of target tokens of the training pairs, without begins and ends of sentences."""
        source, target = (int(store.epoch(0).lengths.sum()) for store in self.train_stores)
        return source, target


def relate_pairs(folder: Path, config: RunConfig, tell: Callable[[str], None] = lambda text: None) -> bool:
    """Align the training pairs in a prepared folder, and compare them with each other, if the config wants that.

    Does nothing that was done before; returns whether anything was written. `tell` is told what is being done.
    """
    training = config.training
    steps = [
        (training.guided_alignment, POSITIONS, align_pairs, "aligning words"),
        (training.fuzzy, NEIGHBOURS, compare_pairs, "looking for the pair that is most like each"),
    ]
    missing = [step for step in steps if step[0] and not (folder / step[1]).exists()]
    for _, _, relate, doing in missing:
        tell(doing)
        relate(folder, config)
    return bool(missing)


def align_pairs(folder: Path, config: RunConfig) -> None:
    """Write the positions to which the training pairs in a prepared folder are aligned into it."""
    source, target = (TokenStore(path) for path in store_paths(folder / "train"))
    tools = TextTools.load(folder, shared=config.tokenizer.shared)
    # Sources of several target languages begin with the token of theirs, which is no word.
    skipped = 1 if tools.source_tokenizer.reads_labels else 0
    words: Sentences = source
    if skipped:
        starts = np.append(0, source.ends[:-1])
        words = Sentences(np.delete(source.ids, starts), source.ends - np.arange(1, len(source) + 1))
    num_positions = int(target.ends[-1])
    unfinished = folder / f"{POSITIONS}.part"
    positions = np.lib.format.open_memmap(unfinished, "w+", np.int16, (num_positions,))
    positions[:] = NONE
    continues = continuations(tools.target_tokenizer.vocabulary())
    for row, aligned in align(words, target, seed=config.seed, continues=continues):
        stop = int(target.ends[row])
        positions[stop - len(aligned) : stop] = aligned + skipped
    positions.flush()
    del positions  # Windows renames no file that is mapped
    os.replace(unfinished, folder / POSITIONS)  # only what is finished has the name by which it is known


def compare_pairs(folder: Path, config: RunConfig) -> None:
    """Write which other training pair is most like each of those in a prepared folder into it."""
    sources, _ = (TokenStore(path) for path in store_paths(folder / "train"))
    save_array(folder / NEIGHBOURS, find_neighbours(sources).indices)


def _neighbours_in(folder: Path) -> np.ndarray:
    """The neighbours in a prepared folder. Raises `UsageError` if its pairs were not compared."""
    if not (folder / NEIGHBOURS).is_file():
        raise UsageError("The pairs of this run were not compared when it began; leave training.fuzzy out.")
    return np.load(folder / NEIGHBOURS, mmap_mode="r")


def _positions_in(folder: Path) -> np.ndarray:
    """The positions in a prepared folder. Raises `UsageError` if its pairs were not aligned."""
    if not (folder / POSITIONS).is_file():
        raise UsageError("The pairs of this run were not aligned when it began; leave training.guided_alignment out.")
    return np.load(folder / POSITIONS, mmap_mode="r")


def _read_sketch(file: Path) -> Sketch | None:
    """The sketch in a file; None if it is missing."""
    return Sketch.from_bytes(file.read_bytes()) if file.exists() else None


def _read_pairs(file: Path) -> Pairs:
    """The pairs in a JSON file; none if it is missing, as that of the general pairs is in older runs."""
    if not file.exists():
        return []
    return [(source, target) for source, target in json.loads(file.read_bytes())]


def prepare(
    bitext: CleanedBitext | PairFile, config: RunConfig, folder: Path, *, kept: TextTools | None = None
) -> None:
    """Split the pairs, train the tokenizers on the training part, and write everything into `folder`.

    A run that goes on from a model, or has soft targets, gives the tokenizers and the style to keep as `kept`.
    """
    pairs = bitext if isinstance(bitext, PairFile) else write_pairs(bitext, config, near=folder)
    parts = split_off(pairs, config)
    num_near_duplicates = len(parts.train.left_out)
    general: Pairs = []
    if config.finetune.adapts:
        mixture = mix_in(parts, config, pairs)
        general = mixture.general
        parts = parts._replace(train=write_pairs(mixture.train.cleaned(), config, near=folder))
    (folder / "general.json").write_text(json.dumps(general), encoding="utf-8")
    if TextTools.are_in(folder):  # a preparation that broke off has learned them
        tools = TextTools.load(folder, shared=config.tokenizer.shared)
    else:
        tools = kept.reading(_hints_of(config)) if kept else _learn_text_tools(parts.train, config, pairs.languages)
        tools.save(folder)
    about = _write_parts(pairs, parts, tools, config, folder)
    if num_near_duplicates:
        about.dropped[NEAR_DUPLICATE] = num_near_duplicates
    relate_pairs(folder, config)
    about.respelled = [record.to_dict() for record in pairs.counts.respelled]
    about.occurrences = pairs.counts.occurrences(config.data)
    (folder / "about.json").write_text(json.dumps(asdict(about)), encoding="utf-8")


def _learn_text_tools(train: PairFile, config: RunConfig, languages: tuple[str, str] | None) -> TextTools:
    """Tokenizers and style, learned from the training pairs; tokenizers from `tokenizer.pairs`, if there are any."""
    reading = _reading(train, config)

    def in_one_script(pair: Pair) -> Pair:
        return (reading(normalised(pair[0])), pair[1]) if reading else pair

    vocabulary = train.sample(TOKENIZER_PAIRS).changed(in_one_script)
    style = SourceStyle.learn(vocabulary).model_copy(update={"reading": reading})
    if config.tokenizer.pairs:
        bad_bytes = config.data.replace_bad_bytes
        opened = Bitext.open(*config.tokenizer.pairs, languages=languages, replace_bad_bytes=bad_bytes)
        sample = sampled(train.in_same_spelling(opened.cleaned()), TOKENIZER_PAIRS)
        vocabulary = Bitext(lambda: sample, name=opened.name).changed(in_one_script)
    targets = list(dict.fromkeys(languages_in(label)[1] for label in train.counts.labels))
    if len(targets) == 1:
        targets = []
    source_tokenizer, target_tokenizer = _train_tokenizers(masked(vocabulary, config, style=style), config, targets)
    return TextTools(source_tokenizer, target_tokenizer, style)


def _reading(train: PairFile, config: RunConfig) -> Transliteration | None:
    """How to read the sources in one script; None if they are in one, or of several languages, or to stay as they are.

    Sources in the rarer script are few, and share no token with the others.
    """
    languages = {languages_in(label)[0] for label in train.counts.labels} or {train.source_language}
    if not config.data.one_spelling or len(languages) > 1:
        return None
    sources = (source for source, _ in train.sample(MOST_TEXTS))
    return learn_reading(sources, language=languages.pop(), kept=config.tokenizer.symbols)


def _write_parts(pairs: PairFile, parts: Splits, tools: TextTools, config: RunConfig, folder: Path) -> DataFacts:
    """Write the pairs of all parts as texts and token ids, and return the facts about them."""
    encoder = Encoder(tools, config, pairs.source_language)
    held_out = {"valid": list(parts.valid), "test": list(parts.test)}
    num_unscorable = sum(_remove_unscorable(part, encoder) for part in held_out.values())
    for name, part in held_out.items():
        # In a sorted corpus the first pairs, which are the ones looked at, would be no sample.
        random.Random(config.seed).shuffle(part)
        (folder / f"{name}.json").write_text(json.dumps(part), encoding="utf-8")
    num_train, num_too_long = encoder.write_train(folder / "train", parts.train)
    num_valid, _ = encoder.write(folder / "valid", held_out["valid"])
    for name, number in (("train", num_train), ("valid", num_valid), ("test", len(held_out["test"]))):
        if not number:
            raise DataError(
                f"{pairs.name} leaves no {name} pairs after cleaning, splitting and data.max_length = "
                f"{config.data.max_length}; give more pairs."
            )
    dropped = dict(pairs.report.dropped.most_common())
    if num_too_long:
        dropped[f"more than {config.data.max_length} tokens"] = num_too_long
    if num_unscorable:
        dropped[f"held out, but longer than model.max_positions = {config.positions} admits"] = num_unscorable
    directions = list(dict.fromkeys([*tools.directions, *map(languages_in, pairs.counts.labels)]))
    source_language, target_language = _languages(pairs, directions)
    sketch = Sketch.of(parts.train) if config.data.sketch else None
    if sketch:
        (folder / SKETCH).write_bytes(sketch.to_bytes())
    return DataFacts(
        source_language=source_language,
        target_language=target_language,
        train_pairs=num_train,
        dropped=dropped,
        leaked=_leaked(parts.train, held_out["test"]) if config.data.split == "line" else [],
        twins=[] if _has_no_twins(config) else _twins(parts.train, held_out["test"]),
        directions=directions,
    )


def _languages(pairs: PairFile, directions: list[tuple[str | None, str]]) -> Languages:
    """The source language and the target language, each None if there are several."""
    if not directions:
        return pairs.source_language, pairs.target_language
    return only(source for source, _ in directions), only(target for _, target in directions)


def split_off(pairs: PairFile, config: RunConfig) -> Splits:
    """Training, validation and test pairs. A part whose files the config names is not split off."""
    # Pairs that the user holds out are scored as they are, unless a side is empty.
    opened = open_held_out(config.data, pairs.languages, labelled=bool(pairs.counts.labels))
    given: dict[str, Bitext] = {name: part.cleaned() for name, part in opened.items()}
    if "valid" in given:  # these choose the model
        given["valid"] = pairs.in_same_spelling(given["valid"])
    if len(given) == 2:
        return Splits(pairs, **given)
    valid, test = config.data.held_out
    parts = split(
        pairs,
        valid=0 if "valid" in given else valid,
        test=0 if "test" in given else test,
        seed=config.seed,
        by=config.data.split,
    )
    return parts._replace(**given)


def _remove_unscorable(pairs: Pairs, encoder: Encoder) -> int:
    """Remove the pairs whose source, with its end, has more tokens than a model has positions; returns how many."""
    positions = encoder.config.positions
    if positions is None:
        return 0
    sources = (source for source, _ in encoder.prepared(pairs))
    fitting = [len(ids) < positions for ids in encoder.tools.source_tokenizer.encode_batch(sources)]
    pairs[:] = compress(pairs, fitting)
    return len(fitting) - len(pairs)


def _has_no_twins(config: RunConfig) -> bool:
    """Whether the split has left all twins of test pairs out of training."""
    return config.data.split == "groups" and not config.data.held_out_files("test")


def _twins(train: Bitext, test: Pairs) -> list[int] | None:
    """The indices of test pairs that have a twin; None if there are too many to look."""
    return find_twins(test, train).indices() if len(test) <= MOST_HELD_OUT else None


def _leaked(train: Bitext, test: Pairs) -> list[int]:
    """The indices of test pairs whose source sentence is in the training part too."""
    tested = {folded(source) for source, _ in test}
    leaked = tested.intersection(folded(source) for source, _ in train)
    return [index for index, (source, _) in enumerate(test) if folded(source) in leaked]


def _train_tokenizers(
    train: Iterable[tuple[str, str]], config: RunConfig, targets: list[str]
) -> tuple[Tokenizer, Tokenizer]:
    """New tokenizers of source and target. The first one gets a token for each of the languages in `targets`.

    A shared one gets the tokens of hints, if the model is to read these.
    """
    settings = config.tokenizer
    symbols = [*settings.symbols, *(SLOTS if settings.placeholders else ())]
    options = settings.model_dump(include={"vocab_size", "kind", "standardisation", "min_frequency"})
    hints = _hints_of(config)
    options["vocab_size"] -= len(targets) + len(hints)
    learn = partial(Tokenizer.train, **options, symbols=symbols)
    if settings.shared:
        shared = learn(chain.from_iterable(train)).with_targets(targets)
        shared = shared.with_hints(hints) if hints else shared
        return shared, shared
    return learn(source for source, _ in train).with_targets(targets), learn(target for _, target in train)


def _hints_of(config: RunConfig) -> list[str]:
    """The kinds of hints that some sources are followed by."""
    kinds = {SIMILAR: config.training.fuzzy, TERM: config.training.terms}
    return [hint for hint, share in kinds.items() if share]
