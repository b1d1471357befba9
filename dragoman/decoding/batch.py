"""Search, scores and alignments of one batch of sentences, in this process or in a worker."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any

import torch
from torch import Tensor

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import Alignment, links, word_giving_attention, words
from dragoman.decoding.diverse import DiverseBeams
from dragoman.decoding.ensemble import EnsembleStepper, predictions
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
    Stepper,
    beam_search,
    best_continuations,
    greedy_search,
    length_limit,
    most_probable,
)
from dragoman.decoding.stepper import ModelStepper
from dragoman.decoding.terms import Edit, Term, TermPlacer, edited, placed
from dragoman.errors import DataError
from dragoman.model import Transformer
from dragoman.model.fast import logits as fast_logits
from dragoman.text.tokenizers.placeholders import Prepared
from dragoman.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, in tokens, and what its translation must contain."""

    source: list[int]
    prefix: list[int] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    repaired: bool = False
    """Whether this is a second search, in which characters cannot break. This takes time and is hardly ever needed."""


@dataclass(frozen=True)
class _Unfinished:
    """A translation that lacks terms."""

    index: int
    """Position of its sentence in the batch."""
    sentence: Sentence
    missing: Counter[str]
    """How often each term is lacking, by its text."""
    hypothesis: Hypothesis

    @property
    def terms(self) -> list[Term]:
        """All occurrences of the terms that are lacking."""
        return [term for term in self.sentence.terms if self.missing[term.text]]


