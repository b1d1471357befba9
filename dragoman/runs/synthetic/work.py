"""What makers of pairs are given and give back, and runs that are trained on the way."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dragoman.config.run import RunConfig
from dragoman.config.settings import Settings, merged
from dragoman.data.pair_file import PairFile
from dragoman.data.prepared_folder import PreparedFolder
from dragoman.runs.plan import plan_resume, plan_run
from dragoman.runs.synthetic.request import SyntheticRunRequest
from dragoman.runs.train import resume_run, start_run
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import Listener


class Work(NamedTuple):
    """What was asked for, the folder to make it in, and since when; minutes count from there."""

    asked: SyntheticRunRequest
    folder: Path
    listener: Listener
    started: float
    changed: Settings
    """The settings of a command that goes on; `asked` has them already."""

    def train(self, name: str, settings: Settings, *, started: float) -> RunDirectory:
        """Train the run `name` in the folder by the recipe and settings that were asked for and these, to its end.

        It goes on where it broke off, with what is changed now; what is finished stays. It has no mirror, which is
        for the run itself.
        """
        directory, unmirrored = RunDirectory(self.folder / name), {"training": {"mirror": None}}
        events = read_metrics(directory.metrics)
        self.listener.note(f"On the way: the model in {directory.path}.")
        if not directory.config.is_file():
            settings = merged(self.asked.settings, settings, unmirrored)
            config, pairs = plan_run([], recipe=self.asked.recipe, settings=settings, near=self.folder)
            start_run(pairs, config, directory.path, listener=self.listener, started=started)
        elif not events or events[-1]["event"] != "end":
            limits = {"training": settings.get("training", {})}
            changed = merged(self.changed, limits, unmirrored) if self.changed else {}
            config = plan_resume(directory.path, changed)
            resume_run(directory.path, config, listener=self.listener, started=started)
        return directory


class Made(NamedTuple):
    """Pairs that models made: the settings of a run on them, and lines that tell what they are."""

    settings: Settings
    told: list[str]
    prepare: Callable[[PairFile, RunConfig, Path], PreparedFolder] | None = None
    """Prepares them in a folder, if the run has more from the models than pairs."""
