"""A run on pairs that models make: they are made, piece by piece, and then it is a run as any other."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.config.settings import Settings, merged
from dragoman.errors import Interrupted, ResourceError, command_line
from dragoman.evaluation.evaluate import Evaluation
from dragoman.runs.plan import plan_resume, plan_run, refuse_fixed
from dragoman.runs.synthetic.back_translation import back_translate
from dragoman.runs.synthetic.distill import distill
from dragoman.runs.synthetic.pairs import RealPairs, real_pairs
from dragoman.runs.synthetic.request import SyntheticRunRequest, refuse_several_processes
from dragoman.runs.synthetic.work import Made, Work
from dragoman.runs.train import resume_run, start_run
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import Listener
from dragoman.system.signals import interrupt, received_by

MAKERS: dict[str, Callable[[Work, RealPairs], Made]] = {"distill": distill, "back-translate": back_translate}


def run_taught(path: Path, settings: Settings | None = None, *, listener: Listener, started: float) -> Evaluation:
    """Make the pairs that were asked of the run in `path`, and train it; what was done before is not done again.

    `settings` are those of a command that goes on. Raises `Interrupted` if it was stopped.
    """
    directory = RunDirectory(path)
    if directory.config.is_file():
        return resume_run(path, plan_resume(path, settings or {}), listener=listener, started=started)
    settings = settings or {}
    refuse_fixed(settings)
    refuse_several_processes()
    asked = SyntheticRunRequest.read(path)
    if asked is None:
        raise ResourceError(f"{path} was deleted after this run was begun; run the command again.")
    asked.refuse_changes(path)
    with _going_on(path), directory.locked():
        asked = asked.going_on(path, settings)
        work = Work(asked, directory.teaching, listener, started, settings)
        with listener.status("Cleaning and splitting the pairs") as tell:
            real = real_pairs(asked, work.folder / "pairs", tell)
        made = MAKERS[asked.how](work, real)
        config, pairs = plan_run([], recipe=asked.recipe, settings=merged(asked.settings, made.settings), near=path)
        config.chosen += [*made.told, *real.told]
        if made.prepare:
            pairs = made.prepare(pairs, config, work.folder / "prepared")
    return start_run(pairs, config, path, listener=listener, started=started)


@contextmanager
def _going_on(path: Path) -> Iterator[None]:
    """Tell how to go on if a signal comes inside the `with` block."""
    try:
        with received_by(interrupt):
            yield
    except (KeyboardInterrupt, Interrupted) as stop:
        number = stop.exit_code - 128 if isinstance(stop, Interrupted) else (*stop.args, signal.SIGINT)[0]
        go_on = command_line("train", "--resume", path)
        raise Interrupted(number, f"Stopped; what is translated and trained is kept. Go on with:  {go_on}") from None
