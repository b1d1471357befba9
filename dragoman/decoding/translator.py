"""Sentences in, translations out: in order, any number of them, batched by length."""

import copy
import warnings
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import chain, repeat, starmap
from os import PathLike
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np

from dragoman.config.decoding import DecodingConfig, DecodingOptions
from dragoman.config.elsewhere import no_attribute
from dragoman.decoding.alignment import Alignment, word_spans
from dragoman.decoding.batch import BatchWork, Interrupter, Sentence, batches_by_length
from dragoman.decoding.confidence import features
from dragoman.decoding.consensus import agreement
from dragoman.decoding.ensemble import load_ensemble
from dragoman.decoding.glossary import Glossary, read_terms
from dragoman.decoding.inputs import checked_languages, checked_pairs, checked_texts, one_prefix_each
from dragoman.decoding.precision import Precision, engine_of
from dragoman.decoding.recall import MOST_HINTED, Hint, Recall, recall_of
from dragoman.decoding.search import Hypothesis, length_limit, length_normalised
from dragoman.decoding.terms import Term
from dragoman.decoding.translation import CheckedSentence, Translation, TranslationScore
from dragoman.decoding.units import MOST_TOKENS, Splitter, Units, remembered, translate_texts, unchanged
from dragoman.decoding.windows import WINDOW, check_window, in_growing_windows, windows
from dragoman.engine.confidence import SIGNS, ConfidenceModel
from dragoman.engine.shapes import Float
from dragoman.errors import SentenceCut, UsageError, command_line
from dragoman.storage.adapter import run_of
from dragoman.storage.beside import read_confidence, read_sketch
from dragoman.storage.directory import ArrayDirectory, Directory
from dragoman.system.gpu import device_name
from dragoman.system.processes import Workers, one_blas_thread
from dragoman.text.characters import cut_label, has_letters, has_words, without_label
from dragoman.text.faults import faults
from dragoman.text.labels import languages_in, several_languages
from dragoman.text.sketch import Sketch
from dragoman.text.tokenizers.hint_tokens import SIMILAR, TERM
from dragoman.text.tokenizers.placeholders import Prepared
from dragoman.text.tokenizers.tokenizer import Tokenizer

PAIR_TOKENS = 2048
"""Most tokens on either side of a batch of pairs to score or align, padding included: attention takes memory."""
LOST = 0.0, 1.0
"""Confidence and probability of an edit of a sentence whose translation is empty."""
GLOSSARIES = 4
"""Glossaries whose index is kept, such as that of a server beside those of requests."""
DRAWN_AT = 0.7
"""Temperature at which translations are drawn that are compared with each other (docs/trials.md)."""
SHORT_PREFIX = 6
"""Characters of a prefix, each of four tokens at most, that every translation has room for."""
File = str | PathLike[str]


@dataclass(frozen=True)
class _Input:
    """A sentence to translate."""

    text: str
    prepared: Prepared
    """The sentence as it is encoded."""
    prefix: str
    """Text that its translation begins with."""
    terms: list[Term]
    """Terms of the glossary that its translation must contain."""
    hint: Hint | None
    """What a translation memory has for a similar sentence."""


@dataclass(frozen=True)
class _Candidate:
    """A possible translation: its tokens, and the text that they stand for."""

    hypothesis: Hypothesis
    text: str


class _HintsAtOurNames(type):
    """Metaclass whose errors for names of other libraries, such as `Translator.from_pretrained`, say what ours is."""

    def __getattr__(cls, name: str) -> Any:
        raise no_attribute(cls.__name__, name, (known for known in dir(cls) if known[0] != "_"))


