"""The Jinja templates of pages and model cards in static/.

HTML escapes all texts but those marked `safe`; cards escape by the filter `plain`.
"""

import json
import shlex
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from dragoman import __version__

FOLDER = Path(__file__).with_name("static")


def read_static(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def render(name: str, **values: object) -> str:
    """The template `name` with `values`."""
    return _TEMPLATES.get_template(name).render(version=__version__, **values)


def _plain(text: str) -> str:
    """The text on one line, with Markdown and HTML signs escaped."""
    return "".join(f"\\{c}" if c in "\\`*_|<>[]#" else c if c.isprintable() else " " for c in text)


_TEMPLATES = Environment(
    loader=FileSystemLoader(FOLDER), autoescape=select_autoescape(), undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
)  # fmt: skip
_TEMPLATES.policies["json.dumps_kwargs"] = {}  # keys stay in their order
_TEMPLATES.filters |= {
    "plain": _plain,
    "grouped": "{:,}".format,
    "shell": shlex.quote,
    "python": lambda text: json.dumps(text, ensure_ascii=False),
}
