"""Drops the pieces of a pretrained vocabulary that some languages never use.

A model of many languages holds a row for each piece of all of them: NLLB-200 has 256,000 rows of 1,024 numbers, two
fifths of the weights of its smallest version. Two languages need a tenth of them. Texts are still split by the same
model of pieces; one that is gone is spelled by the longest of those that are left.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from dragoman.engine.parameters import OF_SOURCES, OF_TARGETS
from dragoman.errors import DataError, UsageError
from dragoman.formats.text_files import open_input, read_lines
from dragoman.storage.model_directory import ModelDirectory, model_of
from dragoman.text.characters import has_letters
from dragoman.text.scripts import script
from dragoman.text.tokenizers.algorithms import SpecialIds
from dragoman.text.tokenizers.pretrained import SPACE, PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer

_AT_ONCE = 10_000
"""Texts that are encoded at a time."""


def trimmed(directory: ModelDirectory, texts: Iterable[str]) -> ModelDirectory:
    """The model with the pieces alone that the texts use, on either side, and those that spell their scripts.

    Texts of both languages may come in any order; each counts for both sides. Special tokens, those of languages, and
    single characters of the scripts of the texts stay. For sentences whose pieces stay, the logits of these are what
    they were. Raises `UsageError` for a model that is not pretrained, and `DataError` if there are no texts.
    """
    source, target = directory.tokenizers
    if not isinstance(source, PretrainedTokenizer) or not isinstance(target, PretrainedTokenizer):
        raise UsageError("--trim-vocabulary is for the vocabularies of pretrained models.")
    used_source, used_target, scripts = _used(directory, texts)
    # One table may serve both sides, and both have their special tokens under the same ids.
    stay = {*_staying(source, used_source, scripts), *_staying(target, used_target, scripts)}
    config = directory.model.config
    if config.positions == "sinusoidal-fairseq":  # which are numbered from the id of the padding on
        stay |= {*range(config.pad_id)}
    kept = [[id_ for id_ in range(tokenizer.vocab_size) if id_ in stay] for tokenizer in (source, target)]
    small = replace(
        config,
        source_vocab_size=len(kept[0]),
        target_vocab_size=len(kept[1]),
        **{name: kept[1].index(getattr(config, name)) for name in ("pad_id", "bos_id", "eos_id")},
    )
    tokenizers = [_smaller(tokenizer, ids) for tokenizer, ids in zip((source, target), kept, strict=True)]
    return replace(
        directory,
        model=model_of(small, _rows(directory.model, kept)).eval(),
        source_tokenizer=tokenizers[0],
        target_tokenizer=tokenizers[1],
    )


def texts_in(file: Path) -> Iterator[str]:
    """The lines of a file; tabs separate texts."""
    with open_input(file) as stream:
        for line in read_lines(stream, str(file)):
            yield from line.split("\t")


def _used(directory: ModelDirectory, texts: Iterable[str]) -> tuple[set[int], set[int], set[str]]:
    """The source and the target pieces of the texts, and their scripts."""
    used_source: set[int] = set()
    used_target: set[int] = set()
    scripts: set[str] = set()
    remaining = iter(texts)
    while block := list(islice(remaining, _AT_ONCE)):
        prepared = [directory.preprocessor(text).text for text in block]
        for tokenizer, used, sentences in (
            (directory.source_tokenizer, used_source, prepared + block),
            (directory.target_tokenizer, used_target, block),
        ):
            used.update(id_ for ids in tokenizer.encode_batch(sentences) for id_ in ids)
        scripts.update(script(letter) for letter in set("".join(block)) if has_letters(letter))
    if not scripts:
        raise DataError("The texts for --trim-vocabulary have no letters; give some of both languages.")
    return used_source, used_target, scripts


def _staying(tokenizer: PretrainedTokenizer, used: set[int], scripts: set[str]) -> Iterator[int]:
    """The ids of pieces that are used, have no text, or spell characters of the scripts."""
    content = tokenizer.content
    always = {*used, *content.special, *tokenizer.closing}
    languages = set(content.languages.values())
    for id_, piece in enumerate(content.pieces):
        character = piece.removeprefix(SPACE)
        is_byte = piece.startswith("<0x") and piece.endswith(">")
        is_character = len(character) <= 1 and (not has_letters(character) or script(character) in scripts)
        if id_ in always or piece in languages or is_byte or is_character:
            yield id_


def _smaller(tokenizer: PretrainedTokenizer, kept: list[int]) -> Tokenizer:
    content = tokenizer.content
    new_ids = {old: new for new, old in enumerate(kept)}
    special = SpecialIds(*(new_ids[id_] for id_ in content.special))
    return PretrainedTokenizer(
        replace(content, pieces=[content.pieces[id_] for id_ in kept], special=special, trimmed=True)
    )


def _rows(model: torch.nn.Module, kept: list[list[int]]) -> dict[str, torch.Tensor]:
    """All weights by name, tables and biases with the rows that stay."""
    weights = {}
    for name, weight in model.named_parameters():
        rows = kept[0] if name == OF_SOURCES else kept[1] if name in OF_TARGETS else None
        weights[name] = weight.detach() if rows is None else weight.detach()[torch.tensor(rows)].clone()
    return weights
