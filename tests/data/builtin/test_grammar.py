"""The built-in grammar: true pairs, no word order or agreement left to chance, honest splits."""

import json
import os
import re
import subprocess
import sys
import zlib
from itertools import islice

import pytest

from dragoman.data.builtin import grammar, lexicon
from dragoman.data.builtin.grammar import combination_split, generate
from dragoman.data.builtin.morphology import NOTHING, Both, Manner
from dragoman.errors import DataError

ADJECTIVES = {adjective.english for adjective in lexicon.ADJECTIVES}
NOUNS = {form: noun.english[0] for noun in lexicon.NOUNS for form in noun.english}


def generated(hash_seed: str = "0", **counts: int) -> dict[str, dict[str, str]]:
    """Sentences of each split from a process of its own, where annotations are not checked: ten times as fast."""
    code = (
        "import json, sys; from dragoman.data.builtin.grammar import generate; counts = json.loads(sys.argv[1])\n"
        "print(json.dumps({split: dict(generate(count, split=split)) for split, count in counts.items()}))"
    )
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", code, json.dumps(counts)]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)


@pytest.fixture(scope="module")
def train() -> dict[str, str]:
    return generated(train=7001)["train"]


@pytest.fixture(scope="module")
def held_out() -> dict[str, dict[str, str]]:
    return generated(valid=499, test=503)


@pytest.fixture(scope="module")
def everything(train, held_out) -> dict[str, str]:
    return train | held_out["valid"] | held_out["test"]


def test_a_smaller_count_is_the_beginning_of_a_larger_one_and_seeds_differ():
    pairs = list(generate(101, seed=3, split="test"))
    assert list(generate(37, seed=3, split="test")) == pairs[:37]
    assert list(islice(generate(10**9, seed=3, split="test"), 101)) == pairs
    assert not set(pairs[:37]) & set(islice(generate(37, seed=5, split="test"), 37))


def test_the_sentences_do_not_depend_on_the_hash_seed_of_the_process():
    assert generated("1", valid=53) == generated("2", valid=53) == {"valid": dict(generate(53, split="valid"))}


@pytest.mark.slow
def test_an_english_sentence_comes_once_and_has_one_translation(train, held_out):
    assert [len(train), len(held_out["valid"])] == [7001, 499]
    known = train | held_out["valid"] | held_out["test"]
    again = [pair for pair in generate(503, seed=7) if pair[0] in known]
    assert len(again) > 3
    assert all(known[source] == target for source, target in again)


def test_every_word_of_the_lexicon_has_all_its_forms():
    assert all(len(noun.english) == len(noun.french) == 2 for noun in lexicon.NOUNS)
    assert all(len(adjective.french) == 4 + adjective.precedes for adjective in lexicon.ADJECTIVES)
    assert all((len(verb.english), len(verb.french)) == (3, 6) for verb in lexicon.VERBS)
    assert all(len(forms) == 6 for row in lexicon.TABLES["determiners"] for forms in lexicon.determiners(row[0]))


def test_an_exhausted_grammar_says_so(monkeypatch):
    monkeypatch.setattr(grammar, "MAX_FAILURES", 11)
    monkeypatch.setattr(grammar._Sampler, "sentence", lambda self: ("I run.", "Je cours."))
    pairs = generate(2)
    assert next(pairs) == ("I run.", "Je cours.")
    with pytest.raises(DataError, match=r"has no 2 different sentences for train; .* at most 1"):
        next(pairs)


# --- Splits ------------------------------------------------------------------------------------


def attributed(source: str) -> set[tuple[str, str]]:
    """Adjectives just before a noun, with at most one other adjective between them."""
    words = re.findall(r"\w+", source)
    adjacent = [(words[i], words[j]) for j in range(len(words)) for i in range(max(j - 2, 0), j)]
    return {
        (adjective, NOUNS[noun]) for adjective, noun in adjacent if adjective in ADJECTIVES and noun in NOUNS
    } - {  # "is happy when the dog": not next to each other unless an adjective stands between
        (words[j - 2], NOUNS[words[j]])
        for j in range(2, len(words))
        if words[j] in NOUNS and words[j - 1] not in ADJECTIVES
    }


