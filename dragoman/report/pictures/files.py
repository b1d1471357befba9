"""Pictures as files and as parts of a page: the same picture gives the same bytes."""

import html
import io
import re
import warnings
from pathlib import Path

import matplotlib as mpl

from dragoman.errors import UsageError
from dragoman.report.pictures import style
from dragoman.report.pictures.picture import Picture
from dragoman.system.atomic import FULL, write_output

SUFFIXES = (".png", ".svg")
FILE_DPI = 200  # a picture 5 inches wide has 1000 pixels, which is sharp in print


def save_picture(figure: Picture, path: Path) -> None:
    """Write the figure to `path`, in the format of its suffix; raises `UsageError` if that is impossible."""
    check_suffix(path)
    data = figure.to_png(dpi=FILE_DPI) if path.suffix.lower() == ".png" else _svg(figure, salt="dragoman").encode()
    try:
        write_output(path, data)
    except OSError as error:
        if error.errno in FULL:  # which is no mistake of the user
            raise
        raise UsageError(f"{path} cannot be written: {error.strerror}; choose another --output.") from None


def check_suffix(path: Path) -> None:
    """Raise `UsageError` for a file that is neither PNG nor SVG by its name."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path} is no name for a picture; give a name that ends in {' or '.join(SUFFIXES)}.")


def to_svg(figure: Picture, label: str) -> str:
    """The figure as an element of an HTML page, in the page's font and text colour.

    `label` describes it to screen readers, and must be unique on the page. A page with a dark background can lighten
    the blue lines by a CSS variable `--accent`.
    """
    svg = _svg(figure, salt=label, fonttype="none", transparent=True)
    svg = svg[svg.index("<svg") :].replace(style.INK, "currentColor")
    svg = svg.replace(style.FIRST, f"var(--accent, {style.FIRST})")
    # HTML needs no namespaces; ids such as axes_1 would be the same in the next figure.
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| id="[\w.]+_\d+"', "", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1)


def _svg(figure: Picture, *, salt: str, fonttype: str = "path", transparent: bool = False) -> str:
    """An SVG file; `fonttype` "none" leaves the letters to the fonts of the reader, "path" draws them."""
    file = io.StringIO()
    # A salt instead of random ids, and no date.
    settings = {"svg.fonttype": fonttype, "svg.hashsalt": salt}
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings(), mpl.rc_context(settings):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # drawn as a box; browsers have more fonts
        figure.savefig(file, format="svg", transparent=transparent, metadata=no_metadata)
    return file.getvalue()
