"""Sentences in, translations out: in order, any number of them, batched by length."""

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from dragoman.checkpoint import ModelDirectory
from dragoman.data.tokenizer import Tokenizer
from dragoman.decoding.search import Hypothesis, beam_search, greedy_search
from dragoman.decoding.stepper import ModelStepper
from dragoman.device import choose_device, choose_precision, limit_kernel_caches
from dragoman.errors import DataError, UsageError
from dragoman.model import Transformer


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    score: float
    """Log-probability per token to the power of the length penalty; closer to 0 is more certain."""
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
    ):
        """`precision` is float32, bfloat16 or auto (see `dragoman.device`)."""
        limit_kernel_caches()
        self.model = model.eval()
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self.device = next(model.parameters()).device
        self.precision = choose_precision(precision, self.device)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: torch.device | str | None = None,
        precision: str = "float32",
    ) -> Self:
        """From a model directory; raises `dragoman.errors.DataError` if it is not one."""
        loaded = ModelDirectory.load(Path(path), device=device or choose_device())
        return cls(loaded.model, loaded.source_tokenizer, loaded.target_tokenizer, precision=precision)

    def translate(
        self,
        sentences: Iterable[str],
        *,
        beam_size: int = 5,
        length_penalty: float = 1.0,
        max_tokens: int = 4096,
    ) -> list[Translation]:
        """The best translation of each sentence, in the order given.

        Batches have at most `max_tokens` source tokens with padding, times beams.
        """
        if isinstance(sentences, str):
            raise UsageError("`translate` takes a list of sentences, not one text; write [text].")
        if beam_size < 1:
            raise UsageError(f"`beam_size` is {beam_size}; 1 is greedy search, 5 is usual.")
        hypotheses = self.search(
            list(sentences),
            beam_size=beam_size,
            length_penalty=length_penalty,
            max_tokens=max_tokens,
        )
        if not all(hypotheses):
            raise DataError("The model gives no probabilities, only NaN; its weights are damaged: copy it again.")
        return [group[0] for group in hypotheses]

    def stream(self, sentences: Iterable[str], *, window: int = 2048, **options) -> Iterator[Translation]:
        """The same for any number of sentences: reads `window` at a time, so memory stays the same."""
        if window < 1:
            raise UsageError(f"`window` is {window}; give at least 1 sentence.")
        sentences = iter(sentences)
        while chunk := list(islice(sentences, window)):
            yield from self.translate(chunk, **options)

    def search(
        self, sentences: list[str], *, beam_size: int, length_penalty: float, max_tokens: int = 4096
    ) -> list[list[Translation]]:
        """All `beam_size` hypotheses of each sentence, best first."""
        results: list[list[Translation]] = [[Translation(text, 0.0, 0.0, [])] for text in sentences]
        filled = [index for index, text in enumerate(sentences) if text.strip()]
        encoded = self.source_tokenizer.encode_batch([sentences[index].strip() for index in filled])
        order = sorted(range(len(filled)), key=lambda i: -len(encoded[i]))
        for rows in _batches(order, [len(ids) + 1 for ids in encoded], max(1, max_tokens // beam_size)):
            found = self._search_batch([encoded[i] for i in rows], beam_size, length_penalty)
            for i, hypotheses in zip(rows, found, strict=True):
                results[filled[i]] = [self._translation(hypothesis) for hypothesis in hypotheses]
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
        with torch.autocast(self.device.type, dtype=self.precision, enabled=self.precision != torch.float32):
            stepper = ModelStepper(self.model, self._padded(sources))
            if beam_size == 1:
                return greedy_search(stepper, **options)
            return beam_search(stepper, beam_size=beam_size, **options)

    def _padded(self, sources: list[list[int]]) -> Tensor:
        config = self.model.config
        out = np.full((len(sources), max(map(len, sources)) + 1), config.pad_id)
        for row, ids in zip(out, sources, strict=True):
            row[: len(ids)] = ids
            row[len(ids)] = config.eos_id
        return torch.from_numpy(out).to(self.device)

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        text = self.target_tokenizer.decode(hypothesis.tokens)
        return Translation(
            text,
            hypothesis.score,
            hypothesis.log_prob,
            self.target_tokenizer.pieces(hypothesis.tokens),
        )


def _batches(order: list[int], lengths: list[int], max_tokens: int) -> Iterator[list[int]]:
    """Cut indices, longest first, into batches of at most `max_tokens` tokens with padding, or one sentence."""
    start = 0
    while start < len(order):
        size = max(1, max_tokens // lengths[order[start]])
        yield order[start : start + size]
        start += size
