"""The words of the built-in English-French grammar, as tables to read and to extend.

In the tables _ is a space inside an entry, - a form that does not exist, ø no word at all, a slash
introduces a form that breaks the rule (man/men) and a star marks the aspirated h. A word that would
need two translations is left out.
"""

from collections.abc import Iterator
from functools import cache

from dragoman.data.synthetic import morphology
from dragoman.data.synthetic.morphology import Adjective, Both, Noun, Verb

# kind | english[/plural] french[/plural] gender
_NOUNS = """
person    | boy garçon m | girl fille f | man/men homme m | woman/women femme f | friend ami m
person    | child/children enfant m | neighbour voisin m | brother frère m | sister sœur f
person    | doctor médecin m | teacher professeur m | king roi m | queen reine f | hero *héros m
person    | heroine héroïne f | actress actrice f
animal    | cat chat m | dog chien m | horse cheval m | bird oiseau m | cow vache f | bear ours m
animal    | mouse/mice souris f | goose/geese oie f | owl *hibou/*hiboux m | squirrel écureuil m
animal    | elephant éléphant m | wolf/wolves loup m
food      | apple pomme f | pear poire f | egg œuf m | cake gâteau m | strawberry fraise f
mass      | bread pain m | meat viande f | soup soupe f | jam confiture f
drink     | water eau f | milk lait m | coffee café m
thing     | book livre m | letter lettre f | newspaper journal m | clock horloge f | key clé f
thing     | bottle bouteille f | knife/knives couteau m | box boîte f | umbrella parapluie m
thing     | axe *hache f | jewel bijou/bijoux m
clothes   | hat chapeau m | dress robe f | coat manteau m | shoe chaussure f
clothes   | scarf/scarves écharpe f
furniture | table table f | chair chaise f | bed lit m | wardrobe armoire f
opening   | door porte f | window fenêtre f
vehicle   | car voiture f | bicycle vélo m | train train m | plane avion m
building  | house maison f | castle château m | church église f | school école f | hotel hôtel m
building  | hospital hôpital m | shop magasin m
outdoors  | garden jardin m | park parc m | forest forêt f | village village m
nature    | tree arbre m | flower fleur f | lake lac m
"""
_GROUPS = {
    "living": "person animal",
    "item": "thing clothes",
    "object": "thing clothes furniture opening vehicle",
    "eatable": "food mass",
    "scenery": "building outdoors nature",
    "matter": "animal food mass drink object scenery",
    "any": "person matter",
}

# place | nouns it suits | english masculine [feminine [masculine before a vowel]]
# before; only (before, not after être); after; utmost (after, but not very); last (the same, and
# also beside one before: the little red bird); = is invariable
_ADJECTIVES = """
before | animal food object scenery                    | small petit
before | boy girl bird dog cat goose house garden      | little petit
before | animal object scenery                         | big grand
before | living object building outdoors tree          | old vieux vieille vieil
before | living                                        | young jeune
before | girl woman queen actress heroine animal object scenery | beautiful beau belle bel
before | girl woman bird clothes jewel box scenery     | pretty joli
only   | object building friend neighbour teacher      | new nouveau nouvelle nouvel
only   | person food mass drink book hotel bed knife   | good bon bonne
only   | food mass drink book hotel bed knife          | bad mauvais
after  | living | happy heureux heureuse | sad triste | curious curieux curieuse | sick malade
after  | living | lazy paresseux paresseuse | intelligent intelligent | strong fort | tired fatigué
after  | person                                        | rich riche | polite poli | famous célèbre
after  | animal                                        | dangerous dangereux dangereuse
after  | vehicle horse dog cow goose                   | fast rapide | slow lent
after  | object food mass drink hotel                  | expensive cher chère
after  | vehicle furniture building village            | modern moderne
after  | clothes vehicle furniture opening bottle      | clean propre | dirty sale
after  | furniture book box bottle axe key             | heavy lourd
after  | soup meat egg milk coffee water               | hot chaud | cold froid
after  | bread milk egg meat strawberry pear           | fresh frais fraîche
after  | outdoors lake hotel                           | quiet tranquille
utmost | scenery                                       | magnificent magnifique
utmost | animal building cake tree lake forest         | huge énorme
utmost | food mass coffee                              | delicious délicieux délicieuse
last   | clothes vehicle furniture opening bird flower apple umbrella | red rouge | green vert
last   | clothes vehicle furniture opening bird flower umbrella       | blue bleu
last   | clothes vehicle furniture opening animal flower | white blanc blanche | black noir
last   | clothes furniture opening box                 | brown marron=
last   | person clothes vehicle book building outdoors | English anglais
last   | person clothes vehicle book building outdoors | French français
last   | person clothes vehicle coffee building lake   | Italian italien italienne
last   | furniture opening box house                   | wooden en_bois=
last   | table clock box window cake hat               | round rond
last   | bottle box wardrobe house train               | empty vide
last   | clock bottle umbrella window chair bed key    | broken cassé
"""

