"""Base class of the sections of a run's config: unknown keys are errors, and a mistake is reported in one sentence."""

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from dragoman.config.elsewhere import setting_for
from dragoman.errors import Spell, UsageError, accepted, did_you_mean, respell, shown


class Section(BaseModel):
    """A part of the config. The docstring under a field is its description in docs and help."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @classmethod
    @cache
    def descriptions(cls) -> dict[str, str]:
        """The docstring under each field, by the name of the field; empty where the source is not there.

        They are read when somebody asks. What pydantic does for it takes longer than all the rest of a section.
        """
        file = Path(getattr(sys.modules[cls.__module__], "__file__", None) or "")
        if not file.is_file():
            return {}
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        (body,) = (node.body for node in nodes if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
        return {
            field.target.id: " ".join(str(text.value.value).split())
            for field, text in pairwise(body)
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        }

    @classmethod
    def validate(cls, settings: dict[str, Any], *, spell: Spell = "`{}`".format) -> Self:
        """The section with these settings; raises `UsageError` with the setting, its value and what it must be."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            raise UsageError(cls._sentence(error.errors()[0], settings, spell)) from None

    @classmethod
    def _sentence(cls, error: Any, settings: Any, spell: Spell) -> str:
        """A sentence on an error of pydantic in these settings: the setting, its value and what it must be."""
        mistake = _Mistake.at(error["loc"], settings, cls)
        section, prefix, key = mistake.section, mistake.prefix, mistake.key
        field, value = mistake.field, mistake.value
        if error["type"] == "value_error":
            problem = respell(str(error["ctx"]["error"]), section.model_fields, lambda name: spell(prefix + name))
            return f"{spell(key)}: {problem}" if mistake.name else problem
        if error["type"] == "extra_forbidden":
            known = ", ".join(prefix + name for name in section.model_fields)
            keys = cls._all_keys()
            hint = setting_for(key, keys) or did_you_mean(key, keys) or f"; there are {known}"
            return f"There is no setting `{key}`{hint}."
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
        """All keys of this section and of the sections inside it, as people type them."""
        keys = []
        for name, field in cls.model_fields.items():
            keys.append(prefix + name)
            if inner := section_in(field.annotation):
                keys += inner._all_keys(f"{prefix}{name}.")
        return keys


@dataclass
class _Mistake:
    """A setting in which a mistake was found."""

    section: type[Section]
    value: Any
    prefix: str = ""
    """Keys that lead to the section, such as "data.cleaning."."""
    name: str = ""
    """Key in the section; empty if the mistake is in the section as a whole."""
    field: FieldInfo | None = None

    @property
    def key(self) -> str:
        """The setting as people type it."""
        return (self.prefix + self.name).rstrip(".")

    @classmethod
    def at(cls, location: Iterable[str | int], settings: Any, section: type[Section]) -> Self:
        """The setting at a location in the settings of a section, which is made of keys and of indices of lists."""
        mistake = cls(section, settings)
        for part in location:
            if mistake.name:
                break  # inside of a value, such as a list, which is shown whole
            if isinstance(part, int):  # an entry of a list
                mistake.value = mistake.value[part]
            else:
                mistake.value = mistake.value.get(part)
                mistake.field = mistake.section.model_fields.get(part)
            inner = section_in(mistake.field.annotation) if mistake.field else None
            if inner:
                mistake.section, mistake.prefix = inner, f"{mistake.prefix}{part}."
            else:
                mistake.name = str(part)
        return mistake


def section_in(kind: Any) -> type[Section] | None:
    """The section that a type is, or that its entries are; None for other types."""
    if isinstance(kind, type) and issubclass(kind, Section):
        return kind
    for part in get_args(kind):
        if inner := section_in(part):
            return inner
    return None
