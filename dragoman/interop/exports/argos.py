"""Packages for Argos Translate and LibreTranslate: a CTranslate2 model in a zip file, and a SentencePiece model.

A package has one tokenizer, that of the sources, which also puts translations together. Dragoman's own tokenizers spell
tokens in letters for bytes (`dragoman.text.tokenizers.byte_level`). SentencePiece can replace characters before it cuts
a text and after it has joined tokens, and so it spells bytes here, too.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from dragoman import __version__
from dragoman.interop.exports import ctranslate2
from dragoman.interop.exports.engine_files import spelled
from dragoman.interop.exports.proof import Found
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load
from dragoman.text.language_codes import english_name, two_letters
from dragoman.text.tokenizers import algorithms
from dragoman.text.tokenizers.byte_level import byte_level_encode
from dragoman.text.tokenizers.pretrained import SPACE, PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer

QUANTIZATIONS = ("int8", *(kind for kind in ctranslate2.QUANTIZATIONS if kind != "int8"))
KINDS = ("bpe", "unigram", "char")
"""Tokenizers of Dragoman that SentencePiece can be."""
UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL, SYMBOL = range(1, 5)
"""What SentencePiece calls kinds of models and pieces."""
CHARACTERS = [
    chr(code)
    for codes in (range(1, 0xD800), range(0xE000, 0x10000), range(0x1F000, 0x1FB00))
    for code in codes
    if byte_level_encode(chr(code)) != chr(code) and chr(code) != " "
]
"""What a package can spell: the characters of Unicode's first plane, and emoji, but for what is spelled as itself."""
PURPOSE = "Exporting to Argos Translate"
ARGOS_VERSION = "1.9"
"""The first version of Argos Translate that reads what is written here."""


def refusal(directory: ModelDirectory) -> str | None:
    """Why a package cannot hold the model; None if it can."""
    source, target = directory.tokenizers
    if not all(directory.languages):
        return "a package has the codes of its languages, and this model knows none; give --languages, such as en,de"
    if source.languages or target.languages or source.tagged or source.targets:
        return "it reads a language from a token before the text, which Argos Translate does not put there"
    for tokenizer in directory.tokenizers:
        if isinstance(tokenizer, PretrainedTokenizer):
            if tokenizer.content.kind != "sentencepiece":
                return "its tokenizer is no SentencePiece model"
        elif algorithms.identify(tokenizer.backend_copy()) not in KINDS:
            return f"of Dragoman's own tokenizers, those of the kinds {', '.join(KINDS)} can be SentencePiece models"
    return None


def codes(directory: ModelDirectory) -> list[str]:
    """The codes of source and target by which Argos Translate knows them."""
    return [two_letters(code) for code in directory.languages if code]


