"""Texts of pages and model cards that are files in static/, with `$name` for each value."""

from importlib.resources import files
from string import Template


def read_static(name: str) -> str:
    return files("dragoman.report").joinpath("static", name).read_text(encoding="utf-8")


def render(name: str, **values: str) -> str:
    """The file `name` with `values` in their places."""
    return Template(read_static(name)).substitute(values)
