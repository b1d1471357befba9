"""Codes of languages: from those in file names to those of the identification; which are too close to tell apart."""

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
_TWO_LETTERS = {name: code for code, *names in map(str.split, _NAMES.split("|")) for name in names}
_CLOSE = [
    frozenset(group.split())
    for group in ("bs hr sr", "id ms", "no nn da", "zh yue wuu", "ar ary arz", "he hbo", "ku sdh")
]


def known_code(code: str | None, known: frozenset[str]) -> str | None:
    """The one of `known` that the code in a file name means: "fra", "pt_BR" and "zh-Hans" are fr, pt and zh."""
    if code is None:
        return None
    code = code.lower().replace("_", "-").partition("-")[0]
    code = _TWO_LETTERS.get(code, code)
    return code if code in known else None


def close(one: str, other: str) -> bool:
    """Whether two codes mean one language, or languages whose sentences cannot be told apart reliably."""
    return one == other or any({one, other} <= group for group in _CLOSE)