def write(directory: ModelDirectory, folder: Path, numbers: str) -> None:
    """Write the package into `folder`, which exists."""
    source, target = codes(directory)
    with TemporaryDirectory() as temporary:
        package = Path(temporary)
        (package / "model").mkdir()
        ctranslate2.write_model(directory, package / "model", numbers, _vocabularies(directory))
        (package / "sentencepiece.model").write_bytes(sentencepiece_model(directory.source_tokenizer))
        about = {"package_version": "1.0", "argos_version": ARGOS_VERSION, "type": "translate"}
        for side, code in (("from", source), ("to", target)):
            about |= {f"{side}_code": code, f"{side}_name": english_name(code)}
        (package / "metadata.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        text = f"{about['from_name']} to {about['to_name']}, written by Dragoman {__version__}.\n"
        (package / "README.md").write_text(text, encoding="utf-8")
        with ZipFile(folder / f"{source}_{target}.argosmodel", "w", ZIP_DEFLATED) as archive:
            for file in sorted(package.rglob("*")):
                archive.write(file, f"translate-{source}_{target}-1_0/{file.relative_to(package)}")


def search(
    folder: Path, directory: ModelDirectory, sources: Sequence[list[int]], *, beam_size: int, length_penalty: float
) -> Found:
    """What CTranslate2 finds with the package for the texts of `sources`, as the tokenizer of the package cuts them."""
    tokenizer, vocabularies = directory.source_tokenizer, _vocabularies(directory)
    with TemporaryDirectory() as temporary:
        with ZipFile(next(folder.glob("*.argosmodel"))) as archive:
            archive.extractall(temporary)
        (package,) = Path(temporary).iterdir()
        if isinstance(tokenizer, PretrainedTokenizer):  # which has the same SentencePiece model
            tokens = [[vocabularies[0][id_] for id_ in source] for source in sources]
        else:
            processor = _library().SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
            tokens = processor.encode(tokenizer.decode_batch(sources), out_type=str)
        return ctranslate2.translations(
            package / "model", directory, tokens, vocabularies[1], beam_size=beam_size, length_penalty=length_penalty
        )


def _vocabularies(directory: ModelDirectory) -> tuple[list[str], list[str]]:
    """The tokens of both sides, as SentencePiece spells them."""
    source, target = directory.tokenizers
    return _vocabulary(source), _vocabulary(target)


def _vocabulary(tokenizer: Tokenizer | PretrainedTokenizer) -> list[str]:
    """The tokens of one side, as SentencePiece spells them."""
    tokens = spelled(tokenizer)
    return tokens if isinstance(tokenizer, PretrainedTokenizer) else [_piece(token) for token in tokens]


def _piece(token: str) -> str:
    return token.replace(byte_level_encode(" "), SPACE)


def sentencepiece_model(tokenizer: Tokenizer) -> bytes:
    """A SentencePiece model that cuts texts into the same tokens, with the same ids."""
    if isinstance(tokenizer, PretrainedTokenizer):
        return base64.b64decode(tokenizer.content.model)
    content = json.loads(tokenizer.to_json())
    if content["model"]["type"] == "Unigram":
        scores = dict(content["model"]["vocab"])
    else:  # the sooner two tokens are joined, the higher the score; the first way to join a token counts
        joined = ["".join(pair if isinstance(pair, list) else pair.split(" ")) for pair in content["model"]["merges"]]
        scores = {token: -float(rank) for rank, token in reversed([*enumerate(joined)])}
    model = _format().ModelProto()
    model.trainer_spec.model_type = UNIGRAM if content["model"]["type"] == "Unigram" else BPE
    special = tokenizer.special_ids
    for name, id_ in special._asdict().items():
        setattr(model.trainer_spec, f"{name}_id", id_)
        setattr(model.trainer_spec, f"{name}_piece", tokenizer.spelled(id_))
    kinds = dict.fromkeys(special, CONTROL) | {special.unk: UNKNOWN}
    symbols = {*tokenizer.symbols}
    for id_, token in enumerate(spelled(tokenizer)):
        kind = kinds.get(id_, SYMBOL if token in symbols else NORMAL)
        model.pieces.add(piece=_piece(token), score=scores.get(token, -float(len(scores))), type=kind)
    letters = [(each, byte_level_encode(each)) for each in CHARACTERS]
    begins = content["normalizer"] is not None
    model.normalizer_spec.CopyFrom(_replacing(letters, add_dummy_prefix=begins, escape_whitespaces=True))
    inverse = [(spelling, each) for each, spelling in letters]
    model.denormalizer_spec.CopyFrom(_replacing(inverse, add_dummy_prefix=False, escape_whitespaces=False))
    return model.SerializeToString()


def _replacing(replacements: list[tuple[str, str]], **options: bool) -> Any:
    """What SentencePiece replaces, in its own form."""
    library = _library()
    library.set_min_log_level(2)
    normalizer = library.SentencePieceNormalizer(norm_map=replacements, remove_extra_whitespaces=False, **options)
    return _format().ModelProto.FromString(normalizer.serialized_model_proto()).normalizer_spec


def _library() -> Any:
    return load("sentencepiece", extra="argos", purpose=PURPOSE)


def _format() -> Any:
    """The form of SentencePiece's files."""
    return load("sentencepiece.sentencepiece_model_pb2", extra="argos", purpose=PURPOSE)
