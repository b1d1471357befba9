"""Checks texts, pairs and languages that a program gives. Errors name the position of an item that is no text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dragoman.config.decoding import DecodingConfig
from dragoman.errors import DataError, UsageError, shortened


def checked_texts(texts: Iterable[Any], *, name: str = "texts") -> Iterator[str]:
    """The texts one by one, each as it is read.

    Raises `UsageError` at once for what is no sequence of texts, such as a single one or a table, and `DataError` with
    the index of an item that is no text.
    """
    if isinstance(texts, str | bytes):
        raise UsageError(f"The {name} are a single text; write [text].")
    if isinstance(texts, Mapping):
        raise UsageError(f"The {name} are a dict; give a list, such as list({name}.values()).")
    columns = _columns(texts)
    if columns is not None:
        column = repr(columns[0]) if columns else "NAME"
        raise UsageError(f"The {name} are a table; give one of its columns, such as table[{column}].")
    if not isinstance(texts, Iterable):
        raise UsageError(f"The {name} are {shortened(repr(texts))}; give a list of texts.")
    return _checked_one_by_one(texts, name)


def _columns(table: Any) -> list[Any] | None:
    """Names of the columns of a DataFrame, a Dataset of Hugging Face or an Arrow table; None for anything else."""
    for attribute in ("columns", "column_names"):
        names = getattr(table, attribute, None)
        if names is not None:
            return list(names)
    return None


def _checked_one_by_one(texts: Iterable[Any], name: str) -> Iterator[str]:
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(
                f"Item {index} of the {name} is {shortened(repr(text))}; each must be a text (str). Leave it out, or "
                "give an empty one, which stays empty."
            )
        yield text


def checked_pairs(pairs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """(source, target) texts one by one. Raises `UsageError` and `DataError` as `checked_texts` does."""
    if isinstance(pairs, str | bytes | Mapping) or _columns(pairs) is not None or not isinstance(pairs, Iterable):
        raise UsageError(
            f"The pairs are {shortened(repr(pairs))}; give a list of (source, target), such as zip(sources, targets)."
        )
    for index, pair in enumerate(pairs):
        is_pair = isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(side, str) for side in pair)
        if not is_pair or isinstance(pair, str):
            raise DataError(f"Item {index} of the pairs is {shortened(repr(pair))}; give two texts, (source, target).")
        yield pair[0], pair[1]


def checked_languages(languages: Any) -> tuple[str | None, str | None]:
    """Source and target language. Raises `UsageError` for anything but two codes or None."""
    is_pair = isinstance(languages, Sequence) and not isinstance(languages, str) and len(languages) == 2
    if not is_pair or not all(isinstance(code, str | None) for code in languages):
        raise UsageError(
            f"`languages` is {shortened(repr(languages))}; give the source and the target, such as ('en', 'fr'), with "
            "None for the one that the model knows."
        )
    return languages[0], languages[1]


def one_prefix_each(texts: Sequence[str], prefixes: Sequence[str] | None, config: DecodingConfig) -> Sequence[str]:
    """The prefix of each text."""
    if prefixes is None:
        return [config.prefix] * len(texts)
    prefixes = list(checked_texts(prefixes, name="prefixes"))
    if len(prefixes) != len(texts):
        raise UsageError(f"There are {len(prefixes)} prefixes for {len(texts)} sentences; give one for each.")
    return prefixes