def predicated(source: str) -> set[tuple[str, str]]:
    """The noun is (not) (very) like this, where the noun is the whole subject."""
    predicates = re.findall(r"^(?:\w+ )(\w+) (?:is|are) (?:not )?(?:very )?(\w+)[.]", source)
    return {(like, NOUNS[noun]) for noun, like in predicates if noun in NOUNS and like in ADJECTIVES}


def test_a_combination_is_held_out_by_a_stable_hash():
    for adjective, noun in (("red", "bird"), ("old", "cat"), ("wild", "goose"), ("new", "hotel")):
        bucket = zlib.crc32(f"{adjective} {noun}".encode()) % 20
        expected = {0: "valid", 1: "test"}.get(bucket, "train")
        assert combination_split(adjective, noun) == expected


@pytest.mark.slow
@pytest.mark.parametrize("said", [attributed, predicated])
def test_a_held_out_combination_occurs_in_no_other_split(train, held_out, said):
    splits = {"train": train} | held_out
    for split, sentences in splits.items():
        combinations = {pair for source in sentences for pair in said(source)}
        assert len(combinations) > 7
        splits = {combination_split(*pair) for pair in combinations}
        assert split in splits
        assert splits <= {"train", split}


@pytest.mark.parametrize("split", ["valid", "test"])
def test_every_held_out_sentence_has_a_combination_of_its_split(held_out, split):
    for source in held_out[split]:
        words = re.findall(r"\w+", source)
        likes, nouns = ADJECTIVES & set(words), {NOUNS[word] for word in words if word in NOUNS}
        assert any(combination_split(like, noun) == split for like in likes for noun in nouns)


def test_the_splits_share_no_sentence(train, held_out):
    assert not train.keys() & held_out["valid"].keys()
    assert not train.keys() & held_out["test"].keys()
    assert not held_out["valid"].keys() & held_out["test"].keys()


@pytest.mark.parametrize("adjective", lexicon.ADJECTIVES, ids=lambda adjective: adjective.english)
def test_every_french_form_that_is_ever_said_is_said_in_training(adjective):
    forms: dict[str, set[str]] = {"train": set(), "valid": set(), "test": set()}
    for noun in lexicon.NOUNS:
        if adjective.suits & noun.names:
            split = combination_split(adjective.english, noun.english[0])
            forms[split] |= {adjective.beside(noun, plural=False)}
            forms[split] |= set() if "-" in noun.english else {adjective.beside(noun, plural=True)}
    assert forms["valid"] | forms["test"] <= forms["train"]


def test_every_noun_form_adjective_and_verb_occurs_in_training(train):
    text = " ".join(train)
    verbs = {verb.english[0].replace("_", " ") for verb in lexicon.VERBS} - {"be"}
    for word in ADJECTIVES | (NOUNS.keys() - {"-"}) | verbs:
        assert re.search(rf"\b{word}\b", text), word


# --- French ------------------------------------------------------------------------------------


def test_elision_and_contraction_spare_only_the_aspirated_h(everything):
    text = "\n".join(everything.values())
    aspirated = {"hache", "haches", "héros", "hibou", "hiboux"}
    unelided = re.findall(r"\b(?:[ljmtdns]e|la|ma|ta|sa|ce|que) ([aeiouyhâàéèêîôœAE]\w*)", text)
    assert {"héros", "hibou"} <= set(unelided) <= aspirated
    assert not re.search("'(?:hache|héros|hibou)", text)
    assert not re.search(r"\b(?:de|à) les? ", text)
    assert re.search(r"\bl'héroïne", text)
    assert re.search(r"\bl'hôtel", text)


def test_sentences_are_clean(everything):
    for source, target in everything.items():
        for text in (source, target):
            assert re.fullmatch(r"[A-ZÀ-Ý][\w' ,-]*(?:[.]| ?[?])", text), text
            assert not re.search("  | ,|_", text), text
        assert source.endswith("?") == target.endswith(" ?")
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", source.lower())
        assert 2 <= len(source.split()) <= 20


GENDER = {
    "m": "garçon roi chat chien loup gâteau livre journal lit train château magasin village lac pain",
    "f": "fille reine vache souris pomme poire lettre clé robe voiture maison chaise forêt viande",
}


