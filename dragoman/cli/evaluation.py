"""The command evaluate: scores of models and of other systems on the same pairs, and whether they differ."""

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dragoman.cli import options
from dragoman.cli.checks import check_adapter, check_decoding, open_pairs, whole_output
from dragoman.cli.options import OUTPUT, Context, Ensemble, File, Model, Option, Workers, app, beam_search
from dragoman.errors import DataError, UsageError
from dragoman.system.urls import as_typed

if TYPE_CHECKING:
    from dragoman.data.readers.types import Pair
    from dragoman.evaluation.evaluate import Evaluation
    from dragoman.metrics.metric import Score

PAIRS = options.pairs("SOURCE REFERENCE")


@app.command(
    needs_torch=True,
    settings=lambda: beam_search("mbr"),
    epilog="dragoman evaluate runs/en-fr test.en test.fr\ndragoman evaluate runs/en-fr test.tsv --json\n"
    "dragoman evaluate runs/old runs/new test.tsv\n"
    "dragoman evaluate runs/en-fr test.tsv --outputs another-system.fr",
)
def evaluate(
    context: Context,
    model: Model,
    data: Annotated[list[str] | None, PAIRS] = None,
    columns: options.Columns = None,
    output: Annotated[Path | None, File(*OUTPUT, help="File to write the translations to.")] = None,
    outputs: Annotated[
        list[Path] | None,
        File(
            help="Translations by another system to score beside, or instead of, MODEL, a line for each pair; may be "
            "repeated."
        ),
    ] = None,
    examples: Annotated[
        int, Option(metavar="N", min=0, help="Also show N of the pairs, drawn at random, with their translations.")
    ] = 0,
    variants: Annotated[
        bool,
        Option(
            "--variants",
            help="Also score the same pairs as people type them: in capitals, with typos, without a final mark, ...",
        ),
    ] = False,
    memory: Annotated[
        Path | None,
        File(help="Translation memory to reuse. Scores with and without it are told by how similar its entries are."),
    ] = None,
    comet: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Also score by the COMET model in this folder; nothing is downloaded."),
    ] = None,
    comet_python: Annotated[
        Path | None,
        Option(metavar="PYTHON", help="The Python that has the package unbabel-comet. Default: this one."),
    ] = None,
    source: options.From = None,
    target: options.To = None,
    ensemble: Ensemble = None,
    adapter: options.Adapter = None,
    precision: options.Precision = "auto",
    workers: Workers = None,
) -> None:
    """Score a model on sentence pairs: BLEU, chrF++, TER, perplexity, token accuracy, speed.

    BLEU, chrF++ and TER have a 95 % interval. Several models, MODEL MODEL ... DATA, and the --outputs of other systems
    are scored on the same pairs, and tested for differences.
    """
    models, rest = [str(model)], data or []
    if os.path.isdir(model):
        models += takewhile(os.path.isdir, rest)
        rest = rest[len(models) - 1 :]
    elif outputs:
        models, rest = [], [as_typed(model), *rest]
    if not rest:
        raise UsageError(f"Missing argument '{PAIRS.metavar}'; see `dragoman evaluate --help`.")
    names = [*models, *map(str, outputs or ())]
    if (len(names) > 1 or outputs) and (ensemble or output or examples or variants or memory or adapter):
        raise UsageError(
            "--ensemble, --output, --examples, --variants, --memory and --adapter are for a single model; evaluate it "
            "alone for them."
        )
    if memory:
        from dragoman.decoding.recall import refuse_no_memory

        refuse_no_memory(memory)
    check_adapter(adapter)
    if len(set(map(os.path.realpath, names))) < len(names):
        raise UsageError("A system is given twice; leave one of the two out.")
    if comet:
        from dragoman.evaluation.comet import check_comet

        check_comet(comet, comet_python)
    wanted = (source, target)
    bitexts = [
        open_pairs(context, path and Path(path), [*rest, columns], ensemble=ensemble, output=output, wanted=wanted)
        for path in models or [None]
    ]
    searches = [check_decoding(Path(path), context.settings) for path in models]
    scores: dict[str, dict[str, Score]] = {}
    evaluations: dict[str, Evaluation] = {}
    with context.display().status("Translating and scoring"):
        pairs = list(bitexts[0])
        references = [reference for _, reference in pairs]
        others = {str(path): _translations(path, pairs=len(pairs)) for path in outputs or ()}
        from dragoman.evaluation.evaluate import evaluate_pairs, load_models
        from dragoman.evaluation.overlap import sketches_of, with_overlaps
        from dragoman.evaluation.references import reference_warnings
        from dragoman.evaluation.remarks import with_remarks
        from dragoman.evaluation.scores import score_together
        from dragoman.system.processes import available_workers
        from dragoman.text.characters import without_label

        for name, search, bitext in zip(models, searches, bitexts, strict=False):
            same_pairs = pairs if bitext is bitexts[0] else _same_pairs(name, bitext, pairs)
            together = [name, *map(str, ensemble or ())]
            evaluation = evaluate_pairs(
                load_models(together, languages=wanted, adapter=adapter),
                same_pairs,
                search=search,
                precision=precision,
                workers=workers or available_workers(),
                variants=len(same_pairs) if variants else 0,
                memory=memory,
            )
            target_language = target or bitexts[0].target_language
            sketches = sketches_of(list(map(Path, together)), adapter=adapter)
            evaluation = with_overlaps(evaluation, sketches, same_pairs, models=together, target=target_language)
            languages = source or bitexts[0].source_language, target_language
            evaluations[name] = with_remarks(evaluation, same_pairs, sketches[0], languages)
            scores[name] = evaluations[name].scores
        for name, translations in others.items():
            scores[name] = score_together(
                translations,
                references,
                [text for text, _ in pairs],
                target_language=target or bitexts[0].target_language,
            )
        if comet:
            from dragoman.evaluation.comet import score_by_comet

            for name, of_system in scores.items():
                translations = evaluations[name].translations if name in evaluations else others[name]
                unlabelled = [without_label(text) for text, _ in pairs]
                of_system["comet"] = score_by_comet(comet, unlabelled, translations, references, python=comet_python)
    title = " ".join(rest)
    if len(evaluations) == len(names) == 1:
        _print_one(context, evaluations[names[0]], pairs, f"{model} on {title}", output, examples)
    else:
        warnings = [text for texts in others.values() for text in reference_warnings(references, texts)]
        warnings = [*(text for one in evaluations.values() for text in one.warnings), *warnings]
        _print_systems(context, scores, evaluations, f"On {title}", len(pairs), warnings)


