"""Context and result of the functions that make pairs. They may train models on the way."""

from collections.abc import Callable, Collection
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


class SyntheticRunContext(NamedTuple):
    """Request, folder, listener and start of a run whose pairs models make."""

    request: SyntheticRunRequest
    folder: Path
    """Folder for the pairs, and for models that are trained on the way."""
    listener: Listener
    started: float
    """`time.monotonic` from which the minutes of the run count."""
    changed: Settings
    """Settings of the command that goes on with the run; `request` includes them."""

    def train(self, name: str, settings: Settings, *, started: float, without: Collection[str] = ()) -> RunDirectory:
        """Train the model `name` in the folder, with the recipe and settings of the request, changed by `settings`.

        The request's sections in `without` are left out. A training that was interrupted goes on, with what is
        changed now; a finished one stays. There is no mirror: that is for the run itself.
        """
        directory = RunDirectory(self.folder / name)
        unmirrored = {"training": {"mirror": None}}
        events = read_metrics(directory.metrics)
        self.listener.note(f"On the way: the model in {directory.path}.")
        if not directory.config.is_file():
            settings = merged(_without(self.request.settings, without), settings, unmirrored)
            config, pairs = plan_run([], recipe=self.request.recipe, settings=settings, near=self.folder)
            start_run(pairs, config, directory.path, listener=self.listener, started=started)
        elif not events or events[-1]["event"] != "end":
            limits = {"training": settings.get("training", {})}
            changed = merged(_without(self.changed, without), limits, unmirrored) if self.changed else {}
            config = plan_resume(directory.path, changed)
            resume_run(directory.path, config, listener=self.listener, started=started)
        return directory


def _without(settings: Settings, sections: Collection[str]) -> Settings:
    """The settings of the other sections."""
    return {section: values for section, values in settings.items() if section not in sections}


class SyntheticPairs(NamedTuple):
    """Pairs that models made."""

    settings: Settings
    """Settings of a run on these pairs."""
    notes: list[str]
    """Lines that describe the pairs, for the listener and the model card."""
    prepare: Callable[[PairFile, RunConfig, Path], PreparedFolder] | None = None
    """Prepares the pairs in a folder, if the models give more than pairs, such as soft targets."""
