"""Prepares pairs once, into a folder from which any number of runs can begin."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dragoman.config.settings import Settings
from dragoman.data.journal import CLEANING, Journal
from dragoman.data.prepared_folder import CONFIG, COUNTS, ORIGIN, PreparedFolder, origin
from dragoman.errors import UsageError
from dragoman.evaluation.agreement import best_pairs
from dragoman.runs.plan import build_config_with_pairs, plan_pairs
from dragoman.storage.run_directory import refuse_to_overwrite
from dragoman.system.atomic import naming, write_file
from dragoman.system.locks import only_one
from dragoman.system.seals import LOCK, MANIFEST, seal, write_sealed


def prepare_folder(
    paths: list[str],
    path: Path,
    *,
    recipe: str | None,
    settings: Settings,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Prepare pairs into the folder `path`; a preparation that broke off continues, and a finished one is verified.

    `tell` is called with the number of pairs scored so far. Raises `UsageError` if the folder is for something else.
    """
    config = build_config_with_pairs(paths, recipe, settings)
    wanted_origin = json.loads(json.dumps(origin(config)))  # as JSON gives it back
    begun_origin = PreparedFolder(path).origin
    if config.finetune.model:
        raise UsageError("Pairs are prepared for new models; leave out finetune.model, and give pairs to --finetune.")
    if begun_origin is None:
        refuse_to_overwrite(path, but=(CLEANING, LOCK))
    elif begun_origin != wanted_origin:
        raise UsageError(f"{path} is prepared from other files, or by other settings; choose another --output.")
    with naming(path), only_one(path / LOCK, f"{path} is being prepared"):
        if (path / MANIFEST).is_file():
            PreparedFolder(path).check()
            return
        journal = Journal(path, wanted_origin)
        config, pairs = plan_pairs(config, near=path, journal=journal)
        from dragoman.data.preparation import prepare  # which loads torch

        write_sealed(path / ORIGIN, wanted_origin)
        pairs = best_pairs(pairs, config, near=path, tell=tell)
        prepare(pairs, config, path)
        pairs.close()
        write_sealed(path / COUNTS, [pairs.counts.pairs, pairs.counts.tokens])
        write_file(path / CONFIG, config.to_yaml().encode())
        journal.clear()
        seal(path)
    with suppress(OSError):
        (path / LOCK).unlink()
