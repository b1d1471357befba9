"""Codes of languages: from those in file names to those of the identification, and which are too close to tell apart."""

# ISO 639-2 and 639-3 codes, and country codes that people use by mistake, of languages that py3langid knows by two
# letters.
_TWO_LETTERS = dict(
    pair.split(":")
    for pair in (
        "afr:af amh:am ara:ar asm:as aze:az azj:az bak:ba bel:be ben:bn bos:bs bre:br bul:bg cat:ca ces:cs cze:cs cym:cy "
        "wel:cy dan:da deu:de ger:de dzo:dz ell:el gre:el eng:en epo:eo est:et ekk:et eus:eu baq:eu fao:fo fas:fa per:fa "
        "pes:fa fin:fi fra:fr fre:fr fry:fy gla:gd gle:ga glg:gl guj:gu hat:ht hau:ha heb:he hin:hi hrv:hr hun:hu hye:hy "
        "arm:hy ibo:ig ind:id isl:is ice:is ita:it jav:jv jpn:ja kan:kn kat:ka geo:ka kaz:kk khm:km kin:rw kir:ky kor:ko "
        "kur:ku kmr:ku lao:lo lat:la lav:lv lvs:lv lin:ln lit:lt ltz:lb mal:ml mar:mr mkd:mk mac:mk mlg:mg mlt:mt mon:mn "
        "msa:ms may:ms zsm:ms mya:my bur:my nep:ne nld:nl dut:nl nno:nn nob:no nb:no nor:no oci:oc ori:or ory:or orm:om "
        "pan:pa pol:pl por:pt pus:ps ron:ro rum:ro rus:ru san:sa sin:si slk:sk slo:sk slv:sl sna:sn som:so sot:st spa:es "
        "sqi:sq alb:sq srp:sr swa:sw swh:sw swe:sv tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tuk:tk tur:tr uig:ug ukr:uk "
        "urd:ur uzb:uz uzn:uz vie:vi vol:vo wln:wa xho:xh yor:yo zho:zh chi:zh cmn:zh zul:zu jp:ja cn:zh cz:cs gr:el ua:uk"
    ).split()
)
_CLOSE = [frozenset(group.split()) for group in ("bs hr sr", "id ms", "no nn da", "zh yue wuu", "ar ary arz")]


def known_code(code: str | None, known: frozenset[str]) -> str | None:
    """The one of the codes in `known` that a file name means: "fra", "pt_BR" and "zh-Hans" are fr, pt and zh."""
    if code is None:
        return None
    code = code.lower().replace("_", "-").partition("-")[0]
    code = _TWO_LETTERS.get(code, code)
    return code if code in known else None


def close(one: str, other: str) -> bool:
    """Whether two codes are the same language, or languages whose sentences cannot be told apart reliably."""
    return one == other or any({one, other} <= group for group in _CLOSE)
