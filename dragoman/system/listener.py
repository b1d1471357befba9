"""Who hears of a run: the terminal, or a program of the user."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from dragoman.errors import Interrupted, reason_of


class Listener:
    """Hears what a run does, and may stop it. A subclass overrides what it wants to hear.

    By itself it shows nothing; warnings are those of Python.

    All methods are called in the thread that trains, `event` with "stopping" perhaps in a handler of signals.

    | event | values |
    | --- | --- |
    | `begin` | `config`, a `TrainingConfig`; `past`, the events before a run that goes on; `last_step`, or None |
    | `step` | `step`, `epoch`, `loss` in nats a token, `learning_rate`, `gradient_norm`, `tokens`, `seconds` |
    | `validation` | `step`, `valid_loss`, scores, `samples`, and whether the model is `better` than all before |
    | `decay` | `last_step`, and the `reason` why the learning rate falls |
    | `average` | `steps` of the weights that are averaged, scores, `better` |
    | `roll_back` | `bad_step`, `rate_factor` |
    | `stopping` | a signal came: the run stops after this step |
    | `end` | no more steps come |
    """

    def note(self, text: str) -> None:
        """One line about what was done."""

    def warn(self, text: str) -> None:
        """One line that asks for attention."""
        warnings.warn(text, stacklevel=3)

    def status(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Something that takes a while, inside the `with` block; its function is told how far it is."""
        return nullcontext(lambda detail: None)

    def event(self, name: str, values: dict[str, Any]) -> None:
        """An event of the training, see above."""

    def wants_to_stop(self) -> bool:
        """Asked after every step; True ends the training, as a limit does: the model is validated and scored."""
        return False


class Deaf(Listener):
    """Hears nothing at all, as on ranks that only compute."""

    def warn(self, text: str) -> None:
        """Nothing is said."""


@contextmanager
def last_step(listener: Listener, what: str, *, later: str) -> Iterator[None]:
    """A step that the work before it must not be lost for: a failure inside the `with` block is a warning.

    It names `what` was to be made, such as "The report", the reason, and how that is made `later`.
    """
    try:
        yield
    except Interrupted:
        raise
    except Exception as error:  # whatever it is, such as a library that needs a home: the work is done
        listener.warn(f"{what} could not be made: {reason_of(error)}. {later}")
