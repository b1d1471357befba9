"""The built-in English-French phrase grammar: any number of true sentence pairs, no download.

Both languages grow side by side, piece by piece, from the words of `lexicon.py`; what spelling does
across words comes last, in `Both.sentence`. Each English sentence has one French translation:
"you" is "vous", but "tu" after "My friend, ..."; "they" is "ils".
"""

import random
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Literal

from dragoman.data.synthetic import lexicon
from dragoman.data.synthetic.lexicon import named
from dragoman.data.synthetic.morphology import NOTHING, Adjective, Both, Manner, Noun, Phrase, Verb
from dragoman.errors import DataError

Split = Literal["train", "valid", "test"]

LONGEST = 20  # English words
PATIENCE = 100_000  # vain attempts in a row that show the grammar exhausted


def combination_split(adjective: str, noun: str) -> Split:
    """The split to which this adjective said of this noun belongs (both English, singular).

    Combinations of "train" occur in every split, the others only in their own.
    """
    held_out: dict[int, Split] = {0: "valid", 1: "test"}
    return held_out.get(zlib.crc32(f"{adjective} {noun}".encode()) % 20, "train")


def generate(count: int, seed: int = 0, *, split: Split = "train") -> Iterator[tuple[str, str]]:
    """`count` different English sentences, each with its French translation.

    A smaller count gives the beginning of a larger one. Every sentence of "valid" and "test" says
    an adjective of a noun that no other split says of it, see `combination_split`. Raises
    `DataError` if the grammar has no more sentences.
    """
    rng = random.Random(f"{split} {seed}")
    said: set[str] = set()
    attempts = 0
    while len(said) < count:
        attempts += 1
        if attempts > PATIENCE:
            raise DataError(
                f"The built-in grammar has no {count} different sentences for {split}; ask for at most {len(said)}."
            )
        speaker = _Speaker(rng, split)
        source, target = speaker.sentence()
        if speaker.belongs and source not in said and source.count(" ") < LONGEST:
            attempts = 0
            said.add(source)
            yield source, target


def _person(subject: str, as_object: str, person: str, gender: str) -> Phrase:
    pronoun = None if as_object == "-" else Both(*as_object.split())
    feminine = {"m": False, "f": True}.get(gender)
    phrase = Phrase(Both(*subject.split()), int(person), feminine, as_object=pronoun)
    return replace(phrase, qualities="") if person == "4" else phrase  # vous: one or many?


PEOPLE = tuple(_person(*row) for row in lexicon.PEOPLE)
YOU = next(somebody for somebody in PEOPLE if somebody.text.french == "tu")
NAMES = tuple(somebody for somebody in PEOPLE if not somebody.as_object)
NOT = Both("not", "pas")
SOMEBODY = frozenset({"person"})


@cache
def _adjectives(nouns: tuple[Noun, ...], places: str, split: Split) -> tuple[Adjective, ...]:
    """What can be said of all the nouns (of a person if there are none).

    One combination or more belong to `split`, and the others to "train".
    """
    found = []
    for adjective in lexicon.ADJECTIVES:
        suits = all(adjective.suits & {noun.kind, noun.english[0]} for noun in nouns)
        splits = {combination_split(adjective.english, noun.english[0]) for noun in nouns}
        if suits and adjective.place in places.split() and splits | {"train"} == {split, "train"}:
            found.append(adjective)
    return tuple(a for a in found if nouns or a.suits & SOMEBODY)


