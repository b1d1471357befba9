"""What stands beside an exported model, whatever its engine: files of its tokenizers, and a script that uses them."""

import base64
import json
from pathlib import Path

from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.templates import render
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer

SIDES = ("source", "target")
LONGEST = 1_024
"""Positions that are written of a model that can count further."""


def package(directory: ModelDirectory) -> str:
    """The library that the tokenizers need."""
    tokenizer = directory.source_tokenizer
    return tokenizer.content.kind if isinstance(tokenizer, PretrainedTokenizer) else "tokenizers"


def spelled(tokenizer: Tokenizer) -> list[str]:
    """How a tokenizer spells each token, in the order of the ids."""
    return [tokenizer.spelled(id_) for id_ in range(tokenizer.vocab_size)]


def write_tokenizers(directory: ModelDirectory, folder: Path) -> None:
    """Each side's tokenizer as the file of its library, and the tokens in the order of their ids."""
    for side, tokenizer in zip(SIDES, directory.tokenizers, strict=True):
        if isinstance(tokenizer, PretrainedTokenizer) and tokenizer.content.kind == "sentencepiece":
            (folder / f"{side}.spm").write_bytes(base64.b64decode(tokenizer.content.model))
        else:
            tokenizer.backend_copy().save(str(folder / f"{side}_tokenizer.json"))
        tokens = json.dumps(spelled(tokenizer), ensure_ascii=False)
        (folder / f"{side}_tokens.json").write_text(tokens + "\n", encoding="utf-8")


def write_script(directory: ModelDirectory, folder: Path, engine: str) -> None:
    """translate.py, which translates text without Dragoman."""
    source, target = ([tokenizer.spelled(id_) for id_ in tokenizer.begin_ids] for tokenizer in directory.tokenizers)
    search, special = directory.decoding, directory.target_tokenizer.special_ids
    script = render(
        "interop/exports/static/translate.py.txt",
        engine=engine,
        package=package(directory),
        source_begin=source,
        target_begin=target,
        beam_size=search.beam_size,
        length_penalty=search.length_penalty,
        special=special,
        layers=directory.model.config.num_decoder_layers,
        heads=directory.model.config.num_heads,
        width=directory.model.config.d_model // directory.model.config.num_heads,
        longest=directory.model.config.max_length or LONGEST,
        starts_with_padding=directory.model.config.starts_with_padding,
    )
    (folder / "translate.py").write_text(script, encoding="utf-8")
