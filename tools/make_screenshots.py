"""Take the pictures of the README: a session in a terminal, the report of its model, and the page of `inspect`.

    python -m tools.make_screenshots

Trains the demo (three minutes). Needs Linux or macOS, the extra `docs`, and Chromium or Chrome on the PATH
(`apt-get install chromium`). The pictures are in docs/screenshots/.
"""

import base64
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fcntl import ioctl
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Self

import pyte
from PIL import Image, ImageOps

from tools.outputs import smaller
from tools.pages import DOCS, ROOT

PICTURES = DOCS / "screenshots"
WORDS = re.compile(r"\S+(?: \S+)*")  # browsers make one space of several
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SENTENCE = "The little girl does not like the old green umbrella."
COLUMNS, ROWS = 110, 80
PLAYED, HELD, LOOKED = 14, 4, 6  # seconds that the session takes in the picture, that its end stays, and the page of it
CELL, LINE, TITLE_BAR, MARGIN = 8.4, 19, 30, 18  # pixels: width of a character, heights, space around the text
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# The terminal has a background of its own, so the picture is legible on light and dark pages alike.
BACKGROUND, FOREGROUND = "#1b1f27", "#e4e7ec"
COLORS = {
    "black": "#5c6773", "red": "#ff7b72", "green": "#7ee08a", "brown": "#f2cc60", "blue": "#79b8ff",
    "magenta": "#d8a6ff", "cyan": "#67dbe8", "white": "#e4e7ec", "brightblack": "#939dab",
}  # fmt: skip


class Terminal(pyte.Screen):
    """A screen that shows dim text in grey; pyte alone has no dim text."""

    def select_graphic_rendition(self, *attributes: int, **keywords: bool) -> None:
        """Handles one escape sequence of styles; 2 is dim, and 90 is bright black."""
        colors = 38 in attributes or 48 in attributes  # where a 2 has another meaning
        super().select_graphic_rendition(*(90 if code == 2 and not colors else code for code in attributes), **keywords)


@dataclass
class Recording:
    """A session in a terminal: its last screen, and when each of its lines was as it is there."""

    screen: Terminal
    seconds: list[float]
    """For each line the seconds from the start until it no longer changed."""

    @classmethod
    def of(cls, commands: list[list[str]], folder: Path) -> Self:
        """Type the commands into a terminal, one after another. Raises `SystemExit` if one fails."""
        screen = Terminal(COLUMNS, ROWS)
        stream = pyte.ByteStream(screen)
        lines, seconds, started = [*screen.display], [0.0] * ROWS, time.monotonic()
        for command in commands:
            stream.feed(f"\x1b[32m$\x1b[0m {shlex.join(command)}\r\n".encode())
            for output in _outputs(command, folder):
                stream.feed(output)
                for row, (before, after) in enumerate(zip(lines, screen.display, strict=True)):
                    if before != after:
                        lines[row], seconds[row] = after, time.monotonic() - started
        return cls(screen, seconds)


