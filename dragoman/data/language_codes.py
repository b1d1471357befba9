"""Language codes as files have them: en, en-US, EN_us, eng; which mean the same, and which are too close to tell."""

import re
import shlex
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from dragoman.data.readers.types import Languages
from dragoman.errors import DataError, UsageError

CODE = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_LINES = Path(__file__).with_name("language_codes.txt").read_text(encoding="utf-8").split("\n")
TWO_LETTERS = {name: code for code, *names in map(str.split, filter(None, _LINES)) if code != "#" for name in names}
"""The two-letter code of a language by its other codes and its English name."""
TEXT_IN = re.compile("^(text|sentence|sent)s?[_ -]|[_ -](text|sentence|word|sent)s?(/.*)?$", re.IGNORECASE)
"""What stands before or after the language in names of columns, such as text_en."""
_CLOSE = [
    frozenset(group.split())
    for group in ("bs hr sr", "id ms", "no nn da", "zh yue wuu", "ar ary arz", "he hbo", "ku sdh")
]
MAX_LISTED = 12
"""Languages that a message lists."""


@lru_cache(1024)
def same_language(one: str, other: str) -> bool:
    """Whether one code is the other or its beginning: en, eng, en-US, EN_us are the same, en-US and en-GB are not."""
    return all(left == right for left, right in zip(_parts(one), _parts(other), strict=False))


def known_code(code: str | None, known: frozenset[str]) -> str | None:
    """The one of `known` that the code in a file name means: "fra", "pt_BR" and "zh-Hans" are fr, pt and zh."""
    language = two_letters(code) if code else None
    return language if language in known else None


def close(one: str, other: str) -> bool:
    """Whether two codes mean one language, or languages whose sentences cannot be told apart reliably."""
    return one == other or any({one, other} <= group for group in _CLOSE)


def two_letters(code: str) -> str:
    """The two-letter code of a language if there is one: "deu", "de-AT" and "de" are de."""
    return _parts(code)[0]


def plain_code(code: str) -> str:
    """The same code for all ways to write it: "deu", "German" and "DE" are de, "pt_BR" is pt-br."""
    return "-".join(_parts(code))


def english_name(code: str) -> str:
    """The English name of a language by its two-letter code; the code itself where none is known."""
    names = (name for name, language in TWO_LETTERS.items() if language == code and len(name) > 3)
    return next(names, code).title()


def _parts(code: str) -> list[str]:
    language, *rest = code.casefold().replace("_", "-").split("-")
    return [TWO_LETTERS.get(language, language), *rest]


def language_of(name: str) -> str | None:
    """The language that the name of a column is or holds, such as en-US, English or text_en; None for other names."""
    code = TEXT_IN.sub("", name)
    language = _parts(code)[0]
    if language not in TWO_LETTERS.values():
        return None
    return code if CODE.fullmatch(code) else language


def languages_named(source: str, target: str) -> Languages:
    """The languages that two parts of file names are, such as en and fr; neither, unless one of them is well known."""
    codes = all(map(CODE.fullmatch, (source, target))) and any(map(language_of, (source, target)))
    return (source, target) if codes and source != target else (None, None)


def are_exchanged(languages: Languages, wanted: tuple[str, str] | None) -> bool:
    """Whether these are the languages that are wanted, but in the other order."""
    source, target = languages
    if not (source and target and wanted) or same_language(*wanted):
        return False
    return same_language(source, wanted[1]) and same_language(target, wanted[0])


def find_language(language: str, codes: Iterable[str]) -> str | None:
    """The one of the codes that means this language: the same code, one that says as much, or the first that fits."""
    fitting = [code for code in codes if same_language(code, language)]
    rules = (language.__eq__, lambda code: _parts(code) == _parts(language))
    return next((code for rule in rules for code in fitting if rule(code)), fitting[0] if fitting else None)


def known_language(language: str, known: Iterable[str]) -> str:
    """The code by which a model that knows several languages has this one. Raises `UsageError` for one it has not."""
    known = list(dict.fromkeys(known))
    if code := find_language(language, known):
        return code
    # A region that the model does not tell apart, as in en-US, but not zh-TW where two scripts of zh are known.
    close = [code for code in known if same_language(code, two_letters(language))]
    if len(close) == 1:
        return close[0]
    raise UsageError(f"This model does not know the language '{language}', but {', '.join(close or known)}.")


def choose_languages(codes: Iterable[str], wanted: tuple[str, str] | None, where: str) -> tuple[str, str]:
    """Source and target among the codes of a file, as it spells them: those that are `wanted`, or the only two.

    Stops reading the codes as soon as the wanted ones are found. Raises `DataError`, which says how to choose.
    """
    found: list[str] = []
    for code in codes:
        if find_language(code, found) is None:
            found.append(code)
            if wanted and all(find_language(language, found) is not None for language in wanted):
                break
    listed = ", ".join(found[:MAX_LISTED]) + (f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else "")
    if wanted is None and len(found) == 2:
        return found[0], found[1]
    if wanted is None and len(found) < 2:
        alone = f"{listed} alone" if listed else "no language that it names"
        raise DataError(f"{where} has text in {alone}; give a file with both languages.")
    if wanted is None:
        choice = shlex.quote(f"data.languages=[{found[0]},{found[1]}]")
        raise DataError(f"{where} has {len(found)} languages ({listed}); choose source and target, such as {choice}.")
    source, target = (find_language(language, found) for language in wanted)
    if source is None or target is None:
        raise DataError(
            f"{where} has no text in '{wanted[source is not None]}', only in {listed or 'no language'}; "
            "set data.languages to the source and the target as the file names them."
        )
    return source, target
