"""A model as an engine: what a search, a scorer and a placer of terms ask of it. Here over arrays, in float32.

`dragoman.engine.int8` has one in eight bits, compiled, and `dragoman.decoding.torch_engine` one over a model in torch.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from dragoman.engine.log_probs import ArrayLogProbs, LogProbs
from dragoman.engine.shapes import Bool, Float, Int
from dragoman.engine.transformer import DecoderCache, NumpyTransformer
from dragoman.model.config import TransformerConfig

SourceIds = Int[np.ndarray, "batch src_len"]
TargetIds = Int[np.ndarray, "batch tgt_len"]
SLICE_ELEMENTS = 2**22
"""Log-probabilities that are computed at a time, 16 MB."""
BATCH_TOKENS = 12_288


@runtime_checkable
class Stepper(Protocol):
    """Decodes a batch step by step: all that a search knows of a model."""

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        """Add a token to each row; return the log-probabilities of the next, until the next step."""
        ...

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        """Keep these rows, in this order; a row may be kept several times, in equal numbers for each sentence."""
        ...


@runtime_checkable
class Engine(Protocol):
    """A model that translates: sources are rows of token ids, filled up with padding."""

    config: TransformerConfig
    precision: str
    """float32, bfloat16 or int8."""
    computes_in_threads: bool
    """Whether several threads compute side by side, so that no processes are needed to keep all cores busy."""

    @property
    def batch_tokens(self) -> int:
        """Source tokens of a batch, times beams, that suit this engine."""
        ...

    def stepper(self, source_ids: SourceIds) -> Stepper:
        """Encode sources; the stepper has one row for each."""
        ...

    def distributions(
        self, source_ids: SourceIds, target_ids: TargetIds, counts: Bool[np.ndarray, "batch tgt_len"]
    ) -> Iterator[LogProbs]:
        """Log-probabilities of what follows each target token that `counts`, row after row, some at a time.

        `target_ids` begin with the begin of sentence. Slices of engines with equal vocabularies are equally long.
        """
        ...

    def attention(self, source_ids: SourceIds, target_ids: TargetIds) -> Float[np.ndarray, "batch tgt_len src_len"]:
        """The attention of each target token to each source token while the next token was predicted.

        This is the mean over those heads and layers that tell it (`TransformerConfig.aligning_layers`).
        """
        ...


def suitable_batch(config: TransformerConfig, tokens: int) -> int:
    """`tokens` of a batch, or twice as many for a model whose steps are short."""
    # Steps of one decoder layer are so short that it pays to take fewer, of more rows.
    return 2 * tokens if config.num_decoder_layers == 1 else tokens


def slice_length(config: TransformerConfig) -> int:
    """Rows of log-probabilities that are computed at a time."""
    return max(1, SLICE_ELEMENTS // config.target_vocab_size)


class ArrayEngine:
    """A model over arrays of float32, computed by its formula in numpy."""

    precision = "float32"
    computes_in_threads = True

    def __init__(self, config: TransformerConfig, weights: Mapping[str, np.ndarray]):
        """`weights` have the names and shapes of `dragoman.engine.parameters.shapes`."""
        self.config = config
        self.transformer = NumpyTransformer(config, weights)

    @property
    def batch_tokens(self) -> int:
        return suitable_batch(self.config, BATCH_TOKENS)

    def stepper(self, source_ids: SourceIds) -> Stepper:
        return ArrayStepper(self, source_ids)

    def encode(self, source_ids: SourceIds) -> Float[np.ndarray, "batch src_len d_model"]:
        """The memory of sources; where there is padding, it holds nothing of use."""
        return self.transformer.encode(source_ids, source_ids != self.config.pad_id)

    def log_probs(self, states: Float[np.ndarray, "rows d_model"]) -> Float[np.ndarray, "rows vocab"]:
        """Log-probabilities of the next token after each state."""
        return self.transformer.log_probs(states)

    def distributions(
        self, source_ids: SourceIds, target_ids: TargetIds, counts: Bool[np.ndarray, "batch tgt_len"]
    ) -> Iterator[LogProbs]:
        mask = source_ids != self.config.pad_id
        states = self.transformer.decode(target_ids, self.encode(source_ids), mask)[counts]
        size = slice_length(self.config)
        for first in range(0, len(states), size):
            yield ArrayLogProbs(self.log_probs(states[first : first + size]))

    def attention(self, source_ids: SourceIds, target_ids: TargetIds) -> Float[np.ndarray, "batch tgt_len src_len"]:
        maps: list[np.ndarray] = []
        mask = source_ids != self.config.pad_id
        # Keys that are rounded, as quicker encoders do, give one link in a hundred to another word.
        memory = self.transformer.encode(source_ids, mask)
        self.transformer.decode(target_ids, memory, mask, maps=maps)
        chosen = [maps[layer][:, : self.config.aligning_heads] for layer in self.config.aligning_layers]
        return np.mean([weights.mean(1) for weights in chosen], axis=0)


class ArrayStepper:
    """Decodes with an `ArrayEngine` step by step; rows of one sentence share its memory."""

    def __init__(self, engine: ArrayEngine, source_ids: SourceIds):
        self.engine = engine
        self.mask = source_ids != engine.config.pad_id
        self.memory = engine.encode(source_ids)
        self.cache = DecoderCache(engine.config.num_decoder_layers)
        self.sentences = np.arange(len(source_ids))
        """For each row, the row of the memory that it reads."""

    def step(self, tokens: Int[np.ndarray, " rows"]) -> LogProbs:
        states = self.engine.transformer.decode(tokens[:, None], self.memory, self.mask, self.cache)
        return ArrayLogProbs(self.engine.log_probs(states[:, 0]))

    def reorder(self, rows: Int[np.ndarray, " kept"]) -> None:
        self.sentences, remaining = remaining_memory(self.sentences[rows], len(self.memory))
        if remaining is not None:
            self.memory, self.mask = self.memory[remaining], self.mask[remaining]
        self.cache.reorder(rows, remaining)


def remaining_memory(
    sentences: Int[np.ndarray, " rows"], size: int
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " remaining"] | None]:
    """The rows of a memory of `size` rows that are still read, given the one that each row reads; None: all, in order.

    The rows of the result are numbered anew. Rows that read the same one are adjacent.
    """
    begins = np.diff(sentences, prepend=-1) != 0
    remaining = sentences[begins]
    if np.array_equal(remaining, np.arange(size)):
        return sentences, None
    return begins.cumsum() - 1, remaining
