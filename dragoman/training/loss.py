"""The loss of a batch as a sum and a count, and its gradient."""

from torch import Tensor

from dragoman.config.training import TrainingConfig
from dragoman.data.batching import Batch
from dragoman.model import Transformer
from dragoman.model.attention import AttentionMaps
from dragoman.model.loss import LossOptions, alignment_loss, cross_entropy, positions_of_inputs


def loss_options(config: TrainingConfig, pad_id: int) -> LossOptions:
    """The settings of the loss that a config names."""
    return LossOptions(
        pad_id=pad_id,
        smoothing=config.label_smoothing,
        r_drop=config.r_drop,
        soft_targets=config.soft_targets,
        guided_alignment=config.guided_alignment or 0.0,
    )


def batch_loss(model: Transformer, batch: Batch, options: LossOptions) -> tuple[Tensor, Tensor]:
    """The loss of a batch, summed over its target tokens, and their number.

    With R-Drop the batch passes through the model twice. The result is half of the loss in its paper, which adds up
    two cross-entropies, so that it compares with the loss of a run without R-Drop. Guided alignment
    adds its share.
    """
    passes = 2 if options.r_drop else 1
    guides = bool(options.guided_alignment) and batch.positions is not None
    maps = AttentionMaps(encoder=None, decoder=None) if guides else None
    states = model.states(batch.source_ids.repeat(passes, 1), batch.target_ids.repeat(passes, 1), maps=maps)
    # From (passes * batch, length, width) to (batch, length, passes, width).
    states = model.projection_dropout(states).unflatten(0, (passes, -1)).movedim(0, 2)
    loss, count = cross_entropy(
        states,
        batch.labels,
        options,
        weight=model.projection.weight,
        bias=model.projection.bias,
        soft=batch.soft_targets if options.soft_targets else None,
    )
    if maps is not None and batch.positions is not None:
        recorded = maps.cross[model.config.aligning_layers[0]]
        positions = batch.positions
        if model.config.aligned_token == "read":
            positions = positions_of_inputs(positions, batch.labels, pad_id=model.config.pad_id)
        guided = alignment_loss(recorded.weights_of(0), positions.repeat(passes, 1))
        loss = loss + options.guided_alignment * guided
    return loss / passes, count


def loss_and_backward(model: Transformer, batch: Batch, *, options: LossOptions, step_tokens: int) -> tuple[float, int]:
    """`batch_loss` as numbers, with the gradient of loss / step_tokens added to the weights.

    `step_tokens` are the target tokens of the whole step; 0: no gradient.
    """
    loss, count = batch_loss(model, batch, options)
    if step_tokens:
        (loss / step_tokens).backward()
    return loss.item(), int(count)
