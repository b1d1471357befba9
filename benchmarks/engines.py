"""Engines that translate with the same weights and the same tokens: Dragoman, MarianMTModel, CTranslate2, Marian."""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import torch
from transformers import MarianMTModel

from dragoman.decoding.translator import Translator
from dragoman.engine.int8 import can_quantise
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.device import PRECISIONS
from peers import marian_nmt
from peers.ctranslate import number, save, token, translator
from peers.marian import generate, with_frequencies_of_marian, with_weights_of, without_special
from table import OURS, precisions

THREADS = torch.get_num_threads()
"""Number of threads of PyTorch, read before CTranslate2 sets it for the whole process."""

Translated = list[tuple[str, int]]
"""Translations, and how many tokens each has."""


class Engine(Protocol):
    """Something that translates."""

    name: str
    settings: tuple[int, ...]
    """Settings that are tried, such as numbers of threads, since it is not known which is the fastest."""
    unit: str
    """Unit of the settings."""
    alone: bool
    """Whether it is given one text at a time."""

    def translate(self, texts: list[str], *, beam_size: int, setting: int) -> Translated:
        """All texts, in their order, tokenization included."""


@dataclass
class Ours:
    """Dragoman with a process for each core, as `dragoman translate`; with one text, this process on some threads."""

    name: str
    translator: Translator
    settings: tuple[int, ...]
    alone: bool
    guard: bool = True
    """Whether the guard against loops is on, as by default. The other engines have none."""

    @property
    def unit(self) -> str:
        return "threads" if self.alone else "workers"

    def translate(self, texts: list[str], *, beam_size: int, setting: int) -> Translated:
        torch.set_num_threads(setting if self.alone else THREADS)
        options = {"beam_size": beam_size, "split": False} | ({} if self.guard else {"max_copies": 0})
        return [(t.text, len(t.tokens)) for t in self.translator.translate(texts, **options)]


@dataclass
class Marian:
    """MarianMTModel, in batches of `setting` sentences on all threads; with one text, on `setting` threads."""

    name: str
    directory: ModelDirectory
    model: MarianMTModel
    settings: tuple[int, ...]
    alone: bool
    unit: str = "sentences"

    def translate(self, texts: list[str], *, beam_size: int, setting: int) -> Translated:
        torch.set_num_threads(setting if self.alone else THREADS)
        sources = _encoded(self.directory, texts)
        hypotheses = generate(self.model, sources, beam_size=beam_size, batch=1 if self.alone else setting)
        return _decoded(self.directory, hypotheses)


@dataclass
class _FromFolder:
    """An engine that reads its weights from a folder."""

    name: str
    directory: ModelDirectory
    folder: Path
    precision: str
    settings: tuple[int, ...]
    alone: bool


@dataclass
class CTranslate2(_FromFolder):
    """CTranslate2, a worker a core, in batches of `setting` tokens; with one text, one worker of `setting` threads."""

    device: str = "cpu"
    unit: str = "tokens"

    def __post_init__(self):
        workers = THREADS if self.device == "cpu" else 1
        threads = {s: (1, s) if self.alone else (workers, 1) for s in self.settings}
        translators = {
            pair: translator(self.folder, self.precision, *pair, self.device) for pair in set(threads.values())
        }
        self._translators = {setting: translators[pair] for setting, pair in threads.items()}

    def translate(self, texts: list[str], *, beam_size: int, setting: int) -> Translated:
        sources = _encoded(self.directory, texts)
        longest = max(map(len, sources))
        results = self._translators[setting].translate_batch(
            [[token(id_) for id_ in ids] for ids in sources], beam_size=beam_size, batch_type="tokens",
            max_batch_size=0 if self.alone else setting, max_decoding_length=2 * longest + 20,
        )  # fmt: skip
        return _decoded(self.directory, [list(map(number, result.hypotheses[0])) for result in results])


