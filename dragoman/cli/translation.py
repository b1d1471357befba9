"""Commands that use models: translate, score, evaluate."""

import gc
import os
import random
import sys
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dragoman.cli import options
from dragoman.cli.checks import (
    check_decoding,
    check_model,
    check_output,
    open_output,
    open_pairs,
    whole_output,
)
from dragoman.cli.notices import mention_missing_kernels
from dragoman.cli.options import OUTPUT, Argument, Context, Ensemble, File, Model, Option, Workers, app, decoding
from dragoman.errors import command_line, respell

if TYPE_CHECKING:
    from dragoman.config.decoding import DecodingConfig

Output = Annotated[Path | None, File(*OUTPUT, help="File to write instead of stdout.")]


@app.command(
    settings=decoding,
    epilog='dragoman translate runs/en-fr "The red house is old."\n'
    "dragoman translate runs/en-fr --input test.en --output test.out.fr\n"
    "dragoman translate runs/en-fr --input 'in/*.txt' --output out/ --shard 1/8 --resume\n"
    "cat test.en | dragoman translate runs/en-fr --beam-size 1 > test.greedy.fr",
)
def translate(
    context: Context,
    model: Model,
    text: Annotated[list[str] | None, Argument(metavar="[TEXT ...]", help="Texts, else --input or stdin.")] = None,
    inputs: Annotated[
        list[str] | None,
        File("--input", "-i", help="Text, line by line; repeated, or a pattern in quotes, for many files."),
    ] = None,
    document: Annotated[
        Path | None, File(help="A document to translate instead; --output gets it with its form kept.")
    ] = None,
    output: Annotated[
        str | None,
        File(*OUTPUT, help="File to write instead of stdout, or a folder, such as out/, for many files."),
    ] = None,
    shard: Annotated[str | None, Option(metavar="K/N", help="Of many files every N-th one, from the K-th on.")] = None,
    resume: Annotated[bool, Option("--resume", help="Leave out files whose translations are there.")] = False,
    glossary: Annotated[Path | None, File(help="Source terms and, after a tab, target terms that must appear.")] = None,
    forbid: Annotated[Path | None, File(help="Target terms that must not appear, one on each line.")] = None,
    source: options.From = None,
    target: options.To = None,
    ensemble: Ensemble = None,
    precision: options.Precision = "auto",
    workers: Workers = None,
) -> None:
    """Translate text: as many lines out as lines in, in the same order, however many sentences a line has.

    With --n-best, a line is the number of the input line, the score and the translation, separated by tabs. With
    --alignments, a last column holds pairs of source and target words, counted from 0.

    Of many files, each becomes one of the same name, packed alike. Lines that cannot be translated are empty there and
    listed in NAME.rejected.tsv.

    Documents are texts, Markdown, HTML, subtitles, PO, XLIFF, TMX, JSON, YAML, DOCX and ODT, by the end of their names.
    """
    check_model(model, text or (), ensemble=ensemble)
    from dragoman.storage.validate import check_languages

    check_languages(model, source, target)
    from dragoman.cli.bulk import is_bulk, plan_bulk, translate_bulk
    from dragoman.cli.files import check_document, check_input, notice_documents, read_glossary, read_terms

    many = is_bulk(inputs, output, shard, resume)
    input_file = Path(inputs[0]) if inputs and not many else None
    output_file = Path(output) if output is not None and not many else None
    if many:
        jobs = plan_bulk(inputs, output, shard, [text, document])
    elif document:
        check_document(document, output_file, [text, input_file])
    else:
        check_input(text, input_file)
    check_output(output_file, read=(input_file, document, glossary, forbid))
    readers = {"glossary": (read_glossary, glossary), "forbid": (read_terms, forbid)}
    terms = {name: read(path) for name, (read, path) in readers.items() if path}
    config = check_decoding(model, context.settings | terms)
    from dragoman.cli.live import live_lines
    from dragoman.decoding.translator import Translator
    from dragoman.formats.text_files import open_input, read_lines

    mention_missing_kernels(context)
    loading = _loading(precision, 1 if text else workers, ensemble, (source, target))
    if many:
        translate_bulk(context, jobs, partial(Translator.load, model, **loading), config, resume=resume)
        return
    if document:
        _translate_document(context, model, (document, output_file), config, loading)
        return
    # Translations that scroll by show the progress themselves.
    display = context.display(hidden=output_file is None and sys.stdout.isatty())
    for each in filter(os.path.isfile, text or ()):
        by_line = command_line("translate", model, "--input", each)
        display.warn(f"{each} is translated as a text; to translate the lines of the file: {by_line}")
    with (
        # The input is opened first: an output is never emptied for an input that is not there.
        nullcontext() if text else open_input(input_file) as stream,
        Translator.load(model, **loading) as translator,
        open_output(output_file) as out,
        display.progress("Translating") as advance,
    ):
        name = str(input_file or "stdin")
        read = read_lines(stream, name) if input_file else live_lines(stream, name)
        lines = text or notice_documents(read, name, display.warn)
        numbered = "n_best" in context.settings or config.n_best > 1
        gc.freeze()  # what is loaded stays: to look through all of it for garbage takes a tenth of the time
        for number, translation in enumerate(translator.stream(lines, config), start=1):
            if translation.warning:
                where = f"text {number}" if text else f"{name}, line {number}"
                display.warn(f"{where}: {respell(translation.warning, ['max_source_length'], options.option_name)}")
            rows = [translation.to_json()] if context.as_json else translation.to_rows(number if numbered else None)
            # Flushed: a program that waits for this line may write the next one only after it.
            print("\n".join(rows), file=out, flush=True)
            advance(1)