class BatchWork:
    """Models and tokenizers, and the operations on a batch: `search`, `score` and `align`."""

    def __init__(self, models: Sequence[Transformer], source_tokenizer: Tokenizer, target_tokenizer: Tokenizer):
        self.models, self.config = models, models[0].config
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self.given = len(target_tokenizer.begin_ids)
        self.device = next(models[0].parameters()).device
        self.max_length = min((m.config.max_length for m in models if m.config.max_length), default=sys.maxsize)
        self._slots = dict(zip(source_tokenizer.slots, target_tokenizer.slots, strict=False))
        # Kept for the next batch, with the banned tokens that were found so far.
        self._forbidden = lru_cache(maxsize=1)(partial(ForbiddenTerms, tokenizer=target_tokenizer))
        self._placer = cache(partial(TermPlacer, source_tokenizer, target_tokenizer))

    @cached_property
    def _whole_characters(self) -> WholeCharacters:
        return WholeCharacters(self.target_tokenizer.vocabulary())

    def __call__(self, operation: str, *arguments: Any) -> list[Any]:
        """The result of an operation, given by name, so that a job can be sent to a worker."""
        return getattr(self, operation)(*arguments)

    @torch.inference_mode()
    def search(self, sentences: list[Sentence], config: DecodingConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first; with terms, its `n_best`."""
        groups = self._search(sentences, config)
        if not all(groups):
            raise DataError(
                "The model gives no probabilities, only NaN: its training went wrong, or its weights are damaged."
            )
        groups = self._repaired(sentences, groups, config)
        if not (config.sample or config.diversity):
            sentences = [replace(each, terms=each.terms + self._copied(each)) for each in sentences]
        asked = any(sentence.terms for sentence in sentences)
        return self._with_terms(sentences, groups, config) if asked else groups

    def _copied(self, sentence: Sentence) -> list[Term]:
        """The slots of a sentence, which its translation must contain."""
        slots, placed = self._slots.items(), self._placer().slot
        return [placed(sentence.source, own, new) for own, new in slots if own in sentence.source]

    def _repaired(
        self, sentences: list[Sentence], groups: list[list[Hypothesis]], config: DecodingConfig
    ) -> list[list[Hypothesis]]:
        """Searches again where the best translation has half a character."""
        texts = self.target_tokenizer.decode_batch([group[0].tokens for group in groups])
        rows = [row for row, text in enumerate(texts) if "\N{REPLACEMENT CHARACTER}" in text]
        again = [replace(sentences[row], repaired=True) for row in rows]
        for row, group in zip(rows, self._search(again, config) if rows else (), strict=True):
            groups[row] = group or groups[row]
        return groups

    def _search(self, sentences: list[Sentence], config: DecodingConfig) -> list[list[Hypothesis]]:
        self._check(max(max(len(s.source), len(s.prefix)) for s in sentences))
        limits = [min(length_limit(s.source) + len(s.prefix), self.max_length) for s in sentences]
        options = SearchOptions(limits, self.config.bos_id, self.config.eos_id, config.length_penalty)
        copies = config.n_best if config.sample or config.diversity else 1
        stepper = self._stepper(sentences, config, copies)
        if config.sample:
            return sample_search(stepper, [sentence.source for sentence in sentences], config, options)
        if config.beam_size == 1:
            return greedy_search(stepper, options, _most_probable)
        if config.diversity:
            size, number = config.beam_size // config.n_best, config.n_best
            return beam_search(stepper, DiverseBeams(size, options, groups=number, strength=config.diversity))
        return beam_search(stepper, Beams(config.beam_size, options, _best_continuations))

    def _with_terms(
        self, sentences: list[Sentence], groups: list[list[Hypothesis]], config: DecodingConfig
    ) -> list[list[Hypothesis]]:
        """Different hypotheses with all terms; those that lack the fewest by themselves come first."""
        results: list[list[Hypothesis]] = []
        unfinished: list[_Unfinished] = []
        for index, (sentence, group) in enumerate(zip(sentences, groups, strict=True)):
            lacking = [(self._placer().missing(sentence.terms, h.tokens), h) for h in group]
            best = sorted(lacking, key=lambda each: (not each[1].finished, each[0].total()))[: config.n_best]
            results.append([hypothesis for missing, hypothesis in best if not missing])
            unfinished += [_Unfinished(index, sentence, missing, h) for missing, h in best if missing]
        if not unfinished:
            return results
        finished = self._placed(unfinished)
        sources = [work.sentence.source for work in unfinished]
        scores = self._scores(list(zip(sources, finished, strict=True)))
        for work, tokens, log_probs in zip(unfinished, finished, scores, strict=True):
            total = sum(log_probs)
            score = total / len(log_probs) ** config.length_penalty
            hypotheses = results[work.index]
            if tokens not in [other.tokens for other in hypotheses]:
                hypotheses.append(replace(work.hypothesis, tokens=tokens, log_prob=total, score=score))
        return results

    def _placed(self, unfinished: list[_Unfinished]) -> list[list[int]]:
        """The tokens of translations with the terms that they lack, where the model finds each most probable."""
        pairs = [(work.sentence.source, work.hypothesis.tokens) for work in unfinished]
        choices = [
            [self._placer().edits(term, *pair, weights, len(work.sentence.prefix)) for term in work.terms]
            for work, pair, weights in zip(unfinished, pairs, self._attention(pairs), strict=True)
        ]
        # Each edit is tried alone.
        tries = [
            (source, edited(tokens, [edit]))
            for (source, tokens), by_term in zip(pairs, choices, strict=True)
            for edits in by_term
            for edit in edits
        ]
        means = [sum(log_probs) / len(log_probs) for log_probs in self._scores(tries)] if tries else []
        results, tried = [], 0
        for work, by_term in zip(unfinished, choices, strict=True):
            best: list[Edit | None] = []
            for edits in by_term:
                own = means[tried : tried + len(edits)]
                tried += len(edits)
                best.append(edits[own.index(max(own))] if own else None)
            results.append(edited(work.hypothesis.tokens, placed(work.terms, best, work.missing)))
        return results

    def _scores(self, pairs: list[tuple[list[int], list[int]]]) -> list[list[float]]:
        """The same as `score`, without the tokens for which the model has no positions."""
        return self.score([(source, target[: self.max_length - 1]) for source, target in pairs])

    @torch.inference_mode()
    def score(self, pairs: list[tuple[list[int], list[int]]]) -> list[list[float]]:
        """The log-probability of each target token and of the end of sentence; that of a token which is given is 0."""
        self._check(max(len(ids) for pair in pairs for ids in pair))
        source_ids, target_ids = self._tensors(pairs)
        found = predictions(self.models, source_ids, target_ids[:, :-1], target_ids[:, 1:]).log_probs
        rows = found.split([len(target) + 1 for _, target in pairs])
        return [[0.0] * self.given + row[self.given :].tolist() for row in rows]

    @torch.inference_mode()
    def align(self, pairs: list[tuple[list[int], list[int], Prepared]]) -> list[Alignment]:
        """The links between words of the source and of the target, by the attention of the first model.

        A pair is the tokens of both sides, and the sentence that the source was encoded from.
        """
        attention = self._attention([(source, target) for source, target, _ in pairs])
        return [
            links(weights, words(self.source_tokenizer, source, values), words(self.target_tokenizer, target, values))
            for weights, (source, target, values) in zip(attention, pairs, strict=True)
        ]

    def _attention(self, pairs: list[tuple[list[int], list[int]]]) -> list[Tensor]:
        """The attention (tgt_len, src_len) of each pair of tokens and their ends, by the first model."""
        source_ids, target_ids = self._tensors(pairs)
        # A translation that was truncated at the last position has no position for its end of sentence.
        inputs = target_ids[:, : min(target_ids.size(1) - 1, self.max_length)]
        found = word_giving_attention(self.models[0], source_ids, inputs).cpu()
        return [each[: len(target) + 1, : len(source) + 1] for each, (source, target) in zip(found, pairs, strict=True)]

    def _stepper(self, sentences: list[Sentence], config: DecodingConfig, times: int = 1) -> Stepper:
        """All models under the rules that apply; each sentence has `times` rows, one after another."""
        sources = self._sources(s.source for s in sentences).repeat_interleave(times, dim=0)
        steppers = [ModelStepper(model, sources) for model in self.models]
        stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
        begun = repeated([s.prefix for s in sentences], times)
        bans: list[Ban] = [self._forbidden(tuple(config.forbid))] if config.forbid else []
        if self.config.starts_with_padding:
            bans.append(Never(self.config.pad_id))
        if any(s.repaired for s in sentences):
            bans.append(self._whole_characters)
        limits = [[s.source.count(slot) for slot in self._slots] for s in sentences]
        if any(map(any, limits)):
            bans.append(SlotLimits(list(self._slots.values()), repeated(limits, times)))
        guard = self._guard(sentences, config.max_copies, times) if config.max_copies else None
        if not (any(begun) or bans or guard):
            return stepper
        return RuledStepper(stepper, prefixes=begun, bans=bans, guard=guard, end=self.config.eos_id, given=self.given)

    def _guard(self, sentences: list[Sentence], least: int, times: int) -> RepetitionGuard:
        """Allows what the source repeats to be repeated as often, and three tokens more often in long sentences.

        `least` is how often anything may be repeated.
        """
        # What an imported tokenizer puts around a source says nothing.
        special = {*self.source_tokenizer.special_ids}
        said = [[i for i in s.source if i not in special] for s in sentences]
        # Tokens of which fewer than `least` occur before cannot have that many copies of a phrase.
        copies = [max(least, most_copies(ids)) if len(ids) - len(set(ids)) >= least else least for ids in said]
        anywhere = [max(least, len(ids) // 10, most_times(ids)) for ids in said]
        return RepetitionGuard(repeated(copies, times), repeated(anywhere, times))

    def _tensors(self, pairs: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        targets = self._padded([self.config.bos_id, *target, self.config.eos_id] for _, target in pairs)
        return self._sources(source for source, _ in pairs), targets

    def _sources(self, sources: Iterable[list[int]]) -> Tensor:
        return self._padded([*source, self.source_tokenizer.closing.eos] for source in sources)

    def _padded(self, rows: Iterable[list[int]]) -> Tensor:
        rows = list(rows)
        longest, pad_id = max(map(len, rows)), self.config.pad_id
        return torch.tensor([row + [pad_id] * (longest - len(row)) for row in rows], device=self.device)

    def _check(self, length: int) -> None:
        if length >= self.max_length:
            raise DataError(
                f"A sentence has {length} tokens and an end, but this model has {self.max_length} positions: "
                "split the sentence."
            )


def _best_continuations(log_probs: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor]:
    rank = fast_logits.best_continuations if fast_logits.can_rank(log_probs) else best_continuations
    return rank(log_probs, totals, count)


def _most_probable(log_probs: Tensor, sentences: Tensor, position: int) -> Tensor:
    if not fast_logits.can_rank(log_probs[:, None]):
        return most_probable(log_probs, sentences, position)
    totals = torch.zeros(len(log_probs), 1, dtype=torch.float64)
    _, best = fast_logits.best_continuations(log_probs[:, None], totals, 1)
    return best[:, 0]


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices of sentences, longest first, in groups of at most `max_tokens` tokens with padding, or of one."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        size = max(1, max_tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size
