"""Search, scores and alignments of one batch of sentences, in this process or in a worker."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import accumulate, islice
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import Alignment, links, words
from dragoman.decoding.diverse import DiverseBeams
from dragoman.decoding.ensemble import EnsembleStepper, label_log_probs
from dragoman.decoding.glossary import ForbiddenTerms
from dragoman.decoding.rules import (
    Ban,
    Never,
    RepetitionGuard,
    RuledStepper,
    SlotLimits,
    WholeCharacters,
    most_copies,
    most_times,
)
from dragoman.decoding.sampling import repeated, sample_search
from dragoman.decoding.search import (
    Beams,
    Hypothesis,
    SearchOptions,
    beam_search,
    greedy_search,
    least_length,
    length_limit,
    length_normalised,
)
from dragoman.decoding.terms import Edit, Term, TermPlacer, needed_edits, with_edits
from dragoman.engine.engine import Engine, Stepper
from dragoman.engine.log_probs import LogProbs
from dragoman.engine.shapes import Int
from dragoman.errors import DataError
from dragoman.text.tokenizers.hint_tokens import TERM
from dragoman.text.tokenizers.placeholders import Prepared
from dragoman.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, in tokens, and what its translation must contain."""

    source: list[int]
    prefix: list[int] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    hint: list[int] = field(default_factory=list)
    """Tokens behind the source for models that read hints, such as the translation of a similar sentence."""
    least: tuple[float, float] | None = None
    """Least length of its translation, `ratio` and `slack` of `least_length`; None: any."""
    whole_characters: bool = False
    """Whether incomplete UTF-8 sequences are forbidden. This makes the search slow and is hardly ever needed."""

    @property
    def encoded(self) -> list[int]:
        """What the encoder reads, without the end of sentence."""
        return self.source + self.hint


@dataclass(frozen=True)
class _Candidate:
    """A hypothesis of a sentence with terms, and the terms that it lacks."""

    index: int
    """Position of its sentence in the batch."""
    sentence: Sentence
    hypothesis: Hypothesis
    missing: Counter[str]
    """How often each term is lacking, by its text; empty if none is."""

    @property
    def missing_terms(self) -> list[Term]:
        """All occurrences of the terms that are lacking."""
        return [term for term in self.sentence.terms if self.missing[term.text]]

    def rank(self) -> tuple[bool, int]:
        """Key that sorts candidates: those that lack the fewest terms first, truncated ones last."""
        return not self.hypothesis.finished, self.missing.total()


@runtime_checkable
class Interrupter(Protocol):
    """Decides whether a search goes on; it ends one by raising an exception."""

    def begin(self) -> None:
        """A search begins, or sentences are scored, in the calling thread."""
        ...

    def check(self) -> None:
        """Raise an exception if what began last in the calling thread is to stop."""
        ...


class InterruptibleStepper:
    """A `Stepper` that asks before each step of another whether the search goes on."""

    def __init__(self, stepper: Stepper, interrupter: Interrupter):
        self.stepper, self.interrupter = stepper, interrupter

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        self.interrupter.check()
        return self.stepper.step(tokens)

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        self.stepper.reorder(rows)