def _translate_document(
    context: Context, model: Path, files: tuple[Path, Path | None], config: "DecodingConfig", loading: dict[str, Any]
) -> None:
    """Write the translation of the first file to the second one."""
    from dragoman.decoding.translator import Translator
    from dragoman.documents.registry import translate_document
    from dragoman.documents.translate import engine_of
    from dragoman.formats.text_files import open_input
    from dragoman.system.atomic import write_output

    document, output = files
    display = context.display()
    with open_input(document) as stream:
        content = stream.read()
    with Translator.load(model, **loading) as translator, display.progress("Translating") as advance:
        engine = engine_of(translator, config, done=partial(advance, 1))
        translated = translate_document(content, str(document), translator.languages, engine)
    write_output(output, translated.content)
    report = translated.report
    display.note(report.outcome(str(document), str(output)))
    for note in report.notes():
        display.warn(f"{document} {note}")
    if context.as_json:
        options.print_json({"document": str(document), "output": str(output), **asdict(report)})


def _loading(
    precision: str, workers: int | None, ensemble: list[Path] | None, languages: tuple[str | None, str | None]
) -> dict[str, Any]:
    """The keywords with which models are loaded."""
    from dragoman.system.processes import available_workers

    sizes = {"precision": precision, "workers": workers or available_workers()}
    return sizes | {"ensemble": ensemble or (), "languages": languages}


@app.command(settings=lambda: decoding("length_penalty"))
def score(
    context: Context,
    model: Model,
    data: Annotated[list[str], options.pairs()],
    columns: options.Columns = None,
    output: Output = None,
    source: options.From = None,
    target: options.To = None,
    ensemble: Ensemble = None,
    precision: options.Precision = "float32",
    workers: Workers = None,
) -> None:
    """Print how probable a model finds given translations: score, log-probability and number of tokens of each pair."""
    bitext = open_pairs(context, model, [*data, columns], ensemble=ensemble, output=output, wanted=(source, target))
    config = check_decoding(model, context.settings)
    from dragoman.decoding.translator import Translator
    from dragoman.evaluation.evaluate import score_pairs

    display = context.display(hidden=output is None and sys.stdout.isatty())
    with (
        Translator.load(model, **_loading(precision, workers, ensemble, (source, target))) as translator,
        open_output(output) as out,
        display.progress("Scoring") as advance,
    ):
        for scored in score_pairs(translator, bitext, length_penalty=config.length_penalty):
            print(scored.to_json() if context.as_json else scored.to_row(), file=out)
            advance(1)


@app.command(
    settings=lambda: decoding("beam_size", "length_penalty"),
    epilog="dragoman evaluate runs/en-fr test.en test.fr\ndragoman evaluate runs/en-fr test.tsv --json",
)
def evaluate(
    context: Context,
    model: Model,
    data: Annotated[list[str], options.pairs("SOURCE REFERENCE")],
    columns: options.Columns = None,
    output: Annotated[Path | None, File(*OUTPUT, help="File to write the translations to.")] = None,
    examples: Annotated[
        int, Option(metavar="N", min=0, help="Also show N of the pairs, drawn at random, with their translations.")
    ] = 0,
    source: options.From = None,
    target: options.To = None,
    ensemble: Ensemble = None,
    precision: options.Precision = "auto",
    workers: Workers = None,
) -> None:
    """Score a model on sentence pairs: BLEU, chrF++, TER, perplexity, token accuracy, speed."""
    bitext = open_pairs(context, model, [*data, columns], ensemble=ensemble, output=output, wanted=(source, target))
    search = check_decoding(model, context.settings)
    from dragoman.decoding.ensemble import load_ensemble
    from dragoman.evaluation.evaluate import evaluate_pairs
    from dragoman.system.processes import available_workers
    from dragoman.text.characters import one_line
    from dragoman.text.labels import readable

    with context.display().status("Translating and scoring"):
        pairs = list(bitext)
        loaded = load_ensemble([model, *(ensemble or ())], languages=(source, target))
        work = {"precision": precision, "workers": workers or available_workers()}
        evaluation = evaluate_pairs(loaded, pairs, search=search, **work)
    rows = zip(pairs, evaluation.translations, strict=True)
    named = [{"source": readable(pair[0]), "translation": text, "reference": pair[1]} for pair, text in rows]
    random.Random(1).shuffle(named)  # the same ones each time
    try:
        if output:
            with whole_output(output) as out:
                out.writelines(one_line(text) + "\n" for text in evaluation.translations)
    finally:  # a full disk costs the file, and not the scores
        options.print_scores(context, evaluation, f"{model} on {' '.join(data)}", examples=named[:examples])
