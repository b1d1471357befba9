"""What every section of a run's config shares: unknown keys are errors, and a mistake is answered by one sentence."""

from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import Spell, UsageError, accepted, did_you_mean, respell, shown


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
