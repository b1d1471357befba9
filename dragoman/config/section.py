"""What every section of a run's config shares: unknown keys are errors, and a mistake is answered by one sentence."""

import re
from collections.abc import Callable, Container, Iterable
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import UsageError, did_you_mean

BOUNDS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "to below {}", "min": "from {}", "max": "to {}"}
"""How limits of pydantic, and `min` and `max` of typer, are written."""
NOUNS = {int: "whole number", float: "number", str: "text"}
Spell = Callable[[str], str]
"""Writes the dotted key of a setting, such as training.warmup, as the user knows it."""


class Section(BaseModel):
    """A part of the config. The docstring under a field is its description in docs and help."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def validate(cls, settings: dict[str, Any], *, spell: Spell = "`{}`".format) -> Self:
        """The section with these settings; raises `UsageError` with the setting, its value and what it must be."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            raise UsageError(cls._sentence(error.errors()[0], settings, spell)) from None

    @classmethod
    def _sentence(cls, error: Any, value: Any, spell: Spell) -> str:
        section, prefix, name, field = cls, "", "", None
        for part in error["loc"]:
            if name:
                break  # inside of a value, such as a list, which is shown whole
            value = value[part] if isinstance(value, list) else value.get(part)
            field = field if isinstance(part, int) else section.model_fields.get(part)
            inner = section_in(field.annotation) if field else None
            section, prefix, name = (inner, f"{prefix}{part}.", "") if inner else (section, prefix, part)
        key = (prefix + name).rstrip(".")
        if error["type"] == "value_error":
            problem = respell(str(error["ctx"]["error"]), section.model_fields, lambda name: spell(prefix + name))
            return f"{spell(key)}: {problem}" if name else problem
        if error["type"] == "extra_forbidden":
            known = ", ".join(prefix + each for each in section.model_fields)
            return f"There is no setting `{key}`{did_you_mean(key, cls._all_keys()) or f'; there are {known}'}."
        assert field is not None, "only keys of sections can be unknown"
        if error["type"] == "model_type" or Any in get_args(field.annotation):
            return f"`{key}` is {shown(value)}, but it is a section; give keys of it, as in `{key}.KEY=value`."
        wanted = accepted(field.annotation, field.metadata)
        if error["type"] == "finite_number":
            wanted = wanted.replace("number", "finite number", 1)
        elif error["type"] == "string_type" and isinstance(value, int | float):
            wanted += ", so put it in quotes"
        return f"{spell(key)} is {shown(value)}; it must be {wanted}."

    @classmethod
    def _all_keys(cls, prefix: str = "") -> list[str]:
        keys = []
        for name, field in cls.model_fields.items():
            inner = section_in(field.annotation)
            keys += [prefix + name, *(inner._all_keys(f"{prefix}{name}.") if inner else [])]
        return keys


def section_in(kind: Any) -> type[Section] | None:
    """The section that a type is, or that its entries are."""
    if isinstance(kind, type) and issubclass(kind, Section):
        return kind
    return next(filter(None, map(section_in, get_args(kind))), None)


def accepted(kind: Any, limits: Iterable[Any] = (), *, many: bool = False) -> str:
    """The values of a type in words, such as "a whole number from 1 to 64"; with `many`, its plural."""
    origin, parts = get_origin(kind), [part for part in get_args(kind) if part is not type(None)]
    if origin is Annotated:
        return accepted(parts[0], [each for part in parts[1:] for each in getattr(part, "metadata", ())], many=many)
    if origin is Literal:
        return " or ".join(filter(None, (", ".join(map(str, parts[:-1])), str(parts[-1]))))
    if origin in (Union, UnionType):
        wider = (part for part in parts if part is not int or float not in parts)
        return " or ".join(accepted(part, limits, many=many) for part in wider)
    if origin in (list, tuple):
        most = [f"up to {each.max_length}" for each in limits if hasattr(each, "max_length")]
        return " ".join(["a list of", *([str(len(parts))] if origin is tuple else most), accepted(parts[0], many=True)])
    if origin is dict:
        return f"a table of {accepted(parts[1], many=True)}"
    if kind is bool:
        return "true or false"
    noun = NOUNS.get(kind, "section")
    found = ((words, getattr(each, key, None)) for each in limits for key, words in BOUNDS.items())
    bounds = [words.format(bound) for words, bound in found if bound is not None]
    return " ".join([f"{noun}s" if many else f"a {noun}", *bounds])


def shown(value: Any) -> str:
    """A value as the user wrote it; a text that is no number stands in quotes."""
    if value is None or isinstance(value, bool):
        return "missing" if value is None else str(value).lower()
    number = isinstance(value, str) and re.fullmatch(r"[-+]?(\d[\d.]*(e[-+]?\d+)?|nan|inf)", value.lower())
    return value if number else repr(value)


def respell(text: str, names: Container[str], spell: Spell) -> str:
    """A text in which those words in backticks that are among `names` are written by `spell`."""
    return re.sub(r"`(\w+)`", lambda match: spell(match[1]) if match[1] in names else match[0], text)
