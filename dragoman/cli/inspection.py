"""Commands that look inside a model: inspect, tokenize."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from dragoman.cli import options
from dragoman.cli.checks import check_decoding, check_model
from dragoman.cli.options import OUTPUT, Argument, Context, File, Model, Option, Target, app, beam_search, print_json
from dragoman.system.atomic import check_output


@app.command(needs_torch=True, settings=beam_search)
def inspect(
    context: Context,
    model: Model,
    text: Annotated[str, Argument(metavar="TEXT", help="A sentence, in quotes.")],
    target: Target = None,
    output: Annotated[
        Path | None,
        File(*OUTPUT, help="Page to write. Default: inspection.html; none with --json."),
    ] = None,
    source_language: options.From = None,
    target_language: options.To = None,
) -> None:
    """Look inside a translation, on one HTML page: probabilities of words, all attention, the beam as a tree."""
    check_model(model, [text])
    from dragoman.storage.validate import check_languages

    check_languages(model, source_language, target_language)
    config = check_decoding(model, context.settings)
    path = output if context.as_json else output or Path("inspection.html")
    check_output(path)
    from dragoman.report import inspect_translation, render_inspection
    from dragoman.storage.model_directory import ModelDirectory
    from dragoman.system.atomic import encoded, write_output

    directory = ModelDirectory.load(model).speaking(source_language, target_language)
    directory.require_languages()
    inspection = inspect_translation(replace(directory, decoding=config), text, target=target)
    try:
        if path:
            write_output(path, encoded(render_inspection(inspection)))
    finally:  # the result is printed even if the page cannot be written
        if context.as_json:
            print_json(inspection.to_dict() | {"attention": inspection.attention_dict()})
        else:
            context.display().note(f"{inspection.target_text}  (score {inspection.score:.2f})")
    if not context.as_json:
        print(path)


@app.command(
    epilog='dragoman tokenize runs/en-fr "The red house is old."\ndragoman tokenize runs/en-fr --input test.en --json'
)
def tokenize(
    context: Context,
    model: Model,
    text: Annotated[list[str] | None, Argument(metavar="[TEXT ...]", help="Texts. Default: --input, or stdin.")] = None,
    input_file: Annotated[Path | None, File("--input", "-i", help="File to read line by line.")] = None,
    target: Annotated[bool, Option(help="Read the texts as those of the target language.")] = False,
    source_language: options.From = None,
    target_language: options.To = None,
) -> None:
    """Show the tokens of a text as the model reads them, each above its id; [brackets] hold what is copied."""
    check_model(model, text or ())
    from dragoman.cli.files import check_input

    check_input(text, input_file)
    from dragoman.formats.text_files import open_input, read_lines
    from dragoman.storage.directory import ArrayDirectory
    from dragoman.system.streams import spelled

    directory = ArrayDirectory.load(model).speaking(source_language, target_language)
    with nullcontext() if text else open_input(input_file) as stream:
        for line in text or read_lines(stream, str(input_file or "stdin")):
            tokens, ids = directory.tokenize(line, target=target)
            if context.as_json:
                print_json({"text": line, "tokens": tokens, "ids": ids})
                continue
            columns = [(spelled(token), str(id_)) for token, id_ in zip(tokens, ids, strict=True)]
            print("  ".join(token.rjust(len(id_)) for token, id_ in columns))
            print("  ".join(id_.rjust(len(token)) for token, id_ in columns))
