"""Sentences in, translations out: in order, any number of them, batched by length."""

import copy
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, repeat, starmap
from pathlib import Path
from typing import Any, Self

import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import Alignment, word_spans
from dragoman.decoding.batch import BatchWork, Sentence, batches_by_length
from dragoman.decoding.ensemble import load_ensemble
from dragoman.decoding.glossary import read_terms
from dragoman.decoding.precision import batch_tokens, ready
from dragoman.decoding.search import Hypothesis
from dragoman.decoding.translation import Translation, TranslationScore
from dragoman.decoding.units import MOST_TOKENS, Splitter, Units, translate_texts, unchanged
from dragoman.errors import UsageError
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.device import limit_kernel_caches
from dragoman.system.processes import Workers
from dragoman.text.characters import has_letters, has_words, without_label
from dragoman.text.tokenizers.placeholders import Prepared

PAIR_TOKENS = 2048
"""Most tokens on either side of a batch of pairs to score or align, padding included: attention takes memory."""
SHORT_PREFIX = 6
"""Characters of a prefix, each of four tokens at most, that every translation has room for."""
MOST_CHARACTERS = 2**20
"""Most characters of the texts that `stream` holds at the same time. A longer text is translated by itself."""


class Translator:
    """Translates with one model, or with the mean of several, and their tokenizers.

    An empty or blank sentence stays as it is. A translation has at most `2 * source tokens + 20` tokens, besides those
    of a prefix and of terms.
    """

    def __init__(
        self,
        directory: ModelDirectory,
        *,
        ensemble: Sequence[ModelDirectory] = (),
        precision: str = "float32",
        workers: int = 1,
    ):
        """`precision` is float32, bfloat16 or auto (see `dragoman.system.device`).

        With more than one of `workers`, on a CPU, this process forks as many, which suits a command more than a program
        with threads of its own; `close` ends them, and so does a `with` block. The models of `ensemble` have the same
        vocabulary, and the mean of all probabilities counts. Threads may share a translator.
        """
        limit_kernel_caches(8)
        self.source_tokenizer, self.target_tokenizer = directory.tokenizers
        directory.require_languages()
        self.decoding, self._preprocessor = directory.decoding, directory.preprocessor
        self.languages, self.directions = directory.languages, directory.directions
        self.device = next(directory.model.parameters()).device
        models = [ready(each.model.eval(), precision) for each in (directory, *ensemble)]
        self.model = models[0]
        self._directory = replace(directory, model=self.model)
        self._work = BatchWork(models, *directory.tokenizers)
        self.max_length = self._work.max_length
        """Most tokens of a sentence and of its translation, each with its end, for which all models have positions."""
        self._glossary = lru_cache(maxsize=1)(partial(read_terms, tokenizer=self.target_tokenizer))
        self.workers = None
        if workers > 1 and self.device.type == "cpu":
            self.workers = Workers(self._work, workers, remedy="give a smaller --beam-size or --workers 1")

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: torch.device | str | None = None,
        precision: str = "float32",
        workers: int = 1,
        ensemble: Sequence[str | Path] = (),
        languages: tuple[str | None, str | None] = (None, None),
    ) -> Self:
        """Load a model directory, or several that translate together.

        A model of many languages needs to know `languages`, source and target, unless its directory says them.
        Raises `dragoman.errors.DataError` if one is no model directory or has other tokenizers than the first, and
        `dragoman.errors.UsageError` for languages that the model does not have.
        """
        first, *others = load_ensemble([path, *ensemble], device=device, languages=languages)
        return cls(first, ensemble=others, precision=precision, workers=workers)

    def in_each_direction(self) -> list[Self]:
        """This translator, or one for each pair of languages of its model; they share everything else."""
        return [self] if all(self.languages) or not self.directions else list(starmap(self._in, self.directions))

    def _in(self, source: str | None, target: str) -> Self:
        other, directory = copy.copy(self), self._directory.speaking(source, target)
        other.source_tokenizer, other._preprocessor = directory.source_tokenizer, directory.preprocessor
        other.languages = directory.languages
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes, if there are any; from now on this process translates alone."""
        if self.workers:
            self.workers.close()
            self.workers = None

    def translate(
        self,
        sentences: Iterable[str],
        config: DecodingConfig | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        **options: Any,
    ) -> list[Translation]:
        """The best translation of each text, in the order given.

        A text may have several sentences, which are translated one by one unless `split=False`.
        `options` are fields of `DecodingConfig`, such as `beam_size=5`. They override those of `config`, which is by
        default the search that the model was scored with.
        `prefixes` are the beginnings of the translations, one for each, instead of one `prefix` for all.
        Raises `dragoman.errors.UsageError` for options that make no sense.
        """
        if isinstance(sentences, str):
            raise UsageError("`translate` takes a list of sentences, not one text; write [text].")
        config = self._merged(config, options)
        sentences = list(sentences)
        prefixes = _one_each(sentences, prefixes, config)
        self._check_prefixes(sentences, prefixes)
        splitter, translate = self._splitter(config), partial(self.translate_units, config=config)
        return translate_texts(sentences, prefixes, splitter, translate, config=config)

    def units(self, texts: Sequence[str], config: DecodingConfig, *, prefixes: Sequence[str] | None = None) -> Units:
        """The parts of texts that `translate` translates one by one, for callers that choose their order themselves.

        `translate_units` translates them.
        """
        prefixes = _one_each(list(texts), prefixes, config)
        self._check_prefixes(texts, prefixes)
        return Units.of(texts, prefixes, self._splitter(config))

    def split(self, text: str) -> list[str]:
        """The sentences of a text as `translate` takes them one by one; put together they are the text."""
        return [unit.text for unit in self._splitter(self.decoding).split(text)[0]]

    def _check_prefixes(self, sentences: Sequence[str], prefixes: Sequence[str]) -> None:
        """Raises `UsageError` for a prefix longer than any translation: each token of it costs a step of the search."""
        for sentence, prefix in zip(sentences, prefixes, strict=True):
            if len(prefix) < SHORT_PREFIX:
                continue
            most = 2 * self.count(sentence) + 20
            if (tokens := len(self.target_tokenizer.encode(prefix))) > most:
                raise UsageError(
                    f"The prefix has {tokens:,} tokens, but a translation of this text has at most {most:,}; give a "
                    "shorter prefix."
                )

    def _splitter(self, config: DecodingConfig) -> Splitter:
        most = min(config.max_source_length or MOST_TOKENS, self.max_length - 1)
        tag = self.source_tokenizer.tag
        return Splitter(self.languages[0], most, count=self.count, tag=tag, whole=not config.split)

    def count(self, text: str) -> int:
        """Number of tokens of a text as the model is given it, without the end of sentence."""
        return len(self.source_tokenizer.encode(self._preprocessor(text).text))

    def translate_units(
        self, sentences: list[str], prefixes: Sequence[str], config: DecodingConfig
    ) -> list[Translation]:
        """The translations of units as `units` gives them, each with its prefix."""
        prepared = self._prepared(sentences, config)
        groups = self._search(sentences, prepared, prefixes, config)
        groups = groups if config.n_best > 1 else [group[:1] for group in groups]
        texts = self._texts(sentences, prepared, groups, prefixes, config)
        if not config.sample:
            texts, groups = _distinct(texts, groups)
        groups = [group[: config.n_best] for group in groups]
        links = iter(self._align(prepared, groups)) if config.alignments else repeat(None)
        pieces = self.target_tokenizer.pieces
        translations = []
        for sentence, source, own, group in zip(sentences, prepared, texts, groups, strict=True):
            found = [
                Translation(text, h.score, h.log_prob, pieces(h.tokens), _links_of(next(links), text))
                for text, h in zip(own, group, strict=False)
            ]
            if not self._says_something(sentence, source):
                translations.append(unchanged(sentence, config))
            else:
                translations.append(replace(found[0], alternatives=found[1:]) if config.n_best > 1 else found[0])
        return translations

    def _says_something(self, sentence: str, prepared: Prepared) -> bool:
        """Whether a sentence has words besides what is copied; one that has none stays as it is."""
        return has_words(sentence) and has_letters(prepared.text[len(self.source_tokenizer.tag(prepared.text)) :])

    def stream(
        self,
        sentences: Iterable[str | None],
        config: DecodingConfig | None = None,
        *,
        window: int = 2048,
        **options: Any,
    ) -> Iterator[Translation]:
        """Translates any number of texts: reads at most `window` at a time, so that memory stays the same.

        None among the sentences means that there are no more for now: the ones before it are translated at once.
        """
        if window < 1:
            raise UsageError(f"`window` is {window}; give at least 1 sentence.")
        config = self._merged(config, options)
        waiting: list[str] = []
        size = 0
        for sentence in sentences:
            if sentence is not None:
                waiting.append(sentence)
                size += len(sentence)
            if waiting and (sentence is None or len(waiting) == window or size > MOST_CHARACTERS):
                yield from self.translate(waiting, config)
                waiting, size = [], 0
        yield from self.translate(waiting, config)

    def search(
        self,
        sentences: list[str],
        config: DecodingConfig | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        **options: Any,
    ) -> list[list[Hypothesis]]:
        """All hypotheses of each sentence, best first; a blank sentence has one without tokens."""
        config = self._merged(config, options)
        prefixes = _one_each(sentences, prefixes, config)
        return self._search(sentences, self._prepared(sentences, config), prefixes, config)

    def _search(
        self, sentences: list[str], prepared: list[Prepared], prefixes: Sequence[str], config: DecodingConfig
    ) -> list[list[Hypothesis]]:
        results = [[Hypothesis([], 0.0, 0.0)] for _ in sentences]
        filled = [i for i, text in enumerate(sentences) if self._says_something(text, prepared[i])]
        encoded = self._encoded([prepared[i] for i in filled], [prefixes[i] for i in filled], config)
        rows = config.n_best if config.sample else config.beam_size
        budget = (config.max_tokens or batch_tokens(self.model)) // rows
        batches = self._shared_out([len(sentence.source) + 1 for sentence in encoded], budget)
        # Each sentence has its terms by now, so workers need not be sent the glossary.
        groups = self._map("search", encoded, batches, config.model_copy(update={"glossary": {}}))
        for index, group in zip(filled, groups, strict=True):
            results[index] = group
        return results

    def score(self, pairs: Iterable[tuple[str, str]], *, length_penalty: float = 1.0) -> list[TranslationScore]:
        """How probable the model finds the target of each pair of texts, in the order given."""
        pairs = list(starmap(self._preprocessor.pair, pairs))
        sources = self.source_tokenizer.encode_batch([source for source, _ in pairs])
        targets = self.target_tokenizer.encode_batch([target for _, target in pairs])
        found = self._map_pairs("score", list(zip(sources, targets, strict=True)))
        scores = []
        for log_probs, target in zip(found, targets, strict=True):
            total, pieces = sum(log_probs), self.target_tokenizer.pieces(target)
            scores.append(TranslationScore(total / len(log_probs) ** length_penalty, total, pieces, log_probs))
        return scores

    def _merged(self, config: DecodingConfig | None, options: dict[str, Any]) -> DecodingConfig:
        config = config or self.decoding
        return DecodingConfig.validate(config.model_dump() | options) if options else config

    def _encoded(self, prepared: list[Prepared], prefixes: list[str], config: DecodingConfig) -> list[Sentence]:
        """Each sentence in tokens, with its prefix and terms."""
        texts = [each.text for each in prepared]
        begun = [self._preprocessor.prefix(text, each) for text, each in zip(prefixes, prepared, strict=True)]
        glossary, _ = self._glossary(tuple(config.glossary.items()), tuple(config.forbid))
        terms = [glossary.terms(without_label(text)) if config.glossary else [] for text in texts]
        sources = self.source_tokenizer.encode_batch(texts)
        return [Sentence(*each) for each in zip(sources, self.target_tokenizer.encode_batch(begun), terms, strict=True)]

    def _prepared(self, sentences: list[str], config: DecodingConfig) -> list[Prepared]:
        """The sentences as they are encoded. Placeholders in terms, and in forbidden ones, stay text."""
        _, excluded = self._glossary(tuple(config.glossary.items()), tuple(config.forbid))
        return [self._preprocessor(sentence, excluded) for sentence in sentences]

    def _texts(
        self,
        sentences: list[str],
        prepared: list[Prepared],
        groups: list[list[Hypothesis]],
        prefixes: Sequence[str],
        config: DecodingConfig,
    ) -> list[list[str]]:
        """The texts of the hypotheses of each sentence, with what preprocessing took out of its source."""
        decoded = iter(self.target_tokenizer.decode_batch([h.tokens for group in groups for h in group]))
        found = []
        for sentence, source, prefix, group in zip(sentences, prepared, prefixes, groups, strict=True):
            texts = [self._preprocessor.restored(next(decoded), source) for _ in group]
            kept = [prefix.strip(), *config.glossary.values()]
            found.append([self._finished(text, sentence, kept) for text in texts])
        return found

    def _finished(self, text: str, sentence: str, kept: Iterable[str]) -> str:
        """A translation without a stop that its sentence does not have, unless it ends a text that is to be `kept`."""
        shorter = self._preprocessor.finished(text, sentence)
        return text if any(part in text and part not in shorter for part in kept) else shorter

    def _align(self, prepared: list[Prepared], groups: list[list[Hypothesis]]) -> list[Alignment]:
        sources = self.source_tokenizer.encode_batch([each.text for each in prepared])
        pairs = [
            (source, h.tokens, each)
            for source, each, group in zip(sources, prepared, groups, strict=True)
            for h in group
        ]
        return self._map_pairs("align", pairs)

    def _map_pairs(self, operation: str, pairs: list[tuple]) -> list[Any]:
        """Results of an operation of `BatchWork` for pairs, each of which begins with the tokens of both sides."""
        lengths = [max(map(len, pair[:2])) + 1 for pair in pairs]
        return self._map(operation, pairs, list(batches_by_length(lengths, PAIR_TOKENS)))

    def _shared_out(self, lengths: list[int], budget: int) -> list[list[int]]:
        """Indices of sentences in batches of at most `budget` tokens, equally many for each worker, of equal size."""

        def batches(tokens: int) -> list[list[int]]:
            return list(batches_by_length(lengths, tokens))

        workers = self.workers.count if self.workers else 1
        number = -(-len(batches(budget)) // workers) * workers
        smallest = bisect_left(range(budget), True, key=lambda tokens: len(batches(tokens)) <= number)
        return batches(smallest)

    def _map(self, operation: str, items: list[Any], batches: list[list[int]], *arguments: Any) -> list[Any]:
        """The result of an operation of `BatchWork` for each item, computed batch by batch."""
        jobs = [(operation, [items[i] for i in rows], *arguments) for rows in batches]
        found = self.workers.map(jobs) if self.workers and len(jobs) > 1 else starmap(self._work, jobs)
        values = dict(zip(chain.from_iterable(batches), chain.from_iterable(found), strict=True))
        return [values[index] for index in range(len(items))]


def _distinct(texts: list[list[str]], groups: list[list[Hypothesis]]) -> tuple[list[list[str]], list[list[Hypothesis]]]:
    """Each text of a sentence once, with its first hypothesis."""
    first = [dict(zip(reversed(own), reversed(group), strict=True)) for own, group in zip(texts, groups, strict=True)]
    order = [list(dict.fromkeys(own)) for own in texts]
    return order, [[found[text] for text in own] for own, found in zip(order, first, strict=True)]


def _links_of(links: Alignment | None, text: str) -> Alignment | None:
    """The links to words that a text still has, since a stop that was a word of its own may be gone."""
    number = len(word_spans(text))
    return links and [link for link in links if link[1] < number]


def _one_each(sentences: list[str], prefixes: Sequence[str] | None, config: DecodingConfig) -> Sequence[str]:
    """The prefix of each sentence."""
    prefixes = [config.prefix] * len(sentences) if prefixes is None else prefixes
    if len(prefixes) != len(sentences):
        raise UsageError(f"There are {len(prefixes)} prefixes for {len(sentences)} sentences; give one for each.")
    return prefixes
