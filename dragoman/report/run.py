"""The card and the report of a run that has ended."""

from dataclasses import replace

from dragoman.config.run import RunConfig
from dragoman.data.preparation import PreparedData
from dragoman.evaluation.evaluate import Evaluation
from dragoman.report.attention import WordAttention, most_reordered, word_attention
from dragoman.report.card import model_card
from dragoman.report.page import write_report
from dragoman.report.summary import RunSummary
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.atomic import encoded, write_file
from dragoman.system.device import machine
from dragoman.system.listener import LastSteps
from dragoman.text.labels import readable

SHOWN_TESTS = 20
"""Most test pairs whose translations the report shows."""
LOOKED_AT = 100
"""Number of test sentences among which the report chooses one whose attention it shows."""


def describe_run(
    directory: RunDirectory,
    config: RunConfig,
    data: PreparedData,
    model: ModelDirectory,
    evaluation: Evaluation,
    *,
    last_steps: LastSteps,
) -> None:
    """Write the card and the report of the model that a run has kept; a failure of either becomes a warning."""
    summary = _summary(directory, config, data, model, evaluation)
    with last_steps("The model card, README.md,"):
        write_file(directory.path / "README.md", encoded(model_card(summary)))
    with last_steps("The attention in the report"):
        summary = replace(summary, attention=_attention(model, data, evaluation))
    with last_steps("The report, report.html,"):
        write_report(directory.path, summary)


def _summary(
    directory: RunDirectory, config: RunConfig, data: PreparedData, model: ModelDirectory, evaluation: Evaluation
) -> RunSummary:
    tested = list(zip(data.test_pairs, evaluation.translations, strict=True))
    samples = [
        {"source": readable(source), "reference": reference, "translation": translation}
        for (source, reference), translation in tested[:SHOWN_TESTS]
    ]
    return RunSummary(
        source_language=model.source_language,
        target_language=model.target_language,
        config=config,
        model=model.model.config,
        num_weights=sum(parameter.numel() for parameter in model.model.parameters()),
        machine=machine(),
        pairs={"train": data.about.train_pairs, "valid": len(data.valid_pairs), "test": len(data.test_pairs)},
        metrics=read_metrics(directory.metrics),
        evaluation=evaluation.to_dict(),
        samples=samples,
        directions=model.directions,
    )


def _attention(model: ModelDirectory, data: PreparedData, evaluation: Evaluation) -> WordAttention | None:
    """The attention of that one of the first test sentences in which translation changes the order of words most."""
    first = zip(data.test_pairs[:LOOKED_AT], evaluation.translations, strict=False)
    maps = (word_attention(model, source, translation) for (source, _), translation in first if translation)
    return most_reordered(maps)
