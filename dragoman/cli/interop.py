"""Commands that take other people's models in: import.

Budget: a command takes more parameters than a function may, since they are its options.
"""

from pathlib import Path
from typing import Annotated

from dragoman.cli.options import Argument, Context, File, Option, app, choice, print_json
from dragoman.errors import UsageError, command_line
from dragoman.interop.styles import STYLES

STYLE = choice("style", tuple(STYLES))
WORDS = (
    "JSON of the library `tokenizers`, or a text file with one word on each line, sorted by token id. Default: none, "
    "sentences are token ids."
)


@app.command(
    "import",
    epilog="dragoman import tmodel_19.pt runs/en-it --style prenorm --num-heads 8 "
    "--source-tokenizer tokenizer_en.json --target-tokenizer tokenizer_it.json\n"
    "dragoman import model.weights.h5 runs/en-fr --style keras --num-heads 8 "
    "--source-tokenizer english.txt --target-tokenizer french.txt",
)
def import_(
    context: Context,
    file: Annotated[Path, Argument(metavar="FILE", help="Weights that a notebook saved.")],
    output: Annotated[Path, Argument(metavar="OUT", help="Model directory to write.")],
    style: Annotated[str, Option(**STYLE, help="Which notebook's code the weights belong to.")],
    num_heads: Annotated[int, Option(metavar="N", min=1, help="Attention heads, which the weights do not tell.")],
    source_tokenizer: Annotated[Path | None, File(help=f"Source tokenizer: {WORDS}")] = None,
    target_tokenizer: Annotated[Path | None, File(help=f"Target tokenizer: {WORDS}")] = None,
) -> None:
    """Make a model directory of the weights and tokenizers that a notebook saved."""
    from dragoman.data.readers.text_io import open_input
    from dragoman.storage.run_directory import refuse_to_overwrite
    from dragoman.system.optional import load

    tokenizers = None if source_tokenizer is None else (source_tokenizer, target_tokenizer)
    if (source_tokenizer is None) != (target_tokenizer is None):
        raise UsageError(
            "Give --source-tokenizer and --target-tokenizer, the same file twice if both sides share it; or neither, "
            "and sentences are token ids."
        )
    for path in (file, *(tokenizers or ())):
        open_input(path).close()
    if style == "keras":
        load("h5py", extra="keras", purpose="Reading weights of Keras")
    refuse_to_overwrite(output)
    from dragoman.interop.importing import NotebookFiles, import_notebook

    display = context.display()
    imported = import_notebook(NotebookFiles(file, style, num_heads, tokenizers), output, note=display.note)
    config = imported.model.config
    if context.as_json:
        print_json({"model": str(output), "style": style, "architecture": config.to_dict()})
    display.note(
        f"{output} holds {config.num_encoder_layers} + {config.num_decoder_layers} layers of width {config.d_model}, "
        f"with vocabularies of {config.source_vocab_size:,} and {config.target_vocab_size:,} tokens."
    )
    display.note(f"Try it:  {command_line('translate', output, '5 7 11' if tokenizers is None else 'Hello.')}")
