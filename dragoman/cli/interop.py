"""Commands that convert models from and to other software: import, export."""

import os
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dragoman.cli import options
from dragoman.cli.options import Argument, Context, File, Option, app, choice, print_json
from dragoman.errors import DataError, UsageError, command_line
from dragoman.interop.imports.styles import STYLES, chosen_style

if TYPE_CHECKING:
    from dragoman.model import TransformerConfig
    from dragoman.storage.model_directory import ModelDirectory
    from dragoman.terminal import Display

STYLE = choice("style", tuple(STYLES))
FORMAT = choice("format", ("ctranslate2", "argos", "onnx", "transformers", "web", "dragoman-int8"))
NUMBERS = choice(
    "kind of numbers", ("float32", "int8", "int8_float32", "int8_bfloat16", "int16", "float16", "bfloat16")
)
TOKENIZER = (
    "JSON of the library `tokenizers`, or a text file with one word on each line, sorted by token id. Default: none; "
    "sentences are written as token ids."
)


@app.command(
    "import",
    needs_torch=True,
    epilog="dragoman import opus-mt-en-fr runs/en-fr\n"
    "dragoman import hf:Helsinki-NLP/opus-mt-en-fr runs/en-fr\n"
    "dragoman import nllb-200-distilled-600M runs/en-de --from en --to de\n"
    "dragoman import tmodel_19.pt runs/en-it --style prenorm --num-heads 8 "
    "--source-tokenizer tokenizer_en.json --target-tokenizer tokenizer_it.json",
)
def import_(
    context: Context,
    model: Annotated[
        str, Argument(metavar="MODEL", help="A folder with a pretrained model, hf:OWNER/NAME, or a notebook's weights.")
    ],
    output: Annotated[Path, Argument(metavar="OUT", help="Model directory to write.")],
    source: options.From = None,
    target: options.To = None,
    style: Annotated[str | None, Option(**STYLE, help="Which notebook's code the weights belong to.")] = None,
    num_heads: Annotated[
        int | None, Option(metavar="N", min=1, help="Attention heads; a notebook's weights do not tell how many.")
    ] = None,
    as_written: Annotated[
        bool,
        Option(
            "--as-written",
            help="The notebook's mistake was not repaired: for postnorm, whose decoder adds positions where its "
            "feed-forward network belongs.",
        ),
    ] = False,
    source_tokenizer: Annotated[Path | None, File(help=f"A notebook's source tokenizer: {TOKENIZER}")] = None,
    target_tokenizer: Annotated[Path | None, File(help=f"A notebook's target tokenizer: {TOKENIZER}")] = None,
    sentences: Annotated[
        Path | None,
        File(
            help="Sentences in the source language of a pretrained model, one on each line, on which it is tried in "
            "eight bits. Default: 50 English ones, if it translates from English."
        ),
    ] = None,
    trim_vocabulary: Annotated[
        list[Path] | None,
        File(
            help="Texts in the languages that you need: pieces of a pretrained vocabulary that they never use are "
            "dropped. May be repeated."
        ),
    ] = None,
) -> None:
    """Convert a pretrained model, or the weights that a notebook saved, into a model directory.

    Pretrained models are Marian (OPUS-MT), M2M-100 and NLLB-200, each in a folder as transformers saves it, and Marian
    in a folder with its own .npz. With hf:OWNER/NAME the folder is downloaded from the Hugging Face Hub.
    """
    from dragoman.storage.run_directory import refuse_to_overwrite

    refuse_to_overwrite(output)
    if model.startswith("hf:") or os.path.isdir(model):
        for_notebooks = [style, num_heads, source_tokenizer, target_tokenizer]
        if as_written or any(option is not None for option in for_notebooks):
            raise UsageError(
                "--style, --num-heads, --as-written and tokenizers are for a notebook's weights; leave them out."
            )
        _import_pretrained(context, model, output, (source, target), sentences, trim_vocabulary or [])
        return
    if style is None and not os.path.exists(model):
        raise DataError(f"There is no {model}; give a folder, a file of weights, or hf:OWNER/NAME.")
    if source or target or sentences or trim_vocabulary:
        raise UsageError("--from, --to, --sentences and --trim-vocabulary are for pretrained models; leave them out.")
    if style is None or num_heads is None:
        raise UsageError(
            f"{model} is a file, and so a notebook's weights: give --style and --num-heads; a pretrained model is a "
            "folder, or hf:OWNER/NAME."
        )
    tokenizers = source_tokenizer, target_tokenizer
    _import_notebook(context, Path(model), output, style, num_heads, tokenizers, as_written=as_written)


