"""Reads recipes: YAML files of settings, inside the package by name or anywhere by path."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from dragoman.errors import DataError, UsageError, did_you_mean

MOST_NESTED = 100
"""Most brackets inside of each other in YAML. For each character, the library looks at all that are open."""


class BoundedLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads YAML in a time that grows linearly with its length.

    Raises `YAMLError` for too many brackets inside of each other.
    """

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level >= MOST_NESTED:
            raise yaml.YAMLError(f"more than {MOST_NESTED} brackets are inside of each other")
        super().fetch_flow_collection_start(token)


class _Loader(BoundedLoader):
    """Takes 1e-6 for a number, as YAML 1.2 does."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


# ValueError comes from numbers of 5,000 digits and from a 13th month, RecursionError from 1,000 brackets.
NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""Errors of text that is not YAML."""


def parse_yaml(text: str) -> Any:
    """The value of a YAML document. Only plain values are made, no objects. Raises one of `NOT_YAML`."""
    return yaml.load(text, _Loader)


def recipe_names() -> list[str]:
    """Names of the recipes inside the package."""
    names = (file.name for file in files("dragoman.recipes").iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def read_recipe(name: str) -> dict[str, Any]:
    """The settings of a recipe, given by its name in the package or by the path of a YAML file.

    Raises `UsageError` if there is none, and `DataError` if it is not YAML.
    """
    known = recipe_names()
    if name in known:
        text = files("dragoman.recipes").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    elif Path(name).is_file():
        text = Path(name).read_text(encoding="utf-8", errors="replace")
    elif name.endswith((".yaml", ".yml")):
        raise UsageError(f"There is no file {name}; check its name, or choose one of {', '.join(known)}.")
    else:
        raise UsageError(
            f"There is no recipe '{name}'{did_you_mean(name, known)}; choose {', '.join(known)} or a YAML file."
        )
    try:
        recipe = parse_yaml(text)
    except NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", error)).split())
        raise DataError(f"The recipe {name}{where} is not YAML: {problem}.") from None
    if recipe is not None and not isinstance(recipe, dict):
        raise DataError(f"The recipe {name} must hold `key: value` lines, not a {type(recipe).__name__}.")
    return recipe or {}