# subjects | government | objects | english[/third person] infinitive [je nous ils, or six forms]
# government: direct, generic (also "cats"), to (also "to" a person), none, a preposition, ...
# english: - is never progressive, = is a state (nor with modals, places and times)
_VERBS = """
living | direct  | any                   | see- voir vois voyons voient
living | direct  | living vehicle        | hear- entendre
living | direct  | living item           | look_for chercher
living | direct  | living                | follow suivre suis suivons suivent
living | direct  | eatable               | eat manger
person | direct  | drink                 | drink boire bois buvons boivent
person | direct  | animal object eatable | have/has= avoir ai as a avons avez ont
person | direct  | object eatable        | want= vouloir veux voulons veulent
person | direct  | object eatable        | buy acheter achète achetons achètent
person | direct  | item food train       | take prendre prends prenons prennent
person | direct  | person village        | know= connaître connais connaissons connaissent
person | direct  | living                | help aider
person | direct  | person bird           | listen_to écouter
person | direct  | person train          | wait_for attendre
person | direct  | castle church village | visit visiter
person | direct  | book letter newspaper | read lire lis lisons lisent
person | direct  | book letter           | write écrire écris écrivons écrivent
person | direct  | opening box bottle    | open ouvrir ouvre ouvrons ouvrent | close fermer
person | direct  | clothes jewel         | wear porter
person | direct  | clothes vehicle bottle window dog | wash laver
person | generic | matter                | like= aimer | love= adorer
person | to      | item food             | give donner | show montrer
person | à       | living                | talk_to parler
person | à       | building park village | go_to aller vais vas va allons allez vont
living | de      | food animal scenery   | dream_of rêver
living | de      | building garden forest | come_out_of sortir sors sortons sortent
living | avec    | animal child          | play_with jouer
person | dans    | house castle hotel village | live_in= habiter
living | none    | -                     | sleep dormir dors dormons dorment | swim nager
living | none    | -                     | run courir cours courons courent
person | none    | -                     | sing chanter | work travailler
person | que     | -                     | think= penser | say= dire dis dis dit disons dites disent
person | que     | -                     | know= savoir sais savons savent
living | modal   | -                     | can/can= pouvoir peux pouvons peuvent
living | modal   | -                     | must/must= devoir dois devons doivent
living | modal   | -                     | want_to= vouloir veux voulons veulent
any    | be      | -                     | be/is= être suis es est sommes êtes sont
"""

# context | english singular, plural, french masculine, feminine, the same in the plural ...
_DETERMINERS = """
the             | the the le la les les
definite        | my my mon ma mes mes        | our our notre notre nos nos
definite        | his his son sa ses ses      | her her son sa ses ses
definite        | this these ce cette ces ces | their their leur leur leurs leurs
vous            | your your votre votre vos vos
tu              | your your ton ta tes tes
one             | a - un une - -
indefinite      | a - un une - -              | - some - - des des
any             | a any de de de de
all             | - ø - - les les
number          | - two - - deux deux         | - three - - trois trois
number          | - many - - beaucoup_de beaucoup_de | - all_the - - tous_les toutes_les
mass indefinite | some - de_le de_la - -
mass any        | any - de de - -
mass all        | ø - le la - -
"""
# subject | object, in French before the verb | person: je tu il nous vous ils | gender, if known
_PEOPLE = """
I je        | me me    | 0 | ?
you tu      | you te   | 1 | ?
he il       | him le   | 2 | m
she elle    | her la   | 2 | f
we nous     | us nous  | 3 | ?
you vous    | you vous | 4 | ?
they ils    | them les | 5 | m
Paul Paul   | -        | 2 | m
Alice Alice | -        | 2 | f
Emma Emma   | -        | 2 | f
"""
# preposition | what is there | where that is
_PLACES = """
in dans            | living                 | building outdoors
in dans            | item food              | box house wardrobe
in dans            | drink                  | bottle
on sur             | item                   | table chair bed
on sur             | food mass              | table
under sous         | item cat dog mouse     | table chair bed
behind derrière    | living vehicle         | building tree
in_front_of devant | living vehicle         | building
near près_de       | living vehicle scenery | scenery
next_to à_côté_de  | living furniture opening | opening wardrobe
"""


