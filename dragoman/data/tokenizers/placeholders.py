"""Placeholders: strings that a translation copies to the letter, such as tags, addresses, numbers and acronyms.

Each is replaced by a slot, one symbol that the model copies, and put back into the translation. The slots are
noncharacters of Unicode, which are set aside for uses like this one and never occur in text.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random

from dragoman.data.scripts import is_unspaced
from dragoman.data.text import share

NAMED, SURROUNDED = 0.3, 0.01
"""Shares of the training pairs with equal names and without, in which a model practises to copy."""
FEWEST_OF_SHAPE = 20
"""Numbers with the same marks that tell whether such numbers are copied."""
SLOTS = tuple(map(chr, range(0xFDD0, 0xFDD9)))
"""Nine; further placeholders of a sentence stay in its text."""

_LETTER = r"[A-Za-z\u00C0-\u058F\u1E00-\u1FFF]"
_CAPITAL = r"[A-Z\u00C0-\u00D6\u00D8-\u00DE]"
_CAPITALS = r"[A-Z\u00C0-\u00D6\u00D8-\u00DE0-9]"
_PICTURE = r"[\u2300-\u23FF\u2600-\u27BF\u2B00-\u2BFF\U0001F000-\U0001F1E5\U0001F200-\U0001FAFF]"
VERBATIM = rf"""
      </?[A-Za-z0-9][\w:.-]*(?:\s+[\w:.-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*\s*/?>  # <b> </b> <br/> <a href="x"> <0>
    | \{{\{{\s*[\w.$-]*\s*\}}\}}                                                  # {{{{name}}}}
    | [$%\#]?\{{[\w.$\[\]-]*(?:[:!][^{{}}\s]*|,\s*(?:number|date|time)[^{{}}]*)?\}}  # {{name}} {{0:.2f}} ${{x}} %{{x}}
    | %%
    | %[A-Z][A-Z0-9_]+%                                                           # %PATH%
    # %s %1$d %(name)s %.2f, but no percentage: "100%off"; bounded, or a long row of zeros would take forever
    | (?<!\d)%(?:\d{{1,2}}\$|\(\w+\))?[-+0\#]{{0,4}}(?:\d{{1,4}}|\*)?(?:\.(?:\d{{1,4}}|\*))?
      (?:hh?|ll?|[Lzjtq])?[diouxXeEfFgGaAcCsSpn@]
    | &(?:[A-Za-z]\w*|\#\d+|\#x[0-9A-Fa-f]+);                                     # &nbsp; &#160;
    | (?i:https?://|\bwww\.)[^\s<>"\u3000-\uFFEF]*[^\s<>"\u3000-\uFFEF.,;:!?)'\]]
    | (?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+      # name@example.org
    | (?<![\w&])[@\#][^\W\d]\w+                                                   # @name #tag
    | (?<![\w./\\])(?:[A-Z]:|~|\.\.?)?(?:[/\\][\w.-]*\w){{2,}}                    # /usr/bin C:\Users\me
    # Emoji with their variants, joined emoji, flags (two letters), keycaps: a row of them is one placeholder.
    | (?:{_PICTURE}[\u200D\uFE0F\U000E0020-\U000E007F]* | [\U0001F1E6-\U0001F1FF]{{2}} | [0-9*\#]\uFE0F?\u20E3)+
    | \+\d[\d ()/-]{{3,18}}\d                                                     # +49 30 1234
    # 42, 1 234.5, 1,234.56, 2024-05-06, 12:30, 12h30, v1.2.3; a single digit is often translated to a word
    | (?<!{_LETTER})(?<![\d_])(?<!\d[.,:])
      (?:\d{{1,3}}(?:[ '’\u00A0\u202F]\d{{3}})+(?:[.,]\d+)?(?!\d) | v?\d+(?:[.,:/h×x\u2013-]\d+)+ | \d\d+(?![\dA-Z_]))
"""
"""What is copied whatever it means, as a verbose pattern: its case says nothing about the case of a sentence."""
# NASA, COVID-19, A380, 3M, AT&T: capitals and digits, of which at least one is a capital.
_ACRONYM = rf"""
      (?<!{_LETTER})(?<![\d_])(?={_CAPITALS}[-&_]?{_CAPITALS})(?=[\d&_-]{{0,9}}{_CAPITAL})
      {_CAPITALS}+(?:[-&_]{_CAPITALS}+)*(?!{_LETTER}|[\d_]|['’]{_CAPITAL})
"""
_VERBATIM = re.compile(VERBATIM, re.VERBOSE)
_LITERAL = re.compile(r"[{}%<>@\\&$]|\bwww\.|[^\W\d_]\S*/|/\S*[^\W\d_]")
_PLACEHOLDER = re.compile(f"{VERBATIM} | {_ACRONYM}", re.VERBOSE)
# Every placeholder has one of these. Most sentences have none, and the long pattern takes its time.
_HINT = re.compile(rf"[\d<{{%&@#/\\\u2300-\u2BFF\U0001F000-\U0001FAFF]|{_CAPITAL}[A-Z\u00C0-\u00DE_-]|(?i:www)")
# A name, if both sides have it: a digit, or a word with a capital that does not begin the sentence.
_NAME = re.compile(r"(?<=[\w,] )(?:[^\W\d_a-z]\w+|\d)(?!\w)")
_DIGITS = re.compile(r"\d+")
_SLOT = re.compile(f"[{SLOTS[0]}-{SLOTS[-1]}]")
# Where a space is expected: between a slot and a letter, digit or slot, after closing and before opening marks.
_CLOSING, _OPENING = rf"{_LETTER}|[\d{SLOTS[0]}-{SLOTS[-1]},;:.!?)”»]", rf"{_LETTER}|[\d(„“«]"
_SPACE = re.compile(rf"(?<={_CLOSING}) (?={_SLOT.pattern})|(?<={_SLOT.pattern}) (?={_OPENING})")
_SEAM = re.compile(_SPACE.pattern.replace(" ", ""))


@dataclass(frozen=True)
class Prepared:
    """A sentence as it is encoded, perhaps with slots, and what its translation is restored with."""

    text: str
    values: list[str] = field(default_factory=list)
    """What the slots stand for, in order; equal values have the same slot."""
    joined: frozenset[str] = frozenset()
    """Slots that are written together with a word. The text lacks the expected spaces around all others: a model sees
    few slots, too few to learn where such spaces belong."""
    capitals: bool = False
    """Whether the sentence was in capitals, as its translation is to be."""


def mask(text: str, excluded: Collection[str] = ()) -> Prepared:
    """A text with slots for all placeholders but those that are `excluded`, such as symbols of the tokenizer."""
    text = _without_slots(text)
    values = [value for value in _found(text) if not _is_in(excluded, value)][: len(SLOTS)]
    text = _filled(text, values)
    joined = _joined(text)
    return Prepared(_closed_up(text, joined), values, joined)


def unmask(text: str, source: Prepared) -> str:
    """The translation of a masked source, with its values in the slots. Slots that the source lacks are removed."""
    return _SLOT.sub(lambda slot: "".join(source.values[SLOTS.index(slot[0]) :][:1]), spaced(text, source.joined))


def mask_translation(text: str, source: Prepared) -> str:
    """A translation, or its beginning, with slots for the values that its masked source has."""
    return _closed_up(_filled(_without_slots(text), source.values), source.joined)


def spaced(text: str, joined: Collection[str] = ()) -> str:
    """The text with the expected spaces around slots that are not `joined` to a word."""
    return _SEAM.sub(lambda seam: "" if _slots_at(seam) & {*joined} else " ", text)


def mask_pair(source: str, target: str, excluded: Collection[str] = (), *, practice: bool = False) -> tuple[str, str]:
    """Both sides with slots for the placeholders that both have, numbered as in the source. Others stay text.

    So do those that the target alone joins to a word, such as "USA" in a Finnish "USAssa". For `practice`, some pairs
    that have no placeholders are given slots: most corpora have too few to learn from.
    """
    source, target = _without_slots(source), _without_slots(target)
    if values := [value for value in _found(source) if not _is_in(excluded, value)]:
        found = {*_found(target)}
        values = [value for value in values if value in found][: len(SLOTS)]
        apart = _joined(_filled(target, values)) - _joined(_filled(source, values))
        values = [value for value, slot in zip(values, SLOTS, strict=False) if slot not in apart]
    if not values:
        return _with_practice(source, target) if practice else (source, target)
    source, target = _filled(source, values), _filled(target, values)
    joined = _joined(source)
    return _closed_up(source, joined), _closed_up(target, joined)


def _with_practice(source: str, target: str) -> tuple[str, str]:
    """The pair as it is, or with slots for names that both sides have, or with slots before or after both sides."""
    chance = share((source, target), "practice")
    if chance >= NAMED:
        return source, target
    found = {*_NAME.findall(target)}
    names = [name for name in dict.fromkeys(_NAME.findall(source)) if name in found]
    if not names and chance >= SURROUNDED:
        return source, target
    rng = Random(chance)
    # Not always the first slots, since few sentences have several.
    first = rng.choice((0, 0, rng.randrange(len(SLOTS))))
    slots = SLOTS[first : first + (len(names) or rng.choice((1, 1, 2)))]
    before, named = rng.randrange(len(slots) + 1), dict(zip(names, slots, strict=False))

    def practised(text: str) -> str:
        if names:
            return _closed_up(_NAME.sub(lambda name: named.get(name[0], name[0]), text))
        return _closed_up(("" if is_unspaced(text) else " ").join([*slots[:before], text, *slots[before:]]))

    return practised(source), practised(target)


class CopyCounts:
    """Counts how often the placeholders of sources are copied to their targets."""

    def __init__(self) -> None:
        self.seen, self.copied = Counter[str](), Counter[str]()

    def add(self, source: str, target: str) -> None:
        if values := _found(source):
            copied = {*values} & {*_found(target)}
            self.seen.update([*values, *filter(None, map(_shape, values))])
            self.copied.update([*copied, *filter(None, map(_shape, copied))])

    def translated(self) -> list[str]:
        """Those that are mostly not copied, such as "10" if it becomes "ten", and "0,0" if "1,600" becomes "1.600"."""
        often = (each for each, count in self.seen.items() if count >= (FEWEST_OF_SHAPE if each == _shape(each) else 2))
        return sorted(each for each in often if 2 * self.copied[each] < self.seen[each])


def _shape(value: str) -> str:
    """What stands between the digits of a number: "0,0.0" for "1,234.56". Empty for what has no such marks."""
    shape = _DIGITS.sub("0", value)
    return shape if len(shape) > 1 and "0" in shape else ""


def _is_in(excluded: Collection[str], value: str) -> bool:
    return value in excluded or _shape(value) in excluded


def _found(text: str) -> list[str]:
    """The placeholders of a text, in order, each once."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(text))) if _HINT.search(text) else []


def literal_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each placeholder that means nothing in any language, such as {name}, %s, a tag or an address.

    Numbers, acronyms and emoji are none.
    """
    if not _LITERAL.search(text):
        return []
    return [match.span() for match in _VERBATIM.finditer(text) if _LITERAL.search(match[0])]


def _filled(text: str, values: list[str]) -> str:
    slots = dict(zip(values, SLOTS, strict=False))
    return _PLACEHOLDER.sub(lambda match: slots.get(match[0], match[0]), text) if values else text


def _joined(text: str) -> frozenset[str]:
    return frozenset().union(*map(_slots_at, _SEAM.finditer(text)))


def _closed_up(text: str, joined: Collection[str] = ()) -> str:
    return _SPACE.sub(lambda space: " " if _slots_at(space) & {*joined} else "", text)


def _slots_at(match: re.Match[str]) -> set[str]:
    """The slots directly before and after a match."""
    start, end = match.span()
    return {*match.string[max(0, start - 1) : start], *match.string[end : end + 1]} & {*SLOTS}


def _without_slots(text: str) -> str:
    return _SLOT.sub("\N{REPLACEMENT CHARACTER}", text)