@app.command(
    needs_torch=True,
    epilog="dragoman calibrate models/opus-en-de pairs.tsv\ndragoman translate models/opus-en-de --confidence 'Hello.'",
)
def calibrate(
    context: Context,
    model: Model,
    data: Annotated[list[str], PAIRS],
    columns: options.Columns = None,
    source: options.From = None,
    target: options.To = None,
    workers: Workers = None,
) -> None:
    """Calibrate how far a model's translations can be trusted, on pairs that it was not trained on.

    `train` does this with its validation pairs. Models that were imported, or are to translate text of another kind,
    need some hundred pairs of that kind. The result is kept in the model directory, and --confidence uses it.
    """
    bitext = open_pairs(context, model, [*data, columns], ensemble=None, output=None, wanted=(source, target))
    from dragoman.data.sampling import sampled
    from dragoman.decoding.translator import Translator
    from dragoman.evaluation.calibration import MOST
    from dragoman.evaluation.calibration import calibrate as fit_to
    from dragoman.storage.beside import CONFIDENCE, read_sketch, write_confidence
    from dragoman.system.atomic import check_output
    from dragoman.system.processes import available_workers

    check_output(model / CONFIDENCE)
    with context.display().status("Translating the pairs"):
        sample = sampled(bitext, MOST)
        with Translator.load(model, languages=(source, target), workers=workers or available_workers()) as translator:
            calibration = fit_to(translator, sample, read_sketch(model))
    write_confidence(model, calibration.model)
    if context.as_json:
        options.print_json({"model": str(model), **calibration.to_dict()})
        return
    from dragoman.terminal import console
    from dragoman.terminal.tables import results_table

    rows = [
        (f"{part.expected:.2f}", f"{part.measured:.2f}", f"{part.count:,} translations") for part in calibration.bins
    ]
    console().print(results_table(f"Confidence and measured chrF++ / 100, {calibration.model.pairs:,} pairs", rows))
    print(
        f"On pairs that were left out, the confidence is off by {calibration.error:.3f} on average. Trusting it, the "
        f"mean loss is {calibration.risk:.3f}; trusting log-probabilities, {calibration.risk_by_log_prob:.3f}."
    )


