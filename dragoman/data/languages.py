"""Language codes as files have them: en, en-US, EN_us, eng."""

import re
from collections.abc import Iterable
from functools import lru_cache

from dragoman.errors import DataError

CODE = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
# ISO 639-2 and 639-3 beside 639-1, for languages that large collections of sentences have; some have two old codes.
_THREE_LETTERS = """
    afr:af ara:ar aze:az ben:bn bos:bs bul:bg cat:ca ces:cs cze:cs cym:cy wel:cy dan:da deu:de ger:de ell:el gre:el
    eng:en epo:eo est:et eus:eu baq:eu fas:fa per:fa fin:fi fra:fr fre:fr gle:ga glg:gl guj:gu heb:he hin:hi hrv:hr
    hun:hu hye:hy arm:hy ind:id isl:is ice:is ita:it jpn:ja kat:ka geo:ka kaz:kk kor:ko lat:la lav:lv lit:lt mar:mr
    mkd:mk mac:mk mlt:mt msa:ms may:ms nld:nl dut:nl nno:nn nob:nb nor:no pan:pa pol:pl por:pt ron:ro rum:ro rus:ru
    slk:sk slo:sk slv:sl spa:es sqi:sq alb:sq srp:sr swa:sw swe:sv tam:ta tel:te tgl:tl tha:th tur:tr ukr:uk urd:ur
    uzb:uz vie:vi zho:zh chi:zh
"""
_SHORT = dict(code.split(":") for code in _THREE_LETTERS.split())
SHOWN = 12
"""Languages that a message names."""


@lru_cache(1024)
def same_language(one: str, other: str) -> bool:
    """Whether one code is the other or its beginning: en, eng, en-US, EN_us are the same, en-US and en-GB are not."""
    return all(left == right for left, right in zip(_parts(one), _parts(other), strict=False))


def _parts(code: str) -> list[str]:
    language, *rest = code.casefold().replace("_", "-").split("-")
    return [_SHORT.get(language, language), *rest]


def choose_languages(codes: Iterable[str], wanted: tuple[str, str] | None, where: str) -> tuple[str, str]:
    """Source and target among the codes of a file, as it spells them: those that are `wanted`, or the only two.

    Raises `DataError`, which says how to choose.
    """
    found: list[str] = []
    for code in codes:
        if not any(same_language(code, other) for other in found):
            found.append(code)
    listed = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    if wanted is None:
        if len(found) == 2:
            return found[0], found[1]
        if len(found) < 2:
            alone = f"{listed} alone" if listed else "no language that it names"
            raise DataError(f"{where} has text in {alone}; give a file with both languages.")
        choice = f"'data.languages=[{found[0]},{found[1]}]'"
        raise DataError(f"{where} has {len(found)} languages ({listed}); choose source and target, such as {choice}.")
    for code in wanted:
        if not any(same_language(code, other) for other in found):
            raise DataError(
                f"{where} has no text in '{code}', only in {listed or 'no language'}; "
                "set data.languages to the source and the target as the file names them."
            )
    source, target = (next(other for other in found if same_language(code, other)) for code in wanted)
    return source, target
