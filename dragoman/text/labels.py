"""The languages of a pair, as a label before its source, where pairs of several languages stand together.

A label is between two noncharacters of Unicode, which are set aside for uses like this one and never occur in text, so
what a user types is no label. A tokenizer of several languages makes one token of it, such as "<2de>" (Johnson et al.
2017).
"""

from collections.abc import Iterable

from dragoman.text.characters import CLOSE, OPEN, cut_label
from dragoman.text.language_codes import CODE, plain_code


def label(source: str | None, target: str) -> str:
    """The label of pairs from one language to another; the source may be unknown."""
    return f"{OPEN}{plain_code(source) if source else ''} {plain_code(target)}{CLOSE}"


def label_of_target(source: str | None, written: str) -> str | None:
    """The label of a pair whose target language a table names, such as "de" or "German"; None for what is no name."""
    return label(source, written) if CODE.fullmatch(plain_code(written.strip())) else None


def languages_in(found: str) -> tuple[str | None, str]:
    """Source and target language of a label."""
    source, target = found.strip(OPEN + CLOSE).split(" ")
    return source or None, target


def name_of(found: str) -> str:
    """The languages of a label as people write them, such as en-de."""
    return "-".join(filter(None, languages_in(found)))


def token(language: str) -> str:
    """The token that asks for a target language."""
    return f"<2{language}>"


def readable(text: str) -> str:
    """A text with the token of its label in place of it."""
    found, rest = cut_label(text)
    return f"{token(languages_in(found)[1])} {rest}" if found else text


def several_targets(directions: Iterable[tuple[str | None, str]]) -> str:
    """What is said when nothing tells into which of its languages a model is to translate."""
    targets = ", ".join(dict.fromkeys(target for _, target in directions))
    how = "with --to CODE, in `export` with --languages SOURCE,CODE, in Python with languages=(None, CODE)"
    return f"This model translates into {targets}; choose one {how}."


def only(values: Iterable[str | None]) -> str | None:
    """The value that all of these are; None if there are several."""
    different = {*values}
    return different.pop() if len(different) == 1 else None
