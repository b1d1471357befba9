"""What every section of a run's config shares."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from dragoman.errors import UsageError, did_you_mean


class Section(BaseModel):
    """A part of the config: unknown keys are errors, and the line under a field explains it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def validate(cls, settings: dict[str, Any]) -> Self:
        """The section with these settings; raises `UsageError` that names the key, the value and the remedy."""
        try:
            return cls.model_validate(settings)
        except ValidationError as error:
            raise UsageError(cls._sentence(error)) from None

    @classmethod
    def _sentence(cls, error: ValidationError) -> str:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = cls._all_keys()
            near = [name for name in known if name.rpartition(".")[0] == key.rpartition(".")[0]] or known
            close = did_you_mean(key, known)
            return f"There is no setting `{key}`{close or '; there are ' + ', '.join(near)}."
        if first["type"] in ("model_type", "dict_type"):
            return f"`{key}` is {first['input']!r}, but it is a section; give keys of it, as in `{key}.KEY=value`."
        if first["type"] == "value_error":
            problem = first["ctx"]["error"]
            return f"`{key}`: {problem}" if key else str(problem)
        return f"`{key}` is {first['input']!r}: {first['msg'].lower()}."

    @classmethod
    def _all_keys(cls, prefix: str = "") -> list[str]:
        keys = []
        for name, field in cls.model_fields.items():
            nested = isinstance(field.annotation, type) and issubclass(field.annotation, Section)
            keys += [prefix + name, *(field.annotation._all_keys(f"{prefix}{name}.") if nested else [])]
        return keys