@dataclass
class Pymarian(_FromFolder):
    """Marian itself, a thread a core, in batches of `setting` sentences of similar length; with one text, one thread.

    Its sines of positions have other frequencies than those of the other engines, see `peers/marian_nmt.py`.
    """

    unit: str = "sentences"

    def __post_init__(self):
        self._translator = marian_nmt.translator(self.folder, self.precision, 1 if self.alone else THREADS)

    def translate(self, texts: list[str], *, beam_size: int, setting: int) -> Translated:
        config = self.directory.model.config
        sources = _encoded(self.directory, texts)
        longest = max(map(len, sources))
        options = {"beam-size": beam_size, "mini-batch": setting}
        options["max-length-factor"] = (2 * longest + 19.5) / (longest + 1)  # Marian rounds the product up
        written = self._translator.translate([marian_nmt.written(ids, config) for ids in sources], **options)
        return _decoded(self.directory, [marian_nmt.read(text, config) for text in written])


@contextmanager
def engines(directory: ModelDirectory, *, alone: bool, guard: bool = True) -> Iterator[list[Engine]]:
    """All engines; `alone` if they are given one text at a time."""
    marian = with_weights_of(directory.model)
    threads = tuple(sorted({1, max(1, THREADS // 2), THREADS}))
    workers = 1 if alone else THREADS
    opened_engines: list[Engine] = []
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory()))
        own = Path(opened.enter_context(TemporaryDirectory()))
        directory.save(own)
        # First of all, and each gets two batches at once, which makes it fork: threads of others do not survive that.
        for precision in (*precisions(), *["int8"] * can_quantise(directory.model.config)):
            ours = Translator.load(own, device="cpu", precision=precision, workers=workers)
            settings = threads if alone else (workers,)
            opened_engines.append(Ours(f"{OURS} {precision}", opened.enter_context(ours), settings, alone, guard))
            if not alone:
                ours.translate([".", "."], beam_size=1, max_tokens=1)
        for precision in precisions():
            settings, model = threads if alone else (32, 64, 128), copy.deepcopy(marian).to(PRECISIONS[precision])
            opened_engines.append(Marian(f"MarianMTModel {precision}", directory, model, settings, alone))
        save(marian, folder)
        for precision in ("float32", "int8"):
            settings = threads if alone else (512, 1024, 2048, 4096)
            opened_engines.append(
                CTranslate2(f"CTranslate2 {precision}", directory, folder, precision, settings, alone)
            )
        if find_spec("pymarian"):
            folder = Path(opened.enter_context(TemporaryDirectory()))
            marian_nmt.save(directory.model, folder)
            for precision in ("float32", *["int8"] * marian_nmt.can_quantise(directory.model.config)):
                settings = (1,) if alone else (16, 32, 64, 128)
                opened_engines.append(Pymarian(f"Marian {precision}", directory, folder, precision, settings, alone))
        yield opened_engines


def random_weights(directory: ModelDirectory, size: str) -> ModelDirectory:
    """A model of this size and Marian's architecture that cannot end a sentence: all go to their limit.

    What it says is noise, but it takes every engine the same number of tokens. It has no half characters, for which
    Dragoman would search again.
    """
    ids = {name: getattr(directory.model.config, name) for name in ("source_vocab_size", "target_vocab_size")}
    architecture = {"norm_order": "post", "positions": "sinusoidal-concatenated", "projection_bias": True}
    config = TransformerConfig.preset(size, **ids, **architecture, share_embeddings=True)
    torch.manual_seed(1)
    model = Transformer(config).eval()
    with torch.no_grad():
        tokens = directory.target_tokenizer.decode_batch([[id_] for id_ in range(config.target_vocab_size)])
        halves = [id_ for id_, text in enumerate(tokens) if "\N{REPLACEMENT CHARACTER}" in text]
        model.projection.bias[[config.eos_id, *halves]] = -1e4
    return replace(directory, model=model)


def like_marian(engine: Marian) -> Marian:
    """The same engine with Marian's frequencies, to prove that Marian has the same weights."""
    return replace(engine, model=with_frequencies_of_marian(engine.model))


def agreement(first: Translated, second: Translated) -> float:
    """The share of translations that are the same text."""
    return sum(a == b for (a, _), (b, _) in zip(first, second, strict=True)) / len(first)


def _encoded(directory: ModelDirectory, texts: list[str]) -> list[list[int]]:
    """Tokens of each text, without the spaces around it."""
    return directory.source_tokenizer.encode_batch([text.strip() for text in texts])


def _decoded(directory: ModelDirectory, batch: list[list[int]]) -> Translated:
    bare = [without_special(ids) for ids in batch]
    return list(zip(directory.target_tokenizer.decode_batch(bare), map(len, bare), strict=True))
