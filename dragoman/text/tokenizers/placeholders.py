"""Placeholders: strings that a translation copies to the letter, such as tags, addresses, numbers and acronyms.

Each is replaced by a slot, one symbol that the model copies, and put back into the translation. The slots are
noncharacters of Unicode, which are set aside for uses like this one and never occur in text.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from random import Random

from dragoman.text.characters import share
from dragoman.text.patterns import LazyPattern
from dragoman.text.scripts import is_unspaced

NAMED, SURROUNDED = 0.3, 0.01
"""Shares of the training pairs that are given slots for practice: of those with equal names, and of those without."""
FEWEST_OF_SHAPE = 20
"""Fewest numbers with the same marks from which to tell whether such numbers are copied."""
SLOTS = tuple(map(chr, range(0xFDD0, 0xFDD9)))
"""Symbols that stand for placeholders, nine in a sentence; its further placeholders stay text."""

_LETTER = r"[A-Za-z\u00C0-\u058F\u1E00-\u1FFF]"
_CAPITAL = r"[A-Z\u00C0-\u00D6\u00D8-\u00DE]"
_CAPITALS = r"[A-Z\u00C0-\u00D6\u00D8-\u00DE0-9\u2080-\u2089]"
_SYMBOL = r"[\u2190-\u2211\u2213\u2214\u2216-\u2235\u2237-\u223B\u223D-\u22FF\u27F0-\u27FF\u2900-\u297F]"
"""Arrows and signs of mathematics, less those that are other signs for a minus, a slash, a colon or a tilde."""
_PICTURE = r"[\u2300-\u23FF\u2600-\u27BF\u2B00-\u2BFF\U0001F000-\U0001F1E5\U0001F200-\U0001FAFF]"
# All parts that may be long are bounded, possessive, or begin where no other match can begin: no text takes long.
LITERAL = rf"""
    (?=[<{{%])(?:
      </?[A-Za-z0-9][\w:.-]*(?:\s+[\w:.-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*\s*/?>  # <b> </b> <br/> <a href="x"> <0>
    | <[%?](?:[-=]>|[^<>\n]){{1,200}}[%?]>                                        # <%= x %> <?= $x->name ?>
    | \{{{{2,3}}[^{{}}\n]{{0,200}}\}}{{2,3}}                                      # {{{{name}}}} {{{{n, number}}}}
    | \{{%[^{{}}\n]{{1,200}}%\}}                                                  # {{% if x %}}
    | %(?:(?<![\w%].)[A-Za-z_]\w{{1,60}}(?:[.-]\w{{1,60}}){{0,4}}%(?![\w%(*]|\.[\d*])   # %PATH% %count%
      | (?<![\w%-].)(?<!\d[ ].)[A-Za-z]\w{{3,60}}(?![\w%])                       # %count, but no %s with a few letters
      | %(?:(?<!\w..)[A-Za-z_]\w{{0,60}}%%)?                                      # %% %%name%%
      | <\w{{1,60}}>[-+0\#]{{0,4}}\d{{0,4}}(?:\.\d{{1,4}})?[a-zA-Z]               # %<name>s of Ruby
      # %s %1$d %[1]d %(name)s %.2f, but no percentage: "100%off"; bounded, or a long row of zeros would take forever
      | (?:(?<!\d.)|(?=(?:\d{{1,2}}\$)?[sd@](?!\w)))
        (?:(?:\d{{1,2}}\$|\(\w+\)|\[\d{{1,2}}\])?[-+0\#]{{0,4}}(?:\d{{1,4}}|\*)?(?:\.(?:\d{{1,4}}|\*))?
        (?:hh?|ll?|[Lzjtq]|I64|I32)?[diouxXeEfFgGaAcCsSpn@]
        | L?\d{{1,2}}(?![\d%\w]|[.,]\d) | [-_0^]?[A-Za-z](?!{_LETTER}|\d)))               # %1 and %L1 of Qt, %Y-%m-%d
    )
    | \{{(?:[ ]?(?:[$-][\w.-]+|[A-Z]+\([^(){{}}\n]{{1,80}}\))[ ]?                  # {{ $name }} {{ NUMBER($n) }}
      | \d{{1,2}}(?:,[ ]?-?\d{{1,4}})?:[^{{}}\n]{{1,60}}|\d{{1,2}},[ ]?-?\d{{1,4}})\}}  # {{0:d MMM}} {{0,-10}}
    | [$%\#]?\{{(?:[\w.$-]++|\[['"]?[\w.$-]*['"]?\]|\(\))*+(?:[:!][^{{}}\s]*
      | ,\s*(?:number|date|time|ordinal|spellout|duration|list)[^{{}}]*)?\}}      # {{name}} {{0:.2f}} ${{x}} %{{x}}
    | (?=[&@$\[:*\#])(?:
      &(?:[A-Za-z]\w*|\#\d+|\#x[0-9A-Fa-f]+);                                     # &nbsp; &#160;
    | @(?<![\w@&].)(?:\w[\w.-]*@[\w-]+(?:\.[\w-]+)+                               # @user@example.org
      | (?:\.[a-z]{{1,20}})?:(?:\w+(?:[.-]\w+)*+ | \{{[^{{}}\n]{{1,80}}\}} | \([^()\n]{{1,80}}\))  # @:key
      | [^\W\d]\w+)                                                               # @name
    | \$(?:t\([^()\n]{{1,200}}\) | \([A-Za-z_][\w.-]{{0,60}}\)                    # $t(key) $(NAME)
      | (?<![\w$].)[A-Za-z_]\w*+\$?)                                             # $HOME $name $NAME$
    | \*\|[\w:.-]{{1,60}}\|\*                                                     # *|NAME|*
    | (?:\#\#\#?[A-Za-z_]\w{{0,60}}\#\#\#? | @@[A-Za-z_]\w{{0,60}}@@)             # ##name## ###NAME### @@name@@
    | \[X\d{{1,6}}X\]                                                             # as Weblate protects placeholders
    | :(?<![\w:].)(?:[A-Za-z][\w+-]{{1,40}} | [+-]1):(?![\w:])                    # :smile:
    )
    | (?i:https?://|\bmailto:|\bwww\.)[^\s<>"\u3000-\uFFEF]*[^\s<>"\u3000-\uFFEF.,;:!?)'\]]
    | (?=[A-Za-z\d_.+-])(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]+
      (?:@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+                                       # name@example.org
      | ://[^\s<>"\u3000-\uFFEF]*[^\s<>"\u3000-\uFFEF.,;:!?)'\]])                 # ftp://example.org
    | (?=[A-Z~./\\])(?<![\w./\\])
      (?:(?:[A-Z]:|~|\.\.?)(?:[/\\][\w.-]*\w)+ | (?:[/\\][\w.-]*\w){{2,}})        # ./run.sh C:\Users\me /usr/bin
"""
"""Verbose pattern of text that means nothing in any language and is copied: {name}, %s, a tag, an address."""

_SPACE_IN = r"[ \u00A0\u2009\u202F]"
"""A space inside of a number, or between a number and its unit."""
_CURRENCY = r"[$\u00A2-\u00A5\u058F\u060B\u09F2\u09F3\u0E3F\u20A0-\u20CF]"
_POWER = r"[\u2070\u00B9\u00B2\u00B3\u2074-\u208E]"
_BETWEEN = r"[.,:/h×x+*=÷^·~〜～\u2010-\u2014\u2212-]"
# 42, 1 234.5, 1,234.56, 2024-05-06, 12:30, 12h30, 3–5, 2+2=4, 1.5e-9, 10^-3, 10², 2½, 2024-05-06T12:30:00Z
_DIGITS_AND_MARKS = rf"""(?a:  # Digits of other scripts and wide ones are text: targets may write others.
    (?:\d{{1,3}}(?:['’]\d{{3}}|{_SPACE_IN}\d{{3}}(?!\d))++(?:[.,]\d++)?(?!\d)
      | \d++(?:{_BETWEEN}[-+\u2212]?\d++)*+(?:[eE][-+\u2212]?\d{{1,6}}(?!{_LETTER}))?
        (?:T\d\d:\d\d(?::\d\d(?:\.\d{{1,9}})?)?(?:Z|[-+]\d\d:?\d\d)?)?
      )(?:{_SPACE_IN}?[\u00BC-\u00BE\u2150-\u215E\u2189] | {_SPACE_IN}\d{{1,2}}/\d{{1,3}}(?!\d))?{_POWER}{{0,6}})
"""
_UNIT = r"""(?:km/h|m/s|[kcdmµμn]?m[²³]?|mph|[mµμn]s|[kmµμ]?g|[mcdh]?l|mL|L|h|oz|lbs?|ft|yd|ha|px|dpi|fps|rpm
    |[kMGTP]?B|[kMGT]i?B|[kMGT]b(?:it|ps)(?:/s)?|[kMGT]?Hz|[kMG]?W|[kMG]?Wh|mAh|m?V|kV|mA|k?J|kcal|[hkM]?Pa|dB|kN)"""
# What is written directly after a number: % °C €, pm, km, a unit after a space, and up to four letters without one.
_AFTER = rf"""
    (?:[%‰](?!\(|(?:\d{{1,2}}\$)?[sd@](?!\w))
      | {_SPACE_IN}?(?:[%‰](?![\w(]) | [°º](?:{_SPACE_IN}?[CFK](?!{_LETTER}))? | {_CURRENCY}(?![\w{{(]))
      | {_SPACE_IN}?(?:[ap]\.{_SPACE_IN}?m\. | [AP]M\b | pm\b)
      | {_SPACE_IN}{_UNIT}(?!{_LETTER}|[\d'’])
      | ['′]\d{{1,2}}["″]? | [″′](?!\w) | \+(?![\w+])
      | (?:[A-Za-zµμΩºª][A-Za-zº]{{0,3}})(?:/[A-Za-z]{{1,3}})?[²³]?(?!{_LETTER}|[\d_(]))
"""
# -$10 or –30%: the rest of a range
_TO = rf"(?:[\u2013\u2014~-](?={_CURRENCY}|\d){_CURRENCY}?\d++(?:[.,]\d++)*+(?:{_AFTER})?)?"
_BETA = r"-?(?:alpha|beta|rc|RC|dev|pre|post|b|SNAPSHOT)\b(?:\.?\d++)*+(?:\+\w{1,40})?"  # 2.0.1-beta.2
_SIGN = r"[-+\u2010\u2011\u2212\u2013\uFE63\uFF0B\uFF0D±∓~≈≤≥<>\#№§]"
_SIGN_APART = r"[±∓≈≤≥№§]"
"""A sign that a space may separate from its number."""
_NOT_AFTER = rf"(?<!{_LETTER})(?<![\d_)\]}}%$<>+~.\u2010\u2011-])"
"""Lookbehind of a sign that belongs to a number. A sign between two words or numbers joins these."""
_NOT_INSIDE = rf"(?<!{_LETTER})(?<![\d_])(?<!\d[.,:])"
# 2 + 2 = 4
_TERM = rf"(?a:{_SIGN}?\d++(?:[.,]\d++)?{_POWER}{{0,6}})"
_SUM = rf"{_TERM}(?:{_SPACE_IN}[+×x÷*=/<>≤≥≠≈\u2013\u2212-]{_SPACE_IN}{_TERM}){{1,40}}+(?!{_LETTER}|\d)"
_AMOUNT = rf"{_DIGITS_AND_MARKS}(?:{_AFTER})?{_TO}"
_FRACTION = r"[\u00BC-\u00BE\u2150-\u215E\u2189]"
NUMBER = rf"""
    # Emoji with their variants, joined emoji, flags (two letters), keycaps: a row of them is one placeholder.
      (?:{_PICTURE}[\u200D\uFE0F\U000E0020-\U000E007F]* | [\U0001F1E6-\U0001F1FF]{{2}} | [0-9*\#]\uFE0F?\u20E3)+
    | \#(?<![\w&].)(?:[^\W\d]\w+ | [0-9A-Fa-f]{{3,8}}(?!\w))                       # #tag #ff0000
    | (?=[0-9A-Fa-f:])(?<![\w:-])
      (?:[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}(?!\w)         # a UUID
        | (?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{{7,64}}(?!\w)                     # 3f2a1bc
        | (?:[0-9A-Fa-f]{{0,4}}:){{2,7}}[0-9A-Fa-f]{{1,4}}(?![\w:]|[.,]\d))         # fe80::1
    | [A-Za-z](?<![\w:].)(?:(?<=v)\d++(?:[.-]\d++)*+(?!{_LETTER})(?:{_BETA})? | :[A-Za-z](?![\w:]))  # v1.2.3 a:b
    | (?=[0-9]){_NOT_INSIDE}(?:
        0[xXbBoO][0-9A-Fa-f]{{1,64}}(?!\w)                                         # 0xFF
      | \d++(?:\.\d++)++{_BETA}
      | {_SUM}
      | (?=\d\d|\d[eE][-+\u2212]?\d|\d{_BETWEEN}[-+\u2212]?\d|\d{_SPACE_IN}\d{{3}}|\d['’]\d{{3}})
        {_DIGITS_AND_MARKS}(?:{_SPACE_IN}am\b(?<=:\d\d.am)|{_AFTER})?{_TO}
      # A single digit is often translated to a word, and so is an ordinal.
      | \d(?!st\b|nd\b|rd\b|th\b|[eª]\b|[ei]?r[ae]?\b|º)(?:{_AFTER}){_TO}
      | \d{_SPACE_IN}?{_FRACTION} | \d{_SPACE_IN}\d{{1,2}}/\d{{1,3}}(?!\d) | \d{_POWER}{{1,6}})
    | {_FRACTION}
    | (?<![\w'’])(?:[A-Za-z]|[kcdmµμn]m|ft|yd|mi){_POWER}{{1,6}}(?![\w'’])        # x² km²
    # -40, ±5, −15 °C, -$250, №5, .5
    | (?={_SIGN}|\.\d){_NOT_AFTER}(?:
        \+\d[\d ()/-]{{3,18}}\d                                                    # +49 30 1234
      | {_SUM}
      | (?:{_SIGN}{{1,2}} | {_SIGN_APART}{{1,2}}{_SPACE_IN})
        (?:(?:[A-Z]{{0,3}}{_CURRENCY}{_SPACE_IN}?)?{_AMOUNT} | {_FRACTION})
      | [-+\u2212]?\.\d++(?:{_AFTER})?)
    | (?=[A-Z]|{_CURRENCY})(?<![A-Za-z\d])[A-Z]{{0,3}}{_CURRENCY}{_SPACE_IN}?[-+\u2212]?{_AMOUNT}   # US$ 5
    | {_SYMBOL}
"""
"""Verbose pattern of numbers with their signs and units, and of pictures."""
# Nothing begins with a space or inside of a word; this saves most of the time.
VERBATIM = rf"(?=[^A-Za-z\s]|(?<![A-Za-z\d_])[A-Za-z])(?:{LITERAL} | {NUMBER})"
"""Verbose pattern of text that is copied whatever it means. Its case says nothing about the case of a sentence."""
# NASA, COVID-19, A380, 3M, AT&T, GPL-3.0, UTC+2, H₂O: capitals and digits, of which at least one is a capital.
# IPv4, iOS17: a capital that does not begin the word, and a digit.
_ACRONYM = rf"""
    (?<!{_LETTER})(?<![\d_])(?:
      (?={_CAPITALS}[-&_]?{_CAPITALS})(?=[\d&_-]{{0,9}}{_CAPITAL})
      {_CAPITALS}+(?:[-&_+]{_CAPITALS}+)*(?:(?<=\d)(?:\.\d++)++)?(?!{_LETTER}|[\d_]|['’]{_CAPITAL})
    | (?=[A-Za-z][a-z]{{0,20}}[A-Z])(?=[A-Za-z]{{1,20}}\d)[A-Za-z\d]++(?!{_LETTER}|_))
"""
# Every placeholder has one of these. Most sentences have none, and the long patterns take their time: also to be
# compiled, which is why they are compiled when a text first has a hint of a placeholder.
_HINT = re.compile(
    rf"[\d<{{%&@#/\\$:\[\u00BC-\u00BE\u2150-\u215E\u2190-\u2BFF\U0001F000-\U0001FAFF]|{_CAPITAL}[A-Z\u00C0-\u00DE\u2080-\u2089_-]"
    rf"|{_POWER}|\*\||(?i:www|mailto)"
)
# A name, if both sides have it: a digit, or a word with a capital that does not begin the sentence.
_NAME = re.compile(r"(?<=[\w,] )(?:[^\W\d_a-z]\w+|\d)(?!\w)")
_DIGITS = re.compile(r"\d+")
_BARE = LazyPattern(
    rf"(?:{_SIGN}|[A-Z]|{_CURRENCY}|{_SPACE_IN})*+(?P<bare>{_DIGITS_AND_MARKS})(?:{_AFTER})?", re.VERBOSE
)
_SLOT = re.compile(f"[{SLOTS[0]}-{SLOTS[-1]}]")
_OPENING = rf"{_LETTER}|[\d(„“«]"
_JOINED_SLOT = re.compile(rf"(?<={_LETTER}|[\d,;:.!?)”»]){_SLOT.pattern}|{_SLOT.pattern}(?={_OPENING}|{_SLOT.pattern})")


@cache
def _kinds() -> re.Pattern[str]:
    return re.compile(rf"(?P<literal>{LITERAL}) | {NUMBER}", re.VERBOSE)


@cache
def _placeholder() -> re.Pattern[str]:
    return re.compile(f"{VERBATIM} | {_ACRONYM}", re.VERBOSE)


class Verbatim:
    """Text that stays as it is: what some verbose patterns match, in their order, or else `VERBATIM`."""

    def __init__(self, *patterns: str):
        self._short = re.compile(f"({'|'.join(patterns) or '(?!)'})", re.VERBOSE)
        """What is looked for in a text without a hint of a placeholder."""
        self._patterns = patterns

    @cached_property
    def _long(self) -> re.Pattern[str]:
        return re.compile(f"({'|'.join([*self._patterns, VERBATIM])})", re.VERBOSE)

    def split(self, text: str) -> list[str]:
        """The parts of a text; every second one is to stay."""
        return self._pattern(text).split(text)

    def change(self, text: str, change: Callable[[str], str]) -> str:
        """The text with a change of all parts that need not stay."""
        parts = self.split(text)
        parts[::2] = map(change, parts[::2])
        return "".join(parts)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each part of a text that is to stay."""
        return [match.span() for match in self._pattern(text).finditer(text)]

    def _pattern(self, text: str) -> re.Pattern[str]:
        return self._long if _HINT.search(text) else self._short


@cache
def verbatim(kept: tuple[str, ...], *patterns: str) -> Verbatim:
    """These texts, what some verbose patterns match, and `VERBATIM`."""
    return Verbatim(*map(re.escape, kept), *patterns)


@cache
def _gaps(joined: frozenset[str], space: str = "") -> re.Pattern[str]:
    """Pattern of the gaps where a space is expected, which matches `space` there.

    They are between a slot and a letter, digit or slot, after closing and before opening marks, unless the slot is
    `joined`.
    """
    apart = "".join(slot for slot in SLOTS if slot not in joined)
    if not apart:
        return re.compile("(?!)")
    return re.compile(rf"(?<={_LETTER}|[\d{apart},;:.!?)”»]){space}(?=[{apart}])|(?<=[{apart}]){space}(?={_OPENING})")


@dataclass(frozen=True)
class Prepared:
    """A sentence as it is encoded, perhaps with slots, and the values that are put back into its translation."""

    text: str
    values: list[str] = field(default_factory=list)
    """The placeholders that the slots stand for, in order; equal ones have the same slot."""
    joined: frozenset[str] = frozenset()
    """Slots that are written together with a word. The text lacks the expected spaces around all others: a model sees
    few slots, too few to learn where such spaces belong."""
    capitals: bool = False
    """Whether the sentence was in capitals, as its translation is to be."""
    target_label: str = ""
    """The label that the translation begins with, for a tokenizer that reads it."""


def mask(text: str, excluded: Collection[str] = ()) -> Prepared:
    """A text with slots for all placeholders but those that are `excluded`, such as symbols of the tokenizer."""
    text = _without_slots(text)
    values = _values(_placeholders(text), lambda form: not _is_in(excluded, form))
    text = _filled(text, values)
    joined = _joined(text)
    return Prepared(_closed_up(text, joined), values, joined)


def unmask(text: str, source: Prepared) -> str:
    """The translation of a masked source, with its values in the slots. Slots that the source lacks are removed."""

    def value_of(slot: re.Match[str]) -> str:
        index = SLOTS.index(slot[0])
        return source.values[index] if index < len(source.values) else ""

    return _SLOT.sub(value_of, spaced(text, source.joined))


def mask_translation(text: str, source: Prepared) -> str:
    """A translation, or its beginning, with slots for the values that its masked source has."""
    return _closed_up(_filled(_without_slots(text), source.values), source.joined)


def spaced(text: str, joined: Collection[str] = ()) -> str:
    """The text with the expected spaces around slots that are not `joined` to a word."""
    return _gaps(frozenset(joined)).sub(" ", text)


def mask_pair(source: str, target: str, excluded: Collection[str] = (), *, practice: bool = False) -> tuple[str, str]:
    """Both sides with slots for the placeholders that both have, numbered as in the source. Others stay text.

    So do those that the target alone joins to a word, such as "USA" in a Finnish "USAssa". For `practice`, some pairs
    that have no placeholders are given slots: most corpora have too few to learn from.
    """
    source, target = _without_slots(source), _without_slots(target)
    values: list[str] = []
    if placeholders := _placeholders(source):
        target_forms = {form for placeholder in _placeholders(target) for form in _forms(placeholder)}
        values = _values(placeholders, lambda form: form in target_forms and not _is_in(excluded, form))
        joined_in_target = _joined(_filled(target, values)) - _joined(_filled(source, values))
        values = [value for value, slot in zip(values, SLOTS, strict=False) if slot not in joined_in_target]
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
    target_names = {*_NAME.findall(target)}
    names = [name for name in dict.fromkeys(_NAME.findall(source)) if name in target_names]
    if not names and chance >= SURROUNDED:
        return source, target
    rng = Random(chance)
    # Not always the first slots, since few sentences have several.
    first = rng.choice((0, 0, rng.randrange(len(SLOTS))))
    slots = SLOTS[first : first + (len(names) or rng.choice((1, 1, 2)))]
    before = rng.randrange(len(slots) + 1)
    slot_of_name = dict(zip(names, slots, strict=False))

    def with_slots(text: str) -> str:
        if names:
            return _closed_up(_NAME.sub(lambda name: slot_of_name.get(name[0], name[0]), text))
        space = "" if is_unspaced(text) else " "
        return _closed_up(space.join([*slots[:before], text, *slots[before:]]))

    return with_slots(source), with_slots(target)


class CopyCounts:
    """Counts how often the placeholders of sources are copied to their targets."""

    def __init__(self) -> None:
        self.seen, self.copied = Counter[str](), Counter[str]()

    def add(self, source: str, target: str) -> None:
        """Count the placeholders of a pair, and the shapes of its numbers."""
        if placeholders := _placeholders(source):
            copied = {*placeholders} & {*_placeholders(target)}
            self.seen.update([*placeholders, *filter(None, map(_shape, placeholders))])
            self.copied.update([*copied, *filter(None, map(_shape, copied))])

    def translated(self) -> list[str]:
        """Placeholders that are mostly not copied: "10" if it becomes "ten", and "0,0" if "1,600" becomes "1.600"."""
        translated = []
        for value, seen in self.seen.items():
            fewest = FEWEST_OF_SHAPE if value == _shape(value) else 2
            if seen >= fewest and 2 * self.copied[value] < seen:
                translated.append(value)
        return sorted(translated)


def _shape(value: str) -> str:
    """A number with 0 for all digits in a row: "0,0.0" for "1,234.56". Empty if there is nothing between the digits."""
    shape = _DIGITS.sub("0", value)
    return shape if len(shape) > 1 and "0" in shape else ""


def _is_in(excluded: Collection[str], value: str) -> bool:
    """Whether a placeholder, or the shape of a number, is excluded."""
    return value in excluded or _shape(value) in excluded


def _placeholders(text: str) -> list[str]:
    """The placeholders of a text, in order, each once."""
    return list(dict.fromkeys(_placeholder().findall(text))) if _HINT.search(text) else []


def _forms(value: str) -> tuple[str, ...]:
    """A placeholder, and if it is a number with a sign, a currency or a unit, also the number without them."""
    match = _BARE.fullmatch(value)
    if match and 1 < len(match["bare"]) < len(value):
        return value, match["bare"]
    return (value,)


def _values(placeholders: Iterable[str], suits: Callable[[str], bool]) -> list[str]:
    """The first form of each placeholder that suits, each once, at most as many as there are slots."""
    values: dict[str, None] = {}
    for placeholder in placeholders:
        for form in _forms(placeholder):
            if suits(form):
                values[form] = None
                break
    return list(values)[: len(SLOTS)]


def literal_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each placeholder that means nothing in any language, such as {name}, %s, a tag or an address.

    Numbers, acronyms and emoji are none.
    """
    if not _HINT.search(text):
        return []
    return [match.span() for match in _kinds().finditer(text) if match["literal"]]


def _filled(text: str, values: list[str]) -> str:
    """The text with the slots of these values, which may be parts of its placeholders."""
    if not values:
        return text
    slots = dict(zip(values, SLOTS, strict=False))

    @cache
    def filled(value: str) -> str:
        for form in _forms(value):
            if form in slots:
                return value.replace(form, slots[form], 1)
        return value

    return _placeholder().sub(lambda match: filled(match[0]), text)


def _joined(text: str) -> frozenset[str]:
    """The slots that lack a space where one is expected."""
    return frozenset(_JOINED_SLOT.findall(text))


def _closed_up(text: str, joined: Collection[str] = ()) -> str:
    """The text without the expected spaces around slots that are not `joined` to a word."""
    return _gaps(frozenset(joined), " ").sub("", text)


def _without_slots(text: str) -> str:
    return _SLOT.sub("\N{REPLACEMENT CHARACTER}", text)
