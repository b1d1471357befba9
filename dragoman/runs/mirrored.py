"""Runs that are copied to a URL while they train, and go on from there on another machine."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dragoman.config.run import RunConfig
from dragoman.config.settings import Settings
from dragoman.errors import DataError, ResourceError, UsageError, command_line
from dragoman.runs.plan import plan_resume, settled
from dragoman.storage.mirror import Mirror
from dragoman.storage.run_directory import RunDirectory, refuse_to_overwrite
from dragoman.system.listener import Listener
from dragoman.system.urls import name_of

Result = TypeVar("Result")


def mirrored(url: str | None, path: Path, listener: Listener, train: Callable[[Mirror | None], Result]) -> Result:
    """What `train` returns; before and after it, the run in a folder is copied to its mirror, if it has one.

    No failure of a copy ends the run.
    """
    if not url:
        return train(None)

    def attempt(remedy: str, *copies: Callable[[Path], None]) -> None:
        try:
            with listener.status(f"Copying the run to {url}"):
                for copy in copies:
                    copy(path)
        except (OSError, DataError, ResourceError) as error:
            listener.warn(f"The run was not mirrored: {error} {remedy}")

    mirror = Mirror(url)
    listener.note(f"The run is copied to {url} whenever it is saved.")
    attempt("This is tried again with each checkpoint.", mirror.save)
    result = train(mirror)
    again = command_line("train", "--resume", path, f"training.mirror={url}")
    attempt(f"Try again with:  {again}", mirror.save, mirror.publish)
    return result


def fetch_run(
    url: str, path: Path | None, settings: Settings, *, warn: Callable[[str], None]
) -> tuple[Path, RunConfig]:
    """The folder, by default one of the name of the URL, into which a mirrored run is downloaded, and its plan."""
    path = path or Path(name_of(url))
    if RunDirectory(path).config.exists():
        go_on = command_line("train", "--resume", path)
        raise UsageError(f"{path} holds a run already; go on with it by `{go_on}`, or choose another --output.")
    refuse_to_overwrite(path)
    Mirror(url).load(path, warn)
    config = plan_resume(path, settings)
    if "mirror" not in settings.get("training", {}):
        config.training.mirror = url
    return path, config


def mirror_in_use(recipe: str | None, settings: Settings) -> str | None:
    """The mirror that settings name, if it holds a run."""
    url = settled([], recipe, settings).training.mirror
    return url if url and Mirror(url).is_used() else None
