"""Runs that are copied to a URL while they train, and can go on from there on another machine."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dragoman.config.run import RunConfig
from dragoman.config.settings import Settings
from dragoman.errors import DataError, ResourceError, UsageError, command_line
from dragoman.runs.plan import build_config, plan_resume
from dragoman.storage.mirror import Mirror
from dragoman.storage.run_directory import RunDirectory, refuse_to_overwrite
from dragoman.system.listener import Listener
from dragoman.system.urls import name_of

Result = TypeVar("Result")


def mirrored(url: str | None, path: Path, listener: Listener, train: Callable[[Mirror | None], Result]) -> Result:
    """Call `train`, and copy the run in the folder `path` to its mirror before and after; returns what `train` returns.

    `url` is that of the mirror; None: there is none. A copy that fails is a warning, and does not end the run.
    """
    if not url:
        return train(None)
    mirror = Mirror(url)

    def save() -> None:
        mirror.save(path)

    def save_and_publish() -> None:
        mirror.save(path)
        mirror.publish(path)

    def attempt(copy: Callable[[], None], *, remedy: str) -> None:
        try:
            with listener.status(f"Copying the run to {url}"):
                copy()
        except (OSError, DataError, ResourceError) as error:
            listener.warn(f"The run was not mirrored: {error} {remedy}")

    listener.note(f"The run is copied to {url} whenever it is saved.")
    attempt(save, remedy="This is tried again with each checkpoint.")
    result = train(mirror)
    again = command_line("train", "--resume", path, f"training.mirror={url}")
    attempt(save_and_publish, remedy=f"Try again with:  {again}")
    return result


def fetch_run(
    url: str, path: Path | None, settings: Settings, *, warn: Callable[[str], None]
) -> tuple[Path, RunConfig]:
    """Download a mirrored run into a folder, by default one named as the URL; returns the folder and the config."""
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
    """URL of the mirror that settings name, if it holds a run."""
    url = build_config(recipe, settings).training.mirror
    return url if url and Mirror(url).is_used() else None
