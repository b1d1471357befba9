"""The Jinja templates of pages and cards, each in the folder `static` of the room that uses it.

HTML escapes all texts but those marked `safe`; cards escape by the filter `plain`.
"""

import json
import shlex
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from dragoman import __version__

PACKAGE = Path(__file__).parents[1]


def read_static(name: str) -> str:
    """The text of a file, named by its path in the package."""
    return (PACKAGE / name).read_text(encoding="utf-8")


def render(name: str, **values: object) -> str:
    """A template with values, named by its path in the package: `report/static/page.html`."""
    return _TEMPLATES.get_template(name).render(version=__version__, **values)


def _plain(text: str) -> str:
    """The text on one line, with Markdown and HTML signs escaped."""
    return "".join(f"\\{c}" if c in "\\`*_|<>[]#" else c if c.isprintable() else " " for c in text)


_TEMPLATES = Environment(
    loader=FileSystemLoader(PACKAGE), autoescape=select_autoescape(), undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
)  # fmt: skip
_TEMPLATES.policies["json.dumps_kwargs"] = {}  # keys stay in their order
_TEMPLATES.filters |= {
    "plain": _plain,
    "grouped": "{:,}".format,
    "shell": shlex.quote,
    "python": lambda text: json.dumps(text, ensure_ascii=False),
}
