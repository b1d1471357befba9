"""The end of a run: the kept model is scored on the test pairs and described by its card and its report."""

import json
from dataclasses import replace
from functools import partial

from dragoman.config.run import RunConfig
from dragoman.data.preparation import PreparedData
from dragoman.decoding.ensemble import load_ensemble
from dragoman.evaluation.evaluate import Evaluation, evaluate_pairs
from dragoman.evaluation.scores import scores_by_source
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.listener import Listener, last_step
from dragoman.system.processes import available_workers

REPORT_SECONDS = 4.0
"""Loading libraries and the model, drawing figures."""


def seconds_to_conclude(data: PreparedData, config: RunConfig, validation_seconds: float) -> float:
    """About how long scoring and describing take, given how long a validation takes.

    A sentence takes as long as there: beam search on all cores is as fast as greedy search on one.
    """
    tests = (len(data.test_pairs) + len(data.general_pairs)) * (2 if config.finetune.model else 1)
    validated = min(config.training.validate_sentences, len(data.valid_pairs))
    return REPORT_SECONDS + tests / validated * validation_seconds


def score_kept(directory: RunDirectory, config: RunConfig, data: PreparedData, listener: Listener) -> Evaluation:
    """Score the kept model on the test pairs, and on others that it is compared on."""
    score = partial(
        evaluate_pairs, search=config.decoding, precision=config.training.precision, workers=available_workers()
    )
    with listener.status(f"Translating {len(data.test_pairs):,} test sentences"):
        evaluation = score(load_ensemble([directory.path]), data.test_pairs)
    if config.finetune.model:
        with listener.status("Scoring the model before and after"):
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
    return evaluation


def describe(
    directory: RunDirectory,
    config: RunConfig,
    data: PreparedData,
    evaluation: Evaluation,
    listener: Listener,
    *,
    later: str,
) -> None:
    """Write the scores, the card and the report of the kept model.

    What fails is a warning that says how it is made `later`, and costs nothing of the others.
    """
    described = partial(last_step, listener, later=later)
    with described(f"The file of the scores, {directory.evaluation},"):
        directory.write(directory.evaluation, json.dumps(evaluation.to_dict()).encode())
    with listener.status("Writing the report"), described("The model card and the report"):
        kept = ModelDirectory.load(directory.path)
        if kept.decoding != config.decoding:  # a resumed run may have other settings than the one that kept the model
            kept = replace(kept, decoding=config.decoding)
            kept.save(directory.path)
        from dragoman.report.run import describe_run  # which imports much that training does without

        describe_run(directory, config, data, kept, evaluation, last_step=described)
