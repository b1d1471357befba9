"""What every section of a run's config shares."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the config: unknown keys are errors, and the line under a field explains it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
