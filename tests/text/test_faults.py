"""Faults of translations: those that were built into true pairs are seen, and true pairs have hardly any."""

import random
import re
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.faults import KINDS, MOST_CHARACTERS, faults

PAIRS = {
    ("en", "fr"): """
        We bought 25 apples at the market on Monday. | Lundi, nous avons acheté 25 pommes au marché.
        The train leaves at 7:45 from platform 3. | Le train part à 7h45 du quai 3.
        She was born in 1987 near Lyon. | Elle est née en 1987 près de Lyon.
        The city has 1,250,000 inhabitants. | La ville compte 1 250 000 habitants.
        About 12.5 % of the pupils were ill. | Environ 12,5 % des élèves étaient malades.
        This bag costs $40, which is too much. | Ce sac coûte 40 dollars, c'est trop cher.
        My sister doesn't like cold soup. | Ma sœur n'aime pas la soupe froide.
        I have never seen such a large bird. | Je n'ai jamais vu un oiseau aussi grand.
        Nobody told us about the new rule. | Personne ne nous a parlé de la nouvelle règle.
        He left without his coat and his keys. | Il est parti sans son manteau ni ses clés.
        Yesterday I met Tom at the station. | Hier, j'ai rencontré Tom à la gare.
        The letter that Martin sent has arrived. | La lettre que Martin a envoyée est arrivée.
        Why did you give Sophie the red book? | Pourquoi as-tu donné le livre rouge à Sophie ?
        The old bridge was closed for two years. | Le vieux pont a été fermé pendant deux ans.
        Three of my friends play the violin very well. | Trois de mes amis jouent très bien du violon.
        It only takes ten minutes to cook the rice. | Il ne faut que dix minutes pour cuire le riz.
    """,
    ("en", "de"): """
        We need 36 chairs for the hall. | Wir brauchen 36 Stühle für den Saal.
        The meeting starts at 3 pm in room 210. | Die Sitzung beginnt um 15 Uhr in Raum 210.
        The company earned 2.5 million euros. | Die Firma verdiente 2.500.000 Euro.
        He ran 42 km in four hours. | Er lief in vier Stunden 42 Kilometer.
        Prices rose by 8% last year. | Die Preise stiegen im letzten Jahr um 8 Prozent.
        The parcel weighs 3 kg and is very big. | Das Paket wiegt 3 kg und ist sehr groß.
        I do not know where the keys are. | Ich weiß nicht, wo die Schlüssel sind.
        There is no milk in the fridge today. | Heute ist keine Milch im Kühlschrank.
        He isn't only clever but also friendly. | Er ist nicht nur klug, sondern auch freundlich.
        My parents never watch the news. | Meine Eltern sehen nie die Nachrichten.
        In the evening we visited Peter and his wife. | Am Abend besuchten wir Peter und seine Frau.
        The teacher gave Julia a difficult task. | Die Lehrerin gab Julia eine schwierige Aufgabe.
        I think that Kevin has lost his phone. | Ich glaube, dass Kevin sein Telefon verloren hat.
        My uncle has twenty-five cows on his farm. | Mein Onkel hat fünfundzwanzig Kühe auf seinem Hof.
        The children are playing in the garden behind the house. | Die Kinder spielen im Garten hinter dem Haus.
    """,
    ("en", "es"): """
        The hotel has 180 rooms and a garden. | El hotel tiene 180 habitaciones y un jardín.
        The library opened on 14 May 1996. | La biblioteca abrió el 14 de mayo de 1996.
        He paid 75 euros for the old clock. | Pagó 75 euros por el viejo reloj.
        The road is 300 km long and very narrow. | La carretera mide 300 kilómetros y es muy estrecha.
        Almost 60% of the houses are empty. | Casi el 60 % de las casas están vacías.
        It was 35 °C in the shade yesterday. | Ayer hacía 35 °C a la sombra.
        My brother is not afraid of the dark. | Mi hermano no tiene miedo a la oscuridad.
        I can't find the receipt for the shoes. | No encuentro el recibo de los zapatos.
        Nothing has changed in this village. | Nada ha cambiado en este pueblo.
        She never answers when I call her. | Ella nunca contesta cuando la llamo.
        Last summer we stayed with Laura in the mountains. | El verano pasado nos quedamos con Laura en la montaña.
        The doctor asked Daniel some questions. | El médico le hizo unas preguntas a Daniel.
        I heard that Emma is learning Spanish. | He oído que Emma está aprendiendo español.
        The dog slept for five hours under the table. | El perro durmió cinco horas debajo de la mesa.
        You should wash the lettuce before eating it. | Deberías lavar la lechuga antes de comerla.
    """,
    ("en", "zh"): """
        The school has 850 students. | 这所学校有850名学生。
        He came to Beijing in 2008. | 他2008年来到北京。
        The whole journey took 6 hours and 20 minutes. | 整个旅程花了6小时20分钟。
        The river is 120 km long. | 这条河长120公里。
        This jacket costs 99 dollars. | 这件夹克九十九美元。
        The price has risen by 5%. | 价格上涨了百分之五。
        I don't know his telephone number. | 我不知道他的电话号码。
        She has not finished her homework. | 她没有做完作业。
        We never drink coffee in the evening. | 我们晚上从不喝咖啡。
        There isn't any bread on the table. | 桌子上没有面包。
        Three boys are swimming in the lake. | 三个男孩在湖里游泳。
        The museum is next to the railway station. | 博物馆在火车站旁边。
        I usually get up at seven o'clock in the morning. | 我通常早上七点起床。
        Tom has lived in Boston for ten years. | 汤姆在波士顿住了十年。
    """,
}
TRUE_PAIRS = [
    (source.strip(), target.strip(), languages)
    for languages, lines in PAIRS.items()
    for source, target in (line.split("|") for line in lines.strip().split("\n"))
]
NEGATED = {
    "en": r"n't\b|\b(?:not|no|never|nobody|nothing|without)\b",
    "fr": r"\b(?:pas|jamais)\b",
    "de": r"\b(?:nicht|nie|keine)\b",
    "es": r"(?i)\b(?:no|nunca|nada)\b",
    "zh": "不|没有",
}
AFFIRMED = {
    "fr": r"\b(?:ne |n')|\b(?:pas|jamais) ",
    "de": r"\b(?:nicht|nie) |\bk(?=eine\b)",
    "es": NEGATED["es"] + " ?",
}
NAMES = ("Tom", "Martin", "Sophie", "Peter", "Julia", "Kevin", "Laura", "Daniel", "Emma")
UNITS = {"%": "$", "Prozent": "$", "dollars": "euros", "euros": "kg", "Euro": "km", "kg": "km", "Kilometer": "Meter",
         "kilómetros": "metros", "°C": "kg", "公里": "公斤", "美元": "欧元", "百分之五": "5美元"}  # fmt: skip


