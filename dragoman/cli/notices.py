"""Notices that are printed once, by the first command that they matter to."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman import __version__
from dragoman.cli.app import Context
from dragoman.errors import command_line

if TYPE_CHECKING:
    from dragoman.decoding.translator import Translator


def mention_missing_kernels(context: Context) -> None:
    """Say that this package was built without a C compiler, if that makes this machine slower.

    Not with --json or --quiet, and once for each version. Where that cannot be remembered, nothing is said.
    """
    if context.as_json or context.quiet or sys.platform == "win32":  # on Windows nothing can be done about it
        return
    from dragoman.native import library
    from dragoman.system.gpu import device_name

    if not library.compiled() and device_name(None) == "cpu" and _first_time(f"no-kernels-{__version__}"):
        context.display().note(
            "Without compiled kernels, translating on a CPU takes three times as long; "
            f"`{command_line('doctor')}` says how to get them. This is said once."
        )


def mention_exact_memory(note: Callable[[str], None], model: Path, translator: "Translator") -> None:
    """Say that a model uses only a part of its translation memory, if it was not trained to use all."""
    from dragoman.text.tokenizers.hint_tokens import SIMILAR

    if SIMILAR not in translator.source_tokenizer.hints:
        note(
            f"{model} was trained without --fuzzy: it reuses what the memory has of the same texts, not of similar "
            "ones."
        )


def _first_time(name: str) -> bool:
    """Whether this function is called for the first time with this name, which it remembers in the user's cache."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if folder.startswith("~"):  # there is no home
        return False
    with suppress(OSError):
        cache = Path(folder) / "dragoman"
        cache.mkdir(parents=True, exist_ok=True)
        (cache / name).touch(exist_ok=False)
        return True
    return False
