"""Curves of a run for TensorBoard."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dragoman.metrics import LOSS, VALIDATED_TEXT_METRICS

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

CURVES = {
    "step": {"loss": "loss/training", "learning_rate": "learning rate"},
    "validation": {LOSS.validation_key: "loss/validation"}
    | {metric.validation_key: f"validation/{metric.label}" for metric in VALIDATED_TEXT_METRICS}
    | {"train_accuracy": "accuracy/training", "valid_accuracy": "accuracy/validation"},
}
"""Names of the curves by event and by the key of their values."""


class EventFile:
    """Writes the events of a run into a folder for TensorBoard; used as `MetricsFile` is."""

    def __init__(self, folder: Path, *, every: int = 10):
        """Draw every step whose number is a multiple of `every`."""
        self.folder, self.every = folder, every
        self.writer: SummaryWriter | None = None
        self._drawn_step: dict[str, Any] = {}
        """Values of the last step that was drawn; empty after another event."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # an earlier write has raised it already
            if self.writer:
                self.writer.close()

    def forget_after(self, step: int) -> None:
        """Begin, or continue, after `step`: TensorBoard hides the events of later steps."""
        from torch.utils.tensorboard import SummaryWriter

        self.__exit__()
        self.writer = SummaryWriter(str(self.folder), purge_step=step + 1)

    def write(self, event: str, values: dict[str, Any]) -> None:
        """Draw the values that `CURVES` names, and the tokens per second between the steps that are drawn."""
        assert self.writer is not None, "call `forget_after` first"
        if event not in CURVES or (event == "step" and values["step"] % self.every):
            return
        for key, name in CURVES[event].items():
            if key in values:
                self.writer.add_scalar(name, values[key], values["step"])
        last = self._drawn_step
        if event == "step" and last and values["seconds"] > last["seconds"]:
            speed = (values["tokens"] - last["tokens"]) / (values["seconds"] - last["seconds"])
            self.writer.add_scalar("tokens per second", speed, values["step"])
        # The speed of steps does not include the time of validations.
        self._drawn_step = values if event == "step" else {}
