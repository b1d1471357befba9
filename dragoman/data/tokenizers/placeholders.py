"""Placeholders, tags and addresses in a text, which a translation must keep to the letter.

Each is replaced by a slot, one symbol that the model copies, and put back into the translation. The slots are
noncharacters of Unicode, which are set aside for uses like this one and never occur in text.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

SLOTS = tuple(map(chr, range(0xFDD0, 0xFDD9)))
"""Nine; further placeholders of a sentence stay in its text."""

_PLACEHOLDER = re.compile(
    r"""
      </?[A-Za-z0-9][\w:.-]*(?:\s+[\w:.-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*\s*/?>  # <b> </b> <br/> <a href="x"> <0>
    | \{\{\s*[\w.$-]*\s*\}\}                                                      # {{name}}
    | [$%\#]?\{[\w.$\[\]-]*(?:[:!][^{}\s]*|,\s*(?:number|date|time)[^{}]*)?\}     # {name} {0:.2f} {n, number} ${x} %{x}
    | %%
    | %[A-Z][A-Z0-9_]+%                                                           # %PATH%
    # %s %1$d %(name)s %.2f, but no percentage: "100%off"; bounded, or a long row of zeros would take forever
    | (?<!\d)%(?:\d{1,2}\$|\(\w+\))?[-+0\#]{0,4}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?
      (?:hh?|ll?|[Lzjtq])?[diouxXeEfFgGaAcCsSpn@]
    | &(?:[A-Za-z]\w*|\#\d+|\#x[0-9A-Fa-f]+);                                     # &nbsp; &#160;
    | https?://[^\s<>"]*[^\s<>".,;:!?)'\]]
    | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+                                    # name@example.org
    """,
    re.VERBOSE,
)
_SLOT = re.compile(f"[{SLOTS[0]}-{SLOTS[-1]}]")


def mask(text: str, symbols: Collection[str] = ()) -> tuple[str, list[str]]:
    """The text with slots, and the values of the slots in order; equal values have the same slot.

    `symbols` are tokens already and are not masked.
    """
    text = _without_slots(text)
    values = _values(text, symbols)
    return _filled(text, values), values


def unmask(text: str, values: Sequence[str]) -> str:
    """The text with each slot replaced by its value. A slot without a value, which a model may invent, is removed."""
    return _SLOT.sub(lambda slot: "".join(values[SLOTS.index(slot[0]) :][:1]), text)


def restored(translation: str, source: str, symbols: Collection[str] = ()) -> str:
    """A translation of a masked source, with the values of the source in its slots."""
    return unmask(translation, mask(source, symbols)[1])


def mask_pair(source: str, target: str, symbols: Collection[str] = ()) -> tuple[str, str]:
    """Both sides with slots for the placeholders that both have, numbered as in the source. Others stay text."""
    source, target = _without_slots(source), _without_slots(target)
    in_target = set(_PLACEHOLDER.findall(target))
    values = [value for value in _values(source, symbols, most=None) if value in in_target][: len(SLOTS)]
    return _filled(source, values), _filled(target, values)


class MaskedPairs:
    """Sentence pairs, masked by `mask_pair` in every pass over them."""

    def __init__(self, pairs: Iterable[tuple[str, str]], symbols: Collection[str] = ()):
        self.pairs, self.symbols = pairs, symbols

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return (mask_pair(source, target, self.symbols) for source, target in self.pairs)


def _values(text: str, symbols: Collection[str], most: int | None = len(SLOTS)) -> list[str]:
    return [value for value in dict.fromkeys(_PLACEHOLDER.findall(text)) if value not in symbols][:most]


def _filled(text: str, values: list[str]) -> str:
    slots = dict(zip(values, SLOTS, strict=False))
    return _PLACEHOLDER.sub(lambda match: slots.get(match[0], match[0]), text)


def _without_slots(text: str) -> str:
    return _SLOT.sub("\N{REPLACEMENT CHARACTER}", text)