def _same_pairs(name: str, bitext: Iterable["Pair"], first: "Sequence[Pair]") -> "list[Pair]":
    """The pairs as the model `name` reads them. Raises `UsageError` if they are others than the `first` model's."""
    from dragoman.text.characters import without_label

    pairs = list(bitext)
    plain, first_plain = ([(without_label(source), target) for source, target in read] for read in (pairs, first))
    if plain != first_plain:
        raise UsageError(f"{name} is for other languages, and reads other pairs of this file; evaluate it alone.")
    return pairs


def _translations(path: Path, *, pairs: int) -> list[str]:
    """The lines of a file, one for each pair. Raises `DataError` if there are more or fewer."""
    from dragoman.formats.text_files import open_input, read_lines

    with open_input(path) as stream:
        lines = list(read_lines(stream, str(path)))
    if len(lines) != pairs:
        raise DataError(
            f"{path} has {len(lines):,} line{'s' * (len(lines) != 1)}, but there are {pairs:,} pairs; give one "
            "translation a line, in their order."
        )
    return lines


def _print_one(
    context: Context,
    evaluation: "Evaluation",
    pairs: Sequence[tuple[str, str]],
    title: str,
    output: Path | None,
    examples: int,
) -> None:
    """Print the scores of a model, and write its translations to a file."""
    from dragoman.text.characters import one_line
    from dragoman.text.labels import readable

    translated = [
        {"source": readable(source), "translation": translation, "reference": reference}
        for (source, reference), translation in zip(pairs, evaluation.translations, strict=True)
    ]
    random.Random(1).shuffle(translated)  # the examples are the same ones each time
    try:
        if output:
            with whole_output(output) as out:
                out.writelines(one_line(translation) + "\n" for translation in evaluation.translations)
    finally:  # the scores are printed even if the file cannot be written
        options.print_scores(context, evaluation, title, examples=translated[:examples])


def _print_systems(
    context: Context,
    scores: "Mapping[str, dict[str, Score]]",
    evaluations: "Mapping[str, Evaluation]",
    title: str,
    pairs: int,
    warnings: Sequence[str],
) -> None:
    """Print the scores of several systems, whether they differ, and why they may be misleading."""
    from rich.markup import escape

    from dragoman.evaluation.scores import as_numbers, signatures
    from dragoman.evaluation.significance import compare_systems, sentences
    from dragoman.metrics import MAIN, SHOWN
    from dragoman.terminal import console
    from dragoman.terminal.tables import comparison_table

    numbers: dict[str, dict[str, Any]] = {}
    for name, of_system in scores.items():
        evaluation = evaluations.get(name)
        numbers[name] = (
            evaluation.to_dict()
            if evaluation
            else as_numbers(of_system) | {"signatures": signatures(of_system), "sentences": pairs}
        )
    comparisons = compare_systems(scores)
    for warning in dict.fromkeys(warnings):
        context.display().warn(warning)
    if context.as_json:
        systems = [{"system": name, **values} for name, values in numbers.items()]
        options.print_json({"systems": systems, "comparisons": [test.to_dict() for test in comparisons]})
        return
    rows = {
        metric.label: [metric.write_with_interval(values, more_digits=1) for values in numbers.values()]
        for metric in SHOWN
        if any(metric.name in values for values in numbers.values())
    }
    counted = f"{pairs:,} sentence{'s' * (pairs != 1)}"
    console().print(escape(f"{title}, {counted}"), comparison_table(list(numbers), rows))
    for sentence in sentences(comparisons):
        print(sentence)
    for label, signature in sorted({(MAIN.label, values["signatures"][MAIN.name]) for values in numbers.values()}):
        print(f"{label} is {signature}.")
