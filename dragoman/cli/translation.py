"""Commands that use models: translate, score."""

import gc
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dragoman.cli import options
from dragoman.cli.checks import check_adapter, check_decoding, check_model, open_output, open_pairs
from dragoman.cli.notices import mention_exact_memory, mention_missing_kernels
from dragoman.cli.options import OUTPUT, Argument, Context, Ensemble, File, Model, Option, Workers, app, decoding
from dragoman.errors import command_line, respell
from dragoman.system.atomic import check_output

if TYPE_CHECKING:
    from dragoman.config.decoding import DecodingConfig
    from dragoman.decoding.translator import Translator

Output = Annotated[Path | None, File(*OUTPUT, help="File to write instead of stdout.")]


@app.command(
    settings=decoding,
    epilog='dragoman translate runs/en-fr "The red house is old."\n'
    "dragoman translate runs/en-fr --input test.en --output test.out.fr\n"
    "dragoman translate runs/en-fr --input 'in/*.txt' --output out/ --shard 1/8 --resume\n"
    "dragoman translate runs/en-fr --document 'in/*.docx' --output out/\n"
    "cat test.en | dragoman translate runs/en-fr --beam-size 1 > test.greedy.fr",
)
def translate(
    context: Context,
    model: Model,
    text: Annotated[list[str] | None, Argument(metavar="[TEXT ...]", help="Texts. Default: --input, or stdin.")] = None,
    inputs: Annotated[
        list[str] | None,
        File("--input", "-i", help="File to translate line by line; may be repeated, or a pattern, such as 'in/*'."),
    ] = None,
    documents: Annotated[
        list[str] | None,
        File(
            "--document",
            help="Document to translate instead, which --output gets in the same format and layout; may be repeated, "
            "or a pattern, such as 'in/*.docx'.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        File(*OUTPUT, help="File to write instead of stdout, or a folder, such as out/, for many files."),
    ] = None,
    shard: Annotated[str | None, Option(metavar="K/N", help="Every N-th of many files, from the K-th on.")] = None,
    resume: Annotated[bool, Option("--resume", help="Leave out files that are translated already.")] = False,
    glossary: options.Glossary = None,
    forbid: options.Forbidden = None,
    memory: options.Remembered = None,
    adapter: options.Adapter = None,
    source: options.From = None,
    target: options.To = None,
    ensemble: Ensemble = None,
    precision: options.Precision = "auto",
    workers: Workers = None,
) -> None:
    """Translate text: as many lines out as lines in, in the same order, however many sentences a line has.

    With --n-best, a line is the number of the input line, the score and the translation, separated by tabs. With
    --alignments, a last column holds pairs of source and target words, counted from 0, and with --confidence, one
    after the translation how far it can be trusted.

    Many files or documents are translated into a folder, each into one of the same name. Files of lines are compressed
    alike; a line that cannot be translated becomes an empty one, and NAME.rejected.tsv says why.

    The end of its name tells the format of a document: text, Markdown, HTML, subtitles, PO, XLIFF, TMX, JSON, YAML,
    DOCX or ODT.
    """
    check_model(model, text or (), ensemble=ensemble)
    from dragoman.storage.validate import check_languages

    check_languages(model, source, target)
    from dragoman.bulk.jobs import Job
    from dragoman.cli.bulk import plan_files, translate_documents, translate_files, wants_folder
    from dragoman.cli.files import (
        check_document,
        check_format,
        check_input,
        read_search_terms,
        refuse_office_document,
    )

    input_file = output_file = None
    document: Path | None = None
    read = (glossary, forbid, memory, adapter)
    to_folder = wants_folder(documents or inputs, output, shard, resume)
    if to_folder and documents:
        jobs = plan_files(documents, output, shard, option="--document", others=[text, inputs], read=read)
        for job in jobs:  # before any of them is translated
            check_format(job.source)
    elif to_folder:
        jobs = plan_files(inputs, output, shard, option="--input", others=[text], read=read)
    else:
        input_file = Path(inputs[0]) if inputs else None
        document = Path(documents[0]) if documents else None
        output_file = None if output is None else Path(output)
        if document:
            check_document(document, output_file, [text, input_file])
        else:
            refuse_office_document(model, input_file)
            check_input(text, input_file)
    check_output(output_file, read=(input_file, document, *read))
    terms = read_search_terms(glossary, forbid)
    implied = {"checks": True} if context.as_json and not documents else {}
    config = check_decoding(model, implied | context.settings | terms)
    mention_missing_kernels(context)
    if memory:
        from dragoman.decoding.recall import refuse_no_memory

        refuse_no_memory(memory)
    check_adapter(adapter)
    load = _loader(
        model,
        (source, target),
        precision=precision,
        workers=1 if text else workers,
        ensemble=ensemble,
        memory=memory,
        adapter=adapter,
        note=context.display().note,
    )
    if to_folder and documents:
        translate_documents(context, jobs, load, config, resume=resume)
    elif to_folder:
        translate_files(context, jobs, load, config, resume=resume)
    elif document:
        translate_documents(context, [Job(document, output_file)], load, config)
    else:
        _warn_of_file_names(context, model, text or [])
        translate_text(context, text, input_file, output_file, load, config)


def _loader(
    model: Path,
    languages: tuple[str | None, str | None],
    *,
    precision: str,
    workers: int | None,
    ensemble: list[Path] | None,
    memory: Path | None = None,
    adapter: Path | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Callable[[], "Translator"]:
    """Function that loads the translator. It calls `note` if the model uses a part of the memory alone."""

    def load() -> "Translator":
        # What is loaded stays: to look through all of it for garbage, now or later, takes a tenth of the time.
        gc.disable()
        try:
            from dragoman.decoding.translator import Translator
            from dragoman.system.processes import available_workers

            translator = Translator.load(
                model,
                languages=languages,
                precision=precision,
                workers=workers or available_workers(),
                ensemble=ensemble or (),
                memory=memory,
                adapter=adapter,
            )
            if memory:
                mention_exact_memory(note, model, translator)
            return translator
        finally:
            gc.freeze()
            gc.enable()

    return load


def _warn_of_file_names(context: Context, model: Path, texts: list[str]) -> None:
    """Warn of texts that name a file, with the command that translates it."""
    from dragoman.cli.files import document_command

    for text in texts:
        if os.path.isfile(text):
            command = document_command(model, text)
            what = "the document" if command else "the lines of the file"
            command = command or command_line("translate", model, "--input", text)
            context.display().warn(f"{text} is translated as a text; to translate {what}: {command}")


def translate_text(
    context: Context,
    texts: list[str] | None,
    input_file: Path | None,
    output_file: Path | None,
    load: Callable[[], "Translator"],
    config: "DecodingConfig",
) -> None:
    """Print the translation of each text, or else of each line of a file or stdin, as soon as it is made."""
    from dragoman.bulk.tally import Tally
    from dragoman.cli.files import notice_documents, untranslated
    from dragoman.cli.live import live_lines
    from dragoman.formats.text_files import open_input, read_lines

    # Translations that scroll by show the progress themselves.
    display = context.display(hidden=output_file is None and sys.stdout.isatty())
    name = str(input_file or "stdin")
    numbered = "n_best" in context.settings or config.n_best > 1
    with (
        # The input is opened first: an output is never emptied for an input that is not there.
        nullcontext() if texts else open_input(input_file) as stream,
        load() as translator,
        open_output(output_file) as out,
        display.progress("Translating") as advance,
    ):
        if texts:
            lines = texts
        else:
            lines = read_lines(stream, name) if input_file else live_lines(stream, name)
            lines = notice_documents(lines, name, display.warn)
        left = Tally()
        number = 0
        for number, translation in enumerate(translator.translate_windows(lines, config), start=1):
            place = f"text {number}" if texts else f"line {number:,}"
            if translation.untranslated:
                left.add(f"{place} ({translation.confidence or 0.0:.3f})")
            if translation.warning:
                place = place if texts else f"{name}, {place}"
                display.warn(f"{place}: {respell(translation.warning, ['max_source_length'], options.option_name)}")
            rows = [translation.to_json()]
            if not context.as_json:
                rows = translation.to_rows(number if numbered else None, with_confidence=config.confidence)
            if not context.as_json:
                for fault in translation.faults:
                    display.warn(f"{place}: {fault}")
            # Flushed: a program that waits for this line may write the next one only after it.
            print("\n".join(rows), file=out, flush=True)
            advance(1)
    if left.count:
        display.warn(untranslated(left, number, config, "texts" if texts else "lines"))


@app.command(settings=lambda: decoding("length_penalty", "length_offset"))
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
    load = _loader(model, (source, target), precision=precision, workers=workers, ensemble=ensemble)
    from dragoman.evaluation.pair_scores import score_pairs

    # Scores that scroll by show the progress themselves.
    display = context.display(hidden=output is None and sys.stdout.isatty())
    with (
        load() as translator,
        open_output(output) as out,
        display.progress("Scoring") as advance,
    ):
        for scored in score_pairs(
            translator, bitext, length_penalty=config.length_penalty, length_offset=config.length_offset
        ):
            print(scored.to_json() if context.as_json else scored.to_row(), file=out)
            advance(1)