def _outputs(command: list[str], folder: Path) -> Iterator[bytes]:
    """What a command writes into a terminal of its own. Raises `SystemExit` if it fails."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(command, cwd=folder, env=environment(), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    yield b""
    written = b""
    while True:
        try:
            output = os.read(ours, 65536)
        except OSError:  # how Linux reports that the other end is closed
            output = b""
        if not output:
            break
        written += output
        yield output
    os.close(ours)
    if process.wait():
        sys.exit(written.decode(errors="replace"))


def environment() -> dict[str, str]:
    """The variables of a colour terminal in which `dragoman` is on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    removed = ("NO_COLOR", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor"}


# --- the terminal ----------------------------------------------------------------------------------


def drawn(recording: Recording, title: str, page: Path) -> str:
    """The session as SVG, which shows each line when it came, `PLAYED` seconds for all, and at the end the upper part
    of an HTML page. Loads no font, runs no script.

    Whoever asks for less motion sees the last screen.
    """
    screen = recording.screen
    used = [row for row in range(screen.lines) if screen.display[row].strip()]
    width = round(max(len(line.rstrip()) for line in screen.display) * CELL + 2 * MARGIN)
    height = (used[-1] + 1) * LINE + TITLE_BAR + MARGIN
    whole = PLAYED + HELD + LOOKED
    opened = 100 * (PLAYED + HELD) / whole
    picture = base64.b64encode(photographed(page, width, height - TITLE_BAR, scale=1.0)).decode()
    buttons = "".join(f'<circle cx="{18 + 20 * n}" cy="{TITLE_BAR / 2:g}" r="5.5" fill="#626b78"/>' for n in range(3))
    lines = "\n".join(_line(screen, row) for row in used)
    last, shown = max(recording.seconds), PLAYED / whole
    moments = {row: 100 * shown * recording.seconds[row] / last for row in used}
    frames = "\n".join(
        f"@keyframes l{row}{{0%,{moment:.2f}%{{opacity:0}}{moment + 0.01:.2f}%,100%{{opacity:1}}}}"
        f"#l{row}{{animation:l{row} {whole}s linear infinite}}"
        for row, moment in moments.items()
        if moment > 0
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" \
aria-label="{escape(title)}">
<style>#page{{opacity:0}}
@media (prefers-reduced-motion: no-preference) {{
{frames}
@keyframes page{{0%,{opened:.2f}%{{opacity:0}}{opened + 0.5:.2f}%,100%{{opacity:1}}}}
#page{{animation:page {whole}s linear infinite}}
}}</style>
<rect width="{width}" height="{height}" rx="9" fill="{BACKGROUND}"/>
<rect width="{width}" height="{TITLE_BAR}" rx="9" fill="#2a303b"/>
<g>{buttons}</g>
<g transform="translate({MARGIN} {TITLE_BAR + 6})" fill="{FOREGROUND}" font-size="14" font-family="{FONTS}">
{lines}
</g>
<image id="page" y="{TITLE_BAR}" width="{width}" height="{height - TITLE_BAR}" href="data:image/png;base64,{picture}"/>
</svg>
"""


def _line(screen: pyte.Screen, row: int) -> str:
    """One line of the screen. Words in one style with one space between them are drawn together."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    spans, column = [], 0
    for (color, bold), group in groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
        text = "".join(cell.data for cell in group)
        style = "" if color == "default" else f' fill="{COLORS.get(color, f"#{color}")}"'
        style += ' font-weight="bold"' if bold else ""
        for words in WORDS.finditer(text):
            x, width = (column + words.start()) * CELL, len(words[0]) * CELL
            # A given length keeps columns straight in a font that is wider or narrower than ours.
            length = f' textLength="{width:.1f}"' if len(words[0]) > 1 else ""
            spans.append(f'<tspan x="{x:.1f}"{length}{style}>{escape(words[0])}</tspan>')
        column += len(text)
    return f'<text id="l{row}" y="{(row + 1) * LINE}">{"".join(spans)}</text>'


# --- pages -----------------------------------------------------------------------------------------


def browser() -> str:
    """Path of a browser that can run without a window."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    return browser or sys.exit(
        "Pictures of pages need Chromium or Chrome: `apt-get install chromium`, then run this again."
    )


def photographed(page: Path, width: int = 700, height: int = 1340, *, scale: float = 1.25) -> bytes:
    """The upper part of an HTML page as PNG, by default in a size that fits twice beside each other into the README."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.png"
        size = [f"--window-size={width},{height}", f"--force-device-scale-factor={scale}", "--hide-scrollbars"]
        # Without a sandbox, so that it also runs as root, as in containers; the page is one that we wrote.
        command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", *size]
        subprocess.run([*command, f"--screenshot={file}", page.resolve().as_uri()], check=True, capture_output=True)
        # A border, because pages are white like most of the pages that show them.
        ImageOps.expand(Image.open(file).convert("RGB"), border=1, fill="#c8ccd2").save(file)
        return smaller(file.read_bytes())


def main() -> None:
    """Run the demo and take the three pictures."""
    browser()  # before three minutes of training
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        commands = [
            ["dragoman", "demo"],
            ["dragoman", "translate", "runs/demo", SENTENCE],
            ["dragoman", "inspect", "runs/demo", SENTENCE, "--output", "inspection.html"],
        ]
        recording = Recording.of(commands, folder)
        title = "dragoman demo, translate and inspect in a terminal"
        moving = drawn(recording, title, folder / "inspection.html")
        (PICTURES / "demo.svg").write_text(moving, encoding="utf-8")
        (PICTURES / "report.png").write_bytes(photographed(folder / "runs/demo/report.html"))
        (PICTURES / "inspect.png").write_bytes(photographed(folder / "inspection.html"))
    for picture in sorted(PICTURES.iterdir()):
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
