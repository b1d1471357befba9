"""Commands that take other people's models in: import.

Budget: a command takes more parameters than a function may, since they are its options.
"""

import json
from pathlib import Path
from typing import Annotated

from dragoman.cli.checks import check_import
from dragoman.cli.options import Argument, Json, Option, Quiet, app, choice
from dragoman.interop.styles import STYLES

STYLE = choice("style", tuple(STYLES))
TOKENIZER = {"metavar": "FILE", "show_default": "none, sentences are ids"}


@app.command(
    "import",
    epilog="dragoman import tmodel_19.pt runs/en-it --style prenorm --num-heads 8 "
    "--source-tokenizer tokenizer_en.json --target-tokenizer tokenizer_it.json\n"
    "dragoman import model.weights.h5 runs/en-fr --style keras --num-heads 8 "
    "--source-tokenizer english.txt --target-tokenizer french.txt",
)
def import_(
    file: Annotated[Path, Argument(metavar="FILE", help="Weights that a notebook saved.", show_default=False)],
    output: Annotated[Path, Argument(metavar="OUT", help="Model directory to write.", show_default=False)],
    style: Annotated[str, Option(**STYLE, help="Which notebook's code they are of.", show_default=False)],
    num_heads: Annotated[
        int, Option(metavar="N", min=1, help="Its attention heads, which the weights do not tell.", show_default=False)
    ],
    source_tokenizer: Annotated[
        Path | None, Option(**TOKENIZER, help="JSON of `tokenizers`, or a text file with a word a line in index order.")
    ] = None,
    target_tokenizer: Annotated[Path | None, Option(**TOKENIZER, help="Likewise.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a model directory of the weights and tokenizers that a notebook saved."""
    tokenizers = check_import(file, output, style=style, source=source_tokenizer, target=target_tokenizer)
    from dragoman.interop.importing import NotebookFiles, import_notebook
    from dragoman.terminal import Display, command

    display = Display(quiet=quiet)
    imported = import_notebook(NotebookFiles(file, style, num_heads, tokenizers), output, note=display.note)
    config = imported.model.config
    if as_json:
        print(json.dumps({"model": str(output), "style": style, "architecture": config.to_dict()}))
    display.note(
        f"{output} holds {config.num_encoder_layers} + {config.num_decoder_layers} layers of width {config.d_model}, "
        f"with vocabularies of {config.source_vocab_size:,} and {config.target_vocab_size:,} tokens."
    )
    display.note(f"Try it:  {command('translate', str(output), '5 7 11' if tokenizers is None else 'Hello.')}")
