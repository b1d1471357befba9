"""The card and the report of a run that has ended."""

from dragoman.config.run import RunConfig
from dragoman.data.labels import readable
from dragoman.data.preparation import PreparedData
from dragoman.evaluation.evaluate import Evaluation
from dragoman.report.attention import most_reordered, word_attention
from dragoman.report.card import model_card
from dragoman.report.page import write_report
from dragoman.report.summary import RunSummary
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.atomic import write_file
from dragoman.system.device import machine

SHOWN_TESTS = 20


def describe_run(
    directory: RunDirectory, config: RunConfig, data: PreparedData, kept: ModelDirectory, evaluation: Evaluation
) -> None:
    """Write the card and the report of the model that a run has kept."""
    summary = _summary(directory, config, data, kept, evaluation)
    write_report(directory.path, summary)
    write_file(directory.path / "README.md", model_card(summary).encode())


def _summary(
    directory: RunDirectory, config: RunConfig, data: PreparedData, kept: ModelDirectory, evaluation: Evaluation
) -> RunSummary:
    samples = [
        {"source": source, "reference": reference, "translation": translation}
        for (source, reference), translation in zip(data.test_pairs, evaluation.translations, strict=True)
    ]
    # The report shows one of the first hundred sentences, in which words change places.
    translated = [each for each in samples[:100] if each["translation"]]
    maps = (word_attention(kept, each["source"], each["translation"]) for each in translated)
    return RunSummary(
        source_language=kept.source_language,
        target_language=kept.target_language,
        config=config,
        model=kept.model.config,
        num_weights=sum(parameter.numel() for parameter in kept.model.parameters()),
        machine=machine(),
        pairs={"train": data.about.train_pairs, "valid": len(data.valid_pairs), "test": len(data.test_pairs)},
        metrics=read_metrics(directory.metrics),
        evaluation=evaluation.to_dict(),
        samples=[each | {"source": readable(each["source"])} for each in samples[:SHOWN_TESTS]],
        directions=kept.directions,
        attention=most_reordered(maps),
    )
