"""Finds text that was damaged on its way: wrong encodings, control characters, markup left over."""

import re
from collections.abc import Iterator
from contextlib import suppress

from dragoman.data.filtering import CONTROL, LOST
from dragoman.data_check.locations import Block
from dragoman.data_check.result import Check

# Windows-1252 has characters for most bytes from 0x80 to 0x9F, Latin-1 has control characters.
_BYTE_OF = {chr(byte): byte for byte in range(0x80, 0x100)}
_BYTE_OF |= {bytes([b]).decode("cp1252"): b for b in range(0x80, 0xA0) if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}
_CONTINUATION = "".join(c for c, byte in _BYTE_OF.items() if byte < 0xC0)

MARKUP = r"&(?:[a-zA-Z]{2,8}|#\d{1,6}|#[xX][0-9a-fA-F]{1,5});|</?[a-zA-Z][\w.:-]*(?:\s[^<>]*)?/?>"
SUSPECT = re.compile(f"{LOST}|{CONTROL.pattern}|[\u00c2-\u00f4][{_CONTINUATION}]|{MARKUP}")
MISREAD = re.compile(
    f"[\u00c2-\u00df][{_CONTINUATION}]|[\u00e0-\u00ef][{_CONTINUATION}]{{2}}|[\u00f0-\u00f4][{_CONTINUATION}]{{3}}"
)
# The first bytes of characters that most languages have: « (C2), é and ß (C3), ’ “ and € (E2), 😀 (F0). In intact text,
# these letters rarely stand before a quotation mark or the like; others may: É».
_COMMON_STARTS = "\u00c2\u00c3\u00e2\u00f0"


def misread(text: str) -> bool:
    """Whether text looks like UTF-8 that was read as Latin-1 or Windows-1252: "Ã©" for "é"."""
    num_rare = 0
    for match in MISREAD.finditer(text):
        with suppress(UnicodeDecodeError):
            bytes(_BYTE_OF[character] for character in match[0]).decode("utf-8")
            num_rare += 1
            if match[0][0] in _COMMON_STARTS:
                return True
    return num_rare > 1


class DamageCheck(Check):
    """Counts pairs with damaged text."""

    def add(self, block: Block) -> None:
        for number, source, target in block:
            # A line feed belongs to neither side: no pattern matches across it.
            text = f"{source}\n{target}"
            if SUSPECT.search(text):
                for kind in damages(text):
                    self.tallies[kind].add(number)


def damages(text: str) -> Iterator[str]:
    """The names of the kinds of damage in a text."""
    if misread(text):
        # Half of the misread bytes are control characters of Latin-1.
        yield "misread"
    elif CONTROL.search(text):
        yield "control"
    if LOST in text:
        yield "replaced"
    if re.search(MARKUP, text):
        yield "markup"