class _Speaker:
    """Says one sentence at random."""

    def __init__(self, rng: random.Random, split: Split) -> None:
        self.rng = rng
        self.split: Split = split
        self.belongs = split == "train"  # the others need a combination of their own
        self.address = "tu" if self.chance(0.08) else "vous"
        self.said: set[Noun | Phrase | Adjective] = set()  # so as not to repeat them

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def sentence(self) -> tuple[str, str]:
        """A question, a report, two clauses with a link, or one clause."""
        said = Both("my_friend,", "mon_ami,") if self.address == "tu" else NOTHING
        shape = self.rng.random()
        if shape < 0.13:
            said += Both("why", "pourquoi") if self.chance(0.3) else NOTHING
            return (said + Both("", "est-ce_que") + self.clause(question=True)).sentence("?")
        if shape < 0.18:
            someone, verb = self.someone(), self.rng.choice(lexicon.REPORTS)
            said += verb.conjugated(someone.person, Manner()).about(someone.text)
            said += Both("that", "que")
        elif shape < 0.27:
            said += self.clause() + self.rng.choice(lexicon.LINKS)
        return (said + self.clause()).sentence(".")

    def clause(self, question: bool = False) -> Both:
        subject = self.subject()
        said = self.predicate(subject, question)
        if not question and self.chance(0.07):
            said += Both("and", "et") + self.predicate(subject).about(NOTHING)
        return said.about(subject.text)

    def subject(self) -> Phrase:
        """Somebody or something to say a predicate about."""
        if self.chance(0.35):
            return self.someone()
        kind = self.rng.choice(("person", "person", "animal", "object building eatable drink"))
        if kind in ("person", "animal") and self.chance(0.12):
            one, other = self.noun_phrase(kind, "definite"), self.noun_phrase(kind, "definite")
            text = one.text + Both("and", "et") + other.text
            feminine = bool(one.feminine and other.feminine)
            return Phrase(text, 5, feminine, one.nouns + other.nouns)
        some = " indefinite" if kind in ("person", "animal") else ""
        phrase = self.noun_phrase(kind, "definite definite definite number" + some)
        return self.with_relative(phrase) if self.chance(0.1) else phrase

    def someone(self) -> Phrase:
        """A pronoun or a new name; "they" only at first, for it might refer to a feminine noun."""
        if self.address == "tu" and self.chance(0.4):
            return YOU
        wrong = {1 if self.address == "vous" else 4} | ({5} if self.said else set())
        people = [p for p in PEOPLE if p.person not in wrong and p not in self.said]
        someone = self.rng.choice(people)
        if someone in NAMES:
            self.said.add(someone)
        return someone

    def predicate(self, subject: Phrase, question: bool = False) -> Both:
        """What the subject does or is, around a place {} for it."""
        verbs = lexicon.verbs(subject.kinds)
        if not verbs or self.chance(0.25):
            return self.being(subject, question)
        verb = self.rng.choice(verbs)
        manner = self.manner(verb, question)
        pronoun = self.pronoun(subject) if verb.objects and self.chance(0.2) else None
        if pronoun and verb.government == "direct" and SOMEBODY & named(verb.objects):
            said = verb.conjugated(subject.person, manner, pronoun)
        else:
            said = verb.conjugated(subject.person, manner) + self.governed(verb, manner.negative)
        if verb.english[2] and manner.adverb in (NOT, NOTHING) and self.chance(0.15):
            said += self.rng.choice(lexicon.MOMENTS if manner.progressive else lexicon.HABITS)
        return said

    def manner(self, verb: Verb, question: bool) -> Manner:
        """Not, often, ..., with a modal verb, or progressive, as far as the verb allows it."""
        if not verb.state and self.chance(0.13):
            return Manner(question, self.rng.choice(lexicon.FREQUENCIES))
        manner = Manner(question, NOT if not question and self.chance(0.25) else NOTHING)
        if verb.english[2] and self.chance(0.35):
            return replace(manner, progressive=True)
        if not verb.state and self.chance(0.15):
            return replace(manner, modal=self.rng.choice(lexicon.MODALS))
        return manner

    def pronoun(self, subject: Phrase) -> Both | None:
        """The object form of somebody else: neither I and me, nor I and us."""
        other = self.someone()
        same = any({subject.person, other.person} <= group for group in ({0, 3}, {1, 4}))
        return None if same else other.as_object

    def governed(self, verb: Verb, negative: bool) -> Both:
        """What the verb governs: after a negation, "some bread" is "any bread", pas de pain."""
        if verb.government == "none":
            return self.where(SOMEBODY) if self.chance(0.5) else NOTHING
        if verb.government not in ("direct", "generic", "to"):
            return Both("", verb.government) + self.noun_phrase(verb.objects, "definite one").text
        contexts = "definite any" if negative else "definite definite indefinite number"
        contexts = "definite all" if verb.government == "generic" else contexts
        thing = self.noun_phrase(verb.objects, contexts)
        if verb.government == "to":
            return thing.text + Both("to", "à") + self.noun_phrase("person", "definite").text
        if not negative and self.chance(0.07):
            return self.with_relative(thing).text
        if not verb.state and not thing.kinds & named("scenery") and self.chance(0.25):
            return thing.text + self.where(SOMEBODY)
        return thing.text

    def being(self, subject: Phrase, question: bool) -> Both:
        """The subject is like this, or is there."""
        manner = Manner(question, NOT if not question and self.chance(0.25) else NOTHING)
        said = lexicon.BE.conjugated(subject.person, manner)
        like = None if self.chance(0.35) else self.adjective(subject.nouns, subject.qualities)
        if not like or (subject.feminine is None and like.french[0] != like.french[1]):
            return said + self.where(subject.kinds)
        very = Both("very", "très") if like.has_degrees and self.chance(0.2) else NOTHING
        form = 2 * (subject.person > 2) + bool(subject.feminine)
        return said + very + Both(like.english, like.french[form])

    def where(self, kinds: frozenset[str]) -> Both:
        preposition, place = self.rng.choice(lexicon.places(kinds))
        return preposition + self.noun_phrase(place, "the the one").text

    def adjective(self, nouns: tuple[Noun, ...], places: str) -> Adjective | None:
        """A new one to say of all the nouns, if there is one; preferably one that is held out."""
        for split in (self.split if self.chance(0.5) else "train", "train"):
            new = [a for a in _adjectives(nouns, places, split) if a not in self.said]
            if new:
                self.belongs = self.belongs or split == self.split
                adjective = self.rng.choice(new)
                self.said.add(adjective)
                return adjective
        return None

    def noun_phrase(self, cell: str, contexts: str) -> Phrase:
        """Determiner, adjectives and noun in the order of each language."""
        noun = self.noun(cell)
        article, plural = self.article(noun, contexts)
        owned = article.english == "the" and noun.kind in named("animal object")
        owner = self.owner() if owned and self.chance(0.15) else Both(article.english)
        adjectives = self.adjectives(noun)
        before = [a.beside(noun, plural) for a in adjectives if a.precedes]
        after = [a.beside(noun, plural) for a in adjectives if not a.precedes]
        english = [a.english for a in adjectives]
        if len(adjectives) == 1 and adjectives[0].has_degrees and self.chance(0.1):
            english.insert(0, "very")
            (before or after).insert(0, "très")
        de = "de" if article.french == "des" and before else article.french
        english = [owner.english, *english, noun.english[plural]]
        french = [de, *before, noun.french[plural], *after, owner.french]
        text = Both(" ".join(english), " ".join(french))
        qualities = "" if after else "after utmost last" if before else Phrase.qualities
        return Phrase(text, 5 if plural else 2, noun.feminine, (noun,), qualities)

    def noun(self, cell: str) -> Noun:
        """One that the sentence has not said yet, if there is one."""
        nouns = lexicon.nouns(cell)
        noun = self.rng.choice([noun for noun in nouns if noun not in self.said] or nouns)
        self.said.add(noun)
        return noun

    def article(self, noun: Noun, contexts: str) -> tuple[Both, bool]:
        """A determiner that agrees with the noun, and whether both are in the plural."""
        context = self.rng.choice(contexts.split())
        if context == "definite" and self.chance(0.9 if noun.kind in named("scenery") else 0.55):
            context = "the"
        if noun.mass:
            context = f"mass {context}" if context in ("indefinite", "any", "all") else context
            context = "the" if context in ("one", "number") else context
        your = lexicon.determiners(self.address) if context == "definite" else ()
        forms = self.rng.choice(lexicon.determiners(context) + your)
        plural = not noun.mass and forms[1] != "-" and (forms[0] == "-" or self.chance(0.4))
        return Both(forms[plural], forms[2 + 2 * plural + noun.feminine]), plural

    def adjectives(self, noun: Noun) -> list[Adjective]:
        """None, one, or two of which the first stands before the French noun."""
        if self.chance(0.4):
            return []
        first = self.adjective((noun,), "only " + Phrase.qualities)
        both = first and first.precedes and self.chance(0.35)
        second = self.adjective((noun,), "last") if both else None
        return [adjective for adjective in (first, second) if adjective]

    def owner(self) -> Both:
        """My brother's ..., the French side to stand after the noun."""
        names = [name for name in NAMES if name not in self.said]
        if names and self.chance(0.4):
            owner = self.rng.choice(names)
            self.said.add(owner)
        else:
            owner = self.noun_phrase("person", "definite")
        s = "'" if owner.person == 5 and owner.text.english.endswith("s") else "'s"
        return Both(owner.text.english + s, f"de {owner.text.french}")

    def with_relative(self, phrase: Phrase) -> Phrase:
        """... who sleeps, ... that I see."""
        verbs = lexicon.verbs(SOMEBODY, phrase.nouns[0])
        if verbs and self.chance(0.35):
            verb, other = self.rng.choice(verbs), self.someone()
            said = verb.conjugated(other.person, self.manner(verb, question=False))
            clause = Both("that", "que") + said.about(other.text)
        else:
            who = "who" if phrase.nouns[0].kind == "person" else "that"
            clause = self.predicate(phrase).about(Both(who, "qui"))
        return replace(phrase, text=phrase.text + clause)
