"""The command that looks inside a model: inspect.

Budget: a command takes more parameters than a function may, since they are its options.
"""

from pathlib import Path
from typing import Annotated

from dragoman.cli.checks import check_decoding, check_model, check_output, open_output
from dragoman.cli.options import OUTPUT, Argument, Context, File, Model, Target, app, decoding, print_json


@app.command(settings=lambda: decoding("beam_size", "length_penalty"))
def inspect(
    context: Context,
    model: Model,
    text: Annotated[str, Argument(metavar="TEXT", help="A sentence, in quotes.")],
    target: Target = None,
    output: Annotated[
        Path | None,
        File(*OUTPUT, help="The page to write. Default: inspection.html, without --json."),
    ] = None,
) -> None:
    """Look inside a translation, on one HTML page: probabilities of words, all attention, the beam as a tree."""
    check_model(model, [text])
    config = check_decoding(model, context.settings)
    path = output if context.as_json else output or Path("inspection.html")
    check_output(path)
    from dragoman.report import inspect_translation, render_inspection
    from dragoman.storage.model_directory import ModelDirectory

    options = {"target": target, "beam_size": config.beam_size, "length_penalty": config.length_penalty}
    inspection = inspect_translation(ModelDirectory.load(model), text, **options)
    if path:
        with open_output(path) as page:
            page.write(render_inspection(inspection))
    if context.as_json:
        print_json(inspection.to_dict() | {"attention": inspection.attention_dict()})
    else:
        context.display().note(f"{inspection.target_text}  (score {inspection.score:.2f})")
        print(path)
