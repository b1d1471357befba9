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
    """The label of a pair whose target language is `written` in a table, as "de" or "German"; None if it is no name."""
    return label(source, written) if CODE.fullmatch(plain_code(written.strip())) else None


def languages_in(label: str) -> tuple[str | None, str]:
    """Source and target language of a label."""
    source, target = label.strip(OPEN + CLOSE).split(" ")
    return source or None, target


def name_of(label: str) -> str:
    """The languages of a label as people write them, such as en-de."""
    return "-".join(filter(None, languages_in(label)))


def token(language: str) -> str:
    """The token that asks for a target language."""
    return f"<2{language}>"


def readable(text: str) -> str:
    """The text with its label as a token that people can read, such as "<2de>"."""
    label, rest = cut_label(text)
    if not label:
        return text
    _, target = languages_in(label)
    return f"{token(target)} {rest}"


def several_languages(directions: Iterable[tuple[str | None, str]], target: str | None = None) -> str:
    """Error message for a model of several languages when no `target` was chosen, or else no source."""
    if target:
        sources = ", ".join(dict.fromkeys(filter(None, (source for source, _ in directions))))
        options = "with --from CODE, in `export` with --languages CODE,TARGET, in Python with languages=(CODE, TARGET)"
        return f"This model translates from {sources}; choose one {options}."
    targets = ", ".join(dict.fromkeys(target for _, target in directions))
    options = "with --to CODE, in `export` with --languages SOURCE,CODE, in Python with languages=(None, CODE)"
    return f"This model translates into {targets}; choose one {options}."


def only(values: Iterable[str | None]) -> str | None:
    """The value that all of these have; None if they differ."""
    different = {*values}
    return different.pop() if len(different) == 1 else None
