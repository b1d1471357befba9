"""Inline codes of XLIFF 1.2, XLIFF 2 and TMX: elements in a sentence that hold or stand for markup of another file.

Other inline elements (`g`, `pc`, `hi`, `mrk`) hold text of the sentence.
"""

from typing import Literal

KINDS: dict[str, Literal["open", "close", "alone", "word"]] = {
    # Codes of TMX and XLIFF 1.2 with the markup inside.
    "bpt": "open", "ept": "close", "it": "alone", "ph": "word", "ut": "alone",
    # Empty ones of XLIFF 1.2.
    "x": "word", "bx": "open", "ex": "close",
    # Empty ones of XLIFF 2, which calls its placeholder `ph`, too.
    "sc": "open", "ec": "close", "sm": "open", "em": "close", "cp": "alone",
}  # fmt: skip
"""Whether each code opens or closes a stretch of text, stands for a word, or does neither."""
MARKUP = KINDS.keys() - {"sm", "em", "cp"}
"""Elements whose content, if they have any, is no text of the sentence. The others are always empty in XLIFF 2; in a
file that is no proper XLIFF, an `em` may be that of HTML, with words inside."""
SEPARATING = {"ph", "ut", "x"}
"""Codes that stand for something between two words, such as a line break, so that the words must not be joined."""
SUBFLOW = "sub"
"""A text inside of a code, such as a footnote or a tooltip, which is no part of the sentence around it."""
