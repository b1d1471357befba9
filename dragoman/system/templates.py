"""The Jinja templates of pages and cards, each in the folder `static` of the room that uses it.

In HTML, all texts are escaped but those marked `safe`; in cards, those with the filter `plain`.
"""

import json
import re
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
    """The text on one line, with the special characters of Markdown and HTML escaped."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return re.sub(r"[\\`*_|<>\[\]#]", r"\\\g<0>", printable)


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
