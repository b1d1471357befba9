"""The words of the built-in English-French grammar, read from the tables in `lexicon.txt`."""

from functools import cache
from pathlib import Path

from dragoman.data.builtin.morphology import POSITIONS, Adjective, Both, Noun, Phrase, Verb


def _read_tables() -> dict[str, list[list[str]]]:
    """The rows of each table, as lists of cells."""
    tables: dict[str, list[list[str]]] = {}
    for line in Path(__file__).with_name("lexicon.txt").read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            rows = tables[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            rows.append([cell.strip() for cell in line.split("|")])
    return tables


TABLES = _read_tables()
_GROUPS = dict(TABLES["groups"])


@cache
def named(cell: str) -> frozenset[str]:
    """The kinds and nouns that a cell such as "living bread" names, groups resolved."""
    return frozenset().union(*(named(_GROUPS[name]) if name in _GROUPS else {name} for name in cell.split()))


def _verb(subjects: str, government: str, objects: str, english: str, french: str) -> Verb:
    base, third, ing = english.split()
    infinitive, *present = french.split()
    forms = base, third, ing.strip("-=")
    return Verb(named(subjects), government, objects, forms, infinitive, tuple(present), state=ing == "=")


def _person(english: str, french: str, as_object: str, person: str, gender: str) -> Phrase:
    pronoun = None if as_object == "-" else Both(*as_object.split())
    # "vous" may be one person or many, so no adjective agrees with it.
    positions = "" if french == "vous" else POSITIONS
    feminine = {"m": False, "f": True}.get(gender)
    return Phrase(Both(english, french), int(person), feminine, positions=positions, as_object=pronoun)


NOUNS = tuple(
    Noun(frozenset({kind, english.split()[0]}), tuple(english.split()), tuple(french.split()), gender == "f")
    for kind, english, french, gender in TABLES["nouns"]
)
ADJECTIVES = tuple(
    Adjective(position, named(suits), english, tuple(french.split()))
    for position, suits, english, french in TABLES["adjectives"]
)
VERBS = tuple(_verb(*row) for row in TABLES["verbs"])
MODALS, REPORTS, (BE,) = (
    tuple(verb for verb in VERBS if verb.government == government) for government in ("modal", "que", "be")
)
PEOPLE = tuple(_person(*row) for row in TABLES["people"])
FREQUENCIES, HABITS, MOMENTS, LINKS = (
    tuple(Both(*row) for row in TABLES[name]) for name in ("frequencies", "habits", "moments", "links")
)


@cache
def nouns(cell: str) -> tuple[Noun, ...]:
    """All nouns that a cell of a table names."""
    return tuple(noun for noun in NOUNS if named(cell) & noun.names)


@cache
def verbs(kinds: frozenset[str], direct_object: Noun | None = None) -> tuple[Verb, ...]:
    """The verbs that a subject of these kinds can have, with this direct object if one is given."""
    suitable = (verb for verb in VERBS if verb.subjects & kinds)
    if direct_object is None:
        return tuple(suitable)
    return tuple(verb for verb in suitable if verb.government == "direct" and direct_object in nouns(verb.objects))


@cache
def determiners(context: str) -> tuple[list[str], ...]:
    """The determiners for a context, if there are any: two English and four French forms each."""
    rows = (row for row in TABLES["determiners"] if row[0] == context)
    return tuple((english + " " + french).split() for _, english, french in rows)


@cache
def places(kinds: frozenset[str]) -> tuple[tuple[Both, str], ...]:
    """Prepositions that say where a thing of these kinds is, each with the kinds of nouns that may follow."""
    return tuple(
        (Both(english, french), where) for english, french, things, where in TABLES["places"] if named(things) & kinds
    )
