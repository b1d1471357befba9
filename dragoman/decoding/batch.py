"""What is computed for one batch of sentences, in this process or in a worker."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.config.decoding import DecodingConfig
from dragoman.data.tokenizers.tokenizer import EOS_ID, Tokenizer
from dragoman.decoding.alignment import Alignment, align
from dragoman.decoding.constrained import ConstrainedBeams, Term
from dragoman.decoding.diverse import DiverseBeams, diverse_beam_search
from dragoman.decoding.ensemble import EnsembleStepper, predictions
from dragoman.decoding.glossary import ForbiddenTerms, joints
from dragoman.decoding.rules import RepetitionGuard, RuledStepper, most_copies, most_times
from dragoman.decoding.sampling import repeated, sample_search
from dragoman.decoding.search import Hypothesis, Stepper, beam_search, follow, greedy_search
from dragoman.decoding.stepper import ModelStepper
from dragoman.errors import DataError
from dragoman.model import Transformer


@dataclass(frozen=True)
class Sentence:
    """What one sentence asks of a search, in tokens."""

    source: list[int]
    prefix: list[int] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)

    @property
    def term_tokens(self) -> int:
        return sum(len(term.spelling) for term in self.terms)

    def rows(self, config: DecodingConfig) -> int:
        """Hypotheses that are followed at the same time: a beam more for each token of its terms."""
        return config.n_best if config.sample else config.beam_size + self.term_tokens


class BatchWork:
    """The models and tokenizers, and what they do with a batch."""

    def __init__(self, models: Sequence[Transformer], source_tokenizer: Tokenizer, target_tokenizer: Tokenizer):
        self.models, self.config = models, models[0].config
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self.device = next(models[0].parameters()).device
        limits = [model.config.max_length for model in models]
        self.max_length = min((each for each in limits if each is not None), default=sys.maxsize)
        self._forbidden: tuple[list[str], ForbiddenTerms | None] = ([], None)

    def __call__(self, operation: str, *arguments: Any) -> list[Any]:
        """One of the operations below by name, since a job must travel to a worker."""
        operations: dict[str, Callable[..., list[Any]]] = {
            "search": self.search,
            "score": self.score,
            "align": self.align,
        }
        return operations[operation](*arguments)

    @torch.inference_mode()
    def search(self, sentences: list[Sentence], config: DecodingConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first. With terms, all sentences have equally many tokens of them."""
        groups = self._search(sentences, config)
        if not all(groups):
            if any(sentence.terms for sentence in sentences):
                raise DataError(
                    "No translation has all terms that the glossary asks for and obeys the other rules; take terms "
                    "out of the glossary, or out of what is forbidden. If it fails without terms too, the weights of "
                    "the model are damaged."
                )
            raise DataError(
                "The model gives no probabilities, only NaN: its training went wrong, or its weights are damaged."
            )
        return groups

    def _search(self, sentences: list[Sentence], config: DecodingConfig) -> list[list[Hypothesis]]:
        self._check(max(max(len(s.source), len(s.prefix)) for s in sentences))
        limits = [2 * len(s.source) + 20 + len(s.prefix) + s.term_tokens for s in sentences]
        limits = [min(limit, self.max_length) for limit in limits]
        copies = config.n_best if config.sample or config.diversity else 1
        stepper = self._stepper(sentences, config, copies)
        return self._strategy(sentences, limits, config)(stepper)

    def _strategy(
        self, sentences: list[Sentence], limits: list[int], config: DecodingConfig
    ) -> Callable[[Stepper], list[list[Hypothesis]]]:
        """The search that the options ask for, to be run over a stepper."""
        ids = {"bos_id": self.config.bos_id, "eos_id": self.config.eos_id}
        options: dict[str, Any] = {"max_lengths": limits, "length_penalty": config.length_penalty, **ids}
        if config.sample:
            sources = [sentence.source for sentence in sentences]
            return partial(sample_search, sources=sources, config=config, **options)
        if config.beam_size == 1 and not sentences[0].terms:
            return partial(greedy_search, **options)
        beams = (limits, ids["eos_id"], config.length_penalty)
        if config.diversity:
            size, groups = config.beam_size // config.n_best, config.n_best
            diverse = DiverseBeams(size, *beams, groups=groups, strength=config.diversity)
            return partial(diverse_beam_search, beams=diverse, bos_id=ids["bos_id"])
        if sentences[0].terms:
            terms, size = [sentence.terms for sentence in sentences], sentences[0].rows(config)
            constrained = ConstrainedBeams(size, *beams, terms=terms, joints=joints(self.target_tokenizer))
            return partial(follow, beams=constrained, bos_id=ids["bos_id"])
        return partial(beam_search, beam_size=config.beam_size, **options)

    @torch.inference_mode()
    def score(self, pairs: list[tuple[list[int], list[int]]]) -> list[list[float]]:
        """The log-probability of each target token and of the end of sentence."""
        self._check(max(len(ids) for pair in pairs for ids in pair))
        source_ids, target_ids = self._tensors(pairs)
        found = predictions(self.models, source_ids, target_ids[:, :-1], target_ids[:, 1:]).log_probs
        return [row.tolist() for row in found.split([len(target) + 1 for _, target in pairs])]

    @torch.inference_mode()
    def align(self, pairs: list[tuple[list[int], list[int], list[str]]]) -> list[Alignment]:
        """Which words of the target come from which of the source, as the first model sees it.

        A pair is the tokens of both sides, and the values of their slots.
        """
        source_ids, target_ids = self._tensors([(source, target) for source, target, _ in pairs])
        tokenizers = self.source_tokenizer, self.target_tokenizer
        # The end of a translation that was cut at the last position has none, and is no word.
        inputs = target_ids[:, : min(target_ids.size(1) - 1, self.max_length)]
        return align(self.models[0], source_ids, inputs, pairs=pairs, tokenizers=tokenizers)

    def _stepper(self, sentences: list[Sentence], config: DecodingConfig, times: int = 1) -> Stepper:
        """All models under the rules that apply; each sentence has `times` rows, one after another."""
        sources = self._padded([*s.source, self.config.eos_id] for s in sentences)
        sources = sources.repeat_interleave(times, dim=0).to(self.device)
        steppers = [ModelStepper(model, sources) for model in self.models]
        stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
        prefixes = repeated([s.prefix for s in sentences], times)
        bans = [self._forbidding(config.forbid)] if config.forbid else []
        guard = _guard(sentences, config.max_copies, times) if config.max_copies else None
        if not (any(prefixes) or bans or guard):
            return stepper
        # A hypothesis that must contain a term may not end before it does.
        end = None if any(s.terms for s in sentences) else self.config.eos_id
        return RuledStepper(stepper, prefixes=prefixes, bans=bans, guard=guard, end=end)

    def _forbidding(self, terms: list[str]) -> ForbiddenTerms:
        # Kept from batch to batch with what it has computed. Threads may replace it, so it is read only once.
        known, forbidden = self._forbidden
        if forbidden is None or known != terms:
            forbidden = ForbiddenTerms(terms, self.target_tokenizer)
            self._forbidden = terms, forbidden
        return forbidden

    def _tensors(self, pairs: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
        bos, eos = self.config.bos_id, self.config.eos_id
        sources = self._padded([*source, eos] for source, _ in pairs)
        targets = self._padded([bos, *target, eos] for _, target in pairs)
        return sources.to(self.device), targets.to(self.device)

    def _padded(self, rows: Iterable[list[int]]) -> Tensor:
        return pad_sequence(list(map(torch.tensor, rows)), batch_first=True, padding_value=self.config.pad_id)

    def _check(self, length: int) -> None:
        if length >= self.max_length:
            raise DataError(
                f"A sentence has {length} tokens and an end, but this model has {self.max_length} positions: "
                "split the sentence."
            )


def _guard(sentences: list[Sentence], least: int, times: int) -> RepetitionGuard:
    """Allows to repeat what the source or a term repeats, and three tokens more often where more is said."""
    # What an imported tokenizer puts around a source says nothing.
    said = [([i for i in s.source if i > EOS_ID], *(term.spelling for term in s.terms)) for s in sentences]
    copies = [max([least, *(most_copies(ids) for ids in each if _repeats(ids, least))]) for each in said]
    anywhere = [max(least, len(each[0]) // 10, *map(most_times, each)) for each in said]
    return RepetitionGuard(repeated(copies, times), repeated(anywhere, times))


def _repeats(ids: list[int], least: int) -> bool:
    """Whether a phrase can stand in these tokens more than `least` times at all."""
    return len(ids) - len(set(ids)) >= least
