"""`dragoman import`: writes the model directory of a model that a notebook trained.

Weights and tokenizers are converted, so that the rest of Dragoman needs no exceptions. Special tokens get the ids 0 to
3, and the rows of the embeddings and the projection are reordered to match. The source tokenizer adds the begin of
sentence, or the padding, that the encoder was trained with.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dragoman.errors import DataError
from dragoman.interop.imports.notebooks import Notebook
from dragoman.interop.imports.vocabulary import BEGIN, END, NAMES, PAD, UNKNOWN, Vocabulary, numbers, read_vocabulary
from dragoman.model import Transformer
from dragoman.report.summary import sizes
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import refuse_to_overwrite
from dragoman.system.atomic import new_folder, write_file
from dragoman.system.templates import render
from dragoman.text.tokenizers import imported
from dragoman.text.tokenizers.tokenizer import Tokenizer

NEVER = -1e9
"""Logit of a token that the notebook's model does not have."""


@dataclass(frozen=True)
class NotebookFiles:
    """Files that a notebook saved, and facts that they do not tell."""

    weights: Path
    style: str
    """One of `dragoman.interop.imports.styles.STYLES`."""
    num_heads: int
    tokenizers: tuple[Path, Path] | None = None
    """Files of the source and the target tokenizer. None: sentences are written as ids."""
    as_written: bool = False
    """Whether the notebook's mistake that changes its weights was not repaired (`Style.as_written`)."""


def import_notebook(files: NotebookFiles, output: Path, *, note: Callable[[str], None]) -> ModelDirectory:
    """Write a notebook's model to `output`, a new or empty folder, which stays as it was if that fails.

    Its log-probabilities are the notebook's, with the vocabulary in another order. `note` is called with each remark on
    the files that the user should read. Raises `UsageError` and `DataError` as `from_notebook` does, and `DataError`
    for tokenizers that do not fit.
    """
    refuse_to_overwrite(output)
    notebook = Notebook.read(files.weights, files.style, as_written=files.as_written)
    model = notebook.build(files.num_heads)
    source = _read_side(files, 0, model.config.source_vocab_size, note)
    target = _read_side(files, 1, model.config.target_vocab_size, note)
    length, target_length = notebook.num_positions() or (None, None)
    if length:
        source = _padding_as_end(source)
        if target_length < length:
            raise DataError(f"{files.weights} has {length} positions for sources, but {target_length} for targets.")
    for vocabulary, token, verb in ((source, END, "ends"), (target, BEGIN, "begins"), (target, END, "ends")):
        if token not in vocabulary.special:
            raise DataError(f"{vocabulary.origin} has no token that {verb} a sentence: {' or '.join(NAMES[token])}.")
    source_tokenizer = _source_tokenizer(source, length)
    form = _source_form(source, length)
    model = reordered(model, source.rows(), target.rows())
    directory = ModelDirectory(model, source_tokenizer, Tokenizer(target.backend()))
    card = _card(directory, files, program=notebook.style.program, form=form, title=output.absolute().name)
    with new_folder(output) as folder:
        directory.save(folder)
        write_file(folder / "README.md", card.encode())
    return directory


def _read_side(files: NotebookFiles, side: int, size: int, note: Callable[[str], None]) -> Vocabulary:
    """The vocabulary of the source (0) or target (1), with a token for each of the `size` rows of its table."""
    if files.tokenizers is None:
        return numbers(size)
    path, keras = files.tokenizers[side], files.style == "keras"
    table = "target table" if side else "source table"
    vocabulary = read_vocabulary(path, keras=keras, target=side == 1)
    num_words = len(vocabulary.words)
    # In Keras the tables have `max_tokens` rows, even if a small corpus has fewer words.
    if num_words > size or (num_words < size and not keras):
        raise DataError(
            f"{path} has {num_words} words, but the {table} in {files.weights} has {size} rows; give the tokenizer of "
            "these weights."
        )
    if num_words < size:
        note(f"{path} has {num_words} words, fewer than the {size} rows of the {table}: the last rows have no word.")
    # Keras deletes "<" from texts, so none contains these words.
    unused = [f"<unused{row}>" for row in range(num_words, size)]
    return dataclasses.replace(vocabulary, words=vocabulary.words + unused)


