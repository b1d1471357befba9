"""Operations of a model that no implementation can leave out, counted from its sizes."""

from collections.abc import Iterable

from dragoman.data.batching import Batch
from dragoman.model import TransformerConfig


def forward_flops(config: TransformerConfig, source: int, target: int) -> int:
    """Operations for a pair with so many tokens on each side: two for each weight of a matrix and token, and attention.

    Padding, norms, activations and the softmax are not counted. Attention is counted in full, also under a causal mask.
    """
    square, inner = config.d_model**2, (3 if config.activation == "swiglu" else 2) * config.d_model * config.d_ff
    decoder_inner = inner if config.decoder_feed_forward == "network" else 0
    encoder = config.num_encoder_layers * (source * (4 * square + inner) + 2 * source**2 * config.d_model)
    layer = target * (6 * square + decoder_inner) + source * 2 * square
    decoder = config.num_decoder_layers * (layer + 2 * target * (target + source) * config.d_model)
    return 2 * (encoder + decoder + target * config.d_model * config.target_vocab_size)


def training_flops(config: TransformerConfig, batches: Iterable[Batch]) -> int:
    """Operations of steps with these batches. The backward pass has twice as many as the forward pass."""
    pad = config.pad_id
    lengths = (
        zip((batch.source_ids != pad).sum(1).tolist(), (batch.labels != pad).sum(1).tolist(), strict=True)
        for batch in batches
    )
    return 3 * sum(forward_flops(config, source, target) for batch in lengths for source, target in batch)
