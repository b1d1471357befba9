"""The formats of the notebook adapter: four styles, from `notebooks.toml`."""

from dragoman.interop.formats import read_formats

STYLES = read_formats("notebooks.toml")
