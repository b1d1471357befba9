"""The end of a run: the kept model is scored on the test pairs and described by its card and its report."""

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dragoman.config.run import RunConfig
from dragoman.data.preparation import PreparedData
from dragoman.decoding.ensemble import load_ensemble
from dragoman.evaluation.evaluate import Evaluation, evaluate_pairs
from dragoman.evaluation.scores import scores_by_source
from dragoman.report import RunSummary, model_card, most_reordered, word_attention
from dragoman.storage.atomic import write_file
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.device import machine
from dragoman.system.processes import available_workers

if TYPE_CHECKING:
    from dragoman.terminal import Display

SHOWN_TESTS = 20
REPORT_SECONDS = 4.0
"""Loading libraries and the model, drawing figures."""


def seconds_to_conclude(data: PreparedData, validated: int, validation_seconds: float) -> float:
    """About how long `conclude` takes, given how long it takes to validate at most so many sentences.

    A sentence takes as long as there: beam search on all cores is as fast as greedy search on one.
    """
    tests = (len(data.test_pairs) + len(data.general_pairs)) * (2 if data.compared else 1)
    return REPORT_SECONDS + tests / min(validated, len(data.valid_pairs)) * validation_seconds


def conclude(directory: RunDirectory, config: RunConfig, data: PreparedData, display: "Display") -> Evaluation:
    """Score the kept model on the test pairs, and write its card and its report."""
    score = partial(
        evaluate_pairs, search=config.decoding, precision=config.training.precision, workers=available_workers()
    )
    with display.status(f"Translating {len(data.test_pairs):,} test sentences"):
        evaluation = score(load_ensemble([directory.path]), data.test_pairs)
    if config.finetune.model:
        with display.status("Scoring the model before and after"):
            compared = {"own after": evaluation, "own before": score(load_ensemble([directory.base]), data.test_pairs)}
            if data.general_pairs:
                compared["general after"] = score(load_ensemble([directory.path]), data.general_pairs)
                compared["general before"] = score(load_ensemble([directory.base]), data.general_pairs)
        found = {part: {name: each.value for name, each in one.scores.items()} for part, one in compared.items()}
        evaluation = replace(evaluation, finetuning=found)
    if data.about.leaked:
        references = [target for _, target in data.test_pairs]
        leaked, language = data.about.leaked, data.about.target_language
        by_source = scores_by_source(evaluation.translations, references, leaked, target_language=language)
        evaluation = replace(evaluation, by_source=by_source)
    write_file(directory.evaluation, json.dumps(evaluation.to_dict()).encode())
    with display.status("Writing the report"):
        from dragoman.report.page import write_report  # imports matplotlib, which training does without

        kept = ModelDirectory.load(directory.path)
        if kept.decoding != config.decoding:  # a resumed run may have other settings than the one that kept the model
            kept = replace(kept, decoding=config.decoding)
            kept.save(directory.path)
        summary = _summary(directory, config, data, kept, evaluation)
        write_report(directory.path, summary)
        write_file(directory.path / "README.md", model_card(summary).encode())
    return evaluation


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
        samples=samples[:SHOWN_TESTS],
        attention=most_reordered(maps),
    )
