"""Stand-ins for a model: what they do to words is known, and so is which word comes from which."""

import re
from collections.abc import Callable, Iterator

from dragoman.decoding.translation import Translation
from dragoman.documents.formats import translate_document
from dragoman.documents.translate import Engine


def by_word(change: Callable[[str], str], *, backwards: bool = False) -> Engine:
    """Changes each word, and perhaps turns their order round."""

    def translate(texts: list[str]) -> Iterator[Translation]:
        for text in texts:
            words = [change(word) for word in text.split(" ")]
            last = len(words) - 1
            links = [(last - i if backwards else i, i) for i in range(len(words))]
            yield Translation(" ".join(words[::-1] if backwards else words), 0.0, 0.0, [], links)

    return Engine(translate, copies=True)


SAME = by_word(str)
BACKWARDS = by_word(str, backwards=True)
SHOUTING = by_word(lambda word: re.sub(r"([{].*?[}]|%\w)|\w", lambda match: match[1] or match[0].upper(), word))
"""All but placeholders in capitals."""


def translated(content: str | bytes, name: str, engine: Engine) -> str:
    """A document as text in the other language."""
    content = content.encode() if isinstance(content, str) else content
    return translate_document(content, name, ("en", "fr"), engine).content.decode()
