"""The end of a run: the kept model is scored on the test pairs and described by its card and its report."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.config.run import RunConfig
from dragoman.data.preparation import Pairs, PreparedData
from dragoman.decoding.translator import Translator
from dragoman.evaluation.calibration import FEWEST, calibrate
from dragoman.evaluation.eight_bits import bleu_in_eight_bits
from dragoman.evaluation.evaluate import Evaluation, evaluate_pairs, load_models
from dragoman.evaluation.overlap import with_overlap
from dragoman.evaluation.remarks import Training, with_remarks
from dragoman.evaluation.scores import as_numbers, scores_of_parts
from dragoman.metrics import MAIN
from dragoman.runs.outlook import gain_of_minutes, outlook
from dragoman.storage.adapter import ADAPTER, write_adapter
from dragoman.storage.beside import read_sketch, write_confidence, write_sketch
from dragoman.storage.directory import ArrayDirectory
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.storage.validate import decoding_defaults
from dragoman.system.listener import LastSteps, Listener
from dragoman.system.processes import available_workers
from dragoman.text.sketch import Sketch
from dragoman.text.variants import DESCRIPTIONS

CALIBRATED = 1_000
"""Validation pairs to which the confidence of translations is fitted."""
TRIED = 100
"""Validation pairs on which a pretrained model is tried in eight bits."""
VARIED, LONG_RUN = 200, 10
"""Test pairs of which variants are scored, and the minutes of a run that has the time for it."""
CLEAR_GAIN = 1.0
"""Points of the main score from which on a model is said to be still getting better."""
REPORT_SECONDS = 4.0
"""Seconds for loading libraries and the model, and for drawing figures."""


def seconds_to_conclude(data: PreparedData, config: RunConfig, validation_seconds: float) -> float:
    """About how many seconds scoring and describing take, given how long a validation takes.

    A test sentence takes as long as a validated one: beam search on all cores is as fast as greedy search on one. Each
    translation that is drawn besides takes as long again.
    """
    models = 2 if config.finetune.adapts else 1
    translated = (len(data.test_pairs) + len(data.general_pairs)) * models
    validated = min(config.training.validate_sentences, len(data.valid_pairs))
    calibrated = min(CALIBRATED, len(data.valid_pairs))
    varied = len(DESCRIPTIONS) * _num_varied(data, config)
    searched = (translated + varied + calibrated) * (1 + config.decoding.mbr)
    sizes = [tokenizer.vocab_size for tokenizer in (data.source_tokenizer, data.target_tokenizer)]
    if config.transformer(*sizes).is_pretrained:
        searched += 2 * min(TRIED, len(data.valid_pairs))  # by both precisions of `try_eight_bits`
    return REPORT_SECONDS + searched / validated * validation_seconds


def _num_varied(data: PreparedData, config: RunConfig) -> int:
    """Number of test pairs of which variants are scored; none where there is little time, or too few pairs."""
    has_time = (config.training.max_minutes or math.inf) >= LONG_RUN
    is_part_of_curve = config.data.share < 1
    return VARIED if has_time and not is_part_of_curve and len(data.test_pairs) >= VARIED else 0


def score_kept(directory: RunDirectory, config: RunConfig, data: PreparedData, listener: Listener) -> Evaluation:
    """Score the kept model on the test pairs.

    A fine-tuned model is compared with its base model, also on general pairs. Where test sources were trained on, as
    after a split by line, or are twins of training pairs, those and the others are scored separately, too.
    """

    def score(path: Path, pairs: Pairs, *, variants: int = 0) -> Evaluation:
        return evaluate_pairs(
            load_models([path]),
            pairs,
            search=config.decoding,
            precision=config.training.precision,
            workers=available_workers(),
            variants=variants,
        )

    with listener.status(f"Translating {len(data.test_pairs):,} test sentences"):
        evaluation = score(directory.path, data.test_pairs, variants=_num_varied(data, config))
    if config.finetune.adapts:
        with listener.status("Scoring the model before and after"):
            compared = {"own after": evaluation, "own before": score(directory.base, data.test_pairs)}
            if data.general_pairs:
                compared["general after"] = score(directory.path, data.general_pairs)
                compared["general before"] = score(directory.base, data.general_pairs)
        evaluation = replace(
            evaluation, finetuning={name: as_numbers(scored.scores) for name, scored in compared.items()}
        )
    if config.finetune.model:
        evaluation = with_overlap(
            evaluation,
            read_sketch(directory.base),
            data.test_pairs,
            model=config.finetune.model,
            target=data.about.target_language,
        )
    parts = partial(
        scores_of_parts,
        evaluation.translations,
        [target for _, target in data.test_pairs],
        [source for source, _ in data.test_pairs],
        target_language=data.about.target_language,
    )
    if data.about.leaked:
        evaluation = replace(evaluation, by_source=parts(data.about.leaked, names=("trained_on", "new")))
    if data.about.twins:
        evaluation = replace(evaluation, by_twins=parts(data.about.twins, names=("twins", "unlike")))
    languages = data.about.source_language, data.about.target_language
    events = list(read_metrics(directory.metrics))
    evaluation = with_remarks(
        evaluation, data.test_pairs, _sketch(directory, config, data), languages, _training(events, data)
    )
    is_new = not config.finetune.model and not directory.synthetic.exists()
    score_of_run = evaluation.scores[MAIN.name].value
    return replace(evaluation, outlook=outlook(events, data.about.train_pairs, score_of_run, is_new=is_new))


def _training(events: Sequence[dict[str, Any]], data: PreparedData) -> Training:
    """What the remarks about a run need to know of its training."""
    seen = max((event["tokens"] for event in events if event["event"] == "step"), default=0)
    tokens = sum(data.train_tokens)
    gain = gain_of_minutes(events)
    is_rising = gain is not None and gain.low > CLEAR_GAIN
    return Training(data.about.train_pairs, seen / max(1, tokens) if seen else None, is_rising=is_rising)


def _sketch(directory: RunDirectory, config: RunConfig, data: PreparedData) -> Sketch | None:
    """The sketch of what the kept model was trained on, that of its base model included.

    None if a part of it is not known, since a sketch without it would call sentences new that are not.
    """
    if not config.finetune.adapts or data.sketch is None:
        return data.sketch
    base = read_sketch(directory.base)
    return data.sketch.after(base) if base else None


def try_eight_bits(directory: RunDirectory, data: PreparedData) -> None:
    """Store how well a pretrained model still translates in eight bits after it was trained on, as `import` does."""
    kept = ModelDirectory.load(directory.path)
    int8_bleu = bleu_in_eight_bits(kept, [source for source, _ in data.valid_pairs[:TRIED]])
    if int8_bleu != kept.int8_bleu:
        replace(kept, int8_bleu=int8_bleu).save(directory.path)


def _calibrate(directory: RunDirectory, data: PreparedData, sketch: Sketch | None) -> None:
    """Fit the confidence of the kept model to validation pairs, unless these are too few."""
    pairs = data.valid_pairs[:CALIBRATED]
    if len(pairs) < FEWEST:
        return
    with Translator.load(directory.path, workers=available_workers()) as translator:
        write_confidence(directory.path, calibrate(translator, pairs, sketch).model)


def describe(
    directory: RunDirectory,
    config: RunConfig,
    data: PreparedData,
    evaluation: Evaluation,
    last_steps: LastSteps,
) -> None:
    """Write the scores, the card and the report of the kept model; if one of them fails, the others are written all the
    same.
    """
    listener = last_steps.listener
    with last_steps(f"The file of the scores, {directory.evaluation},"):
        directory.write(directory.evaluation, json.dumps(evaluation.to_dict()).encode())
        directory.write(directory.translations, json.dumps(evaluation.translations).encode())
    with last_steps("The model directory"):
        # A resumed run may have other settings than the one that kept the model.
        if decoding_defaults(directory.path) != config.decoding.model_copy(update={"max_tokens": None}):
            replace(ModelDirectory.load(directory.path), decoding=config.decoding).save(directory.path)
    if config.finetune.lora and config.finetune.adapts and not config.finetune.new_languages:
        with last_steps("The adapter"):
            base, adapted = (ArrayDirectory.load(path) for path in (directory.base, directory.path))
            write_adapter(
                directory.path / ADAPTER,
                base.model.weights,
                adapted.model.weights,
                rank=config.finetune.lora,
                int8_bleu=adapted.int8_bleu,
            )
    sketch = _sketch(directory, config, data)
    with last_steps("The sketch of the training pairs"):
        if sketch:
            write_sketch(directory.path, sketch)
    with listener.status("Calibrating the confidence"), last_steps("The confidence of translations"):
        _calibrate(directory, data, sketch)
    with listener.status("Writing the report"), last_steps("The model card and the report"):
        kept = ModelDirectory.load(directory.path)
        from dragoman.report.run import describe_run  # which imports much that training does not need

        describe_run(directory, config, data, kept, evaluation, last_steps=last_steps)