def _padding_as_end(source: Vocabulary) -> Vocabulary:
    """The vocabulary with its padding as end of sentence: attention in the Keras notebook sees the padding."""
    if PAD not in source.special:
        raise DataError(f"{source.origin} has no padding, which the Keras notebook needs; give its whole vocabulary.")
    special = {token: id_ for token, id_ in source.special.items() if token == UNKNOWN}
    return dataclasses.replace(source, special=special | {END: source.special[PAD]})


@torch.no_grad()
def reordered(model: Transformer, source_rows: Sequence[int | None], target_rows: Sequence[int | None]) -> Transformer:
    """The model with its vocabularies in another order: token i gets row `source_rows[i]`, or `target_rows[i]`.

    None is a token that `model` does not have: its embedding is zero, and it is never predicted.
    """
    sizes = {"source_vocab_size": len(source_rows), "target_vocab_size": len(target_rows)}
    new_model = Transformer(dataclasses.replace(model.config, **sizes))
    rows_of = {
        "encoder.embedding.table.weight": source_rows,
        "decoder.embedding.table.weight": target_rows,
        "projection.weight": target_rows,
        "projection.bias": target_rows,
    }
    for (name, old), new in zip(model.named_parameters(), new_model.parameters(), strict=True):
        if name in rows_of:
            new.copy_(_reordered_rows(old, rows_of[name], missing=NEVER if name == "projection.bias" else 0.0))
        else:
            new.copy_(old)
    return new_model.eval()


def _reordered_rows(table: Tensor, rows: Sequence[int | None], *, missing: float) -> Tensor:
    """The given rows of a table; None is a row of the value `missing`."""
    table = torch.cat([table, torch.full_like(table[:1], missing)])
    return table[[len(table) - 1 if row is None else row for row in rows]]


def _source_tokenizer(source: Vocabulary, length: int | None) -> Tokenizer:
    """The tokenizer of the sources, which adds the tokens that the encoder was trained with.

    `length` is the number of tokens, end of sentence included, to which sources are truncated or padded; None: any.
    """
    backend = source.backend()
    if length:
        # The end of sentence, which is added to every source, takes the last position.
        imported.pad_sources(backend, length - 1)
    elif source.surroundings not in (None, [END], [BEGIN, END]):
        raise DataError(
            f"{source.origin} puts {' '.join(source.surroundings)} around a text; only a begin and an end of sentence, "
            "or an end alone, can be imported."
        )
    elif _begins_sources(source):
        imported.begin_sources(backend)
    return Tokenizer(backend)


def _begins_sources(source: Vocabulary) -> bool:
    """Whether the encoder reads a begin of sentence: by the tokenizer's file, or else if there is such a token."""
    return BEGIN in (source.surroundings or source.special)


def _source_form(source: Vocabulary, length: int | None) -> str:
    """Description for the model card of the tokens that the encoder reads."""
    if length:
        return f"the first {length - 1} words, filled up with padding, which attention sees"
    form = "the words, end of sentence"
    return f"begin of sentence, {form}" if _begins_sources(source) else form


def _card(directory: ModelDirectory, files: NotebookFiles, *, program: str, form: str, title: str) -> str:
    """The model card of a model directory that was made from a notebook's files."""
    model, kind = directory.model, directory.target_tokenizer.kind
    return render(
        "interop/imports/static/imported_card.md",
        title=title,
        notebook=program,
        files=", ".join(path.name for path in (files.weights, *(files.tokenizers or ()))),
        facts=sizes(model.config, sum(weight.numel() for weight in model.parameters()), kind=kind),
        form=form,
        kind=kind if files.tokenizers else "ids",
        example="Hello." if files.tokenizers else "5 7 11",
        has_networks=model.config.decoder_feed_forward == "network",
    )