def _import_pretrained(
    context: Context,
    model: str,
    output: Path,
    languages: tuple[str | None, str | None],
    sentences_file: Path | None,
    texts: list[Path],
) -> None:
    """Convert a pretrained model in a folder, or on the Hugging Face Hub, and say how to use it."""
    from dragoman.formats.text_files import open_input
    from dragoman.interop.files import read_json

    display = context.display()
    folder = Path(model)
    if model.startswith("hf:"):
        from dragoman.interop.imports.hub import download, parse

        parse(model)
        display.note(f"Downloading {model} from the Hugging Face Hub, as far as it is not on this machine yet.")
        folder = download(model, progress=not (context.quiet or context.as_json))
    if not any(folder.glob("*.npz")):
        read_json(folder / "config.json")
    for file in (sentences_file, *texts):
        if file:
            open_input(file).close()
    from dragoman.interop.imports.pretrained import import_pretrained
    from dragoman.interop.imports.trial_sentences import sentences_for
    from dragoman.interop.imports.trimming import texts_in

    with display.status("Reading and checking the model, and trying it in eight bits"):
        imported = import_pretrained(
            folder,
            output,
            languages=languages,
            name=model,
            sentences=partial(sentences_for, file=sentences_file),
            trim_to=chain.from_iterable(map(texts_in, texts)) if texts else None,
        )
    if context.as_json:
        facts = {"architecture": imported.model.config.to_dict(), "int8_bleu": imported.int8_bleu}
        print_json({"model": str(output), **facts})
    _note_size(display, output, imported.model.config)
    if texts:
        display.note(f"It keeps {imported.target_tokenizer.vocab_size:,} pieces of the vocabulary of its targets.")
    _note_eight_bits(display, imported)
    choices = ()
    if imported.target_tokenizer.languages and not imported.target_tokenizer.language:
        choices = ("--to", "de")
        display.note(f"It knows {len(imported.target_tokenizer.languages)} languages; choose with --from and --to.")
    display.note(f"Try it:  {command_line('translate', output, 'Hello.', *choices)}")


def _note_eight_bits(display: "Display", imported: "ModelDirectory") -> None:
    """Say whether the model translates in eight bits on a CPU, and why."""
    from dragoman.decoding.precision import LEAST_BLEU
    from dragoman.engine.int8 import can_quantise

    int8_bleu = imported.int8_bleu
    if not can_quantise(imported.model.config):
        return
    if int8_bleu is None:
        display.note("On a CPU it translates in float32; --sentences FILE finds out whether eight bits hold.")
        return
    holds = int8_bleu >= LEAST_BLEU
    precision, comparison = ("eight bits", "at least") if holds else ("float32", "less than")
    display.note(
        f"On a CPU it translates in {precision}: in eight bits, BLEU against its own float32 is {int8_bleu:.1f}, "
        f"{comparison} {LEAST_BLEU:g}."
    )


