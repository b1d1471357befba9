"""Sentences in, translations out: in order, any number of them, batched by length."""

import copy
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from dragoman.checkpoint import ModelDirectory
from dragoman.data.batching import cut, padded
from dragoman.data.bitext import normalised
from dragoman.data.tokenizer import Tokenizer
from dragoman.decoding.search import Hypothesis, Stepper, beam_search, greedy_search
from dragoman.decoding.stepper import ModelStepper
from dragoman.decoding.workers import Workers
from dragoman.device import choose_device, choose_precision, limit_kernel_caches
from dragoman.errors import DataError, UsageError
from dragoman.model import Transformer

MAX_TOKENS = 6144
"""Source tokens of a batch with padding, times beams: larger ones gain little speed and take more memory."""


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    score: float
    """Log-probability divided by the length to the power of the length penalty; closer to 0 is more certain."""
    log_prob: float
    tokens: list[str]
    """The target pieces, without begin and end of sentence."""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


class Translator:
    """Translates with one model and its tokenizers.

    An empty or blank sentence stays as it is. A translation has at most `2 * source tokens + 20` tokens.
    """

    def __init__(
        self,
        model: Transformer,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        precision: str = "float32",
        workers: int = 1,
    ):
        """`precision` is float32, bfloat16 or auto (see `dragoman.device`).

        More than one of `workers` (on a CPU) are processes that this one forks, which suits a command more than a
        program with threads of its own; `close` ends them, and so does a `with` block.
        """
        limit_kernel_caches(8)
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self.device = next(model.parameters()).device
        dtype = choose_precision(precision, self.device)
        # A copy in half precision, not autocast, which would round the weights anew in every step.
        self.model = (model if dtype == torch.float32 else copy.deepcopy(model).to(dtype)).eval()
        self.workers = None
        if workers > 1 and self.device.type == "cpu":
            self.workers = Workers(self._search_batch, workers)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: torch.device | str | None = None,
        precision: str = "float32",
        workers: int = 1,
    ) -> Self:
        """From a model directory; raises `dragoman.errors.DataError` if it is not one."""
        loaded = ModelDirectory.load(Path(path), device=device or choose_device())
        tokenizers = loaded.source_tokenizer, loaded.target_tokenizer
        return cls(loaded.model, *tokenizers, precision=precision, workers=workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self.workers is not None:
            self.workers.close()

    def translate(
        self,
        sentences: Iterable[str],
        *,
        beam_size: int = 5,
        length_penalty: float = 1.0,
        max_tokens: int = MAX_TOKENS,
    ) -> list[Translation]:
        """The best translation of each sentence, in the order given.

        Batches have at most `max_tokens` source tokens with padding, times beams.
        """
        if isinstance(sentences, str):
            raise UsageError("`translate` takes a list of sentences, not one text; write [text].")
        if beam_size < 1:
            raise UsageError(f"`beam_size` is {beam_size}; 1 is greedy search, 5 is usual.")
        sentences = list(sentences)
        groups = self.search(sentences, beam_size=beam_size, length_penalty=length_penalty, max_tokens=max_tokens)
        if not all(groups):
            raise DataError(
                "The model gives no probabilities, only NaN: its training went wrong, or its weights are damaged."
            )
        tokenizer = self.target_tokenizer
        texts = tokenizer.decode_batch([group[0].tokens for group in groups])
        return [
            Translation(
                text if sentence.strip() else sentence, best.score, best.log_prob, tokenizer.pieces(best.tokens)
            )
            for sentence, text, (best, *_) in zip(sentences, texts, groups, strict=True)
        ]

    def stream(self, sentences: Iterable[str], *, window: int = 2048, **options) -> Iterator[Translation]:
        """The same for any number of sentences: reads `window` at a time, so memory stays the same."""
        if window < 1:
            raise UsageError(f"`window` is {window}; give at least 1 sentence.")
        sentences = iter(sentences)
        while chunk := list(islice(sentences, window)):
            yield from self.translate(chunk, **options)

    def search(
        self, sentences: list[str], *, beam_size: int, length_penalty: float, max_tokens: int = MAX_TOKENS
    ) -> list[list[Hypothesis]]:
        """All `beam_size` hypotheses of each sentence, best first; a blank sentence has one without tokens."""
        results = [[Hypothesis([], 0.0, 0.0)] for _ in sentences]
        filled = [index for index, text in enumerate(sentences) if text.strip()]
        encoded = self.source_tokenizer.encode_batch([normalised(sentences[index]) for index in filled])
        batches = list(cut([len(ids) + 1 for ids in encoded], max_tokens // beam_size))
        jobs = [([encoded[i] for i in rows], beam_size, length_penalty) for rows in batches]
        apart = self.workers is not None and len(jobs) > 1
        found = self.workers.map(jobs) if apart else (self._search_batch(*job) for job in jobs)
        for rows, groups in zip(batches, found, strict=True):
            for i, group in zip(rows, groups, strict=True):
                results[filled[i]] = group
        return results

    @torch.inference_mode()
    def _search_batch(self, sources: list[list[int]], beam_size: int, length_penalty: float) -> list[list[Hypothesis]]:
        config = self.model.config
        longest = config.max_positions if config.positions == "learned" else math.inf
        if max(map(len, sources)) >= longest:
            raise DataError(
                f"A sentence has {max(map(len, sources))} tokens and an end, but this model has {longest} positions: "
                "split the sentence."
            )
        options = {
            "max_lengths": [min(2 * len(ids) + 20, longest) for ids in sources],
            "bos_id": config.bos_id,
            "eos_id": config.eos_id,
            "length_penalty": length_penalty,
        }
        source_ids = padded(sources, config.pad_id, end=config.eos_id)
        stepper = self._stepper(source_ids.to(self.device))
        if beam_size == 1:
            return greedy_search(stepper, **options)
        return beam_search(stepper, beam_size=beam_size, **options)

    def _stepper(self, source_ids: Tensor) -> Stepper:
        """What search asks for probabilities; whoever wants to watch a search can override it."""
        return ModelStepper(self.model, source_ids)
