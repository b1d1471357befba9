"""Rules by which catalogues of gettext choose the plural form in each language."""

import re

from dragoman.text.language_codes import variety

_SLAVIC = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
_RULES = {
    "nplurals=1; plural=0;": "id ja km ko lo ms my th vi wuu yue zh",
    "nplurals=2; plural=(n != 1);": (
        "af az bg ca da de el en eo es et eu fi fo fy gl he hu it kk ku ky lb ml mn mr nl nn no pt sq sv sw ta te tk "
        "tr ur uz"
    ),
    "nplurals=2; plural=(n > 1);": "am bn br fa fr gu hi hy kn oc pt-br zu",
    "nplurals=2; plural=(n%10!=1 || n%100==11);": "is mk",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n==2 ? 1 : 2);": "ga",
    "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100>0 && n%100<20)) ? 1 : 2);": "ro",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n!=0 ? 1 : 2);": "lv",
    f"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : {_SLAVIC});": "be bs hr ru sr uk",
    f"nplurals=3; plural=(n==1 ? 0 : {_SLAVIC});": "pl",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);": "ar",
}
"""The header Plural-Forms, as gettext and its projects write it, with the languages that it is for."""
_BY_LANGUAGE = {language: rule for rule, languages in _RULES.items() for language in languages.split()}


def plural_forms(language: str) -> str | None:
    """The header Plural-Forms of a language; None for one that is not known here."""
    code = variety(language)
    return _BY_LANGUAGE.get(f"{code.language}-{code.region}") or _BY_LANGUAGE.get(code.language)


def number_of_forms(rule: str) -> int | None:
    """The number of plural forms that a header Plural-Forms names; None if it names none, as in a template."""
    match = re.search(r"nplurals\s*=\s*(\d+)", rule)
    return int(match[1]) if match else None