def cases() -> list[tuple[str, str, str, tuple[str, str]]]:
    """(kind, source, translation with a fault of this kind, languages) built from the true pairs."""
    dice = random.Random(5)
    built = []
    for source, target, languages in TRUE_PAIRS:
        language = languages[1]
        built += [("empty", source, nothing, languages) for nothing in ("", " ...")]
        built += [
            ("untranslated", source, source, languages),
            ("length", source, target[: len(target) // 3], languages),
        ]
        if digits := re.search(r"\d\d+", target):
            changed = str(int(digits[0]) + dice.randint(1, 9))
            for other in (changed, digits[0][1:], "") if len(digits[0]) > 1 else (changed,):
                built.append(("number", source, target.replace(digits[0], other, 1), languages))
        for unit, other in UNITS.items():
            if unit in target:
                built.append(("unit", source, target.replace(unit, other), languages))
                break
        if re.search(NEGATED["en"], source) and re.search(NEGATED[language], target) and "only" not in source:
            affirmed = re.sub(AFFIRMED.get(language, NEGATED[language]), "", target)
            built.append(("negation", source, affirmed, languages))
        for name in NAMES:
            if f" {name}" in target and not target.startswith(name):
                built.append(("name", source, target.replace(name, "Robert"), languages))
        words = target.split() if language != "zh" else list(target.rstrip("。"))
        space = " " if language != "zh" else ""
        end = len(words) - 1
        repeated = [*words[:end], *words[end - 2 : end] * 3, words[end]]
        built.append(("repetition", source, space.join(repeated), languages))
    negated = [pair for pair in TRUE_PAIRS if re.search(NEGATED[pair[2][1]], pair[1]) and "nur" not in pair[1]]
    for source, _, languages in TRUE_PAIRS:
        if not re.search(NEGATED["en"] + "|only|too", source):
            other = dice.choice([target for _, target, others in negated if others == languages])
            built.append(("negation", source, other, languages))
    return built


def kinds(source: str, target: str, languages: tuple[str | None, str | None] = (None, None)) -> set[str]:
    return {fault.kind for fault in faults(source, target, languages)}


CASES = cases()
FALSE = Counter(kind for pair in TRUE_PAIRS for kind in kinds(*pair))


@pytest.mark.parametrize("kind", KINDS)
def test_faults_are_recognised_with_high_precision_and_recall(kind: str) -> None:
    built = [case[1:] for case in CASES if case[0] == kind]
    recognised = sum(kind in kinds(*case) for case in built)
    assert len(built) >= 9
    assert recognised / len(built) >= 0.8
    assert recognised / (recognised + FALSE[kind]) >= 0.9


def test_hardly_any_true_pair_has_a_fault() -> None:
    assert len(TRUE_PAIRS) == 60
    assert {pair: kinds(*pair) for pair in TRUE_PAIRS if kinds(*pair)} == {}


@pytest.mark.parametrize(
    ("source", "target", "languages", "expected"),
    [
        ("He paid 1,234.50 for it.", "Il a payé 1 234,5 pour cela.", "en fr", ""),
        ("He paid 1,234.50 for it.", "Er hat dafür 1.234,50 bezahlt.", "eng deu", ""),
        ("He paid 1,234.50 for it.", "Er hat dafür 1.243,50 bezahlt.", "eng deu", "number"),
        ("They sold 2.5 million cars.", "Sie verkauften 2 500 000 Autos.", "en de", ""),
        ("They sold 2.5 million cars.", "Sie verkauften 3 500 000 Autos.", "en de", "number"),
        ("I have 20 books.", "J'ai vingt livres.", "en fr", ""),
        ("I have ninety-three books.", "J'ai quatre-vingt-treize livres.", "en fr", ""),
        ("I have seventy-five books.", "J'ai 76 livres.", "en fr", "number"),
        ("I have five books.", "J'ai six livres.", "en fr", "number"),
        ("She is thirty-one.", "Elle a 31 ans.", "en fr", ""),
        ("Elle a trente et un ans.", "She is 31.", "fr en", ""),
        ("She is thirty-one.", "Elle a 32 ans.", "en fr", "number"),
        ("وصل في عام ٢٠٢٤ إلى هنا.", "He arrived here in 2024.", "ar en", ""),
        ("وصل في عام ٢٠٢٤ إلى هنا.", "He arrived here in 2025.", "ar en", "number"),
        ("It starts at 8 pm sharp.", "Es beginnt pünktlich um 20 Uhr.", "en de", ""),
        ("He died on March 3.", "他在3月3日去世了。", "en zh", ""),
        ("It was built in the 14th century.", "Il a été construit au XIVe siècle.", "en fr", ""),
        ("There were 37 people there.", "Nanis naman a taos didto 38.", "en xx", "number"),
        ("I have 7 hens at home.", "Nais naman pito didto.", "en xx", ""),
        ("It weighs 5 pounds.", "Il pèse 5 livres.", "en fr", ""),
        ("It costs $5 today.", "Cela coûte 5 € aujourd'hui.", "en fr", "unit"),
        ("It costs $5 today.", "Cela coûte 5 $ aujourd'hui.", "en fr", ""),
        ("Only 5% of them came.", "Solo vino el 5 por ciento.", "en es", ""),
        ("I'm hungry, not tired.", "Ich habe Hunger.", "en de", "negation"),
        ("That is not bad.", "C'est bien.", "en fr", ""),
        ("It's cold, isn't it?", "Es ist kalt, oder?", "en de", ""),
        ("It is impossible.", "Ce n'est pas possible.", "en fr", ""),
        ("I have only one car.", "Je n'ai qu'une voiture.", "en fr", ""),
        ("I have a car.", "我没有车。", "en zh-Hans", "negation"),
        ("私は彼を知りません。", "I know him.", "jpn eng", "negation"),
        ("I have a car.", "Araba yok.", "en tr", ""),
        ("I know that Tom is here.", "Je sais que Marie est ici.", "en fr", "name"),
        ("I know that Maria is here.", "Je sais que Marie est ici.", "en_US fr_FR", ""),
        ("We will come back in April.", "Nous reviendrons en avril.", "en fr", ""),
        ("I am learning German with Tom.", "我在和汤姆学德语。", "en zh", ""),
        ("Das Haus von Anna ist alt.", "La maison est vieille.", "de fr", ""),
        ("The cat sleeps on the sofa.", "Le chat sleeps on the sofa.", "en fr", ""),
        ("The cat really likes sleeping here.", "Le chat really likes sleeping ici.", "en fr", "untranslated"),
        ("我真的很喜欢这本书。", "I really like 这本书.", "zh en", "untranslated"),
        ("The colour of the house is nice.", "The color of the house is nice.", "en-GB en-US", ""),
        ("I like dogs very much.", "J'aime les chiens très très très fort.", "en fr", "repetition"),
        ("No, no, no, I won't come.", "Non, non, non, je ne viendrai pas.", "en fr", ""),
        ("Yes.", "Oui, tout à fait, absolument.", "en fr", ""),
        ("42", "", "en fr", "number"),
        ("Hello there!", "?", "en fr", "empty"),
        ("", "", "en fr", ""),
    ],
)  # fmt: skip
def test_single_cases(source: str, target: str, languages: str, expected: str) -> None:
    one, other = languages.split()
    assert " ".join(sorted(kinds(source, target, (one, other)))) == expected


def test_a_fault_has_the_words_in_question() -> None:
    regretted = faults("I gave Tom 35 books.", "J'ai donné 36 livres à Sophie.", ("en", "fr"))
    assert {(fault.kind, fault.text) for fault in regretted} == {
        ("number", "35"), ("number", "36"), ("name", "Tom"), ("name", "Sophie"),
    }  # fmt: skip
    assert all(phrase and not phrase.endswith(".") for phrase in KINDS.values())


def test_unknown_languages_have_only_faults_that_any_language_has() -> None:
    assert kinds("I do not know Tom and his two dogs.", "Je connais Marie et ses trois chiens.") == set()
    assert kinds("It happened in 1995.", "C'est arrivé en 1996.") == {"number"}
    assert kinds("this is the same sentence", "this is the same sentence") == {"untranslated"}


TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("0123456789.,%€ abcTM'’\n不没三十つないNnot\ud800\u0301٣\ufdee\ufdef")),
    max_size=60,
)
CODES = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.sampled_from(["en", "deu", "fr_FR", "es", "it", "nl", "ru", "zh-Hans", "ja", "cs"]),
)


@given(TEXT, TEXT, st.tuples(CODES, CODES))
@settings(max_examples=300, deadline=None)
def test_no_text_raises_an_exception(source: str, target: str, languages: tuple[str | None, str | None]) -> None:
    for pair in ((source, target), (source, source), (target * 3, source)):
        assert all(fault.kind in KINDS for fault in faults(*pair, languages))


@pytest.mark.parametrize("text", ["ne que ", "Max, ", "1,111 ", "hundred ", "一二三", "not ", "a", " ", "しか", "a b "])
def test_long_texts_take_a_bounded_time(text: str) -> None:
    for characters in (MOST_CHARACTERS, 200_000):
        long = (text * characters)[:characters]
        begin = time.process_time()
        for languages in (("en", "fr"), ("fr", "en"), ("ja", "zh")):
            faults(long, long[::-1], languages)
        assert time.process_time() - begin < 2


def test_a_sentence_takes_little_time() -> None:
    best = 1.0
    for _ in range(5):
        begin = time.process_time()
        for pair in TRUE_PAIRS:
            faults(*pair)
        best = min(best, (time.process_time() - begin) / len(TRUE_PAIRS))
    assert best < 0.001
