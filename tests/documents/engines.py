"""Stand-ins for a model: what they do to words is known, and so is which word comes from which."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from dragoman.decoding.alignment import word_spans
from dragoman.decoding.translation import Translation
from dragoman.documents.registry import translate_document
from dragoman.documents.translate import Engine


def by_word(change: Callable[[str], str], *, backwards: bool = False) -> Engine:
    """Changes each word, and perhaps turns their order round; the spaces between them stay, or turn round, too."""

    def translate(texts: list[str]) -> Iterator[Translation]:
        for text in texts:
            spans = word_spans(text)
            edges = [0, *(edge for span in spans for edge in span), len(text)]
            parts = [text[start:end] for start, end in pairwise(edges)]
            parts[1::2] = map(change, parts[1::2])
            numbers = range(len(spans))
            links = list(zip(numbers, reversed(numbers) if backwards else numbers, strict=True))
            yield Translation("".join(parts[::-1] if backwards else parts), 0.0, 0.0, [], links)

    return Engine(translate, copies=True)


SAME = by_word(str)
BACKWARDS = by_word(str, backwards=True)
SHOUTING = by_word(lambda word: re.sub(r"([{].*?[}]|%\w)|\w", lambda match: match[1] or match[0].upper(), word))
"""All but placeholders in capitals."""


def translated(content: str | bytes, name: str, engine: Engine) -> str:
    """A document as text in the other language."""
    content = content.encode() if isinstance(content, str) else content
    return translate_document(content, name, ("en", "fr"), engine).content.decode()
