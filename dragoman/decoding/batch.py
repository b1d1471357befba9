"""Search, scores and alignments of one batch of sentences, in this process or in a worker."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.config.decoding import DecodingConfig
from dragoman.data.tokenizers.placeholders import Prepared
from dragoman.data.tokenizers.tokenizer import EOS_ID, Tokenizer
from dragoman.decoding.alignment import Alignment, links, word_giving_attention, words
from dragoman.decoding.constrained import ConstrainedBeams, Term
from dragoman.decoding.diverse import DiverseBeams
from dragoman.decoding.ensemble import EnsembleStepper, predictions
from dragoman.decoding.glossary import ForbiddenTerms, joints
from dragoman.decoding.rules import (
    Ban,
    RepetitionGuard,
    RuledStepper,
    SlotLimits,
    WholeCharacters,
    most_copies,
    most_times,
)
from dragoman.decoding.sampling import repeated, sample_search
from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, Stepper, beam_search, greedy_search
from dragoman.decoding.stepper import ModelStepper
from dragoman.errors import DataError
from dragoman.model import Transformer


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, in tokens, and what its translation must contain."""

    source: list[int]
    prefix: list[int] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    repaired: bool = False
    """Whether this is a second search, in which characters cannot break. This takes time and is hardly ever needed."""

    @property
    def term_tokens(self) -> int:
        return sum(len(term.spelling) for term in self.terms)

    def rows(self, config: DecodingConfig) -> int:
        """Hypotheses that are kept at the same time: one more for each token of its terms."""
        return config.n_best if config.sample else config.beam_size + self.term_tokens


