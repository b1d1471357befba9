"""`dragoman import`: writes the model directory of a model that another program trained.

What the other program does differently goes into the weights and the tokenizers, so that the rest of Dragoman needs no
exceptions. Special tokens get Dragoman's ids 0 to 3, and the rows of the embeddings and the projection are reordered to
match. The source tokenizer adds the begin of sentence, or the padding, that the encoder was trained with.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from dragoman.data.tokenizers import imported
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.errors import DataError
from dragoman.interop.foreign import ForeignModel
from dragoman.interop.notebooks import NotebookFiles, read_model
from dragoman.interop.vocabulary import BEGIN, END, NAMES, Vocabulary
from dragoman.model import Transformer
from dragoman.report import imported_card
from dragoman.report.summary import sizes
from dragoman.storage.atomic import new_folder, write_file
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import refuse_to_overwrite

NEVER = -1e9
"""Logit of a token that the other program's model does not have."""


def import_notebook(files: NotebookFiles, output: Path, *, note: Callable[[str], None]) -> ModelDirectory:
    """Write a notebook's model to `output`, a new or empty folder, which stays as it was if that fails.

    Its log-probabilities are the notebook's, with the vocabulary in another order. `note` gets sentences that the user
    should know about the files. Raises `UsageError` and `DataError` as `from_notebook` does, and `DataError` for
    tokenizers that do not fit.
    """
    refuse_to_overwrite(output)
    return write_model(read_model(files, note=note), output)


def write_model(foreign: ForeignModel, output: Path) -> ModelDirectory:
    """Write the model directory `output`. Raises `DataError` for tokenizers that it cannot hold."""
    source, target = foreign.source, foreign.target
    for vocabulary, token, verb in ((source, END, "ends"), (target, BEGIN, "begins"), (target, END, "ends")):
        if token not in vocabulary.special:
            raise DataError(f"{vocabulary.origin} has no token that {verb} a sentence: {' or '.join(NAMES[token])}.")
    source_tokenizer, form = _source_tokenizer(source, foreign.source_length)
    model = reordered(foreign.model, source.rows(), target.rows())
    directory = ModelDirectory(model, source_tokenizer, Tokenizer(target.backend()))
    with new_folder(output) as folder:
        directory.save(folder)
        write_file(folder / "README.md", _card(directory, foreign, form, title=output.absolute().name).encode())
    return directory


@torch.no_grad()
def reordered(model: Transformer, source_rows: Sequence[int | None], target_rows: Sequence[int | None]) -> Transformer:
    """The model with its vocabularies in another order: row i is the given row of `model`.

    None is a token that `model` does not have: its embedding is zero, and it is never predicted.
    """
    sizes = {"source_vocab_size": len(source_rows), "target_vocab_size": len(target_rows)}
    other = Transformer(dataclasses.replace(model.config, **sizes))
    order = {
        "encoder.embedding.table.weight": (source_rows, 0.0),
        "decoder.embedding.table.weight": (target_rows, 0.0),
        "projection.weight": (target_rows, 0.0),
        "projection.bias": (target_rows, NEVER),
    }
    for (name, theirs), ours in zip(model.named_parameters(), other.parameters(), strict=True):
        ours.copy_(_rows(theirs, *order[name]) if name in order else theirs)
    return other.eval()


def _rows(table: Tensor, rows: Sequence[int | None], missing: float) -> Tensor:
    table = torch.cat([table, torch.full_like(table[:1], missing)])
    return table[[len(table) - 1 if row is None else row for row in rows]]


def _source_tokenizer(source: Vocabulary, length: int | None) -> tuple[Tokenizer, str]:
    """The tokenizer, and a description of what the encoder reads of a sentence."""
    backend, form = source.backend(), "the words, end of sentence"
    if length:
        # The end of sentence, which is added to every source, takes the last position.
        imported.pad_sources(backend, length - 1)
        form = f"the first {length - 1} words, filled up with padding, which attention sees"
    elif source.surroundings not in (None, [END], [BEGIN, END]):
        raise DataError(
            f"{source.origin} puts {' '.join(source.surroundings)} around a text; only a begin and an end of sentence, "
            "or an end alone, can be imported."
        )
    elif BEGIN in (source.surroundings or source.special):
        imported.begin_sources(backend)
        form = f"begin of sentence, {form}"
    return Tokenizer(backend), form


def _card(directory: ModelDirectory, foreign: ForeignModel, form: str, *, title: str) -> str:
    model, kind = directory.model, directory.target_tokenizer.kind
    text, example = f"Of a source sentence the model reads: {form}.", "Hello."
    if len(foreign.files) == 1:
        example = "5 7 11"
        text += (
            " There are no tokenizers: a sentence is written as the model's ids, such as `5 7 11`, and so is its "
            "translation. 0 is padding, 1 unknown, 2 begins a sentence, 3 ends it."
        )
    elif kind == "word":
        text += " A translation has a space between any two words and marks, as the notebook puts them together."
    return imported_card(
        title=title,
        notebook=foreign.program,
        files=", ".join(path.name for path in foreign.files),
        facts=sizes(model.config, sum(weight.numel() for weight in model.parameters()), kind=kind),
        text=text,
        example=example,
    )