class BatchWork:
    """Engines and tokenizers, and the operations on a batch: `search`, `score` and `align`."""

    def __init__(self, engines: Sequence[Engine], source_tokenizer: Tokenizer, target_tokenizer: Tokenizer):
        self.engines, self.config = engines, engines[0].config
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self.num_given = target_tokenizer.num_given
        """Number of tokens that every target begins with, such as that of its language: nothing predicts these."""
        lengths = [engine.config.max_length for engine in engines]
        self.max_length = min((length for length in lengths if length), default=sys.maxsize)
        self.interrupter: Interrupter | None = None
        """Asked before each step of a search, and before sentences are scored."""
        self._slots = dict(zip(source_tokenizer.slots, target_tokenizer.slots, strict=False))
        """Slots of the target tokenizer by those of the source tokenizer."""
        # Kept for the next batch, with the banned tokens that were found so far.
        self.forbidden_terms = lru_cache(maxsize=1)(partial(ForbiddenTerms, tokenizer=target_tokenizer))

    @cached_property
    def _placer(self) -> TermPlacer:
        return TermPlacer(self.source_tokenizer, self.target_tokenizer)

    @cached_property
    def _whole_characters(self) -> WholeCharacters:
        return WholeCharacters(self.target_tokenizer.vocabulary())

    def __call__(self, operation: str, *arguments: Any) -> list[Any]:
        """The result of an operation, given by name, so that a job can be sent to a worker."""
        return getattr(self, operation)(*arguments)

    def search(self, sentences: list[Sentence], config: DecodingConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first; with terms, its `n_best`."""
        groups = self._search(sentences, config)
        if not all(groups):
            raise DataError(
                "The model gives no probabilities, only NaN: its training went wrong, or its weights are damaged."
            )
        groups = self._with_whole_characters(sentences, groups, config)
        if not (config.sample or config.diversity):
            sentences = [replace(sentence, terms=sentence.terms + self._slot_terms(sentence)) for sentence in sentences]
        if not any(sentence.terms for sentence in sentences):
            return groups
        return self._with_terms(sentences, groups, config)

    def _slot_terms(self, sentence: Sentence) -> list[Term]:
        """The slots of a sentence as terms, since its translation must contain them."""
        source = sentence.source
        return [self._placer.slot_term(source, slot, target) for slot, target in self._slots.items() if slot in source]

    def _with_whole_characters(
        self, sentences: list[Sentence], groups: list[list[Hypothesis]], config: DecodingConfig
    ) -> list[list[Hypothesis]]:
        """Searches again for the sentences whose best translation has an incomplete character."""
        texts = self.target_tokenizer.decode_batch([group[0].tokens for group in groups])
        broken = [row for row, text in enumerate(texts) if "\N{REPLACEMENT CHARACTER}" in text]
        if not broken:
            return groups
        repaired = self._search([replace(sentences[row], whole_characters=True) for row in broken], config)
        for row, group in zip(broken, repaired, strict=True):
            if group:
                groups[row] = group
        return groups

    def _search(self, sentences: list[Sentence], config: DecodingConfig) -> list[list[Hypothesis]]:
        self._check_length(max(max(len(s.encoded), len(s.prefix)) for s in sentences))
        limits = [self._most_tokens(sentence, config) for sentence in sentences]
        options = SearchOptions(
            limits, self.config.bos_id, self.config.eos_id, config.length_penalty, config.length_offset
        )
        copies = config.n_best if config.sample or config.diversity else 1
        stepper = self._stepper(sentences, config, copies)
        if config.sample:
            return sample_search(stepper, [sentence.source for sentence in sentences], config, options)
        if config.beam_size == 1:
            return greedy_search(stepper, options)
        if config.diversity:
            size, number = config.beam_size // config.n_best, config.n_best
            return beam_search(stepper, DiverseBeams(size, options, groups=number, strength=config.diversity))
        return beam_search(stepper, Beams(config.beam_size, options))

    def inflects(self, config: DecodingConfig) -> bool:
        """Whether forms of a term count as the term: the model has learned them, and nobody forbids it."""
        return config.inflect and TERM in self.source_tokenizer.hints

    def _with_terms(
        self, sentences: list[Sentence], groups: list[list[Hypothesis]], config: DecodingConfig
    ) -> list[list[Hypothesis]]:
        """Different hypotheses with all terms; those that lack the fewest by themselves come first."""
        results: list[list[Hypothesis]] = []
        incomplete: list[_Candidate] = []
        inflected = self.inflects(config)
        for index, (sentence, group) in enumerate(zip(sentences, groups, strict=True)):
            if not sentence.terms:
                results.append(group)
                continue
            candidates = [
                _Candidate(
                    index,
                    sentence,
                    hypothesis,
                    self._placer.missing(sentence.terms, hypothesis.tokens, inflected=inflected),
                )
                for hypothesis in group
            ]
            best = sorted(candidates, key=_Candidate.rank)[: config.n_best]
            results.append([candidate.hypothesis for candidate in best if not candidate.missing])
            incomplete += [candidate for candidate in best if candidate.missing]
        if not incomplete:
            return results
        completed = self._completed(incomplete, config)
        sources = [candidate.sentence.encoded for candidate in incomplete]
        scores = self._truncated_scores(list(zip(sources, completed, strict=True)))
        for candidate, tokens, log_probs in zip(incomplete, completed, scores, strict=True):
            totals = list(accumulate(log_probs))
            total = totals[-1]
            score = length_normalised(total, len(log_probs), penalty=config.length_penalty, offset=config.length_offset)
            hypotheses = results[candidate.index]
            if tokens not in [hypothesis.tokens for hypothesis in hypotheses]:
                scored = replace(candidate.hypothesis, tokens=tokens, log_prob=total, score=score, totals=totals)
                hypotheses.append(scored)
        return results

    def _completed(self, candidates: list[_Candidate], config: DecodingConfig) -> list[list[int]]:
        """The tokens of each candidate with the terms that it lacks, where the model finds each most probable.

        An edit that would take away another term, or make a forbidden one, is not made.
        """
        pairs = [(candidate.sentence.encoded, candidate.hypothesis.tokens) for candidate in candidates]
        choices: list[list[list[Edit]]] = []  # for each candidate and each of its missing terms, the possible edits
        for candidate, (_, tokens), weights in zip(candidates, pairs, self._attention(pairs), strict=True):
            source, begin = candidate.sentence.source, len(candidate.sentence.prefix)
            weights = weights[:, : len(source) + 1]  # without those of a hint
            choices.append(
                [
                    self._harmless(self._placer.edits(term, source, tokens, weights, begin), candidate, config)
                    for term in candidate.missing_terms
                ]
            )
        # Each edit is tried alone.
        tries = [
            (source, with_edits(tokens, [edit]))
            for (source, tokens), edits_of_terms in zip(pairs, choices, strict=True)
            for edits in edits_of_terms
            for edit in edits
        ]
        scores = self._truncated_scores(tries) if tries else []
        means = iter([sum(log_probs) / len(log_probs) for log_probs in scores])
        results = []
        for candidate, edits_of_terms in zip(candidates, choices, strict=True):
            best: list[Edit | None] = []
            for edits in edits_of_terms:
                means_of_edits = list(islice(means, len(edits)))
                best.append(edits[means_of_edits.index(max(means_of_edits))] if edits else None)
            terms, missing = candidate.sentence.terms, candidate.missing
            made: list[Edit] = []
            completed = candidate.hypothesis.tokens
            for edit in needed_edits(candidate.missing_terms, best, candidate.missing):
                with_one_more = with_edits(candidate.hypothesis.tokens, [*made, edit])
                if not self._harms(terms, missing, with_one_more, config):
                    made.append(edit)
                    completed = with_one_more
                    missing = self._placer.missing(terms, completed, inflected=self.inflects(config))
            results.append(completed)
        return results

    def _harmless(self, edits: list[Edit], candidate: _Candidate, config: DecodingConfig) -> list[Edit]:
        """The edits that do no harm to a candidate. If all do, the term may stand beside the word that one replaces."""
        beside = [Edit(edit.start, edit.start, edit.tokens) for edit in edits[:1]]
        for possible in (edits, beside):
            kept = [
                edit
                for edit in possible
                if not self._harms(
                    candidate.sentence.terms,
                    candidate.missing,
                    with_edits(candidate.hypothesis.tokens, [edit]),
                    config,
                )
            ]
            if kept:
                return kept
        return []

    def _harms(self, terms: list[Term], missing: Counter[str], tokens: list[int], config: DecodingConfig) -> bool:
        """Whether a translation lacks terms more often than those that are `missing`, or has a forbidden one."""
        lacking = self._placer.missing(terms, tokens, inflected=self.inflects(config))
        if any(count > missing[term] for term, count in lacking.items()):
            return True
        if not config.forbid:
            return False
        return self.forbidden_terms(tuple(config.forbid)).first_in(self.target_tokenizer.decode(tokens)) is not None

    def _truncated_scores(self, pairs: list[tuple[list[int], list[int]]]) -> list[list[float]]:
        """The same as `score`, without the tokens for which the model has no positions."""
        return self.score([(source, target[: self.max_length - 1]) for source, target in pairs])

    def score(self, pairs: list[tuple[list[int], list[int]]]) -> list[list[float]]:
        """The log-probability of each target token and of the end of sentence; 0 for the tokens that are given."""
        self._check_length(max(len(ids) for pair in pairs for ids in pair))
        self._may_go_on()
        source_ids, target_ids = self._padded_pairs(pairs)
        lengths = [len(target) + 1 for _, target in pairs]  # with the end of sentence
        log_probs = label_log_probs(self.engines, source_ids, target_ids[:, :-1], target_ids[:, 1:], lengths)
        rows = np.split(log_probs, np.cumsum(lengths)[:-1])
        return [[0.0] * self.num_given + row[self.num_given :].tolist() for row in rows]

    def align(self, pairs: list[tuple[list[int], list[int], Prepared]]) -> list[Alignment]:
        """The links between words of the source and of the target, by the attention of the first engine.

        A pair is the tokens of both sides, and the sentence that the source was encoded from.
        """
        attention = self._attention([(source, target) for source, target, _ in pairs])
        alignments = []
        for weights, (source, target, prepared) in zip(attention, pairs, strict=True):
            source_words = words(self.source_tokenizer, source, prepared)
            target_words = words(self.target_tokenizer, target, prepared)
            alignments.append(links(weights, source_words, target_words))
        return alignments

    def _attention(self, pairs: list[tuple[list[int], list[int]]]) -> list[np.ndarray]:
        """The attention (tgt_len, src_len) to the source by each target token and its end, by the first engine."""
        self._may_go_on()
        source_ids, target_ids = self._padded_pairs(pairs)
        # A translation that was truncated at the last position has no position for its end of sentence.
        inputs = target_ids[:, : min(target_ids.shape[1] - 1, self.max_length)]
        maps = self.engines[0].attention(source_ids, inputs)
        attention = [
            map_[: len(target) + 1, : len(source) + 1] for map_, (source, target) in zip(maps, pairs, strict=True)
        ]
        if self.engines[0].config.aligned_token == "predicted":
            return attention
        # The row of a token is that of the step which reads it. No step reads the end: it comes from the source's end.
        return [np.vstack([rows[1:], np.eye(1, rows.shape[1], rows.shape[1] - 1)]) for rows in attention]

    def _stepper(self, sentences: list[Sentence], config: DecodingConfig, times: int = 1) -> Stepper:
        """All engines under the rules that apply; each sentence has `times` rows, one after another."""
        sources = self._padded_sources(s.encoded for s in sentences).repeat(times, axis=0)
        if self.interrupter:
            self.interrupter.begin()
        steppers = [engine.stepper(sources) for engine in self.engines]
        stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
        if self.interrupter:
            stepper = InterruptibleStepper(stepper, self.interrupter)
        prefixes = repeated([s.prefix for s in sentences], times)
        bans = self._bans(sentences, config, times)
        guard = self._guard(sentences, config.max_copies, times) if config.max_copies else None
        has_least = any(sentence.least for sentence in sentences)
        floors = repeated([self._fewest_tokens(s, config) for s in sentences], times) if has_least else []
        end, given = self.config.eos_id, self.num_given
        return RuledStepper(stepper, prefixes=prefixes, bans=bans, guard=guard, floors=floors, end=end, given=given)

    def _fewest_tokens(self, sentence: Sentence, config: DecodingConfig) -> int:
        """Tokens that the translation of a sentence has at least."""
        ratio, slack = sentence.least or (None, None)
        return least_length(sentence.source, ratio, slack, most=self._most_tokens(sentence, config))

    def _most_tokens(self, sentence: Sentence, config: DecodingConfig) -> int:
        """Tokens that the translation of a sentence has at most, its end included."""
        most = length_limit(sentence.source, config.max_ratio, config.max_extra)
        return min(most + len(sentence.prefix), self.max_length)

    def _bans(self, sentences: list[Sentence], config: DecodingConfig, times: int) -> list[Ban]:
        """The bans on tokens that these sentences need."""
        bans: list[Ban] = []
        if self.config.never_pads:
            bans.append(Never(self.config.pad_id))
        if config.forbid:
            bans.append(self.forbidden_terms(tuple(config.forbid)))
        if any(s.whole_characters for s in sentences):
            bans.append(self._whole_characters)
        if self._slots:  # whatever the sentences have: one must not be translated by what another has
            slot_counts = [[s.source.count(slot) for slot in self._slots] for s in sentences]
            bans.append(SlotLimits(list(self._slots.values()), repeated(slot_counts, times)))
        return bans

    def _guard(self, sentences: list[Sentence], least: int, times: int) -> RepetitionGuard:
        """Allows what the source repeats to be repeated as often, and three tokens more often in long sentences.

        `least` is how often anything may be repeated.
        """
        special = {*self.source_tokenizer.special_ids}
        copies, anywhere = [], []
        for sentence in sentences:
            # The special tokens that an imported tokenizer puts around a source say nothing.
            ids = [id_ for id_ in sentence.source if id_ not in special]
            # Tokens of which fewer than `least` occur before cannot have that many copies of a phrase.
            may_repeat = len(ids) - len(set(ids)) >= least
            copies.append(max(least, most_copies(ids)) if may_repeat else least)
            anywhere.append(max(least, len(ids) // 10, most_times(ids)))
        return RepetitionGuard(repeated(copies, times), repeated(anywhere, times))

    def _padded_pairs(self, pairs: list[tuple[list[int], list[int]]]) -> tuple[np.ndarray, np.ndarray]:
        """Sources with their end (batch, src_len), and targets with begin and end (batch, tgt_len)."""
        targets = self._padded([self.config.bos_id, *target, self.config.eos_id] for _, target in pairs)
        return self._padded_sources(source for source, _ in pairs), targets

    def _padded_sources(self, sources: Iterable[list[int]]) -> np.ndarray:
        return self._padded([*source, self.source_tokenizer.closing.eos] for source in sources)

    def _padded(self, rows: Iterable[list[int]]) -> np.ndarray:
        rows = list(rows)
        longest, pad_id = max(map(len, rows)), self.config.pad_id
        return np.array([row + [pad_id] * (longest - len(row)) for row in rows], np.int64)

    def _may_go_on(self) -> None:
        if self.interrupter:
            self.interrupter.begin()
            self.interrupter.check()

    def _check_length(self, length: int) -> None:
        """Raise `DataError` for a sentence that the model has too few positions for."""
        if length >= self.max_length:
            raise DataError(
                f"A sentence has {length} tokens and an end, but this model has {self.max_length} positions: "
                "split the sentence."
            )


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices of sentences, longest first, in groups of at most `max_tokens` tokens with padding, or of one."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        size = max(1, max_tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size
