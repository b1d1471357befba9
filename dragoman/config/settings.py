"""Settings as people type them, `section.key=value`, and as programs use them, a tree of dicts."""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.config.recipes import NOT_YAML, parse_yaml
from dragoman.errors import UsageError

TABLES = {"glossary"}
"""Settings whose values are themselves tables, which are replaced as a whole."""
Settings = dict[str, Any]
"""A tree of dicts, such as {"training": {"max_steps": 9}}; a part of a `RunConfig`."""


def parse_settings(texts: Iterable[str]) -> Settings:
    """The tree that `section.key=value` texts describe. Values are YAML; the last one for a key counts.

    Raises `UsageError` for a text without a value, and for keys inside of a value.
    """
    tree: Settings = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"`{text}` has no value; write `{text}=VALUE`.")
        branch = tree
        *parents, leaf = path.strip().split(".")
        for parent in parents:
            branch = branch.setdefault(parent, {})
            if not isinstance(branch, dict):
                raise UsageError(f"`{text}`: `{parent}` holds a value, not keys.")
        try:
            branch[leaf] = parse_yaml(value)
        except NOT_YAML:
            branch[leaf] = value
    return tree


def merged(*trees: Mapping[str, Any]) -> Settings:
    """One tree with the settings of all trees; the last value for a key counts.

    Raises `UsageError` for keys inside of a value that is no dict.
    """
    whole: Settings = {}
    for tree in trees:
        _merge(whole, tree, ())
    return whole


def _merge(whole: Settings, tree: Mapping[str, Any], above: tuple[str, ...]) -> None:
    """Write the settings of a tree into `whole`; `above` are the keys that lead to both."""
    for key, value in tree.items():
        present = whole.get(key)
        if not isinstance(value, Mapping) or key in TABLES:
            whole[key] = copy.deepcopy(value)
        elif present is None:  # also a section all of whose keys are commented out
            whole[key] = copy.deepcopy(dict(value))
        elif isinstance(present, dict):
            _merge(present, value, (*above, key))
        else:
            setting = next(spelled({key: value}))
            raise UsageError(f"`{'.'.join((*above, setting))}`: `{key}` holds a value, not keys.")


def setting(settings: Mapping[str, Any], path: str, default: Any = None) -> Any:
    """The value of `section.key` in a tree, or the default if the tree does not have it."""
    value: Any = settings
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return default
        value = value[key]
    return value


def spelled(settings: Mapping[str, Any], *, above: str = "") -> Iterator[str]:
    """The settings of a tree as texts, `section.key=value`; `above` is put before each key."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from spelled(value, above=f"{above}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            yield f"{above}{key}={text}"