class Translator(metaclass=_HintsAtOurNames):
    """Translates with one model, or with the mean of several.

        translator = Translator.load("runs/en-fr")
        print(translator.translate(["The red house is old."])[0].text)

    An empty or blank text stays as it is. The translation of a sentence has at most `max_ratio * source tokens +
    max_extra` tokens, besides those of a prefix and of terms. Threads may share a translator. Sent to another process,
    it is loaded there from its folder.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        ensemble: Sequence[Directory] = (),
        precision: str = "float32",
        workers: int = 1,
    ):
        """A translator from models in memory; `Translator.load` makes one from a folder, and explains the options."""
        if not isinstance(directory, Directory):
            raise UsageError(f"A translator is loaded from a folder: write Translator.load({str(directory)!r}).")
        self.source_tokenizer, self.target_tokenizer = directory.tokenizers
        directory.require_languages()
        self.decoding, self._preprocessor = directory.decoding, directory.preprocessor
        self.languages, self.directions = directory.languages, directory.directions
        self.engines = [engine_of(part.model, precision, int8_bleu=part.int8_bleu) for part in (directory, *ensemble)]
        self.device = str(getattr(self.engines[0], "device", "cpu"))
        self.precision = self.engines[0].precision
        self.path: Path | None = None
        """The folder that the model was loaded from."""
        self._described: Path | None = None
        """The folder whose confidence and sketch belong to the weights; None if no folder has these."""
        self.recall: Recall | None = None
        """Looks sentences up in a translation memory; None without one."""
        self._loading: dict[str, Any] = {}
        self._directory = replace(directory, model=None)  # its arrays may be gone by now
        self._work = BatchWork(self.engines, *directory.tokenizers)
        self.max_length = self._work.max_length
        """Most tokens of a sentence and of its translation, each with its end, for which all models have positions."""
        self._glossary = _glossaries(self.target_tokenizer)
        self.workers = None
        self._limits = ExitStack()
        if workers > 1 and self.device == "cpu":
            threads = self.computes_in_threads
            remedy = "give a smaller --beam-size or --workers 1"
            self.workers = Workers(self._work, workers, remedy=remedy, threads=threads)
            if threads:  # or the matrix products of one would wait for those of the others
                self._limits.enter_context(one_blas_thread())
                weakref.finalize(self, self._limits.close)  # for those who do not close it

    @classmethod
    def load(
        cls,
        path: File,
        *,
        device: Any = None,
        precision: Precision = "auto",
        workers: int = 1,
        ensemble: Sequence[File] = (),
        languages: tuple[str | None, str | None] = (None, None),
        memory: File | None = None,
        adapter: File | None = None,
    ) -> Self:
        """Load the translator in a folder, or several in `ensemble` with it, whose probabilities are averaged.

        `device` is "cpu", "cuda" or "cuda:1", by default a GPU if there is one. `precision` is "float32", "bfloat16",
        "int8" or "auto": eight bits on a CPU that has them, else what its processor is quick with. With more than one
        of `workers`, on a CPU, as many batches are translated side by side: in threads, or in half precision, which
        needs torch, in processes that this one forks. `close` ends them, and so does a `with` block. A model of many
        languages needs to know `languages`, source and target, unless its folder says them. `memory` is a translation
        memory, as `dragoman data memory` writes it: what it has is not translated again, and a model that was trained
        with `--fuzzy` reuses the translations of similar sentences. `adapter` is that of a run with `finetune.lora`, or
        its folder: its changes are added to the weights of the model that it adapted.

        Raises `DataError` if the folder holds no whole model, or has other tokenizers than the first of an ensemble, if
        the memory is none, or if the adapter belongs to another model, and `UsageError` for languages that the model
        does not have, or a device that is not there.
        """
        if isinstance(ensemble, str | PathLike):
            raise UsageError("`ensemble` is a single path; write [path].")
        others = [Path(other) for other in ensemble]
        languages = checked_languages(languages)
        name = device_name(device)
        changes = None if adapter is None else Path(adapter)
        loaded = load_ensemble([Path(path), *others], _loader(name), languages=languages, adapter=changes)
        translator = cls(loaded[0], ensemble=loaded[1:], precision=precision, workers=workers)
        translator.path = Path(path)
        translator._described = translator.path if changes is None else run_of(changes, translator.path)
        translator._loading = {
            "device": device,
            "precision": precision,
            "workers": workers,
            "ensemble": others,
            "memory": memory,
            "adapter": adapter,
        }
        if memory is not None:
            translator.remember(memory)
        return translator

    def remember(self, memory: File) -> None:
        """Look texts up in a translation memory from now on, until the translator is closed.

        Raises `DataError` if the file is none, and `UsageError` if it has no entries in the languages of the model, or
        if nothing says into which of its languages it translates.
        """
        if self.directions and not self.languages[1]:
            raise UsageError(several_languages(self.directions))
        recall = recall_of(Path(memory), self.languages)
        if self.recall:
            self.recall.close()
        self.recall = recall
        self._limits.callback(self.recall.close)
        self._loading["memory"] = memory

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError(
                "This translator was made from a model in memory, so it cannot be sent to another process; save the "
                "model and use Translator.load(path)."
            )
        return partial(type(self).load, languages=self.languages, **self._loading), (self.path,)

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(vars(self))
        return twin

    def __repr__(self) -> str:
        name = "a model in memory" if self.path is None else repr(str(self.path))
        languages = ", {} to {}".format(*self.languages) if all(self.languages) else ""
        return f"<Translator of {name}{languages}, on {self.device}>"

    def __getattr__(self, name: str) -> Any:
        raise no_attribute("A translator", name, (known for known in dir(self) if known[0] != "_"))

    def in_each_direction(self) -> list[Self]:
        """This translator, or one for each pair of languages of its model; they share everything else."""
        if all(self.languages) or not self.directions:
            return [self]
        return [self._speaking(source, target) for source, target in self.directions]

    def _speaking(self, source: str | None, target: str) -> Self:
        """A translator that shares the model of this one, for one pair of its languages."""
        twin = copy.copy(self)
        directory = self._directory.speaking(source, target)
        twin.source_tokenizer, twin.target_tokenizer = directory.tokenizers
        twin._preprocessor = directory.preprocessor
        if twin.target_tokenizer is not self.target_tokenizer:  # which may have pieces of its own for the language
            twin._glossary = _glossaries(twin.target_tokenizer)
        twin.languages = directory.languages
        return twin

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, if there are any, and close the memory; from now on the calling thread translates alone."""
        if self.workers:
            self.workers.close()
            self.workers = None
        self.recall = None
        self._limits.close()

    @property
    def computes_in_threads(self) -> bool:
        """Whether workers are threads of this process, as they are without torch, and not processes of their own."""
        return all(engine.computes_in_threads for engine in self.engines)

    def interrupt_with(self, interrupter: Interrupter) -> None:
        """Have each search ask this before its steps; call it before the worker processes start."""
        self._work.interrupter = interrupter

    def translate(
        self,
        texts: Iterable[str],
        config: DecodingConfig | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        **options: Unpack[DecodingOptions],
    ) -> list[Translation]:
        """The best translation of each text, in the order given.

        A text may have several sentences, which are translated one by one unless `split=False`. `options` are fields of
        `DecodingConfig`, such as `beam_size=5`. They override those of `config`, which is by default the search that
        the model was scored with. `prefixes` are the beginnings of the translations, one for each, instead of one
        `prefix` for all. A sentence that was too long and was cut is a warning, `dragoman.errors.SentenceCut`.

        Raises `UsageError` for options that make no sense, and `DataError` for an item that is no text.
        """
        translations = self.translate_quietly(
            list(checked_texts(texts)), self.search_options(config, options), prefixes
        )
        _warn_of_cuts(translations)
        return translations

    def translate_quietly(
        self, texts: Sequence[str], config: DecodingConfig, prefixes: Sequence[str] | None = None
    ) -> list[Translation]:
        """What `translate` does, for callers that show the `warning` of each translation themselves."""
        prefixes = one_prefix_each(texts, prefixes, config)
        self._check_prefixes(texts, prefixes, config)
        splitter, translate = self._splitter(config), partial(self.translate_units, config=config)

        def translated(texts: Sequence[str], prefixes: Sequence[str]) -> list[Translation]:
            return translate_texts(texts, prefixes, splitter, translate, config=config)

        # An entry may have several sentences.
        return self._remembered(texts, prefixes, config, translated)

    def _remembered(
        self,
        texts: Sequence[str],
        prefixes: Sequence[str],
        config: DecodingConfig,
        translate: Callable[[list[str], list[str]], list[Translation]],
    ) -> list[Translation]:
        """The translations of texts: those that the memory has, and what `translate` makes of all others."""
        known: list[str | None] = [None] * len(texts)
        if self.recall:
            known = [
                None if prefix else self._known(text, config) for text, prefix in zip(texts, prefixes, strict=True)
            ]
        unknown = [number for number, text in enumerate(known) if text is None]
        translated = iter(translate([texts[number] for number in unknown], [prefixes[number] for number in unknown]))
        return [
            next(translated) if target is None else remembered(source, target, config)
            for source, target in zip(texts, known, strict=True)
        ]

    def _known(self, text: str, config: DecodingConfig) -> str | None:
        """The translation of a text that the memory has, unless it breaks the glossary or has a forbidden term."""
        assert self.recall is not None
        target = self.recall.known(text)
        return target if target is not None and self.keeps_to_terms(text, target, config) else None

    def keeps_to_terms(self, text: str, target: str, config: DecodingConfig) -> bool:
        """Whether a translation has the glossary's terms for those in the text, and no forbidden one."""
        if config.glossary:
            glossary = self.glossary(config)
            terms, inflected = glossary.terms(without_label(text)), self._work.inflects(config)
            if any(term.count(target, inflected=inflected) == 0 for term in terms):
                return False
        return not (config.forbid and self._work.forbidden_terms(tuple(config.forbid)).first_in(target))

    def check_terms(self, config: DecodingConfig) -> None:
        """Raise `DataError` for a term that this model cannot spell, and `UsageError` for a contradiction."""
        self.glossary(config).check_spelling()

    def glossary(self, config: DecodingConfig) -> Glossary:
        """The glossary of a search. Raises `UsageError` if it contradicts the forbidden terms."""
        glossary, _ = self._glossary(tuple(config.glossary.items()), tuple(config.forbid))
        return glossary

    def stream(
        self,
        texts: Iterable[str],
        config: DecodingConfig | None = None,
        *,
        window: int = WINDOW,
        **options: Unpack[DecodingOptions],
    ) -> Iterator[Translation]:
        """Translates any number of texts one after another, in the same memory; options are those of `translate`.

        The first text is translated as soon as it has been read. As long as texts are read faster than they are
        translated, more are taken together each time, up to `window`.
        """
        check_window(window)
        config = self.search_options(config, options)

        def translated(together: list[str], first: int) -> list[Translation]:
            translations = self.translate_quietly(together, config)
            _warn_of_cuts(translations, first=first, stacklevel=4)
            return translations

        return in_growing_windows(checked_texts(texts), window, translated)

    def translate_windows(
        self, texts: Iterable[str | None], config: DecodingConfig, *, window: int = WINDOW
    ) -> Iterator[Translation]:
        """Translates any number of texts, `window` of them together, so that batches follow from the texts alone.

        None among the texts means that there are no more for now: the ones before it are translated at once.
        """
        check_window(window)
        for together in windows(texts, window):
            yield from self.translate_quietly(together, config)

    def search(
        self,
        sentences: Sequence[str],
        config: DecodingConfig | None = None,
        *,
        prefixes: Sequence[str] | None = None,
        **options: Unpack[DecodingOptions],
    ) -> list[list[Hypothesis]]:
        """All hypotheses of each sentence, best first; a blank sentence has one without tokens."""
        config = self.search_options(config, options)
        sentences = list(checked_texts(sentences))
        return self._search(self._inputs(sentences, one_prefix_each(sentences, prefixes, config), config), config)

    def score(
        self, pairs: Iterable[tuple[str, str]], *, length_penalty: float = 1.0, length_offset: float = 0.0
    ) -> list[TranslationScore]:
        """How probable the model finds the target of each pair of texts, in the order given.

        Eight bits round log-probabilities; load with `precision="float32"`, as the command does, for exact ones.
        """
        prepared = [self._preprocessor.pair(source, target) for source, target in checked_pairs(pairs)]
        sources = self.source_tokenizer.encode_batch([source for source, _ in prepared])
        targets = self.target_tokenizer.encode_batch([target for _, target in prepared])
        log_probs_of_all = self._map_pairs("score", list(zip(sources, targets, strict=True)))
        scores = []
        for log_probs, target in zip(log_probs_of_all, targets, strict=True):
            total, pieces = sum(log_probs), self.target_tokenizer.pieces(target)
            score = length_normalised(total, len(log_probs), penalty=length_penalty, offset=length_offset)
            scores.append(TranslationScore(score, total, pieces, log_probs))
        return scores

    def search_options(self, config: DecodingConfig | None, options: DecodingOptions) -> DecodingConfig:
        """The search that `options` describe on top of `config`, or of the search that the model was scored with."""
        config = config or self.decoding
        return config.with_options(options) if options else config

    def split(self, text: str) -> list[str]:
        """The sentences of a text as `translate` takes them one by one; put together they are the text."""
        return [unit.text for unit in self._splitter(self.decoding).split(text)[0]]

    def count(self, text: str) -> int:
        """Number of tokens of a text as the model is given it, without the end of sentence."""
        return len(self._source_ids(text))

    def _source_ids(self, text: str) -> list[int]:
        return self.source_tokenizer.encode(self._preprocessor.ahead(text).text)

    def units(self, texts: Sequence[str], config: DecodingConfig, *, prefixes: Sequence[str] | None = None) -> Units:
        """The parts of texts that `translate` translates one by one, for callers that choose their order themselves.

        `translate_units` translates them.
        """
        prefixes = one_prefix_each(texts, prefixes, config)
        self._check_prefixes(texts, prefixes, config)
        return Units.of(texts, prefixes, self._splitter(config))

    def translate_units(
        self, sentences: list[str], prefixes: Sequence[str], config: DecodingConfig
    ) -> list[Translation]:
        """The translations of units as `units` gives them, each with its prefix."""
        return self._remembered(sentences, prefixes, config, partial(self._translated, config=config))

    def _translated(self, sentences: list[str], prefixes: list[str], config: DecodingConfig) -> list[Translation]:
        """The translations of units that the memory does not have."""
        inputs = self._inputs(sentences, prefixes, config)
        searched = groups = self._search(inputs, config)
        if config.mbr:
            ranked = self._by_agreement(inputs, groups, config)
            # The confidence was calibrated on beams alone.
            searched = [[best.hypothesis, *group] for (best, *_), group in zip(ranked, groups, strict=True)]
        else:
            groups = [group[:1] for group in groups] if config.n_best == 1 else groups
            ranked = self._candidates(inputs, groups, config)
        if not config.sample:
            ranked = [_with_different_texts(candidates) for candidates in ranked]
        ranked = [candidates[: config.n_best] for candidates in ranked]
        alignments = iter(self._align(inputs, ranked)) if config.alignments else repeat(None)
        translations = []
        for item, candidates in zip(inputs, ranked, strict=True):
            best, *others = [self._translation(candidate, next(alignments)) for candidate in candidates]
            if item.hint:
                best = replace(best, memory=[item.hint.match])
            if not self._says_something(item.text, item.prepared):
                best = unchanged(item.text, config)
            elif config.n_best > 1:
                best = replace(best, alternatives=others)
            translations.append(best)
        if config.needs_confidence:
            translations = self._with_confidence(inputs, searched, translations)
        return [*map(self._checked, inputs, translations)] if config.checks else translations

    def _by_agreement(
        self, inputs: Sequence[_Input], groups: list[list[Hypothesis]], config: DecodingConfig
    ) -> list[list[_Candidate]]:
        """The hypotheses of each sentence and drawn ones, those that are most like all of them first.

        Drawn ones that have other placeholders than the best hypothesis do not count.
        """
        drawing = {"sample": True, "temperature": DRAWN_AT, "n_best": config.mbr, "mbr": 0}
        drawn = self._search(inputs, config.model_copy(update=drawing))
        slots = set(self.target_tokenizer.slots)

        def placeholders(hypothesis: Hypothesis) -> list[int]:
            return sorted(token for token in hypothesis.tokens if token in slots)

        together = []
        for group, more in zip(groups, drawn, strict=True):
            wanted = placeholders(group[0])
            together.append(group + [hypothesis for hypothesis in more if placeholders(hypothesis) == wanted])
        ranked = []
        for candidates in self._candidates(inputs, together, config):
            scores = agreement([candidate.text for candidate in candidates])
            ranked.append([candidates[index] for index in np.argsort(-scores, kind="stable")])
        return ranked

    def _checked(self, item: _Input, translation: Translation) -> Translation:
        """The translation of a sentence with warnings about it; one that stays as it is needs none."""
        if not self._says_something(item.text, item.prepared):
            return replace(translation, sentences=[])
        source, text = without_label(item.text).strip(), translation.text.strip()
        sentence = CheckedSentence(
            source,
            text,
            faults(source, text, self.languages),
            translation.confidence,
            translation.edit_probability,
        )
        return replace(translation, sentences=[sentence])

    def _with_confidence(
        self, inputs: Sequence[_Input], groups: list[list[Hypothesis]], translations: list[Translation]
    ) -> list[Translation]:
        """Translations of sentences with their confidence; one that stays as it is has one already."""
        rows = self._features(inputs, groups, [translation.text for translation in translations], self._sketch)
        with_confidence = []
        for translation, expected in zip(translations, self._confidence(rows), strict=True):
            if translation.confidence is None:
                confidence, edit_probability = expected if translation.text.strip() else LOST
                translation = replace(translation, confidence=confidence, edit_probability=edit_probability)
            with_confidence.append(translation)
        return with_confidence

    def features(
        self, sentences: Sequence[str], config: DecodingConfig, sketch: Sketch | None
    ) -> tuple[list[str], Float[np.ndarray, "sentences features"]]:
        """The translation of each sentence, and the features from which its confidence follows, to calibrate it."""
        inputs = self._inputs(sentences, [""] * len(sentences), config)
        groups = self._search(inputs, config)
        texts = [candidates[0].text for candidates in self._candidates(inputs, [group[:1] for group in groups], config)]
        return texts, self._features(inputs, groups, texts, sketch)

    def _features(
        self, inputs: Sequence[_Input], groups: list[list[Hypothesis]], texts: Sequence[str], sketch: Sketch | None
    ) -> Float[np.ndarray, "sentences features"]:
        sources = [item.text for item in inputs]
        familiarities = sketch.familiarity(sources) if sketch else [None] * len(sources)
        encoded = self.source_tokenizer.encode_batch([item.prepared.text for item in inputs])
        decoded = iter(self.target_tokenizer.decode_batch([h.tokens for group in groups for h in group]))
        rows = np.empty((len(sources), len(SIGNS)))
        for index, group in enumerate(groups):
            rows[index] = features(
                without_label(sources[index]),
                texts[index],
                group[0],
                [next(decoded) for _ in group],
                source_tokens=len(encoded[index]),
                familiarity=familiarities[index],
            )
        return rows

    @cached_property
    def has_confidence(self) -> bool:
        """Whether the folder of this translator has a calibrated confidence."""
        return self._described is not None and read_confidence(self._described) is not None

    @cached_property
    def _confidence(self) -> ConfidenceModel:
        """The confidence model of the folder. Raises `UsageError` if it has none."""
        confidence = read_confidence(self._described) if self._described else None
        if confidence is None:
            path, adapter = self._described or self.path, self._loading.get("adapter")
            if adapter and not self._described:
                raise UsageError(
                    f"Nothing beside {adapter} says how far its translations can be trusted; give the folder of the "
                    "run that wrote it."
                )
            raise UsageError(
                f"{path or 'This model'} has no calibrated confidence; calibrate it on pairs that it was not "
                f"trained on: {command_line('calibrate', path or 'MODEL', 'PAIRS')}"
            )
        return confidence

    @cached_property
    def _sketch(self) -> Sketch | None:
        return read_sketch(self._described) if self._described else None

    def _translation(self, candidate: _Candidate, alignment: Alignment | None) -> Translation:
        hypothesis = candidate.hypothesis
        pieces = self.target_tokenizer.pieces(hypothesis.tokens)
        if alignment:  # a stop that was a word of its own may be gone from the text
            words = len(word_spans(candidate.text))
            alignment = [(source, target) for source, target in alignment if target < words]
        return Translation(candidate.text, hypothesis.score, hypothesis.log_prob, pieces, alignment)

    def _check_prefixes(self, texts: Sequence[str], prefixes: Sequence[str], config: DecodingConfig) -> None:
        """Raises `UsageError` for a prefix longer than any translation: each token of it costs a step of the search."""
        for text, prefix in zip(texts, prefixes, strict=True):
            if len(prefix) < SHORT_PREFIX or not has_words(text):  # a text without words stays as it is
                continue
            most = length_limit(self._source_ids(text), config.max_ratio, config.max_extra)
            if (tokens := len(self.target_tokenizer.encode(prefix))) > most:
                raise UsageError(
                    f"The prefix has {tokens:,} tokens, but a translation of this text has at most {most:,}; give a "
                    "shorter prefix."
                )

    def _splitter(self, config: DecodingConfig) -> Splitter:
        most = min(config.max_source_length or MOST_TOKENS, self.max_length - 1)
        tag = self.source_tokenizer.tag
        return Splitter(self.languages[0], most, count=self.count, tag=tag, whole=not config.split)

    def _inputs(self, sentences: Sequence[str], prefixes: Sequence[str], config: DecodingConfig) -> list[_Input]:
        """The sentences as they are encoded. Placeholders in terms, and in forbidden ones, stay text."""
        glossary, excluded = self._glossary(tuple(config.glossary.items()), tuple(config.forbid))
        prepared = [self._preprocessor(sentence, excluded) for sentence in sentences]
        terms: list[list[Term]] = [[] for _ in sentences]
        if config.glossary:
            terms = [glossary.terms(without_label(sentence.text)) for sentence in prepared]
        hints: Iterable[Hint | None] = repeat(None)
        if self.recall and SIMILAR in self.source_tokenizer.hints:
            sources = self.source_tokenizer.encode_batch([sentence.text for sentence in prepared])
            rooms = [
                self._room(source) - len(self._term_hint(source, of_source))
                for source, of_source in zip(sources, terms, strict=True)
            ]
            hints = self.recall.hints(sentences, sources, self._preprocessor, self.source_tokenizer, rooms=rooms)
        return [*map(_Input, sentences, prepared, prefixes, terms, hints)]

    def _room(self, source: list[int]) -> int:
        """Number of tokens that a hint behind a source may have."""
        return min(self.max_length - 1, MOST_HINTED) - len(source)

    def _term_hint(self, source: list[int], terms: Iterable[Term]) -> list[int]:
        """The tokens of terms behind a source, each once; none if the model does not read or fit them."""
        begin = self.source_tokenizer.hints.get(TERM)
        if begin is None:
            return []
        different = dict.fromkeys((*term.spelling,) for term in terms)
        hint = [id_ for spelling in different for id_ in (begin, *spelling)]
        return hint if len(hint) <= self._room(source) else []

    @cached_property
    def _has_no_letters(self) -> bool:
        """Whether the source vocabulary is of words without any letter."""
        if self.source_tokenizer.kind != "word":
            return False
        return not any(has_letters(word.decode(errors="ignore")) for word in self.source_tokenizer.vocabulary())

    def _says_something(self, sentence: str, prepared: Prepared) -> bool:
        """Whether a sentence has words besides what is copied; one that has none stays as it is.

        In a vocabulary of numbers, such as that of a model without texts, numbers are the words.
        """
        if self._has_no_letters:
            return bool(sentence.strip())
        return has_words(sentence) and has_letters(prepared.text[len(self.source_tokenizer.tag(prepared.text)) :])

    def _search(self, inputs: Sequence[_Input], config: DecodingConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first; one without tokens where there is nothing to translate."""
        groups = [[Hypothesis([], 0.0, 0.0)] for _ in inputs]
        filled = [index for index, item in enumerate(inputs) if self._says_something(item.text, item.prepared)]
        encoded = self._encoded([inputs[index] for index in filled], config)
        rows = config.n_best if config.sample else config.beam_size
        budget = (config.max_tokens or self.engines[0].batch_tokens) // rows
        batches = self._shared_out([len(sentence.encoded) + 1 for sentence in encoded], budget)
        # Each sentence has its terms by now, so workers need not be sent the glossary.
        searched = self._map("search", encoded, batches, config.model_copy(update={"glossary": {}}))
        for index, group in zip(filled, searched, strict=True):
            groups[index] = group
        return groups

    def _encoded(self, inputs: Sequence[_Input], config: DecodingConfig) -> list[Sentence]:
        """Each sentence in tokens, with its prefix, its terms and its hints."""
        sources = self.source_tokenizer.encode_batch([item.prepared.text for item in inputs])
        prefix_texts = [self._preprocessor.prefix(item.prefix, item.prepared) for item in inputs]
        prefixes = self.target_tokenizer.encode_batch(prefix_texts)
        sentences = []
        for item, source, prefix in zip(inputs, sources, prefixes, strict=True):
            similar = item.hint.tokens if item.hint else []
            # In training, too, terms stand last.
            hint = similar + self._term_hint(source, item.terms)
            label, _ = cut_label(item.text)
            target = languages_in(label)[1] if label else self.languages[1]
            sentences.append(Sentence(source, prefix, item.terms, hint=hint, least=config.least(target)))
        return sentences

    def _candidates(
        self, inputs: Sequence[_Input], groups: list[list[Hypothesis]], config: DecodingConfig
    ) -> list[list[_Candidate]]:
        """The hypotheses of each sentence with their texts. What preprocessing took out of the source is put back."""
        decoded = iter(self.target_tokenizer.decode_batch([h.tokens for group in groups for h in group]))
        ranked = []
        for item, group in zip(inputs, groups, strict=True):
            kept = [item.prefix.strip(), *config.glossary.values()]
            candidates = []
            for hypothesis in group:
                text = self._preprocessor.restored(next(decoded), item.prepared)
                candidates.append(_Candidate(hypothesis, self._finished(text, item.text, kept)))
            ranked.append(candidates)
        return ranked

    def _finished(self, text: str, sentence: str, kept: Iterable[str]) -> str:
        """A translation without a final stop that its sentence lacks. A stop that belongs to a text in `kept` stays."""
        shorter = self._preprocessor.finished(text, sentence)
        return text if any(part in text and part not in shorter for part in kept) else shorter

    def _align(self, inputs: Sequence[_Input], ranked: list[list[_Candidate]]) -> list[Alignment]:
        """The alignment of each candidate of each sentence, one after another."""
        sources = self.source_tokenizer.encode_batch([item.prepared.text for item in inputs])
        pairs = [
            (source, candidate.hypothesis.tokens, item.prepared)
            for source, item, candidates in zip(sources, inputs, ranked, strict=True)
            for candidate in candidates
        ]
        return self._map_pairs("align", pairs)

    def _map_pairs(self, operation: str, pairs: list[tuple]) -> list[Any]:
        """Results of an operation of `BatchWork` for pairs, each of which begins with the tokens of both sides."""
        lengths = [max(map(len, pair[:2])) + 1 for pair in pairs]
        return self._map(operation, pairs, list(batches_by_length(lengths, PAIR_TOKENS)))

    def _shared_out(self, lengths: list[int], budget: int) -> list[list[int]]:
        """Indices of sentences in batches of at most `budget` tokens, equal in size, and as many for each worker."""

        def batches(tokens: int) -> list[list[int]]:
            return list(batches_by_length(lengths, tokens))

        workers = self.workers.count if self.workers else 1
        number = -(-len(batches(budget)) // workers) * workers  # rounded up to a multiple of the workers
        # The least tokens a batch with which there are no more batches than that.
        smallest = bisect_left(range(budget), True, key=lambda tokens: len(batches(tokens)) <= number)
        return batches(smallest)

    def _map(self, operation: str, items: list[Any], batches: list[list[int]], *arguments: Any) -> list[Any]:
        """The result of an operation of `BatchWork` for each item, computed batch by batch."""
        jobs = [(operation, [items[index] for index in indices], *arguments) for indices in batches]
        computed = self.workers.map(jobs) if self.workers and len(jobs) > 1 else starmap(self._work, jobs)
        results = dict(zip(chain.from_iterable(batches), chain.from_iterable(computed), strict=True))
        return [results[index] for index in range(len(items))]


def _glossaries(tokenizer: Tokenizer) -> Callable[..., tuple[Glossary, set[str]]]:
    """Function that reads the terms of a search, of which the last ones are kept."""
    return lru_cache(maxsize=GLOSSARIES)(partial(read_terms, tokenizer=tokenizer))


def _loader(device: str) -> Callable[..., Directory]:
    """Function that reads a model directory for a device: as arrays for a CPU."""
    if device == "cpu":
        return ArrayDirectory.load
    from dragoman.storage.model_directory import ModelDirectory

    return partial(ModelDirectory.load, device=device)


def _warn_of_cuts(translations: Iterable[Translation], *, first: int = 0, stacklevel: int = 3) -> None:
    """Warn of texts that were cut, by their index; that of the first translation is `first`.

    The warning names the line of the caller `stacklevel` calls above.
    """
    for index, translation in enumerate(translations, start=first):
        if translation.warning:
            warnings.warn(f"Text {index}: {translation.warning}", SentenceCut, stacklevel=stacklevel)


def _with_different_texts(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The first candidate with each text, in their order."""
    first: dict[str, _Candidate] = {}
    for candidate in candidates:
        first.setdefault(candidate.text, candidate)
    return list(first.values())
