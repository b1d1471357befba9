"""How the words of both languages change: plurals, verbs, and spelling across words (l', du, cet).

Only the rules that the tables of `lexicon.py` need; a form that breaks them is written there. A
star marks the aspirated h, which refuses elision: *héros gives le héros, but héroïne l'héroïne.
"""

import re
from dataclasses import dataclass

_VOWELS = "aeiouyhàâéèêîôœ"
_BEFORE_VOWEL = f"(?=[{_VOWELS}AE])"  # A and E begin names

# In this order: l'eau no longer begins with the la that de would otherwise stand before.
_ACROSS_FRENCH_WORDS = (
    (re.compile(rf"\bce {_BEFORE_VOWEL}"), "cet "),
    (re.compile(rf"\b([mts])a {_BEFORE_VOWEL}"), r"\1on "),
    (re.compile(rf"\b([jlmtdn]|qu)[ea] {_BEFORE_VOWEL}"), r"\1'"),
    (re.compile(r"\bde le "), "du "),
    (re.compile(r"\bde les "), "des "),
    (re.compile(r"\bà le "), "au "),
    (re.compile(r"\bà les "), "aux "),
    (re.compile(r"\*"), ""),
)


@dataclass(frozen=True)
class Both:
    """The same words in English and in French; `+` appends, {} is the place of the subject."""

    english: str = ""
    french: str = ""

    def __add__(self, other: "Both") -> "Both":
        return Both(f"{self.english} {other.english}", f"{self.french} {other.french}")

    def about(self, subject: "Both") -> "Both":
        """Put the subject into its place."""
        return Both(self.english.format(subject.english), self.french.format(subject.french))

    def sentence(self, end: str) -> tuple[str, str]:
        """Both finished sentences, with the mark `end`."""
        return english_sentence(self.english, end), french_sentence(self.french, end)


NOTHING = Both()


@dataclass(frozen=True, eq=False)
class Noun:
    """Singular and plural in both languages; a mass (bread) has no English plural: "-"."""

    kind: str
    english: tuple[str, str]
    french: tuple[str, str]
    feminine: bool

    @property
    def mass(self) -> bool:
        return self.english[1] == "-"


@dataclass(frozen=True, eq=False)
class Adjective:
    """French: masculine, feminine, the same in the plural, masculine before a vowel."""

    place: str
    suits: frozenset[str]
    english: str
    french: tuple[str, ...]

    def beside(self, noun: Noun, plural: bool) -> str:
        """The French form that agrees with the noun: le bel oiseau, les beaux oiseaux."""
        before_vowel = noun.french[0][0] in _VOWELS and not noun.feminine and not plural
        return self.french[4 if before_vowel and self.precedes else 2 * plural + noun.feminine]

    @property
    def precedes(self) -> bool:
        """Whether it stands before the French noun."""
        return self.place in ("before", "only")

    @property
    def has_degrees(self) -> bool:
        """Whether very makes sense."""
        return self.place in ("before", "after")


@dataclass(frozen=True)
class Manner:
    """How a verb is said of its subject."""

    question: bool = False
    adverb: Both = NOTHING
    modal: "Verb | None" = None
    progressive: bool = False

    @property
    def negative(self) -> bool:
        return self.adverb.french in ("pas", "jamais")


@dataclass(frozen=True, eq=False)
class Verb:
    """English: base, third person, -ing (or ""). French: infinitive; je tu il nous vous ils."""

    subjects: frozenset[str]
    government: str
    objects: str
    english: tuple[str, str, str]
    infinitive: str
    french: tuple[str, ...]
    state: bool = False

    def conjugated(self, person: int, manner: Manner, pronoun: Both = NOTHING) -> Both:
        """The verb with auxiliary, adverb and object pronoun, around a place {} for the subject.

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
        english = f"{order} {adverb.english} {rest} {pronoun.english}"
        ne = "ne" if manner.negative else ""
        finite = f"{head.french[person]} {adverb.french}"
        if manner.modal:
            return Both(english, f"{{}} {ne} {finite} {pronoun.french} {self.infinitive}")
        return Both(english, f"{{}} {ne} {pronoun.french} {finite}")


@dataclass(frozen=True, eq=False)
class Phrase:
    """A noun phrase and what agrees with it."""

    text: Both
    person: int = 2  # je tu il nous vous ils
    feminine: bool | None = False  # None where nobody can tell: I, you, we
    nouns: tuple[Noun, ...] = ()
    qualities: str = "before after utmost last"  # places of adjectives that may be said of it
    as_object: Both | None = None  # of a pronoun

    @property
    def kinds(self) -> frozenset[str]:
        """What the tables may call it; a pronoun or a name is a person."""
        names = {name for noun in self.nouns for name in (noun.kind, noun.english[0])}
        return frozenset(names or {"person"})


def english_s(word: str) -> str:
    """The plural of a noun, the third person of a verb."""
    ending = "es" if re.search("(s|x|ch|sh|o)$", word) else "s"
    return re.sub("(?<![aeiou])ys$", "ies", word + ending)


def english_ing(verb: str) -> str:
    """The -ing form; swim and run double their last letter."""
    doubled = verb[-1] if re.fullmatch("[^aeiou]*[aeiou][mn]", verb) else ""
    return re.sub("(?<!e)e$", "", verb) + doubled + "ing"


def french_plural(word: str) -> str:
    """The plural of a noun or an adjective."""
    if word.endswith(("s", "x")):
        return word
    return re.sub("als$", "aux", re.sub("eaus$", "eaux", word + "s"))


def french_feminine(adjective: str) -> str:
    """The regular feminine: one mute e."""
    return adjective if adjective.endswith("e") else adjective + "e"


def french_present(infinitive: str, forms: list[str]) -> tuple[str, ...]:
    """The six persons from all six, from je, nous and ils, or from the infinitive alone."""
    if len(forms) == 6:
        return tuple(forms)
    stem = infinitive[:-2]
    if infinitive.endswith("er"):
        soft = "e" if stem.endswith("g") else ""  # mangeons
        regular = [stem + "e", stem + soft + "ons", stem + "ent"]
    else:
        regular = [stem + "s", stem + "ons", stem + "ent"]
    je, nous, ils = forms or regular
    vous = re.sub("(?<=g)eons$|ons$", "ez", nous)
    if je.endswith("e"):
        return je, je + "s", je, nous, vous, ils
    il = re.sub("dt$", "d", je[:-1] + "t")  # voit, vend
    if infinitive.endswith("aître"):
        il = re.sub("ait$", "aît", il)
    return je, je, il, nous, vous, ils


def english_sentence(text: str, end: str) -> str:
    """The words with a capital letter, the mark `end`, and "an" before a vowel."""
    text = re.sub("[_ø ]+", " ", text).strip().replace(" ,", ",").replace("can not", "cannot")
    text = re.sub(r"\ba (?=[aeiouEI])", "an ", text)
    return text[0].upper() + text[1:] + end


def french_sentence(text: str, end: str) -> str:
    """The words with a capital letter, the mark `end`, and all that melts together: l', du, cet."""
    text = re.sub("[_ø ]+", " ", text).strip().replace(" ,", ",")
    for pattern, spelling in _ACROSS_FRENCH_WORDS:
        text = pattern.sub(spelling, text)
    return text[0].upper() + text[1:] + (" ?" if end == "?" else end)
