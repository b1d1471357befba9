"""Language codes as files have them: en, en-US, EN_us, eng. Compares them, and finds the one that is meant."""

import locale
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dragoman.errors import DataError, UsageError, quoted

Languages = tuple[str | None, str | None]
"""Codes of the source and the target language; None for one that is not known."""
CODE = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")


def _read_codes() -> dict[str, str]:
    """The two-letter code of each language by its other codes and its English name, from language_codes.txt."""
    two_letters = {}
    for line in Path(__file__).with_name("language_codes.txt").read_text(encoding="utf-8").split("\n"):
        code, *names = line.split() or ["#"]
        if code != "#":
            two_letters.update(dict.fromkeys(names, code))
    return two_letters


TWO_LETTERS = _read_codes()
"""The two-letter code of a language by its other codes and its English name."""
ALSO_WORDS = frozenset({"an", "id", "io", "nr", "os", "rn", "sn", "to", "ts"})
"""Codes that are usual names of other things, too: an id, a time (ts), the number of a row (rn)."""
TEXT_IN = re.compile("^(text|sentence|sent)s?[_ -]|[_ -](text|sentence|word|sent)s?(/.*)?$", re.IGNORECASE)
"""Pattern of the words before or after the language in names of columns, such as text_en."""
_INDISTINGUISHABLE = [
    frozenset(group.split())
    for group in ("bs hr sr", "id ms", "no nn da", "zh yue wuu", "ar ary arz", "he hbo", "ku sdh")
]
"""Groups of languages whose sentences cannot be told apart reliably."""
MAX_LISTED = 12
"""Most languages that a message lists."""
_ALIASES = {"pb": ["pt", "br"], "zt": ["zh", "hant"]}
"""Codes of Argos Translate and LibreTranslate for Brazilian Portuguese and traditional Chinese."""
_LANGUAGES_OF_SCRIPTS = {
    "arab": "ar arz ckb fa ks ps sd ug ur", "armn": "hy", "beng": "as bn",
    "cyrl": "ba be bg ce cv kk kv ky mk mn os ru sr tg tt uk", "deva": "hi mr ne sa", "ethi": "am ti", "geor": "ka",
    "grek": "el", "gujr": "gu", "guru": "pa", "hans": "zh wuu", "hant": "yue", "hebr": "he hbo yi", "jpan": "ja",
    "khmr": "km", "knda": "kn", "kore": "ko", "laoo": "lo", "mlym": "ml", "mymr": "my", "orya": "or", "sinh": "si",
    "taml": "ta", "telu": "te", "thaa": "dv", "thai": "th", "tibt": "bo dz",
}  # fmt: skip
"""Languages by the script that is meant where a code names none (the likely subtags of Unicode); all others: Latin."""
_USUAL_SCRIPTS = {
    language: script for script, languages in _LANGUAGES_OF_SCRIPTS.items() for language in languages.split()
}
_TRADITIONAL_REGIONS = {"tw", "hk", "mo"}
"""Regions that write traditional Chinese; a region of Chinese says no more than its script."""
_STANDARD_REGIONS = {"en": {"gb"}, "es": {"419"}, "pt": {"br"}}
"""Regions that a code without a region may mean as well as the country of its language: en is en-US or en-GB."""
_VARIANT_NAMES = {
    "hans": "simplified", "hant": "traditional", "latn": "Latin", "cyrl": "Cyrillic", "br": "Brazil", "pt": "Portugal",
    "gb": "British", "us": "American", "419": "Latin America",
}  # fmt: skip
"""Names of scripts and regions after that of a language."""


@lru_cache(1024)
def same_language(one: str, other: str) -> bool:
    """Whether one code is the other or its beginning: en, eng, en-US, EN_us are the same, en-US and en-GB are not."""
    return all(part == other_part for part, other_part in zip(_parts(one), _parts(other), strict=False))


def known_code(code: str | None, known: frozenset[str]) -> str | None:
    """The one of `known` that the code in a file name means: "fra", "pt_BR" and "zh-Hans" are fr, pt and zh."""
    language = two_letters(code) if code else None
    return language if language in known else None


def close(one: str, other: str) -> bool:
    """Whether two codes mean one language, or languages whose sentences cannot be told apart reliably."""
    return one == other or any({one, other} <= group for group in _INDISTINGUISHABLE)


def two_letters(code: str) -> str:
    """The two-letter code of a language if there is one: "deu", "de-AT" and "de" are de."""
    return _parts(code)[0]


def plain_code(code: str) -> str:
    """The same code for all ways to write it: "deu", "German" and "DE" are de, "pt_BR" is pt-br."""
    return "-".join(_parts(code))


def english_name(code: str) -> str:
    """The English name of a language by its code, such as Portuguese (Brazil); the code itself where none is known."""
    language, *variants = _parts(code)
    name = language
    for alias, two_letter_code in TWO_LETTERS.items():
        if two_letter_code == language and len(alias) > 3:  # no code of three letters
            name = alias
            break
    variant_names = [f"({_VARIANT_NAMES.get(variant, variant.upper())})" for variant in variants]
    return " ".join([name.title(), *variant_names])


