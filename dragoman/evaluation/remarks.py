"""What is wrong with translations, in words: what is unusual about them, the likeliest cause, and a remedy."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dragoman.evaluation.evaluate import Evaluation
from dragoman.metrics import MAIN, chrf
from dragoman.metrics.metric import Translations
from dragoman.text.characters import without_label
from dragoman.text.faults import faults
from dragoman.text.scripts import WORD, script, unspaced_language
from dragoman.text.sketch import NewWords, Sketch

FEWEST = 20
"""Fewest sentences about which anything is said."""
FEW_PAIRS = 20_000
"""Up to so many training pairs, more of them are what helps most, and the remarks say which."""
POOR = 15.0
"""A main score below which a cause is named even if nothing is unusual."""
EMPTY, SAME, COPIED, REPEATED = 0.01, 0.1, 0.03, 0.05
"""Shares of translations from which on these are said to be unusual."""
NEW = 0.05
"""Share of new words in the test sources from which on they are named."""
SHORT, LONG = 0.8, 1.25
"""Usual bounds of the length of all translations, as a multiple of that of the references."""
OTHER_LENGTH = 1.6
"""Factor by which test sources are longer or shorter than those trained on, from which on that is said."""
SPELLING = 3.0
"""Points of the main score that capitals, or punctuation, may cost before that is said."""
OFTEN = 0.5
"""Share of letters that makes a script that of a text."""
NAMED = 8
"""Most new words that are named."""


@dataclass(frozen=True)
class Training:
    """What is known about the training of a model."""

    pairs: int
    epochs: float | None = None
    """How often each pair was seen; None if that is not known."""
    is_rising: bool = False
    """Whether validations still got clearly better at the end."""


@dataclass(frozen=True)
class ScoredSet:
    """Translations of a test set, and what is known of the model that made them."""

    sources: Sequence[str]
    references: Sequence[str]
    translations: Sequence[str]
    languages: tuple[str | None, str | None] = (None, None)
    sketch: Sketch | None = None
    training: Training | None = None

    def score(self, change: Callable[[str], str] = str) -> float:
        """The main score after a change of both sides, in the words of the target language."""
        language = unspaced_language(self.languages[1], self.references)
        changed = Translations([*map(change, self.translations)], [*map(change, self.references)], language=language)
        return MAIN.count(changed).value()

    @property
    def pairs(self) -> int | None:
        """Number of training pairs, if it is known."""
        if self.training:
            return self.training.pairs
        return self.sketch.pairs if self.sketch else None


@dataclass
class Remarks:
    """Sentences about a test, for a person."""

    unusual: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    """Possible causes with a remedy each, the likeliest first; only that one is shown."""
    wanted: str = ""
    """What to write next, where pairs are few."""

    @property
    def sentences(self) -> list[str]:
        """All that is shown."""
        return [
            *self.unusual,
            *(f"The likeliest cause: {cause}" for cause in self.causes[:1]),
            *filter(None, [self.wanted]),
        ]


def with_remarks(
    evaluation: Evaluation,
    pairs: Sequence[tuple[str, str]],
    sketch: Sketch | None,
    languages: tuple[str | None, str | None],
    training: Training | None = None,
) -> Evaluation:
    """An evaluation on pairs with remarks about it."""
    tested = ScoredSet(
        [without_label(source) for source, _ in pairs],
        [target for _, target in pairs],
        evaluation.translations,
        languages,
        sketch,
        training,
    )
    return replace(evaluation, remarks=remarks_on(tested).sentences)


def remarks_on(tested: ScoredSet) -> Remarks:
    """What is unusual about translations. Nothing if they are too few, or as one would expect."""
    remarks = Remarks()
    if len(tested.sources) < FEWEST:
        return remarks
    for look in LOOKS:
        look(tested, remarks)
    if not remarks.causes and tested.score() < POOR:
        remarks.causes.append(_cause_of_a_poor_model(tested))
    if tested.pairs is not None and tested.pairs <= FEW_PAIRS:
        remarks.wanted = _wanted(tested)
    return remarks


def _script(tested: ScoredSet, remarks: Remarks) -> None:
    ours, theirs = _script_of(tested.translations), _script_of(tested.references)
    if ours and theirs and ours != theirs:
        remarks.unusual.append(
            f"The translations are in the script {ours.title()}, the references in {theirs.title()}."
        )
        remarks.causes.append(
            "the references are in another language than the model writes, or the two sides are exchanged; look at the "
            "files, and at the order in which they are given."
        )


def _empty(tested: ScoredSet, remarks: Remarks) -> None:
    empty = sum(not translation.strip() for translation in tested.translations)
    if empty > EMPTY * len(tested.translations):
        remarks.unusual.append(f"{empty:,} of {len(tested.translations):,} translations are empty.")
        remarks.causes.append(
            "the model has learned to end at once, as from training pairs with cut or empty targets; `dragoman data "
            "check` shows such pairs."
        )


def _same(tested: ScoredSet, remarks: Remarks) -> None:
    sources_of = defaultdict(set)
    for source, translation in zip(tested.sources, tested.translations, strict=True):
        sources_of[translation].add(source)
    different = len(set(tested.sources))
    repeated = {translation: len(sources) for translation, sources in sources_of.items() if len(sources) > 1}
    share = sum(repeated.values()) / different
    references = Counter(dict(zip(tested.sources, tested.references, strict=True)).values())
    usual = sum(count for count in references.values() if count > 1) / different
    if share > SAME + usual:
        most = max(repeated, key=repeated.__getitem__)
        remarks.unusual.append(
            f"{sum(repeated.values()):,} of {different:,} different sentences share their translation with another; "
            f'"{_beginning(most)}" stands for {repeated[most]:,} of them.'
        )
        remarks.causes.append(_cause_of_a_poor_model(tested))


def _copies(tested: ScoredSet, remarks: Remarks) -> None:
    copied = sum(
        _plain(source) == _plain(translation) != _plain(reference)
        for source, reference, translation in zip(tested.sources, tested.references, tested.translations, strict=True)
    )
    if copied > COPIED * len(tested.sources):
        remarks.unusual.append(f"{copied:,} of {len(tested.sources):,} translations are copies of their source.")
        remarks.causes.append(
            "training pairs with the same text on both sides teach to copy; `dragoman data check` counts them, and "
            "data.cleaning.max_copied leaves them out."
        )


def _repetitions(tested: ScoredSet, remarks: Remarks) -> None:
    repeated = sum(
        any(fault.kind == "repetition" for fault in faults(source, translation, tested.languages))
        for source, translation in zip(tested.sources, tested.translations, strict=True)
    )
    if repeated > REPEATED * len(tested.sources):
        remarks.unusual.append(f"{repeated:,} of {len(tested.sources):,} translations repeat words.")
        remarks.causes.append(_cause_of_a_poor_model(tested))


def _new_words(tested: ScoredSet, remarks: Remarks) -> None:
    if not tested.sketch:
        return
    new = tested.sketch.new_words(tested.sources)
    if new.share > NEW:
        remarks.unusual.append(
            f"{100 * new.share:.0f} % of the words of the test sources were never seen in training{_such_as(new)}."
        )
        remarks.causes.append(
            "the test is of another kind than the training pairs; add pairs of its kind, or adapt the model to them "
            "with `dragoman train PAIRS --finetune MODEL`."
        )


def _source_lengths(tested: ScoredSet, remarks: Remarks) -> None:
    if not tested.sketch or not tested.sketch.mean_length:
        return
    length = sum(map(len, tested.sources)) / len(tested.sources)
    factor = length / tested.sketch.mean_length
    if not 1 / OTHER_LENGTH < factor < OTHER_LENGTH:
        kind = "long" if factor > 1 else "short"
        trained = tested.sketch.mean_length
        remarks.unusual.append(
            f"The test sources have {length:.0f} characters on average, those trained on {trained:.0f}."
        )
        remarks.causes.append(
            f"sentences as {kind} as those of the test are rare in training; add pairs of this length"
            + (", or translate them sentence by sentence." if factor > 1 else ".")
        )


def _lengths(tested: ScoredSet, remarks: Remarks) -> None:
    factor = sum(map(len, tested.translations)) / max(1, sum(map(len, tested.references)))
    if not SHORT < factor < LONG:
        remarks.unusual.append(f"The translations have {factor:.2f} times as many characters as the references.")
        remarks.causes.append(
            "the model leaves out parts of long sentences; give a higher --length-penalty, or train longer."
            if factor < 1
            else "the model adds what is not in the source; give a lower --length-penalty, or train longer."
        )


def _spelling(tested: ScoredSet, remarks: Remarks) -> None:
    score = tested.score()
    changes: tuple[tuple[str, Callable[[str], str]], ...] = (("capitals", str.casefold), ("punctuation", _plain_words))
    for what, change in changes:
        better = tested.score(change) - score
        if better > SPELLING:
            remarks.unusual.append(f"Without {what}, {MAIN.label} would be {MAIN.write(better)} points higher.")
            remarks.causes.append(
                f"training pairs and references differ in {what}; write both alike, and score references as people "
                "write them."
            )


LOOKS = _script, _empty, _same, _copies, _repetitions, _new_words, _source_lengths, _lengths, _spelling
"""What is looked at, the likeliest causes of a bad score first."""


def _cause_of_a_poor_model(tested: ScoredSet) -> str:
    """The cause where nothing is wrong but that the model has not learned enough."""
    training = tested.training
    if training and training.is_rising:
        return "the model was still getting better when training ended; train longer: `--max-minutes`."
    if training and training.epochs is not None and training.epochs < 2:
        return f"each pair was seen only {training.epochs:.1f} times; train longer: `--max-minutes`."
    if tested.pairs is not None and tested.pairs <= FEW_PAIRS:
        return f"{tested.pairs:,} training pairs are few; more of them help most, of any kind near to this one."
    return (
        "the model has learned little; look whether both sides of the training pairs belong together (`dragoman data "
        "check`), or train longer."
    )


def _wanted(tested: ScoredSet) -> str:
    """Words and lengths that training pairs should have which are written next."""
    parts = []
    if tested.sketch:
        new = tested.sketch.new_words(tested.sources)
        words = [word for word in new.words if word[:1].isalpha()][:NAMED]
        if words:
            parts.append(f"sentences with words that the test has and training lacks, such as {', '.join(words)}")
    statistics = chrf.METRIC.count(Translations(tested.translations, tested.references))
    scored = sorted(
        (len(WORD.findall(source)), statistics.score_of(row))
        for source, row in zip(tested.sources, statistics.rows, strict=True)
    )
    third = len(scored) // 3
    thirds = [scored[:third], scored[third:-third], scored[-third:]] if third else []
    means = [sum(score for _, score in part) / len(part) for part in thirds]
    if means and max(means) - min(means) > SPELLING:
        worst = thirds[means.index(min(means))]
        parts.append(
            f"sentences of {worst[0][0]} to {worst[-1][0]} words, whose chrF++ is {min(means):.0f} (that of the best "
            f"third is {max(means):.0f})"
        )
    return f"To write next: {'; '.join(parts)}." if parts else ""


def _script_of(texts: Sequence[str]) -> str:
    """The script of most letters; empty if there is none."""
    scripts = Counter(script(letter) for text in texts[:500] for letter in text if letter.isalpha())
    scripts["CJK"] += scripts.pop("HIRAGANA", 0) + scripts.pop("KATAKANA", 0)
    name, count = max(scripts.items(), key=lambda item: item[1])
    return name if count > OFTEN * scripts.total() else ""


def _plain(text: str) -> list[str]:
    return WORD.findall(without_label(text).casefold())


def _plain_words(text: str) -> str:
    return " ".join(word for word in WORD.findall(text) if word[0].isalnum())


def _such_as(new: NewWords) -> str:
    return f", such as {', '.join(new.words[:NAMED])}" if new.words else ""


def _beginning(text: str, most: int = 50) -> str:
    return text if len(text) <= most else text[:most] + "…"
