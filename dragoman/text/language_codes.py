"""Language codes as files have them: en, en-US, EN_us, eng; which mean the same, and which are too close to tell."""

import locale
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dragoman.errors import DataError, UsageError, quoted

Languages = tuple[str | None, str | None]
"""Codes of the source and the target language; None where nobody said."""
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
_ALIASES = {"pb": ["pt", "br"], "zt": ["zh", "hant"]}
"""What Argos Translate and LibreTranslate call Brazilian Portuguese and traditional Chinese."""
_WRITTEN_IN = {
    "arab": "ar arz ckb fa ps sd ug ur", "armn": "hy", "beng": "as bn",
    "cyrl": "ba be bg cv kk ky mk mn ru sr tg tt uk", "deva": "hi mr ne sa", "ethi": "am ti", "geor": "ka",
    "grek": "el", "gujr": "gu", "guru": "pa", "hans": "zh wuu", "hant": "yue", "hebr": "he hbo yi", "jpan": "ja",
    "khmr": "km", "knda": "kn", "kore": "ko", "laoo": "lo", "mlym": "ml", "mymr": "my", "orya": "or", "sinh": "si",
    "taml": "ta", "telu": "te", "thaa": "dv", "thai": "th", "tibt": "bo dz",
}  # fmt: skip
"""Languages by the script that is meant where a code names none (the likely subtags of Unicode); all others: Latin."""
_SCRIPTS = {language: script for script, languages in _WRITTEN_IN.items() for language in languages.split()}
_TRADITIONAL = {"tw", "hk", "mo"}
"""Regions that write traditional Chinese; a region of Chinese says no more than its script."""
_STANDARD_REGIONS = {"en": {"gb"}, "es": {"419"}, "pt": {"br"}}
"""Regions whose standard is one of those that a code without a region means, besides the country of the language."""
_NAMES = {
    "hans": "simplified", "hant": "traditional", "latn": "Latin", "cyrl": "Cyrillic", "br": "Brazil", "pt": "Portugal",
    "gb": "British", "us": "American", "419": "Latin America",
}  # fmt: skip
"""Names of scripts and regions after that of a language."""


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
    """The English name of a language by its code, such as Portuguese (Brazil); the code itself where none is known."""
    language, *variant = _parts(code)
    names = (name for name, other in TWO_LETTERS.items() if other == language and len(name) > 3)
    name = next(names, language).title()
    return " ".join([name, *(f"({_NAMES.get(part, part.upper())})" for part in variant)])


@dataclass(frozen=True)
class Variety:
    """A language as it is written somewhere: what a code such as zh-TW says, or leaves to be understood."""

    language: str
    script: str
    """The four letters of ISO 15924, always known: a language without a script in its code has its usual one."""
    region: str = ""
    """Two letters or three digits, or other parts of the code; empty if it does not matter."""

    @property
    def is_standard(self) -> bool:
        """Whether the code of the language alone means the same: no region, or one that sets the standard."""
        # The table of locales knows the country of most languages: de is "de_DE.ISO8859-1".
        country = locale.normalize(self.language).partition(".")[0].partition("_")[2].lower()
        return self.region in {"", country} | _STANDARD_REGIONS.get(self.language, set())


@lru_cache(1024)
def variety(code: str) -> Variety:
    """The language, script and region that a code means."""
    language, *rest = _parts(code)
    script = next((part for part in rest if len(part) == 4 and part.isalpha()), None)
    rest = [part for part in rest if part != script]
    if language == "zh" and rest:
        script = script or ("hant" if rest[0] in _TRADITIONAL else "hans")
        rest = []
    return Variety(language, script or _SCRIPTS.get(language, "latn"), "-".join(rest))


@lru_cache(1024)
def standard_code(code: str) -> str:
    """A code as the web spells it: pt_br is pt-BR, zt is zh-Hant, deu_Latn is de."""
    meant = variety(code)
    named = meant.script in _parts(code) or meant.script == "hant"
    # Which script it is matters where there are several; for others, such as deu_Latn, it says nothing.
    several = meant.language in ("sr", "zh") or meant.script != _SCRIPTS.get(meant.language, "latn")
    script = [meant.script.title()] if named and several else []
    return "-".join([meant.language, *script, *filter(None, [meant.region.upper()])])


def served_language(code: str, served: Collection[str], *, reads: bool = False) -> str | None:
    """The one of the `served` languages that a code means, or None.

    A model that writes one variety does not write another: pt-PT is not pt-BR, zh-Hant is not zh-Hans, es-MX is not es.
    A model that writes no particular one is meant by the standard ones, such as en-US and en-GB. One that `reads` a
    language reads it from all regions.
    """
    wanted = variety(code)
    fitting = [one for one in served if is_written_alike(one, code)]
    exact = [one for one in fitting if variety(one).region == wanted.region]
    general = [one for one in fitting if not variety(one).region]
    if exact:
        return exact[0]
    if general and (reads or wanted.is_standard):
        return general[0]
    return fitting[0] if fitting and (reads or not wanted.region) else None


def is_written_alike(one: str, other: str) -> bool:
    """Whether two codes mean one language in one script: en-US and en-GB, but not zh-Hans and zh-Hant, or sr-Latn and
    sr."""
    ours, theirs = variety(one), variety(other)
    return (ours.language, ours.script) == (theirs.language, theirs.script)


def _parts(code: str) -> list[str]:
    language, *rest = code.casefold().replace("_", "-").split("-")
    return [*_ALIASES.get(language, [TWO_LETTERS.get(language, language)]), *rest]


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
        choice = quoted(f"data.languages=[{found[0]},{found[1]}]")
        raise DataError(f"{where} has {len(found)} languages ({listed}); choose source and target, such as {choice}.")
    source, target = (find_language(language, found) for language in wanted)
    if source is None or target is None:
        raise DataError(
            f"{where} has no text in '{wanted[source is not None]}', only in {listed or 'no language'}; "
            "set data.languages to the source and the target as the file names them."
        )
    return source, target