def _pieces(line: str) -> tuple[Both, ...]:
    return tuple(Both(*piece.split()) for piece in line.split("|"))


FREQUENCIES = _pieces("never jamais | often souvent | always toujours | sometimes parfois")
HABITS = _pieces("every_day tous_les_jours | in_the_morning le_matin | on_Sundays le_dimanche")
MOMENTS = _pieces("now maintenant | today aujourd'hui | this_evening ce_soir")
LINKS = _pieces(",_and et | ,_but ,_mais | because parce_que | when quand")


def _rows(table: str) -> Iterator[list[str]]:
    """The cells of each line of a table."""
    for line in table.strip().split("\n"):
        yield [cell.strip() for cell in line.split("|")]


@cache
def named(cell: str) -> frozenset[str]:
    """The kinds and nouns that a cell such as "living bread" names, groups resolved."""
    return frozenset().union(*(named(_GROUPS[w]) if w in _GROUPS else {w} for w in cell.split()))


def _noun(kind: str, entry: str) -> Noun:
    english, french, gender = entry.split()
    one, _, many = english.partition("/")
    un, _, des = french.partition("/")
    many = "-" if kind in ("mass", "drink") else many or morphology.english_s(one)
    return Noun(kind, (one, many), (un, des or morphology.french_plural(un)), gender == "f")


def _adjective(place: str, suits: str, entry: str) -> Adjective:
    english, masculine, *others = entry.split()
    if masculine.endswith("="):
        return Adjective(place, named(suits), english, (masculine[:-1],) * 5)
    feminine = others[0] if others else morphology.french_feminine(masculine)
    plurals = morphology.french_plural(masculine), morphology.french_plural(feminine)
    before_vowel = others[1] if len(others) > 1 else masculine
    return Adjective(place, named(suits), english, (masculine, feminine, *plurals, before_vowel))


def _verb(subjects: str, government: str, objects: str, entry: str) -> Verb:
    english, infinitive, *forms = entry.split()
    base, _, third = english.rstrip("-=").partition("/")
    first, *rest = base.split("_")
    third = "_".join([third or morphology.english_s(first), *rest])
    ing = "_".join([morphology.english_ing(first), *rest])
    return Verb(
        named(subjects),
        government,
        objects,
        (base, third, "" if english.endswith(("-", "=")) else ing),
        infinitive,
        morphology.french_present(infinitive, forms),
        state=english.endswith("="),
    )


NOUNS = tuple(_noun(kind, noun) for kind, *group in _rows(_NOUNS) for noun in group)
ADJECTIVES = tuple(_adjective(*row[:2], word) for row in _rows(_ADJECTIVES) for word in row[2:])
VERBS = tuple(_verb(*row[:3], word) for row in _rows(_VERBS) for word in row[3:])
MODALS, REPORTS, (BE,) = (tuple(verb for verb in VERBS if verb.government == own) for own in ("modal", "que", "be"))
PEOPLE = tuple(_rows(_PEOPLE))


@cache
def nouns(cell: str) -> tuple[Noun, ...]:
    """All nouns that a cell of a table names."""
    names = named(cell)
    return tuple(noun for noun in NOUNS if names & {noun.kind, noun.english[0]})


@cache
def verbs(kinds: frozenset[str], upon: Noun | None = None) -> tuple[Verb, ...]:
    """What such a subject can do, in general or to a noun."""
    found = (v for v in VERBS if v.subjects & kinds and v.government not in ("modal", "que", "be"))
    if upon is None:
        return tuple(found)
    return tuple(v for v in found if v.government == "direct" and upon in nouns(v.objects))


@cache
def determiners(context: str) -> tuple[tuple[str, ...], ...]:
    """Those for one context: two English and four French forms."""
    rows = _rows(_DETERMINERS)
    return tuple(tuple(entry.split()) for at, *group in rows if at == context for entry in group)


@cache
def places(kinds: frozenset[str]) -> tuple[tuple[Both, str], ...]:
    """Prepositions that say where such a thing is, each with the cell of places that it takes."""
    rows = _rows(_PLACES)
    return tuple((Both(*at.split()), where) for at, what, where in rows if named(what) & kinds)
