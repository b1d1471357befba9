"""Language codes as files have them: en, en-US, EN_us, eng; which mean the same, and which are too close to tell."""

import re
import shlex
from collections.abc import Iterable
from functools import lru_cache

from dragoman.errors import DataError

CODE = re.compile("[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
# Two-letter codes of ISO 639-1, and what else people write for them: codes of ISO 639-2 and 639-3, codes of countries.
_NAMES = """
af afr | am amh | ar ara | as asm | az aze azj | ba bak | be bel | bg bul | bn ben | br bre | bs bos | ca cat |
cs ces cze cz | cy cym wel | da dan | de deu ger | dz dzo | el ell gre gr | en eng | eo epo | es spa |
et est ekk | eu eus baq | fa fas per pes | fi fin | fo fao | fr fra fre | fy fry | ga gle | gd gla | gl glg |
gu guj | ha hau | he heb | hi hin | hr hrv | ht hat | hu hun | hy hye arm | id ind | ig ibo | is isl ice |
it ita | ja jpn jp | jv jav | ka kat geo | kk kaz | km khm | kn kan | ko kor | ku kur kmr | ky kir | la lat |
lb ltz | ln lin | lo lao | lt lit | lv lav lvs | mg mlg | mk mkd mac | ml mal | mn mon | mr mar | ms msa may zsm |
mt mlt | my mya bur | ne nep | nl nld dut | nn nno | no nob nb nor | oc oci | om orm | or ori ory | pa pan |
pl pol | ps pus | pt por | ro ron rum | ru rus | rw kin | sa san | si sin | sk slk slo | sl slv | sn sna |
so som | sq sqi alb | sr srp | st sot | sv swe | sw swa swh | ta tam | te tel | tg tgk | th tha | tk tuk |
tl tgl | tr tur | tt tat | ug uig | uk ukr ua | ur urd | uz uzb uzn | vi vie | vo vol | wa wln | xh xho | yo yor |
zh zho chi cmn cn | zu zul
"""
TWO_LETTERS = {name: code for code, *names in map(str.split, _NAMES.split("|")) for name in names}
_CLOSE = [
    frozenset(group.split())
    for group in ("bs hr sr", "id ms", "no nn da", "zh yue wuu", "ar ary arz", "he hbo", "ku sdh")
]
SHOWN = 12
"""Languages that a message names."""


@lru_cache(1024)
def same_language(one: str, other: str) -> bool:
    """Whether one code is the other or its beginning: en, eng, en-US, EN_us are the same, en-US and en-GB are not."""
    return all(left == right for left, right in zip(_parts(one), _parts(other), strict=False))


def known_code(code: str | None, known: frozenset[str]) -> str | None:
    """The one of `known` that the code in a file name means: "fra", "pt_BR" and "zh-Hans" are fr, pt and zh."""
    language = _parts(code)[0] if code else None
    return language if language in known else None


def close(one: str, other: str) -> bool:
    """Whether two codes mean one language, or languages whose sentences cannot be told apart reliably."""
    return one == other or any({one, other} <= group for group in _CLOSE)


def _parts(code: str) -> list[str]:
    language, *rest = code.casefold().replace("_", "-").split("-")
    return [TWO_LETTERS.get(language, language), *rest]


def choose_languages(codes: Iterable[str], wanted: tuple[str, str] | None, where: str) -> tuple[str, str]:
    """Source and target among the codes of a file, as it spells them: those that are `wanted`, or the only two.

    No more of the codes are read than it takes to find those. Raises `DataError`, which says how to choose.
    """
    found: list[str] = []
    for code in codes:
        if not any(same_language(code, other) for other in found):
            found.append(code)
            if wanted and all(any(same_language(want, other) for other in found) for want in wanted):
                break
    listed = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    if wanted is None:
        if len(found) == 2:
            return found[0], found[1]
        if len(found) < 2:
            alone = f"{listed} alone" if listed else "no language that it names"
            raise DataError(f"{where} has text in {alone}; give a file with both languages.")
        choice = shlex.quote(f"data.languages=[{found[0]},{found[1]}]")
        raise DataError(f"{where} has {len(found)} languages ({listed}); choose source and target, such as {choice}.")
    for code in wanted:
        if not any(same_language(code, other) for other in found):
            raise DataError(
                f"{where} has no text in '{code}', only in {listed or 'no language'}; "
                "set data.languages to the source and the target as the file names them."
            )
    source, target = (next(other for other in found if same_language(code, other)) for code in wanted)
    return source, target