def test_singular_words_before_a_noun_have_its_gender(everything):
    text = "\n".join(everything.values())
    masculine = "un le du au ce mon ton son petit grand vieux beau nouveau bon mauvais"
    feminine = "une la cette ma ta sa petite grande vieille belle nouvelle bonne mauvaise"
    for nouns, own, other in (
        (GENDER["m"], masculine, feminine),
        (GENDER["f"], feminine, masculine),
    ):
        noun = rf"(?:{'|'.join(nouns.split())})\b"
        assert not re.search(rf"\b(?:{'|'.join(other.split())}) {noun}", text)
        for word in own.split():
            assert re.search(rf"\b{word} {noun}", text), word


PHRASES = [  # patterns: what stands in English, what then has to stand in French
    ("the heroine", "l'héroïne"),
    ("(?:my|these|his) heroes", "[cms]es héros"),
    ("this (?:squirrel|elephant|man|child)", "cet (?:écureuil|éléphant|homme|enfant)"),
    ("(?:my|her) (?:actress|goose|scarf)", "[ms]on (?:actrice|oie|écharpe)"),
    ("old (?:squirrel|bear|man|child)", "vieil (?:écureuil|ours|homme|enfant)"),
    ("old (?:squirrels|bears|men|children)", "vieux (?:écureuils|ours|hommes|enfants)"),
    ("beautiful (?:bird|plane|tree|hotel)", "bel (?:oiseau|avion|arbre|hôtel)"),
    ("beautiful (?:geese|cows|mice|cars)", "belles (?:oies|vaches|souris|voitures)"),
    ("new (?:hotel|hospital|friend)", "nouvel (?:hôtel|hôpital|ami)"),
    ("(?<!very )happy (?:cow|goose|queen)", "(?:vache|oie|reine) heureuse"),
    ("(?<!very )lazy (?:horses|owls|geese)", "(?:chevaux|hiboux) paresseux|oies paresseuses"),
    ("Italian (?:queens|women|heroines)", "(?:reines|femmes|héroïnes) italiennes"),
    ("white (?:dresses|chairs|beds)", "(?:robes|chaises) blanches|lits blancs"),
    ("(?<!very )fresh (?:milk|meat|eggs)", "lait frais|viande fraîche|œufs frais"),
    ("delicious (?:jam|bread|meat)", "(?:confiture|viande) délicieuse|pain délicieux"),
    ("brown (?:coats|hats|chairs)", "(?:manteaux|chapeaux|chaises) marron"),
    ("wooden (?:box|boxes|table|door)", "(?:boîtes?|table|porte) en bois"),
    ("(?:small|big|old) black (?:cats|bears|cars)", r"(?:pet|gr|vi)\w+ \w+ noir(?:e?)s"),
    ("many (?:owls|heroes|axes)", "beaucoup de h"),
    ("many (?:actresses|squirrels|eggs|pears)", "beaucoup (?:d'(?:actrices|éc|œ)|de poires)"),
    ("some (?:small|new|pretty|old)", r"\bde (?:petit|nouve|joli|vie)"),
    ("some (?:meat|soup|jam|water)", "de (?:la viande|la soupe|la confiture|l'eau)"),
    ("some (?:bread|coffee|milk)", "du (?:pain|café|lait)"),
    ("all the (?:sisters|queens|girls|cows)", "toutes les (?:sœurs|reines|filles|vaches)"),
    ("near the (?:park|village|lake|garden)", "près du (?:parc|village|lac|jardin)"),
    ("near the (?:parks|villages|churches)", "près des (?:parcs|villages|églises)"),
    ("the (?:king|doctor|boy|teacher)'s", r"\bdu (?:roi|médecin|garçon|professeur)"),
    ("never (?:eats|buys|sees|reads)", "n.*(?:mange|achète|voit|lit) jamais"),
    ("because (?:he|she)", "parce qu'(?:il|elle)"),
]


@pytest.mark.parametrize(("english", "french"), PHRASES)
def test_phrases_are_translated_as_by_hand(everything, english, french):
    pattern = re.compile(rf"\b{english}\b", re.IGNORECASE)
    targets = [target for source, target in everything.items() if pattern.search(source)]
    assert targets
    for target in targets:
        assert re.search(french, target.lower())


