"""A model directory scored on sentence pairs, and a model's scores of given translations."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from dragoman.config.decoding import DecodingConfig
from dragoman.data.bitext import Bitext
from dragoman.decoding.translation import TranslationScore
from dragoman.decoding.translator import Translator
from dragoman.evaluation.likelihood import TokenStatistics, reference_batches, token_statistics
from dragoman.evaluation.references import reference_warnings
from dragoman.evaluation.scores import score, scores_by_languages
from dragoman.metrics.metric import Score
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.characters import without_label


@dataclass(frozen=True)
class Evaluation:
    """Everything measured on one set of sentence pairs."""

    scores: dict[str, Score]
    """By the names of the metrics."""
    tokens: TokenStatistics
    """How well the model predicts the references."""
    translations: list[str]
    """In the order of the pairs."""
    seconds: float
    """Time to translate all sentences."""
    by_source: dict[str, dict[str, float]] = field(default_factory=dict)
    """For a split that leaks: `sentences` and `bleu` of the pairs whose source sentence was `trained_on`, and of `new`
    ones."""
    finetuning: dict[str, dict[str, float]] = field(default_factory=dict)
    """For a model that was adapted, the scores of `own before`, `own after`, and, if there are general test pairs, of
    `general before` and `general after`, by the names of the metrics."""
    by_languages: dict[str, dict[str, float]] = field(default_factory=dict)
    """If there are pairs of several languages: `sentences` of each, such as en-de, and the scores by the names of the
    metrics."""
    warnings: list[str] = field(default_factory=list)
    """Why the scores may say something else than they seem to."""

    def to_dict(self) -> dict[str, Any]:
        """All numbers side by side, for JSON; without the translations."""
        return {
            **{name: score.value for name, score in self.scores.items()},
            "signatures": {name: score.signature for name, score in self.scores.items()},
            **asdict(self.tokens),
            "sentences": len(self.translations),
            "seconds": self.seconds,
            "sentences_per_second": len(self.translations) / max(self.seconds, 1e-9),
            **({"by_source": self.by_source} if self.by_source else {}),
            **({"finetuning": self.finetuning} if self.finetuning else {}),
            **({"by_languages": self.by_languages} if self.by_languages else {}),
            **({"warnings": self.warnings} if self.warnings else {}),
        }


def evaluate_pairs(
    loaded: Sequence[ModelDirectory],
    pairs: Sequence[tuple[str, str]],
    *,
    search: DecodingConfig,
    precision: str,
    workers: int,
) -> Evaluation:
    """Score a model, or several together, on all of `pairs`.

    Translations are made in `precision`; perplexity and token accuracy are computed in float32.
    """
    first, models = loaded[0], [each.model for each in loaded]
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    with Translator(first, ensemble=loaded[1:], precision=precision, workers=workers) as translator:
        started = time.perf_counter()
        translations = [translation.text for translation in translator.translate(sources, search, split=False)]
        seconds = time.perf_counter() - started
    plain = [*map(without_label, sources)]
    scores = score(translations, references, sources=plain, target_language=first.target_language)
    batches = reference_batches(pairs, first.preprocessor, *first.tokenizers)
    statistics = token_statistics(models, batches, given=len(first.target_tokenizer.begin_ids))
    apart = scores_by_languages(translations, references, sources)
    warnings = reference_warnings(references, translations)
    return Evaluation(scores, statistics, translations, seconds, by_languages=apart, warnings=warnings)


def score_pairs(
    translator: Translator, bitext: Bitext, *, length_penalty: float, window: int = 2048
) -> Iterator[TranslationScore]:
    """The model's probability of each pair; reads `window` pairs at a time."""
    remaining = iter(bitext)
    while pairs := list(islice(remaining, window)):
        yield from translator.score(pairs, length_penalty=length_penalty)
