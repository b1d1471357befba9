"""The command that looks inside a model: inspect.

Budget: a command takes more parameters than a function may, since they are its options.
"""

import json
from pathlib import Path
from typing import Annotated

from dragoman.cli.checks import check_decoding, check_model
from dragoman.cli.options import OUTPUT, Argument, Context, File, Json, Model, Quiet, Target, app, decoding


@app.command(settings=decoding("beam_size", "length_penalty"))
def inspect(
    context: Context,
    model: Model,
    text: Annotated[str, Argument(metavar="TEXT", help="A sentence, in quotes.")],
    target: Target = None,
    output: Annotated[
        Path | None,
        File(*OUTPUT, help="The page to write. Default: inspection.html, without --json."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Look inside a translation, on one HTML page: probabilities of words, all attention, the beam as a tree."""
    check_model(model, [text])
    config = check_decoding(model, context.obj)
    from dragoman.cli.files import check_output, open_output

    path = output if as_json else output or Path("inspection.html")
    check_output(path)
    from dragoman.report import inspect_translation, render_inspection
    from dragoman.storage.model_directory import ModelDirectory
    from dragoman.system.device import choose_device
    from dragoman.terminal import Display

    loaded = ModelDirectory.load(model, device=choose_device())
    options = {"target": target, "beam_size": config.beam_size, "length_penalty": config.length_penalty}
    inspection = inspect_translation(loaded, text, **options)
    if path:
        with open_output(path) as page:
            page.write(render_inspection(inspection))
    if as_json:
        print(json.dumps(inspection.to_dict() | {"attention": inspection.attention_dict()}, ensure_ascii=False))
    else:
        Display(quiet=quiet, as_json=as_json).note(f"{inspection.target_text}  (score {inspection.score:.2f})")
        print(path)