def _import_notebook(
    context: Context,
    file: Path,
    output: Path,
    style: str,
    num_heads: int,
    tokenizers: tuple[Path | None, Path | None],
    *,
    as_written: bool,
) -> None:
    """Convert the weights that a notebook saved, and say how to use the model."""
    from dragoman.formats.text_files import open_input
    from dragoman.system.optional import load

    chosen_style(style, as_written=as_written)
    source, target = tokenizers
    if (source is None) != (target is None):
        raise UsageError(
            "Give --source-tokenizer and --target-tokenizer, the same file twice if both sides share it; or neither, "
            "and sentences are token ids."
        )
    files = (source, target) if source and target else None
    for path in (file, *(files or ())):
        open_input(path).close()
    if style == "keras":
        load("h5py", extra="keras", purpose="Reading weights of Keras")
    from dragoman.interop.imports.notebook_models import NotebookFiles, import_notebook

    display = context.display()
    notebook = NotebookFiles(file, style, num_heads, files, as_written)
    imported = import_notebook(notebook, output, note=display.note)
    config = imported.model.config
    if context.as_json:
        print_json({"model": str(output), "style": style, "architecture": config.to_dict()})
    _note_size(display, output, config)
    display.note(f"Try it:  {command_line('translate', output, '5 7 11' if files is None else 'Hello.')}")


def _note_size(display: "Display", output: Path, config: "TransformerConfig") -> None:
    """Print how many layers and tokens the model has."""
    display.note(
        f"{output} holds {config.num_encoder_layers} + {config.num_decoder_layers} layers of width {config.d_model}, "
        f"with vocabularies of {config.source_vocab_size:,} and {config.target_vocab_size:,} tokens."
    )


@app.command(
    needs_torch=True,
    epilog="dragoman export runs/en-fr exported --to ctranslate2 --quantization int8\n"
    "dragoman export runs/en-fr exported --to argos\n"
    "dragoman export runs/en-fr exported --to onnx",
)
def export(
    context: Context,
    model: options.Model,
    output: Annotated[Path, Argument(metavar="OUT", help="Folder to write.")],
    to: Annotated[str, Option("--to", **FORMAT, help="Which engine the model is for.")],
    quantization: Annotated[
        str | None, Option(**NUMBERS, help="Kind of numbers of the weights. Default: float32; int8 for argos and web.")
    ] = None,
    languages: Annotated[
        str | None, Option(metavar="CODE,CODE", help="Source and target, of a model that knows many languages.")
    ] = None,
    sentences: Annotated[
        Path | None,
        File(help="Sentences for the proof, one on each line. Default: test sentences of the run, or built-in ones."),
    ] = None,
    runtime: Annotated[
        Path | None, Option(metavar="DIR", help="For the web: the folder `dist` of the npm package onnxruntime-web.")
    ] = None,
) -> None:
    """Write a model for another engine, and prove that it translates the same there.

    With --to web, the page's runtime is downloaded from the registry of npm, unless --runtime names its folder.
    """
    from dragoman.cli.checks import check_model
    from dragoman.storage.run_directory import refuse_to_overwrite

    check_model(model)
    refuse_to_overwrite(output)
    from dragoman.interop.exports import exporting
    from dragoman.interop.sentences import first_sentences

    source, comma, target = (languages or ",").partition(",")
    if not comma:
        raise UsageError(f"--languages {languages} names one language; write source and target, such as en,de.")
    if runtime and to != "web":
        raise UsageError("--runtime is for --to web; leave it out.")
    texts = None
    if sentences:
        texts = first_sentences(sentences)
    display = context.display()
    if to == "web" and not runtime:
        display.note("Downloading onnxruntime-web with npm; --runtime takes it from a folder instead.")
    with display.status(f"Writing for {to}, and translating with both engines"):
        choices = exporting.ExportOptions(
            quantization=quantization,
            languages=(source or None, target or None),
            sentences=texts,
            runtime=runtime,
        )
        proof = exporting.export(model, output, to, choices)
    if context.as_json:
        print_json({"output": str(output), "to": to} | proof.to_dict())
    for name, agreement in proof.agreements.items():
        display.note(
            f"{agreement.identical} of {agreement.sentences} translations are identical ({name}); "
            f"scores differ by {agreement.largest_difference:.1e} at most."
        )
    if proof.numbers != "float32":
        display.note(f"BLEU with Dragoman's translations as references: {proof.bleu_with_ours:.1f}.")
        if proof.bleu_difference is not None:
            display.note(f"BLEU with the true ones differs by {proof.bleu_difference:+.2f}.")
    display.note(f"{output} holds the model; its README.md says how to run it.")
