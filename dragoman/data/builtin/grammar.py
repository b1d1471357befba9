"""The built-in English-French phrase grammar: any number of true sentence pairs, no download.

Both languages grow side by side, phrase by phrase, from the words of `lexicon.txt`; spelling across words comes last,
in `Both.sentence`. Each English sentence has one French translation: "you" is "vous", but "tu" after "My friend, ...";
"they" is "ils".
"""

import random
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal

from dragoman.data.builtin import lexicon
from dragoman.data.builtin.lexicon import determiners, named
from dragoman.data.builtin.morphology import NOTHING, POSITIONS, Adjective, Both, Manner, Noun, Phrase, Verb
from dragoman.errors import DataError

Split = Literal["train", "valid", "test"]
Word = Noun | Phrase | Adjective

MAX_WORDS = 20  # English
MAX_FAILURES = 100_000  # in a row, after which the grammar counts as exhausted


def combination_split(adjective: str, noun: str) -> Split:
    """The split of this combination of an adjective and a noun (both English, singular).

    Combinations of "train" occur in every split, the others only in their own.
    """
    return {0: "valid", 1: "test"}.get(zlib.crc32(f"{adjective} {noun}".encode()) % 20, "train")


def generate(count: int, seed: int = 0, *, split: Split = "train") -> Iterator[tuple[str, str]]:
    """Yields `count` different English sentences, each with its French translation.

    A smaller count gives the beginning of a larger one. Every sentence of "valid" and "test" has a combination of
    adjective and noun that occurs in no other split, see `combination_split`. Raises `DataError` if the grammar has no
    more sentences.
    """
    rng = random.Random(f"{split} {seed}")
    sources: set[str] = set()
    while len(sources) < count:
        for _ in range(MAX_FAILURES):
            sampler = _Sampler(rng, split)
            source, target = sampler.sentence()
            if sampler.in_split and source not in sources and source.count(" ") < MAX_WORDS:
                break
        else:
            raise DataError(
                f"The built-in grammar has no {count} different sentences for {split}; ask for at most {len(sources)}."
            )
        sources.add(source)
        yield source, target


YOU = next(person for person in lexicon.PEOPLE if person.text.french == "tu")
NAMES = tuple(person for person in lexicon.PEOPLE if not person.as_object)
NOT = Both("not", "pas")
PERSON = named("person")


@cache
def _adjectives(nouns: tuple[Noun, ...], positions: str, split: Split) -> tuple[Adjective, ...]:
    """Adjectives that suit all the nouns (a person if there are none), in one of the positions.

    At least one combination belongs to `split`, the others to "train".
    """
    described = [noun.names for noun in nouns] or [PERSON]
    suitable = []
    for adjective in lexicon.ADJECTIVES:
        is_there = adjective.position in positions.split()
        suits = all(adjective.suits & names for names in described)
        splits = {combination_split(adjective.english, noun.english[0]) for noun in nouns}
        if is_there and suits and splits | {"train"} == {split, "train"}:
            suitable.append(adjective)
    return tuple(suitable)


