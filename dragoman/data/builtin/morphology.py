"""Words and phrases in both languages: how they agree, and how spelling changes across words (l', du, cet, an).

A star marks the aspirated h, which refuses elision: *héros gives le héros, but héroïne l'héroïne.
"""

import re
from typing import NamedTuple

_VOWELS = "aeiouyhàâéèêîôœ"
_BEFORE_VOWEL = f"(?=[{_VOWELS}AE])"  # A and E begin names

_ENGLISH_RULES = (("can not", "cannot"), (r"\ba (?=[aeiouEI])", "an "))
# In this order: l'eau no longer begins with the la that de would otherwise stand before.
_FRENCH_RULES = (
    (rf"\bce {_BEFORE_VOWEL}", "cet "),
    (rf"\b([mts])a {_BEFORE_VOWEL}", r"\1on "),
    (rf"\b([jlmtdn]|qu)[ea] {_BEFORE_VOWEL}", r"\1'"),
    (r"\bde le ", "du "),
    (r"\bde les ", "des "),
    (r"\bà le ", "au "),
    (r"\bà les ", "aux "),
    (r"\*", ""),
)


class Both(NamedTuple):
    """The same words in English and in French; `+` appends, and {} stands for the subject."""

    english: str = ""
    french: str = ""

    def __add__(self, other: "Both") -> "Both":
        return Both(f"{self.english} {other.english}", f"{self.french} {other.french}")

    def about(self, subject: "Both") -> "Both":
        """The same words with the subject filled in."""
        return Both(self.english.format(subject.english), self.french.format(subject.french))

    def sentence(self, end: str) -> tuple[str, str]:
        """Both sentences as they are written, with the mark `end`."""
        english, french = _spelled(self.english, _ENGLISH_RULES), _spelled(self.french, _FRENCH_RULES)
        return english + end, french + end.replace("?", " ?")


def _spelled(text: str, rules: tuple[tuple[str, str], ...]) -> str:
    text = re.sub("[_ø ]+", " ", text).strip().replace(" ,", ",")
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text[0].upper() + text[1:]


NOTHING = Both()


class Noun(NamedTuple):
    """Singular and plural in both languages; a mass noun (bread) has no plural: "-"."""

    names: frozenset[str]
    """Its kind and its English word, by which the tables name it."""
    english: tuple[str, str]
    french: tuple[str, str]
    feminine: bool


class Adjective(NamedTuple):
    """An adjective and where it may stand."""

    position: str
    """One of `POSITIONS`, or "only"."""
    suits: frozenset[str]
    """Kinds of nouns and single nouns that it may describe."""
    english: str
    french: tuple[str, ...]
    """Masculine, feminine, both in the plural; before a noun also masculine before a vowel."""

    def beside(self, noun: Noun, plural: bool) -> str:
        """The French form that agrees with the noun: le bel oiseau, les beaux oiseaux."""
        before_vowel = noun.french[0][0] in _VOWELS and not noun.feminine and not plural
        return self.french[4 if before_vowel and self.precedes else 2 * plural + noun.feminine]

    @property
    def precedes(self) -> bool:
        """Whether it stands before the French noun."""
        return self.position in ("before", "only")

    @property
    def has_degrees(self) -> bool:
        """Whether "very" makes sense with it."""
        return self.position in ("before", "after")


class Manner(NamedTuple):
    """The form in which a verb is conjugated, besides its person."""

    question: bool = False
    adverb: Both = NOTHING
    modal: "Verb | None" = None
    progressive: bool = False

    @property
    def negative(self) -> bool:
        """Whether the verb is negated by its adverb."""
        return self.adverb.french in ("pas", "jamais")


class Verb(NamedTuple):
    """A verb, and the subjects and objects that it may have."""

    subjects: frozenset[str]
    government: str
    objects: str
    english: tuple[str, str, str]
    """Base form, third person, and the form in -ing, or "" without one."""
    infinitive: str
    french: tuple[str, ...]
    """The forms of je, tu, il, nous, vous, ils."""
    state: bool
    """Whether it names a state, such as to know, and no action."""

    def conjugated(self, person: int, manner: Manner, pronoun: Both = NOTHING) -> Both:
        """The verb with auxiliary, adverb and object pronoun, around {} for the subject.

        `person` counts je, tu, il, nous, vous, ils from 0.
        """
        head, adverb = manner.modal or self, manner.adverb
        rest = self.english[0] if manner.modal else ""
        if self.government == "be" or manner.progressive:
            auxiliary, rest = ("am", "are", "is", "are", "are", "are")[person], self.english[2]
        elif head.english[0] == head.english[1]:  # can, must
            auxiliary = head.english[0]
        elif manner.question or adverb.english == "not":
            auxiliary, rest = "does" if person == 2 else "do", f"{head.english[0]} {rest}"
        else:
            auxiliary, rest = "", f"{head.english[person == 2]} {rest}"
        order = f"{auxiliary} {{}}" if manner.question else f"{{}} {auxiliary}"
        ne, finite = "ne" if manner.negative else "", f"{head.french[person]} {adverb.french}"
        french = f"{finite} {pronoun.french} {self.infinitive}" if manner.modal else f"{pronoun.french} {finite}"
        return Both(f"{order} {adverb.english} {rest} {pronoun.english}", f"{{}} {ne} {french}")


POSITIONS = "before after utmost last"


class Phrase(NamedTuple):
    """A noun phrase and what agrees with it."""

    text: Both
    person: int = 2
    """0 to 5: je tu il nous vous ils."""
    feminine: bool | None = False
    """None where nobody can tell: I, you, we."""
    nouns: tuple[Noun, ...] = ()
    kinds: frozenset[str] = frozenset({"person"})
    """Kinds and English words by which the tables name it."""
    positions: str = POSITIONS
    """Positions of the adjectives that may describe it."""
    as_object: Both | None = None
    """The object form of a pronoun."""
