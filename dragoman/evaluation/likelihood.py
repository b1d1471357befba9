"""Perplexity and token accuracy of a model on given references."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import starmap

import torch
from torch import nn

from dragoman.data.batching import Batch
from dragoman.decoding.batch import batches_by_length
from dragoman.decoding.torch_engine import predictions
from dragoman.errors import DataError
from dragoman.model import Transformer
from dragoman.text.preprocessing import Preprocessor
from dragoman.text.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenStatistics:
    """Values of the metrics in `metrics.tokens`: each token of a reference is predicted from its true beginning."""

    perplexity: float
    """exp of the mean cross-entropy per token, without label smoothing."""
    token_accuracy: float
    """Share, from 0 to 1, of tokens that were the model's most probable prediction."""
    num_tokens: int
    """Target tokens and ends of sentence; padding does not count."""


@torch.inference_mode()
def token_statistics(models: Sequence[Transformer], batches: Iterable[Batch], *, given: int = 0) -> TokenStatistics:
    """Perplexity and accuracy of the next token, by the mean of the models' probabilities, on their device.

    The first `given` tokens of each reference, such as that of its language, are no predictions and do not count.
    References that are longer than the positions that a model has learned are truncated. Raises `DataError` if there
    is no token to predict.
    """
    device = next(models[0].parameters()).device
    longest = min((model.config.max_length for model in models if model.config.max_length), default=None)
    total = torch.zeros((), dtype=torch.float64, device=device)
    correct = torch.zeros((), dtype=torch.int64, device=device)
    num_tokens = 0
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(evaluating(model))
        for batch in batches:
            batch = batch.to(device)
            labels = batch.labels[:, :longest].clone()
            labels[:, :given] = models[0].config.pad_id
            predicted = predictions(models, batch.source_ids, batch.target_ids[:, :longest], labels)
            num_tokens += len(predicted.log_probs)
            total += predicted.log_probs.double().sum()
            correct += predicted.likeliest.sum()
    if not num_tokens:
        raise DataError("There is no token to predict; give at least one sentence pair.")
    perplexity = (-total / num_tokens).exp()  # a tensor, since math.exp of a large mean would raise OverflowError
    return TokenStatistics(float(perplexity), int(correct) / num_tokens, num_tokens)


def reference_batches(
    pairs: Iterable[tuple[str, str]],
    preprocessor: Preprocessor,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    max_tokens: int = 4096,
) -> Iterator[Batch]:
    """Sentence pairs as batches of similar lengths.

    A batch has at most `max_tokens` tokens with padding on either side, or is a single pair.
    """
    pairs = list(starmap(preprocessor.pair, pairs))
    sources = source_tokenizer.encode_batch(source for source, _ in pairs)
    targets = target_tokenizer.encode_batch(target for _, target in pairs)
    lengths = [max(len(source), len(target)) + 1 for source, target in zip(sources, targets, strict=True)]
    for rows in batches_by_length(lengths, max_tokens):
        yield Batch.of(
            [sources[row] for row in rows],
            [targets[row] for row in rows],
            target_tokenizer.special_ids,
            source_tokenizer.closing,
        )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switches dropout off inside the `with` block, and restores the mode of the model after it."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
