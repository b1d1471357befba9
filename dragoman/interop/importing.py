"""`dragoman import`: a notebook's weights and tokenizers become a model directory like any other.

What a notebook does otherwise than Dragoman goes into the weights and the tokenizers, so that no other part has to know
of it: special tokens get Dragoman's ids, with their rows of the tables, and the source tokenizer puts around a sentence
what the notebook put there. The padding of the Keras notebook, which its attention sees, becomes ends of sentence.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dragoman.data.tokenizers import imported
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.errors import DataError
from dragoman.interop.notebooks import Notebook, read_notebook
from dragoman.interop.styles import STYLES
from dragoman.interop.vocabulary import BEGIN, END, NAMES, PAD, UNKNOWN, Vocabulary, numbers, read_vocabulary
from dragoman.model import Transformer
from dragoman.report import imported_card
from dragoman.report.summary import sizes
from dragoman.storage.atomic import new_folder, write_file
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import refuse_to_overwrite

NEVER = -1e9
"""The logit of a token that the notebook's model does not have."""


@dataclass(frozen=True)
class NotebookFiles:
    """What a notebook left."""

    weights: Path
    style: str
    """One of `dragoman.interop.styles.STYLES`."""
    num_heads: int
    tokenizers: tuple[Path, Path] | None = None
    """Those of source and target; without them the words of a sentence are ids."""


def import_notebook(files: NotebookFiles, output: Path, *, note: Callable[[str], None]) -> ModelDirectory:
    """Write the model directory `output`, a new or empty folder, whole or not at all.

    Its log-probabilities are the notebook's, over a vocabulary in another order. `note` is told what the user should
    know of the files. Raises `UsageError` and `DataError` as `from_notebook` does, and for tokenizers that do not fit.
    """
    refuse_to_overwrite(output)
    notebook = read_notebook(files.weights, style=files.style)
    model = notebook.model(num_heads=files.num_heads)
    source, target = _vocabularies(files, model, note)
    if notebook.num_positions("encoder"):
        source = _padding_as_end(source)
    _check_special(source, target)
    source_tokenizer, form = _source_tokenizer(source, notebook)
    model = reordered(model, source.rows(), target.rows())
    imported = ModelDirectory(model, source_tokenizer, Tokenizer(target.backend()))
    with new_folder(output) as folder:
        imported.save(folder)
        write_file(folder / "README.md", _card(imported, files, form, title=output.absolute().name).encode())
    return imported


@torch.no_grad()
def reordered(model: Transformer, source_rows: Sequence[int | None], target_rows: Sequence[int | None]) -> Transformer:
    """The model over vocabularies in another order; None is a token that it did not have, and will not predict."""
    sizes = {"source_vocab_size": len(source_rows), "target_vocab_size": len(target_rows)}
    other = Transformer(dataclasses.replace(model.config, **sizes))
    for (name, theirs), ours in zip(model.named_parameters(), other.parameters(), strict=True):
        if name == "encoder.embedding.table.weight":
            theirs = _rows(theirs, source_rows, 0.0)
        elif name in ("decoder.embedding.table.weight", "projection.weight"):
            theirs = _rows(theirs, target_rows, 0.0)
        elif name == "projection.bias":
            theirs = _rows(theirs, target_rows, NEVER)
        ours.copy_(theirs)
    return other.eval()


def _rows(table: Tensor, rows: Sequence[int | None], missing: float) -> Tensor:
    table = torch.cat([table, torch.full_like(table[:1], missing)])
    return table[[len(table) - 1 if row is None else row for row in rows]]


def _vocabularies(files: NotebookFiles, model: Transformer, note: Callable[[str], None]) -> list[Vocabulary]:
    sizes = {"source": model.config.source_vocab_size, "target": model.config.target_vocab_size}
    if files.tokenizers is None:
        return [numbers(size) for size in sizes.values()]
    keras = files.style == "keras"
    vocabularies = []
    for path, (side, size) in zip(files.tokenizers, sizes.items(), strict=True):
        vocabulary = read_vocabulary(path, keras=keras, target=side == "target")
        found = len(vocabulary.words)
        # In Keras the tables have `max_tokens` rows, and a small corpus fewer words.
        if found > size or (found < size and not keras):
            raise DataError(
                f"{path} has {found} words, but the {side} table in {files.weights} has {size} rows; give the "
                "tokenizer that these weights were trained with."
            )
        if found < size:
            note(
                f"{path} has {found} words, fewer than the {size} rows of the {side} table: the last rows have no word."
            )
        vocabularies.append(vocabulary.padded(size))
    return vocabularies


def _padding_as_end(source: Vocabulary) -> Vocabulary:
    """The Keras notebook fills every source up with a padding that is a word to its attention."""
    if PAD not in source.special:
        raise DataError(f"{source.origin} has no padding, which the Keras notebook needs; give its whole vocabulary.")
    special = {UNKNOWN: source.special[UNKNOWN]} if UNKNOWN in source.special else {}
    return dataclasses.replace(source, special=special | {END: source.special[PAD]})


def _check_special(source: Vocabulary, target: Vocabulary) -> None:
    for vocabulary, needed in ((source, [END]), (target, [BEGIN, END])):
        for token in needed:
            if token not in vocabulary.special:
                what = "begins" if token == BEGIN else "ends"
                raise DataError(
                    f"{vocabulary.origin} has no token that {what} a sentence; one should be called "
                    f"{', '.join(NAMES[token][:-1])} or {NAMES[token][-1]}."
                )


def _source_tokenizer(source: Vocabulary, notebook: Notebook) -> tuple[Tokenizer, str]:
    """The tokenizer, and in words what of a sentence the model reads."""
    backend, positions = source.backend(), notebook.num_positions("encoder")
    if positions:
        target_positions = notebook.num_positions("decoder")
        if target_positions < positions:
            raise DataError(
                f"{notebook.origin} has {positions} positions for sources, but {target_positions} for targets; only a "
                "model with as many for targets, or more, can be taken over."
            )
        # The end of sentence, which comes after every source, is the last one.
        imported.fill_sources(backend, positions - 1)
        return Tokenizer(backend), f"the first {positions - 1} words, filled up with padding, which attention sees"
    if source.surroundings not in (None, [END], [BEGIN, END]):
        raise DataError(
            f"{source.origin} puts {' '.join(source.surroundings)} around a text; only a begin and an end of sentence, "
            "or an end alone, can be taken over."
        )
    if BEGIN in (source.surroundings or source.special):
        imported.begin_sources(backend)
        return Tokenizer(backend), "begin of sentence, the words, end of sentence"
    return Tokenizer(backend), "the words, end of sentence"


def _card(imported: ModelDirectory, files: NotebookFiles, form: str, *, title: str) -> str:
    model, target = imported.model, imported.target_tokenizer
    text = f"Of a source sentence the model reads: {form}."
    example = "Hello."
    if files.tokenizers is None:
        example = "5 7 11"
        text += (
            " The notebook's tokenizers are not here: a sentence is a row of the model's ids, such as `5 7 11`, and so "
            "is its translation. 0 is padding, 1 unknown, 2 begins a sentence, 3 ends it."
        )
    elif target.kind == "word":
        text += " A translation has a space between any two words and marks, as the notebook puts them together."
    return imported_card(
        title=title,
        notebook=STYLES[files.style].notebook,
        files=", ".join(path.name for path in (files.weights, *(files.tokenizers or ()))),
        facts=sizes(model.config, sum(p.numel() for p in model.parameters()), kind=target.kind),
        text=text,
        example=example,
    )
