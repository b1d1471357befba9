"""The page that steps through the animated picture of chapter 8 has its frames, and loads nothing."""

import base64
import io
import re

import numpy as np
from PIL import Image

from tools import make_frames_page
from tools.pages import CHAPTERS

TEXT = make_frames_page.PAGE.read_text(encoding="utf-8")
FRAMES = make_frames_page.frames_in(TEXT)


def test_the_page_is_made_of_its_parts():
    assert make_frames_page.page(FRAMES) == TEXT, "run `python -m tools.make_frames_page`"


def test_it_has_every_frame_of_the_animation_and_the_steps_at_which_they_were_drawn():
    steps, every = map(int, re.search(r"^STEPS, EVERY = (\d+), (\d+)$", _evidence(), re.MULTILINE).groups())
    drawn = make_frames_page.frames()
    assert [frame["step"] for frame in FRAMES] == list(range(every, steps + 1, every))
    assert len(drawn) == len(FRAMES)
    for frame, picture in zip(FRAMES, drawn, strict=True):
        shown = Image.open(io.BytesIO(base64.b64decode(frame["picture"].partition("base64,")[2]))).convert("RGB")
        difference = abs(np.asarray(shown, float) - np.asarray(picture, float))
        assert difference.mean() < 1  # of 255: each picture has 64 colours


def test_it_is_one_file_that_loads_nothing():
    assert not re.search(r"src=|href=\"(?!data:)|https?://|url\(|@import|fetch\(", TEXT)
    assert "default-src 'none'" in TEXT
    assert len(TEXT.encode()) < 150_000


def _evidence() -> str:
    return (CHAPTERS / "evidence.py").read_text(encoding="utf-8")
