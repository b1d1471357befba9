"""How well a model translates its test pairs as people type them: in capitals, with typos, several in one line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.evaluation.scores import as_numbers, main_score
from dragoman.metrics import MAIN
from dragoman.metrics.metric import Score
from dragoman.text.scripts import unspaced_language
from dragoman.text.variants import Pair, VariedPairs, varied


@dataclass(frozen=True)
class VariantScore:
    """The main score of one variant, and what it would be if the model were not disturbed."""

    name: str
    sentences: int
    """Number of pairs that the variant changes."""
    before: Score
    """The score of the translations of the pairs as they are, with the same changes."""
    after: Score

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `MAIN.name` is the score of the variant, and `before` that of the pairs as they are."""
        before = self.before.value
        return {"sentences": self.sentences, **as_numbers({MAIN.name: self.after}), "before": before}


def score_variants(
    translate: Callable[[list[str]], list[str]],
    pairs: Sequence[Pair],
    *,
    target_language: str | None = None,
) -> list[VariantScore]:
    """Translate `pairs` as they are and in all variants, and score both.

    Translations of the pairs as they are get varied like references: one without its final mark is the best that can be
    expected of a source without its own.
    """
    references = [target for _, target in pairs]
    language = unspaced_language(target_language, references)
    space = "" if language else " "
    sources = [source for source, _ in pairs]
    translations = translate(sources)
    ideals = {variant.name: variant for variant in varied(list(zip(sources, translations, strict=True)), space=space)}

    def score(variant: VariedPairs, texts: Sequence[str]) -> Score:
        wanted = [target for _, target in variant.pairs]
        if variant.ignores_case:
            texts, wanted = [text.lower() for text in texts], [text.lower() for text in wanted]
        return main_score(texts, wanted, [source for source, _ in variant.pairs], target_language=language)

    scores = []
    for variant in varied(pairs, space=space):
        after = translate([source for source, _ in variant.pairs])
        ideal = ideals[variant.name].targets if variant.name in ideals else {}
        before = [ideal.get(rows) or space.join(translations[row] for row in rows) for rows in variant.rows]
        scores.append(
            VariantScore(
                variant.name,
                len(variant.pairs),
                before=score(variant, before),
                after=score(variant, after),
            )
        )
    return scores
