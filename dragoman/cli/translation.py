"""Commands that use models: translate, evaluate.

Budget: a command takes more parameters than a function may, since they are its options.
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from dragoman.cli.checks import check_evaluation, check_translation
from dragoman.cli.options import (
    Argument,
    BeamSize,
    Json,
    LengthPenalty,
    Model,
    Option,
    Precision,
    Quiet,
    Workers,
    app,
    print_scores,
)


@app.command(
    epilog='dragoman translate runs/en-fr "The red house is old."\n'
    "dragoman translate runs/en-fr --input test.en --output test.out.fr\n"
    "cat test.en | dragoman translate runs/en-fr --beam-size 1 > test.greedy.fr"
)
def translate(
    model: Model,
    text: Annotated[
        list[str] | None,
        Argument(metavar="[TEXT ...]", help="Sentences; else lines of --input or stdin.", show_default=False),
    ] = None,
    input_file: Annotated[Path | None, Option("--input", "-i", help="File with a sentence a line.")] = None,
    output_file: Annotated[Path | None, Option("--output", "-o", help="File to write instead of stdout.")] = None,
    beam_size: BeamSize = 5,
    length_penalty: LengthPenalty = 1.0,
    precision: Precision = "auto",
    workers: Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Translate sentences: as many lines out as lines in, in the same order."""
    check_translation(model, text, input_file, output_file)
    from dragoman.decoding.translator import Translator
    from dragoman.decoding.workers import available_workers
    from dragoman.lines import one_line, open_input, open_output, read_lines
    from dragoman.terminal import Display

    count = 1 if text else workers or available_workers()
    # Translations that scroll by show the progress themselves.
    visible = output_file is None and sys.stdout.isatty()
    with (
        # The input is opened first: an output is never emptied for an input that is not there.
        nullcontext() if text else open_input(input_file) as stream,
        Translator.load(model, precision=precision, workers=count) as translator,
        open_output(output_file, source=input_file) as out,
        Display(quiet=quiet or visible).progress("Translating") as advance,
    ):
        lines = text or read_lines(stream, str(input_file or "stdin"))
        for translation in translator.stream(lines, beam_size=beam_size, length_penalty=length_penalty):
            print(translation.to_json() if as_json else one_line(translation.text), file=out)
            advance(1)


@app.command(epilog="dragoman evaluate runs/en-fr test.en test.fr\ndragoman evaluate runs/en-fr test.tsv --json")
def evaluate(
    model: Model,
    data: Annotated[
        list[str],
        Argument(metavar="DATA | SOURCE REFERENCE", help="A TSV file, or two aligned files.", show_default=False),
    ],
    output_file: Annotated[Path | None, Option("--output", "-o", help="File for the translations.")] = None,
    beam_size: BeamSize = 5,
    length_penalty: LengthPenalty = 1.0,
    precision: Precision = "auto",
    workers: Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on sentence pairs: BLEU, chrF++, TER, perplexity, token accuracy, speed."""
    check_evaluation(model, data, output_file)
    from dragoman.config import DecodingConfig
    from dragoman.decoding.workers import available_workers
    from dragoman.lines import one_line, open_output
    from dragoman.scoring import evaluate_files
    from dragoman.terminal import Display

    search = DecodingConfig(beam_size=beam_size, length_penalty=length_penalty)
    options = {"search": search, "precision": precision, "workers": workers or available_workers()}
    with open_output(output_file) if output_file else nullcontext() as out:
        with Display(quiet=quiet).status("Translating and scoring"):
            evaluation = evaluate_files(model, data, **options)
        if out:
            out.writelines(one_line(text) + "\n" for text in evaluation.translations)
    print_scores(evaluation, f"{model} on {' '.join(data)}", as_json=as_json)
