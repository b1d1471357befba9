"""Evaluates a model while it is trained: scores of greedy translations, samples of them, accuracies."""

from typing import Any

from dragoman.config.run import RunConfig
from dragoman.data.preparation import PreparedData
from dragoman.decoding.translator import Translator
from dragoman.evaluation.likelihood import token_statistics
from dragoman.evaluation.scores import as_numbers, score_together
from dragoman.metrics import VALIDATED_TEXT_METRICS
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.device import choose_precision
from dragoman.system.resources import release_memory
from dragoman.text.labels import readable

SAMPLES = 3
"""Translations that a validation shows."""


def evaluate_quickly(model: Transformer, *, data: PreparedData, config: RunConfig) -> dict[str, Any]:
    """Scores of greedy translations of the first validation pairs, `samples` of the translations, and accuracies.

    `statistics` is what the metric `training.monitor` counts in each sentence, if it looks at translations.
    """
    release_memory()  # of the steps before
    about = data.about
    directory = ModelDirectory(
        model,
        data.source_tokenizer,
        data.target_tokenizer,
        about.source_language,
        about.target_language,
        style=data.style,
        directions=about.directions,
    )
    # The precision of training, because eight bits translate on one thread.
    precision = choose_precision(config.training.precision, model.projection.weight.device)
    translator = Translator(directory, precision=str(precision).removeprefix("torch."))
    sources, references = zip(*data.valid_pairs[: config.training.validate_sentences], strict=True)
    translations = [result.text for result in translator.translate(sources, beam_size=1, split=False)]
    scores = score_together(
        translations, references, sources, target_language=about.target_language, metrics=VALIDATED_TEXT_METRICS
    )
    samples = []
    for index in range(min(SAMPLES, len(sources))):
        row = round(index * (len(sources) - 1) / SAMPLES)
        samples.append(
            {"source": readable(sources[row]), "translation": translations[row], "reference": references[row]}
        )
    monitored = scores.get(config.training.monitor)
    return {
        **as_numbers(scores),
        **({"statistics": monitored.statistics} if monitored else {}),
        **(_accuracies(model, data) if config.training.accuracy else {}),
        "samples": samples,
    }


def _accuracies(model: Transformer, data: PreparedData) -> dict[str, float]:
    """Token accuracy on the validation pairs, and on as many batches of training pairs."""
    valid = list(data.valid.in_order())
    batches = {"train_accuracy": data.train.first(len(valid)), "valid_accuracy": valid}
    given = data.target_tokenizer.num_given
    return {name: token_statistics([model], part, given=given).token_accuracy for name, part in batches.items()}