@dataclass(frozen=True)
class Variety:
    """A language as it is written in a region: the meaning of a code such as zh-TW, with the script that it implies."""

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
    scripts = [part for part in rest if len(part) == 4 and part.isalpha()]
    script = scripts[0] if scripts else None
    region = [part for part in rest if part != script]
    if language == "zh" and region:
        script = script or ("hant" if region[0] in _TRADITIONAL_REGIONS else "hans")
        region = []
    return Variety(language, script or _USUAL_SCRIPTS.get(language, "latn"), "-".join(region))


@lru_cache(1024)
def standard_code(code: str) -> str:
    """A code as the web spells it: pt_br is pt-BR, zt is zh-Hant, deu_Latn is de."""
    meant = variety(code)
    is_named = meant.script in _parts(code) or meant.script == "hant"
    # The script matters where a language has several; for others, such as deu_Latn, it says nothing.
    has_several = meant.language in ("sr", "zh") or meant.script != _USUAL_SCRIPTS.get(meant.language, "latn")
    parts = [meant.language]
    if is_named and has_several:
        parts.append(meant.script.title())
    if meant.region:
        parts.append(meant.region.upper())
    return "-".join(parts)


def served_language(code: str, served: Collection[str], *, reads: bool = False) -> str | None:
    """The one of the `served` languages that a code means, or None.

    A model that writes one variety does not write another: pt-PT is not pt-BR, zh-Hant is not zh-Hans, es-MX is not es.
    A model that writes no particular one is meant by the standard ones, such as en-US and en-GB. One that `reads` a
    language reads it from all regions.
    """
    wanted = variety(code)
    fitting = [candidate for candidate in served if is_written_alike(candidate, code)]
    exact = [candidate for candidate in fitting if variety(candidate).region == wanted.region]
    general = [candidate for candidate in fitting if not variety(candidate).region]
    if exact:
        return exact[0]
    if general and (reads or wanted.is_standard):
        return general[0]
    if fitting and (reads or not wanted.region):
        return fitting[0]
    return None


def is_written_alike(one: str, other: str) -> bool:
    """Whether two codes mean one language in one script: en-US and en-GB, but not zh-Hans and zh-Hant, or sr-Latn and
    sr."""
    first, second = variety(one), variety(other)
    return first.language == second.language and first.script == second.script


def _parts(code: str) -> list[str]:
    """The parts of a code in small letters; the first is the language, with two letters where it has such a code."""
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
    are_codes = CODE.fullmatch(source) and CODE.fullmatch(target)
    is_one_known = language_of(source) or language_of(target)
    return (source, target) if are_codes and is_one_known and source != target else (None, None)


def are_exchanged(languages: Languages, wanted: tuple[str, str] | None) -> bool:
    """Whether these are the languages that are wanted, but in the other order."""
    source, target = languages
    if not (source and target and wanted) or same_language(*wanted):
        return False
    return same_language(source, wanted[1]) and same_language(target, wanted[0])


def find_language(language: str, codes: Iterable[str]) -> str | None:
    """The one of the codes that means a language: the same code, one with the same parts, or the first that fits."""
    fitting = [code for code in codes if same_language(code, language)]
    if language in fitting:
        return language
    for code in fitting:
        if _parts(code) == _parts(language):
            return code
    return fitting[0] if fitting else None


def known_language(language: str, known: Iterable[str]) -> str:
    """The code of a language in a model that knows several. Raises `UsageError` for one that it does not know."""
    known = list(dict.fromkeys(known))
    if code := find_language(language, known):
        return code
    # A region that the model does not tell apart, as in en-US, but not zh-TW where two scripts of zh are known.
    varieties = [code for code in known if same_language(code, two_letters(language))]
    if len(varieties) == 1:
        return varieties[0]
    raise UsageError(f"This model does not know the language '{language}', but {', '.join(varieties or known)}.")


def choose_languages(codes: Iterable[str], wanted: tuple[str, str] | None, where: str) -> tuple[str, str]:
    """Source and target among the codes of a file, as it spells them: those that are `wanted`, or the only two.

    Stops reading the codes as soon as the wanted ones are found. Raises `DataError`, which says how to choose.
    """
    different = _different_languages(codes, wanted)
    listed = ", ".join(different[:MAX_LISTED])
    if len(different) > MAX_LISTED:
        listed += f" and {len(different) - MAX_LISTED} more"
    if wanted is None:
        if len(different) == 2:
            return different[0], different[1]
        if len(different) < 2:
            alone = f"{listed} alone" if listed else "no language that it names"
            raise DataError(f"{where} has text in {alone}; give a file with both languages.")
        choice = quoted(f"data.languages=[{different[0]},{different[1]}]")
        raise DataError(
            f"{where} has {len(different)} languages ({listed}); choose source and target, such as {choice}."
        )
    source, target = (find_language(language, different) for language in wanted)
    if source is None or target is None:
        missing = wanted[0] if source is None else wanted[1]
        raise DataError(
            f"{where} has no text in '{missing}', only in {listed or 'no language'}; "
            "set data.languages to the source and the target as the file names them."
        )
    return source, target


def _different_languages(codes: Iterable[str], wanted: tuple[str, str] | None) -> list[str]:
    """The first code of each language, up to the one that completes the wanted languages."""
    different: list[str] = []
    for code in codes:
        if find_language(code, different) is None:
            different.append(code)
            if wanted and all(find_language(language, different) is not None for language in wanted):
                break
    return different