class BatchWork:
    """Models and tokenizers, and the operations on a batch: `search`, `score` and `align`."""

    def __init__(self, models: Sequence[Transformer], source_tokenizer: Tokenizer, target_tokenizer: Tokenizer):
        self.models, self.config = models, models[0].config
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self.device = next(models[0].parameters()).device
        limits = [model.config.max_length for model in models]
        self.max_length = min((each for each in limits if each is not None), default=sys.maxsize)
        self._slots = dict(zip(source_tokenizer.slots, target_tokenizer.slots, strict=False))
        # Kept for the next batch, with the banned tokens that were found so far.
        self._forbidden = lru_cache(maxsize=1)(partial(ForbiddenTerms, tokenizer=target_tokenizer))

    @cached_property
    def _whole_characters(self) -> WholeCharacters:
        return WholeCharacters(self.target_tokenizer.vocabulary())

    def __call__(self, operation: str, *arguments: Any) -> list[Any]:
        """The result of an operation, given by name, so that a job can be sent to a worker."""
        return getattr(self, operation)(*arguments)

    @torch.inference_mode()
    def search(self, sentences: list[Sentence], config: DecodingConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first. With terms, all sentences have equally many tokens of them."""
        groups = self._search(sentences, config)
        if all(groups):
            return self._repaired(sentences, groups, config)
        if any(sentence.terms for sentence in sentences):
            raise DataError(
                "No translation has all terms that the glossary asks for and obeys the other rules; take terms out of "
                "the glossary, or out of what is forbidden. If it fails without terms too, the weights of the model "
                "are damaged."
            )
        raise DataError(
            "The model gives no probabilities, only NaN: its training went wrong, or its weights are damaged."
        )

    def _repaired(
        self, sentences: list[Sentence], groups: list[list[Hypothesis]], config: DecodingConfig
    ) -> list[list[Hypothesis]]:
        """Searches again where the best translation has half a character or lacks a slot, which becomes a term."""
        missing: list[list[Term]] = []
        for sentence, group in zip(sentences, groups, strict=True):
            slots = [self._slots[i] for i in dict.fromkeys(sentence.source) if i in self._slots]
            sampled = config.sample or config.diversity
            missing.append([Term([slot]) for slot in slots if not sampled and slot not in group[0].tokens])
        texts = self.target_tokenizer.decode_batch([group[0].tokens for group in groups])
        faulty = [row for row, text in enumerate(texts) if missing[row] or "\N{REPLACEMENT CHARACTER}" in text]
        for count in {len(missing[row]) for row in faulty}:
            rows = [row for row in faulty if len(missing[row]) == count]
            again = [replace(sentences[i], terms=sentences[i].terms + missing[i], repaired=True) for i in rows]
            for row, group in zip(rows, self._search(again, config), strict=True):
                groups[row] = group or groups[row]
        return groups

    def _search(self, sentences: list[Sentence], config: DecodingConfig) -> list[list[Hypothesis]]:
        self._check(max(max(len(s.source), len(s.prefix)) for s in sentences))
        limits = [2 * len(s.source) + 20 + len(s.prefix) + s.term_tokens for s in sentences]
        limits = [min(limit, self.max_length) for limit in limits]
        options = SearchOptions(limits, self.config.bos_id, self.config.eos_id, config.length_penalty)
        copies = config.n_best if config.sample or config.diversity else 1
        stepper = self._stepper(sentences, config, copies)
        if config.sample:
            return sample_search(stepper, [sentence.source for sentence in sentences], config, options)
        if config.beam_size == 1 and not sentences[0].terms:
            return greedy_search(stepper, options)
        return beam_search(stepper, self._beams(sentences, config, options))

    def _beams(self, sentences: list[Sentence], config: DecodingConfig, options: SearchOptions) -> Beams:
        if config.diversity:
            size, groups = config.beam_size // config.n_best, config.n_best
            return DiverseBeams(size, options, groups=groups, strength=config.diversity)
        if sentences[0].terms:
            terms, size = [sentence.terms for sentence in sentences], sentences[0].rows(config)
            return ConstrainedBeams(size, options, terms=terms, joints=joints(self.target_tokenizer))
        return Beams(config.beam_size, options)

    @torch.inference_mode()
    def score(self, pairs: list[tuple[list[int], list[int]]]) -> list[list[float]]:
        """The log-probability of each target token and of the end of sentence."""
        self._check(max(len(ids) for pair in pairs for ids in pair))
        source_ids, target_ids = self._tensors(pairs)
        found = predictions(self.models, source_ids, target_ids[:, :-1], target_ids[:, 1:]).log_probs
        return [row.tolist() for row in found.split([len(target) + 1 for _, target in pairs])]

    @torch.inference_mode()
    def align(self, pairs: list[tuple[list[int], list[int], Prepared]]) -> list[Alignment]:
        """Which words of the target come from which words of the source, by the attention of the first model.

        A pair is the tokens of both sides, and the sentence that the source was encoded from.
        """
        source_ids, target_ids = self._tensors([(source, target) for source, target, _ in pairs])
        # A translation that was truncated at the last position has no position for its end of sentence.
        inputs = target_ids[:, : min(target_ids.size(1) - 1, self.max_length)]
        weights = word_giving_attention(self.models[0], source_ids, inputs).cpu()
        return [
            links(
                weight[: len(target) + 1, : len(source) + 1],
                words(self.source_tokenizer, source, prepared),
                words(self.target_tokenizer, target, prepared),
            )
            for weight, (source, target, prepared) in zip(weights, pairs, strict=True)
        ]

    def _stepper(self, sentences: list[Sentence], config: DecodingConfig, times: int = 1) -> Stepper:
        """All models under the rules that apply; each sentence has `times` rows, one after another."""
        sources = self._padded([*s.source, self.config.eos_id] for s in sentences).repeat_interleave(times, dim=0)
        steppers = [ModelStepper(model, sources) for model in self.models]
        stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
        prefixes = repeated([s.prefix for s in sentences], times)
        bans: list[Ban] = [self._forbidden(tuple(config.forbid))] if config.forbid else []
        if any(s.repaired for s in sentences):
            bans.append(self._whole_characters)
        limits = [[s.source.count(slot) for slot in self._slots] for s in sentences]
        if any(map(any, limits)):
            bans.append(SlotLimits(list(self._slots.values()), repeated(limits, times)))
        guard = _guard(sentences, config.max_copies, times) if config.max_copies else None
        if not (any(prefixes) or bans or guard):
            return stepper
        # A hypothesis that must contain a term may not end before it does.
        end = None if any(s.terms for s in sentences) else self.config.eos_id
        return RuledStepper(stepper, prefixes=prefixes, bans=bans, guard=guard, end=end)

    def _tensors(self, pairs: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        bos, eos = self.config.bos_id, self.config.eos_id
        sources = self._padded([*source, eos] for source, _ in pairs)
        targets = self._padded([bos, *target, eos] for _, target in pairs)
        return sources, targets

    def _padded(self, rows: Iterable[list[int]]) -> Tensor:
        tensors = list(map(torch.tensor, rows))
        return pad_sequence(tensors, batch_first=True, padding_value=self.config.pad_id).to(self.device)

    def _check(self, length: int) -> None:
        if length >= self.max_length:
            raise DataError(
                f"A sentence has {length} tokens and an end, but this model has {self.max_length} positions: "
                "split the sentence."
            )


def _guard(sentences: list[Sentence], least: int, times: int) -> RepetitionGuard:
    """Allows what the source or a term repeats to be repeated as often, and three tokens more often in long sentences.

    `least` is how often anything may be repeated.
    """
    # What an imported tokenizer puts around a source says nothing.
    said = [([i for i in s.source if i > EOS_ID], *(term.spelling for term in s.terms)) for s in sentences]
    # Tokens of which fewer than `least` occur before cannot have that many copies of a phrase.
    repeating = [[ids for ids in each if len(ids) - len(set(ids)) >= least] for each in said]
    copies = [max([least, *map(most_copies, each)]) for each in repeating]
    anywhere = [max(least, len(each[0]) // 10, *map(most_times, each)) for each in said]
    return RepetitionGuard(repeated(copies, times), repeated(anywhere, times))