class _Sampler:
    """Samples one sentence; each method samples one kind of phrase."""

    def __init__(self, rng: random.Random, split: Split) -> None:
        self.rng, self.split = rng, split
        self.in_split = split == "train"
        """Whether the sentence belongs to the split; those held out need a combination of their own."""
        self.address = "tu" if self.chance(0.08) else "vous"
        self.used: set[Word] = set()
        """Names, nouns and adjectives of the sentence, none of which is repeated."""

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def unused(self, words: Sequence[Word]) -> Word | None:
        """One of the words that the sentence does not have yet, if there is one."""
        unused = [word for word in words if word not in self.used]
        if not unused:
            return None
        word = self.rng.choice(unused)
        self.used.add(word)
        return word

    def sentence(self) -> tuple[str, str]:
        """A question, a report, two clauses with a link, or one clause."""
        text = Both("my_friend,", "mon_ami,") if self.address == "tu" else NOTHING
        shape = self.rng.random()
        if shape < 0.13:
            text += Both("why", "pourquoi") if self.chance(0.3) else NOTHING
            return (text + Both("", "est-ce_que") + self.clause(question=True)).sentence("?")
        if shape < 0.18:
            person, verb = self.person(), self.rng.choice(lexicon.REPORTS)
            text += verb.conjugated(person.person, Manner()).about(person.text) + Both("that", "que")
        elif shape < 0.27:
            text += self.clause() + self.rng.choice(lexicon.LINKS)
        return (text + self.clause()).sentence(".")

    def clause(self, question: bool = False) -> Both:
        """Subject and predicate, sometimes with a second predicate."""
        subject = self.subject()
        text = self.predicate(subject, question)
        if not question and self.chance(0.07):
            text += Both("and", "et") + self.predicate(subject).about(NOTHING)
        return text.about(subject.text)

    def subject(self) -> Phrase:
        """A person, an animal or a thing, or two of a kind."""
        if self.chance(0.35):
            return self.person()
        kind = self.rng.choice(("person", "person", "animal", "object building eatable drink"))
        living = kind in ("person", "animal")
        if living and self.chance(0.12):
            first, second = self.noun_phrase(kind, "definite"), self.noun_phrase(kind, "definite")
            text, nouns = first.text + Both("and", "et") + second.text, first.nouns + second.nouns
            return Phrase(text, 5, first.feminine and second.feminine, nouns, first.kinds | second.kinds)
        phrase = self.noun_phrase(kind, "definite definite definite number" + " indefinite" * living)
        return self.with_relative(phrase) if self.chance(0.1) else phrase

    def person(self) -> Phrase:
        """A pronoun or a new name; "they" only at the beginning, since later it might refer to a feminine noun."""
        if self.address == "tu" and self.chance(0.4):
            return YOU
        wrong = {1 if self.address == "vous" else 4} | ({5} if self.used else set())
        person = self.rng.choice([p for p in lexicon.PEOPLE if p.person not in wrong and p not in self.used])
        self.used |= {person} & set(NAMES)
        return person

    def predicate(self, subject: Phrase, question: bool = False) -> Both:
        """A phrase for what the subject does or is, with {} for the subject."""
        verbs = lexicon.verbs(subject.kinds)
        if not verbs or self.chance(0.25):
            return self.being(subject, question)
        verb = self.rng.choice(verbs)
        manner = self.manner(verb, question)
        pronoun = self.object_pronoun(subject) if self.chance(0.2) else None
        if pronoun and verb.government == "direct" and PERSON & named(verb.objects):
            text = verb.conjugated(subject.person, manner, pronoun)
        else:
            text = verb.conjugated(subject.person, manner) + self.governed(verb, manner.negative)
        if verb.english[2] and manner.adverb in (NOT, NOTHING) and self.chance(0.15):
            text += self.rng.choice(lexicon.MOMENTS if manner.progressive else lexicon.HABITS)
        return text

    def manner(self, verb: Verb, question: bool = False) -> Manner:
        """A manner that the verb allows: with an adverb, negative, progressive or with a modal verb."""
        if not verb.state and self.chance(0.13):
            return Manner(question, self.rng.choice(lexicon.FREQUENCIES))
        manner = Manner(question, NOT if not question and self.chance(0.25) else NOTHING)
        if verb.english[2] and self.chance(0.35):
            return manner._replace(progressive=True)
        if not verb.state and self.chance(0.15):
            return manner._replace(modal=self.rng.choice(lexicon.MODALS))
        return manner

    def object_pronoun(self, subject: Phrase) -> Both | None:
        """Somebody other than the subject: neither I and me, nor I and us."""
        person = self.person()
        # Persons 0 and 3 are je and nous, 1 and 4 tu and vous.
        return None if subject.person % 3 == person.person % 3 < 2 else person.as_object

    def governed(self, verb: Verb, negative: bool) -> Both:
        """The object or the place that the verb governs; after a negation "some bread" is "any bread", pas de pain."""
        if verb.government == "none":
            return self.place(PERSON) if self.chance(0.5) else NOTHING
        if verb.government not in ("direct", "generic", "to"):
            return Both("", verb.government) + self.noun_phrase(verb.objects, "definite one").text
        contexts = "definite any" if negative else "definite definite indefinite number"
        thing = self.noun_phrase(verb.objects, "definite all" if verb.government == "generic" else contexts)
        if verb.government == "to":
            return thing.text + Both("to", "à") + self.noun_phrase("person", "definite").text
        if not negative and self.chance(0.07):
            return self.with_relative(thing).text
        if not verb.state and not thing.kinds & named("scenery") and self.chance(0.25):
            return thing.text + self.place(PERSON)
        return thing.text

    def being(self, subject: Phrase, question: bool) -> Both:
        """To be, with an adjective or a place."""
        text = lexicon.BE.conjugated(subject.person, self.manner(lexicon.BE, question))
        adjective = None if self.chance(0.35) else self.adjective(subject.nouns, subject.positions)
        if not adjective or (subject.feminine is None and adjective.french[0] != adjective.french[1]):
            return text + self.place(subject.kinds)
        text += Both("very", "très") if adjective.has_degrees and self.chance(0.2) else NOTHING
        return text + Both(adjective.english, adjective.french[2 * (subject.person > 2) + bool(subject.feminine)])

    def place(self, kinds: frozenset[str]) -> Both:
        """A place where a thing of these kinds may be: on the table."""
        preposition, nouns = self.rng.choice(lexicon.places(kinds))
        return preposition + self.noun_phrase(nouns, "the the one").text

    def adjective(self, nouns: tuple[Noun, ...], positions: str) -> Adjective | None:
        """A new adjective that suits all the nouns, if there is one; half of the time one that is held out, if any."""
        for split in (self.split if self.chance(0.5) else "train", "train"):
            if adjective := self.unused(_adjectives(nouns, positions, split)):
                self.in_split |= split == self.split
                return adjective
        return None

    def noun_phrase(self, cell: str, contexts: str) -> Phrase:
        """Determiner, adjectives and noun in the order of each language."""
        noun = self.unused(lexicon.nouns(cell)) or self.rng.choice(lexicon.nouns(cell))
        article, plural = self.determiner(noun, contexts)
        owned = article.english == "the" and noun.names & named("animal object")
        owner = self.owner() if owned and self.chance(0.15) else Both(article.english)
        adjectives = self.adjectives(noun)
        very = len(adjectives) == 1 and adjectives[0].has_degrees and self.chance(0.1)
        before, after = [], []
        for adjective in adjectives:
            (before if adjective.precedes else after).append("très " * very + adjective.beside(noun, plural))
        de = "de" if article.french == "des" and before else article.french
        english = [owner.english, "very" * very, *(adjective.english for adjective in adjectives), noun.english[plural]]
        french = [de, *before, noun.french[plural], *after, owner.french]
        positions = "" if after else "after utmost last" if before else POSITIONS
        text = Both(" ".join(english), " ".join(french))
        return Phrase(text, 5 if plural else 2, noun.feminine, (noun,), noun.names, positions)

    def determiner(self, noun: Noun, contexts: str) -> tuple[Both, bool]:
        """A determiner that agrees with the noun, and whether both are in the plural."""
        context = self.rng.choice(contexts.split())
        if context == "definite" and self.chance(0.9 if noun.names & named("scenery") else 0.55):
            context = "the"
        context = "mass " * (noun.english[1] == "-") + context
        forms = self.rng.choice(determiners(context) + determiners(f"{context} {self.address}"))
        plural = forms[1] != "-" and (forms[0] == "-" or self.chance(0.4))
        return Both(forms[plural], forms[2 + 2 * plural + noun.feminine]), plural

    def adjectives(self, noun: Noun) -> list[Adjective]:
        """None, one, or two of which the first stands before the French noun."""
        if self.chance(0.4):
            return []
        first = self.adjective((noun,), "only " + POSITIONS)
        both = first and first.precedes and self.chance(0.35)
        second = self.adjective((noun,), "last") if both else None
        return [adjective for adjective in (first, second) if adjective]

    def owner(self) -> Both:
        """An owner, as in my brother's dog; the French half stands after the noun."""
        named_owner = set(NAMES) - self.used and self.chance(0.4)
        owner = self.unused(NAMES) if named_owner else self.noun_phrase("person", "definite")
        s = "'" if owner.person == 5 and owner.text.english.endswith("s") else "'s"
        return Both(owner.text.english + s, f"de {owner.text.french}")

    def with_relative(self, phrase: Phrase) -> Phrase:
        """The phrase with a relative clause: ... who sleeps, ... that I see."""
        noun = phrase.nouns[0]
        verbs = lexicon.verbs(PERSON, noun)
        if verbs and self.chance(0.35):
            verb, person = self.rng.choice(verbs), self.person()
            clause = Both("that", "que") + verb.conjugated(person.person, self.manner(verb)).about(person.text)
        else:
            clause = self.predicate(phrase).about(Both("who" if "person" in noun.names else "that", "qui"))
        return phrase._replace(text=phrase.text + clause)
