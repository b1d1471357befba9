"""The protocol by which a run reports to a terminal or to a program of the user."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from dragoman.errors import Interrupted, reason_of


class Listener:
    """Receives the notes, warnings and events of a run, and may stop it. A subclass overrides the methods it needs.

    This class shows nothing, and turns warnings into those of Python.

    All methods are called in the thread that trains. `event` with "stopping" may be called in a signal handler.

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
        """A task that takes as long as the `with` block. The function is called with details of its progress."""
        return nullcontext(lambda detail: None)

    def event(self, name: str, values: dict[str, Any]) -> None:
        """An event of the training; the table above lists the events and their values."""

    def wants_to_stop(self) -> bool:
        """Called after every step. True ends the training as a limit does: the model is validated and scored."""
        return False


class Deaf(Listener):
    """Ignores everything, warnings too: for ranks that only compute."""

    def warn(self, text: str) -> None:
        """Ignore the warning."""


class LastSteps:
    """The steps after the work: a failure of one becomes a warning, so that the work before it is not lost.

    A call makes the context of one step, `with last_steps("The report"):`. The warning names this product, the reason,
    and how it is made `later`.
    """

    def __init__(self, listener: Listener, *, later: str):
        self.listener, self.later = listener, later
        self.failed = False
        """Whether any of them has failed."""

    @contextmanager
    def __call__(self, product: str) -> Iterator[None]:
        try:
            yield
        except Interrupted:
            raise
        except Exception as error:  # whatever it is, such as a library that needs a home: the work is done
            self.failed = True
            self.listener.warn(f"{product} could not be made: {reason_of(error)}. {self.later}")
