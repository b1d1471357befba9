"""Write docs/walk/attention-in-training/index.html: the frames of the animated picture of chapter 8, to step through.

    python -m tools.make_frames_page

The frames are those of docs/walk/pictures/attention-in-training.gif, which docs/walk/evidence.py draws. The page is one
file that loads nothing; `page.html` beside it is its frame.
"""

import base64
import io
import json
import re
from typing import Any

from PIL import Image, ImageSequence

from tools.pages import DOCS

FOLDER = DOCS / "walk/attention-in-training"
PAGE = FOLDER / "index.html"
ANIMATION = DOCS / "walk/pictures/attention-in-training.gif"
EVERY = 40
"""Steps of the training between two frames (docs/walk/evidence.py); the first frame is after as many."""


def frames() -> list[Image.Image]:
    """The frames of the animation in its own colours."""
    with Image.open(ANIMATION) as animation:
        return [frame.convert("RGB") for frame in ImageSequence.Iterator(animation)]


def recorded() -> list[dict[str, Any]]:
    """For each frame the step of the training, and the picture as an address of the kind `data:`."""
    pictures = []
    for number, frame in enumerate(frames(), start=1):
        file = io.BytesIO()
        frame.quantize(64, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
        content = base64.b64encode(file.getvalue()).decode()
        pictures.append({"step": EVERY * number, "picture": f"data:image/png;base64,{content}"})
    return pictures


def page(pictures: list[dict[str, Any]]) -> str:
    """The page with its frames."""
    text = (FOLDER / "page.html").read_text(encoding="utf-8")
    return text.replace("{{ frames }}", json.dumps(pictures, separators=(",", ":")))


def frames_in(text: str) -> list[dict[str, Any]]:
    """The frames of a page."""
    (content,) = re.findall(r"^const FRAMES = (.*);$", text, re.MULTILINE)
    return json.loads(content)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(recorded()), encoding="utf-8")
    print(f"{PAGE.relative_to(DOCS)}: {PAGE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
