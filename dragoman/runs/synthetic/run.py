"""Runs whose pairs models make: the pairs are made piece by piece, and then such a run is like any other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.config.settings import Settings, merged
from dragoman.errors import Interrupted, ResourceError, command_line
from dragoman.evaluation.evaluate import Evaluation
from dragoman.runs.plan import plan_resume, plan_run, refuse_fixed
from dragoman.runs.synthetic.back_translation import back_translate
from dragoman.runs.synthetic.context import SyntheticPairs, SyntheticRunContext
from dragoman.runs.synthetic.distill import distill
from dragoman.runs.synthetic.pairs import RealPairs, real_pairs
from dragoman.runs.synthetic.request import SyntheticRunRequest, refuse_several_processes
from dragoman.runs.train import resume_run, signal_number, start_run
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import Listener
from dragoman.system.signals import interrupt, received_by

MAKERS: dict[str, Callable[[SyntheticRunContext, RealPairs], SyntheticPairs]] = {
    "distill": distill,
    "back-translate": back_translate,
}
"""Functions that make pairs, by `SyntheticRunRequest.how`."""


def run_synthetic(path: Path, settings: Settings | None = None, *, listener: Listener, started: float) -> Evaluation:
    """Make the pairs that were requested for the run in `path`, and train it. What is finished is not done again.

    `settings` are those of a command that goes on. Raises `Interrupted` if the run was stopped.
    """
    directory = RunDirectory(path)
    settings = settings or {}
    if directory.config.is_file():
        return resume_run(path, plan_resume(path, settings), listener=listener, started=started)
    refuse_fixed(settings)
    refuse_several_processes()
    request = SyntheticRunRequest.read(path)
    if request is None:
        raise ResourceError(f"{path} was deleted after this run was begun; run the command again.")
    request.refuse_changed_files(path)
    with _resumable(path), directory.locked():
        request = request.with_changes(path, settings)
        context = SyntheticRunContext(request, directory.synthetic, listener, started, settings)
        with listener.status("Cleaning and splitting the pairs") as tell:
            real = real_pairs(request, context.folder / "pairs", tell)
        SyntheticRunRequest.forget_secrets(path)  # the pairs need not be fetched again
        made = MAKERS[request.how](context, real)
        all_settings = merged(request.settings, made.settings)
        config, pairs = plan_run([], recipe=request.recipe, settings=all_settings, near=path)
        config.chosen += [*made.notes, *real.notes]
        if made.prepare:
            pairs = made.prepare(pairs, config, context.folder / "prepared")
    return start_run(pairs, config, path, listener=listener, started=started)


@contextmanager
def _resumable(path: Path) -> Iterator[None]:
    """Raise `Interrupted` that says how to go on, if a signal comes inside the `with` block."""
    try:
        with received_by(interrupt):
            yield
    except (KeyboardInterrupt, Interrupted) as stop:
        number = stop.exit_code - 128 if isinstance(stop, Interrupted) else signal_number(stop)
        go_on = command_line("train", "--resume", path)
        raise Interrupted(number, f"Stopped; what is translated and trained is kept. Go on with:  {go_on}") from None
