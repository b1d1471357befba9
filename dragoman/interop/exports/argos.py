"""Packages for Argos Translate and LibreTranslate: a CTranslate2 model in a zip file, and a SentencePiece model.

A package has one tokenizer: that of the sources, which also joins the tokens of translations. Dragoman's own tokenizers
spell tokens in letters for bytes (`dragoman.text.tokenizers.byte_level`). SentencePiece can do the same, since it can
replace characters before it cuts a text and after it has joined tokens.
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
from dragoman.interop.exports.proof import EngineTranslation
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.optional import load
from dragoman.text.language_codes import english_name, two_letters
from dragoman.text.tokenizers import algorithms
from dragoman.text.tokenizers.byte_level import byte_level_encode
from dragoman.text.tokenizers.pretrained import SPACE, PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer

QUANTIZATIONS = ("int8", *(kind for kind in ctranslate2.QUANTIZATIONS if kind != "int8"))
KINDS = ("bpe", "unigram", "char")
"""Kinds of Dragoman's tokenizers that can be written as SentencePiece models."""
UNIGRAM, BPE = 1, 2
"""Numbers of the kinds of models in files of SentencePiece."""
NORMAL, UNKNOWN, CONTROL, SYMBOL = range(1, 5)
"""Numbers of the kinds of pieces in files of SentencePiece."""
CHARACTERS = [
    chr(code)
    for codes in (range(1, 0xD800), range(0xE000, 0x10000), range(0x1F000, 0x1FB00))
    for code in codes
    if byte_level_encode(chr(code)) != chr(code) and chr(code) != " "
]
"""Characters that a package replaces by letters for bytes: those of Unicode's first plane, and emoji, but for the ones
that stand for themselves."""
PURPOSE = "Exporting to Argos Translate"
ARGOS_VERSION = "1.9"
"""The first version of Argos Translate that reads what is written here."""


def refusal(directory: ModelDirectory) -> str | None:
    """Why a package cannot hold the model; None if it can."""
    if reason := ctranslate2.refusal(directory):
        return reason
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
) -> list[EngineTranslation]:
    """Translate the texts of `sources` with CTranslate2 and the package, whose own tokenizer cuts them."""
    tokenizer = directory.source_tokenizer
    source_vocabulary, target_vocabulary = _vocabularies(directory)
    with TemporaryDirectory() as temporary:
        with ZipFile(next(folder.glob("*.argosmodel"))) as archive:
            archive.extractall(temporary)
        (package,) = Path(temporary).iterdir()
        if isinstance(tokenizer, PretrainedTokenizer):  # which has the same SentencePiece model
            tokens = [[source_vocabulary[id_] for id_ in source] for source in sources]
        else:
            processor = _library().SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
            tokens = processor.encode(tokenizer.decode_batch(sources), out_type=str)
        return ctranslate2.search_tokens(
            package / "model",
            directory,
            tokens,
            target_vocabulary,
            beam_size=beam_size,
            length_penalty=length_penalty,
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
    """A token of Dragoman's as SentencePiece spells it: with its own sign for a space."""
    return token.replace(byte_level_encode(" "), SPACE)


def sentencepiece_model(tokenizer: Tokenizer) -> bytes:
    """A SentencePiece model that cuts texts into the same tokens, with the same ids."""
    if isinstance(tokenizer, PretrainedTokenizer):
        return base64.b64decode(tokenizer.content.model)
    content = json.loads(tokenizer.to_json())
    is_unigram = content["model"]["type"] == "Unigram"
    scores = dict(content["model"]["vocab"]) if is_unigram else _merge_scores(content["model"]["merges"])
    model = _file_format().ModelProto()
    model.trainer_spec.model_type = UNIGRAM if is_unigram else BPE
    special = tokenizer.special_ids
    for name, id_ in special._asdict().items():
        setattr(model.trainer_spec, f"{name}_id", id_)
        setattr(model.trainer_spec, f"{name}_piece", tokenizer.spelled(id_))
    kinds = dict.fromkeys(special, CONTROL) | {special.unk: UNKNOWN}
    symbols = {*tokenizer.symbols}
    for id_, token in enumerate(spelled(tokenizer)):
        kind = kinds.get(id_, SYMBOL if token in symbols else NORMAL)
        model.pieces.add(piece=_piece(token), score=scores.get(token, -float(len(scores))), type=kind)
    spellings = [(character, byte_level_encode(character)) for character in CHARACTERS]
    adds_space = content["normalizer"] is not None
    encoding = _normalizer(spellings, add_dummy_prefix=adds_space, escape_whitespaces=True)
    model.normalizer_spec.CopyFrom(encoding)
    characters = [(spelling, character) for character, spelling in spellings]
    decoding = _normalizer(characters, add_dummy_prefix=False, escape_whitespaces=False)
    model.denormalizer_spec.CopyFrom(decoding)
    return model.SerializeToString()


def _merge_scores(merges: list[list[str] | str]) -> dict[str, float]:
    """The score of each token that BPE makes of two others: the earlier they are merged, the higher."""
    scores: dict[str, float] = {}
    for rank, merge in enumerate(merges):
        parts = merge if isinstance(merge, list) else merge.split(" ")
        scores.setdefault("".join(parts), -float(rank))  # the first way to make a token counts
    return scores


def _normalizer(replacements: list[tuple[str, str]], *, add_dummy_prefix: bool, escape_whitespaces: bool) -> Any:
    """Rules that replace texts, as files of SentencePiece hold them."""
    library = _library()
    library.set_min_log_level(2)
    normalizer = library.SentencePieceNormalizer(
        norm_map=replacements,
        remove_extra_whitespaces=False,
        add_dummy_prefix=add_dummy_prefix,
        escape_whitespaces=escape_whitespaces,
    )
    return _file_format().ModelProto.FromString(normalizer.serialized_model_proto()).normalizer_spec


def _library() -> Any:
    return load("sentencepiece", extra="argos", purpose=PURPOSE)


def _file_format() -> Any:
    """The classes of SentencePiece's files."""
    return load("sentencepiece.sentencepiece_model_pb2", extra="argos", purpose=PURPOSE)