ME, YOU, SHE = (Both("I", "je"), 0), (Both("you", "tu"), 1), (Both("she", "elle"), 2)
WE, THEY = (Both("we", "nous"), 3), (Both("they", "ils"), 5)
CAT, CATS = (Both("the old cat", "le vieux chat"), 2), (Both("the cats", "les chats"), 5)
NOT, NEVER, OFTEN = Both("not", "pas"), Both("never", "jamais"), Both("often", "souvent")
ASKED, NOW = Manner(question=True), Manner(progressive=True)
CAN, WANT = (Manner(modal=verb) for verb in lexicon.MODALS if verb.english[0] in ("can", "want_to"))


def sentence(subject, verb: str, manner: Manner, *rest: tuple[str, str]) -> tuple[str, str]:
    """The subject, the verb in its manner, then the rest, all still unspelled."""
    text, person = subject
    (entry,) = (v for v in lexicon.VERBS if v.english[0] == verb and v.government != "que")
    pronoun = next((Both(*words) for words in rest if words[0] in ("me", "them")), NOTHING)
    said = entry.conjugated(person, manner, pronoun).about(text)
    for words in rest:
        said += NOTHING if Both(*words) == pronoun else Both(*words)
    question = Both("", "est-ce que") + said
    return question.sentence("?") if manner.question else said.sentence(".")


SENTENCES = [
    (
        (CAT, "see", Manner(adverb=NOT), ("the red bird", "le oiseau rouge")),
        ("The old cat does not see the red bird.", "Le vieux chat ne voit pas l'oiseau rouge."),
    ),
    (
        (ME, "like", Manner(), ("the red bird in a box", "le oiseau rouge dans une boîte")),
        ("I like the red bird in a box.", "J'aime l'oiseau rouge dans une boîte."),
    ),
    (
        (CATS, "eat", Manner(adverb=NOT), ("any bread", "de pain")),
        ("The cats do not eat any bread.", "Les chats ne mangent pas de pain."),
    ),
    ((WE, "eat", NOW, ("a egg", "un œuf")), ("We are eating an egg.", "Nous mangeons un œuf.")),
    (
        (SHE, "buy", Manner(adverb=OFTEN), ("two pears", "deux poires")),
        ("She often buys two pears.", "Elle achète souvent deux poires."),
    ),
    (
        (YOU, "have", Manner(adverb=NEVER), ("the key", "la clé")),
        ("You never have the key.", "Tu n'as jamais la clé."),
    ),
    ((SHE, "know", Manner(), ("me", "me")), ("She knows me.", "Elle me connaît.")),
    (
        (THEY, "help", Manner(adverb=NOT), ("me", "me")),
        ("They do not help me.", "Ils ne m'aident pas."),
    ),
    (
        (ME, "live_in", Manner(adverb=NOT), ("this castle", "dans ce château")),
        ("I do not live in this castle.", "Je n'habite pas dans ce château."),
    ),
    ((ME, "help", CAN, ("them", "les")), ("I can help them.", "Je peux les aider.")),
    (
        (SHE, "open", WANT, ("a box", "une boîte")),
        ("She wants to open a box.", "Elle veut ouvrir une boîte."),
    ),
    (
        (CAT, "sleep", CAN._replace(adverb=NOT)),
        ("The old cat cannot sleep.", "Le vieux chat ne peut pas dormir."),
    ),
    (
        (SHE, "talk_to", ASKED, ("the boys", "à les garçons")),
        ("Does she talk to the boys?", "Est-ce qu'elle parle aux garçons ?"),
    ),
    (
        (THEY, "come_out_of", ASKED._replace(progressive=True), ("the hotel", "de le hôtel")),
        ("Are they coming out of the hotel?", "Est-ce qu'ils sortent de l'hôtel ?"),
    ),
    (
        (ME, "be", Manner(adverb=NOT), ("near the owl", "près de le *hibou")),
        ("I am not near the owl.", "Je ne suis pas près du hibou."),
    ),
    (
        (YOU, "go_to", Manner(), ("this hospital", "à ce hôpital")),
        ("You go to this hospital.", "Tu vas à cet hôpital."),
    ),
]


@pytest.mark.parametrize(("structure", "pair"), SENTENCES)
def test_sentences_are_said_as_by_hand(structure, pair):
    assert sentence(*structure) == pair
