"""Files beside an exported model: those of its tokenizers, and a script that translates with it."""

import base64
import json
from pathlib import Path

from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.templates import render
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer

SIDES = ("source", "target")
LONGEST = 1_024
"""Number of positions that are written of a model whose positions have no end."""


def package(directory: ModelDirectory) -> str:
    """Name of the library that the tokenizers need."""
    tokenizer = directory.source_tokenizer
    return tokenizer.content.kind if isinstance(tokenizer, PretrainedTokenizer) else "tokenizers"


def spelled(tokenizer: Tokenizer) -> list[str]:
    """All tokens as the tokenizer spells them, in the order of their ids."""
    return [tokenizer.spelled(id_) for id_ in range(tokenizer.vocab_size)]


def write_tokenizers(directory: ModelDirectory, folder: Path) -> None:
    """Write the tokenizer of each side as a file of its library, and its tokens in the order of their ids."""
    for side, tokenizer in zip(SIDES, directory.tokenizers, strict=True):
        if isinstance(tokenizer, PretrainedTokenizer) and tokenizer.content.kind == "sentencepiece":
            (folder / f"{side}.spm").write_bytes(base64.b64decode(tokenizer.content.model))
        else:
            tokenizer.backend_copy().save(str(folder / f"{side}_tokenizer.json"))
        tokens = json.dumps(spelled(tokenizer), ensure_ascii=False)
        (folder / f"{side}_tokens.json").write_text(tokens + "\n", encoding="utf-8")


def write_script(directory: ModelDirectory, folder: Path, engine: str) -> None:
    """Write translate.py, which translates text without Dragoman."""
    source, target = directory.tokenizers
    config, search = directory.model.config, directory.decoding
    script = render(
        "interop/exports/static/translate.py.txt",
        engine=engine,
        package=package(directory),
        source_begin=[source.spelled(id_) for id_ in source.begin_ids],
        target_begin=[target.spelled(id_) for id_ in target.begin_ids],
        beam_size=search.beam_size,
        length_penalty=search.length_penalty,
        min_ratio=search.min_ratio or 0.0,
        min_slack=search.min_slack or 0.0,
        max_ratio=f"{search.max_ratio:g}",
        max_extra=search.max_extra,
        special=target.special_ids,
        layers=config.num_decoder_layers,
        heads=config.num_heads,
        width=config.d_model // config.num_heads,
        longest=config.max_length or LONGEST,
        never_pads=config.never_pads,
    )
    (folder / "translate.py").write_text(script, encoding="utf-8")
