"""Subtitles with faults that players overlook."""

import pytest

from dragoman.decoding.translation import Translation
from dragoman.documents.subtitles import read_subtitles
from dragoman.documents.translate import Engine
from tests.documents.engines import SAME, SHOUTING, translated

TIMES = "00:00:01,000 --> 00:00:02,000"


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello\n2\n00:00:03,000 --> 00:00:04,000\nyou\n", "HELLO\n2\n00:00:03,000 --> 00:00:04,000\nYOU\n"),
        ("Hello\n\nyou there\n\n2\n0:0:3,0 --> 0:0:4,5\nso\n", "HELLO\n\nYOU THERE\n\n2\n0:0:3,0 --> 0:0:4,5\nSO\n"),
        ("-Where?\n-There, I\nthink\n", "-WHERE?\n-THERE, I\nTHINK\n"),
        (">> TOM: go << home >>\n", ">> TOM: GO << HOME >>\n"),
        ("{\\an8}<font color=\"#fff\">red fox</font>\n", "{\\an8}<font color=\"#fff\">RED FOX</font>\n"),
        ("♪ la la land ♪\n", "♪ LA LA LAND ♪\n"),
        ("♪\nla la land of\nsongs\n♪\n", "♪\nLA LA LAND OF\nSONGS\n♪\n"),
        ("[door slams]\n(laughs)\n", "[DOOR SLAMS]\n(LAUGHS)\n"),
        ("-40 degrees\nhere\n", "-40 DEGREES\nHERE\n"),
        ("<i>- Where here?</i>\n<i>- There.</i>\n", "<i>- WHERE HERE?</i>\n<i>- THERE.</i>\n"),
        ("in the year\n2012\n", "IN THE YEAR\n2012\n"),
    ],
)  # fmt: skip
def test_texts_are_translated_and_times_stay(text, expected):
    for newline in ("\n", "\r\n", "\r"):
        source, target = (f"1\n{TIMES}\n{part}".replace("\n", newline) for part in (text, expected))
        assert translated(source, "a.srt", SHOUTING) == target
        assert translated(source, "a.srt", SAME) == source


VTT = """WEBVTT Some header
X-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:900000

NOTE
some note
of lines

STYLE
::cue(b) { color: red }

some name
00:01.000 --> 00:04.000 align:start
<v Mary Ann>Hi <c.yellow>dear</c> <00:00:02.000>you

NOTE some note

REGION
id:some

other name
00:05.000 --> 00:06.000
- I am
- So am I
"""


def test_webvtt_keeps_notes_styles_names_and_settings():
    found = translated(VTT, "a.vtt", SHOUTING)
    expected = VTT.replace("Hi", "HI").replace("dear", "DEAR").replace(">you", ">YOU")
    assert found == expected.replace("I am", "I AM").replace("So am I", "SO AM I")


def test_japanese_has_as_many_lines_and_breaks_at_punctuation():
    text = "窓を開けてから、静かに部屋に入ってください。"
    engine = Engine(lambda texts: [Translation(text, 0.0, 0.0, [], [(0, 0)]) for _ in texts], copies=True)
    found = translated(f"1\n{TIMES}\nOpen the window, then\nenter the room quietly.\n", "a.srt", engine)
    assert found.split("\n")[2:4] == ["窓を開けてから、", "静かに部屋に入ってください。"]


@pytest.mark.parametrize(
    ("cue", "texts"),
    [
        ("-Who are you?\n-Nobody.\n", ["Who are you?", "Nobody."]),
        ("<i>- Who are you?</i>\n<i>- Nobody.</i>\n", ["- Who are you?", "- Nobody."]),
        ("{\\an8}<i>- Who are\nyou?\n- Nobody.</i>\n", ["- Who are you?", "Nobody."]),
        ("TOM: Who are you?\nDR. ANN: Nobody.\n", ["TOM: Who are you?", "DR. ANN: Nobody."]),
        ("Look: he\nsaid: no\n", ["Look: he said: no"]),
    ],
)
def test_two_speakers_are_two_texts(cue, texts):
    segments = read_subtitles(f"1\n{TIMES}\n{cue}").segments
    assert ["".join(part for part in segment.content if isinstance(part, str)) for segment in segments] == texts
