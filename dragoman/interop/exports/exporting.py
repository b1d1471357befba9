"""`dragoman export`: writes a model for another engine, and says so only when both engines translate the same.

Sentences are translated by both, greedily and with a beam. In float32 the tokens have to be identical, and the scores
within `TOLERANCE`; for other numbers, the share of identical translations and the difference of BLEU are told.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import torch

from dragoman import __version__
from dragoman.data.bitext import Bitext
from dragoman.decoding.precision import INT8
from dragoman.decoding.search import Beams
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError, is_spelled
from dragoman.evaluation.scores import score
from dragoman.interop.exports import argos, ctranslate2, eight_bits, onnx, transformers, web
from dragoman.interop.exports.engine_files import package
from dragoman.interop.exports.proof import Agreement, FirstBeams, Found, ScoreBeams, longest, search
from dragoman.metrics import MAIN
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory, refuse_to_overwrite
from dragoman.system.atomic import new_folder, write_file
from dragoman.system.templates import render
from dragoman.text.characters import cut_label, normalised
from dragoman.text.labels import languages_in
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer

TOLERANCE = 1e-3
BEAM_SIZE = 5
SENTENCES = 200
"""Translated by both engines unless told otherwise."""


@dataclass(frozen=True)
class Target:
    """A format, and the engine that runs it."""

    write: Callable[[ModelDirectory, Path, str], None]
    """Writes a model into a folder, in numbers of some kind."""
    search: Callable[..., Found]
    """Translates source tokens with the written model, as `dragoman.interop.exports.proof.search` does."""
    beams: type[Beams]
    """Our beam search by the engine's rule for its end."""
    packages: tuple[str, ...] = ()
    """Packages whose versions the README of the export lists."""
    numbers: tuple[str, ...] = ("float32",)
    """The kinds of numbers that can be written, the first unless another is asked for."""
    refusal: Callable[[ModelDirectory], str | None] = lambda _: None
    """Why a model cannot be expressed; None if it can."""
    expressed: Callable[[ModelDirectory], ModelDirectory] = lambda directory: directory
    """The model as the engine computes it."""
    prepared: Callable[[ModelDirectory, str], str] = lambda directory, text: directory.preprocessor(text).text
    """A text as it is when it is cut into tokens."""


TARGETS = {
    "ctranslate2": Target(
        packages=("ctranslate2",),
        expressed=ctranslate2.expressed,
        write=ctranslate2.write,
        search=ctranslate2.search,
        beams=FirstBeams,
        numbers=ctranslate2.QUANTIZATIONS,
    ),
    "dragoman-int8": Target(
        write=eight_bits.write,
        search=eight_bits.search,
        beams=Beams,
        numbers=(INT8,),
    ),
    "argos": Target(
        packages=("ctranslate2", "sentencepiece"),
        refusal=argos.refusal,
        expressed=ctranslate2.expressed,
        write=argos.write,
        search=argos.search,
        beams=FirstBeams,
        numbers=argos.QUANTIZATIONS,
        prepared=lambda _, text: normalised(text),
    ),
    "onnx": Target(
        packages=("onnx", "onnxruntime"),
        write=onnx.write,
        search=onnx.search,
        beams=ScoreBeams,
        numbers=("float32", "int8"),
    ),
    "transformers": Target(
        packages=("transformers",),
        refusal=transformers.refusal,
        write=transformers.write,
        search=transformers.search,
        beams=ScoreBeams,
    ),
    "web": Target(
        packages=("onnx", "onnxruntime"),
        refusal=web.refusal,
        write=web.write,
        search=web.search,
        beams=ScoreBeams,
        numbers=("int8", "float32"),
    ),
}


@dataclass(frozen=True)
class Proof:
    """What both engines made of the same sentences."""

    numbers: str
    agreements: dict[str, Agreement]
    """Greedy and beam search."""
    same_rule: int
    """Translations of the engine's beam search that are those of Dragoman's own rule for its end, too."""
    bleu_difference: float | None
    """BLEU of the engine's less that of ours, if there are references."""
    bleu_with_ours: float
    """BLEU of the engine's with ours as references."""
    same_as_translate: int
    """Translations of the raw texts by the engine that are those of `dragoman translate`, which prepares texts."""

    @property
    def fault(self) -> str | None:
        """Why the export is not what it should be; None if it is."""
        if self.numbers != "float32":
            return None
        for name, found in self.agreements.items():
            if found.identical < found.sentences:
                return f"{found.sentences - found.identical} of {found.sentences} translations differ ({name})"
            if found.largest_difference > TOLERANCE:
                return f"scores differ by up to {found.largest_difference:.2g} ({name})"
        return None

    def to_dict(self) -> dict:
        agreements = {name: vars(each) for name, each in self.agreements.items()}
        extra = {"same_with_our_rule": self.same_rule, "bleu_difference": self.bleu_difference}
        extra |= {"bleu_with_ours": self.bleu_with_ours, "same_as_translate": self.same_as_translate}
        return {"numbers": self.numbers, "agreements": agreements} | extra


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What an export may be told."""

    quantization: str | None = None
    """The kind of numbers; None: what the engine usually has."""
    languages: tuple[str | None, str | None] = (None, None)
    """Source and target of a model that knows many."""
    sentences: Sequence[str] | None = None
    """What both engines translate; None: the first test sentences of the training, or built-in ones."""
    runtime: Path | None = None
    """For the web: the folder with the runtime of the page; None: it is downloaded."""


def export(model: Path, output: Path, target: str, options: ExportOptions = ExportOptions()) -> Proof:
    """Write `model` for the engine `target` to `output`, a new or empty folder, which stays as it was if that fails.

    Raises `UsageError` for what the format cannot express, and `DataError` if the engines do not agree.
    """
    refuse_to_overwrite(output)
    engine = TARGETS[target]
    if target != "dragoman-int8" and not is_spelled(name := str(output.absolute())):
        raise UsageError(f"{name} is no UTF-8, and the library of {target} opens no other names; choose another OUT.")
    numbers = options.quantization or engine.numbers[0]
    if numbers not in engine.numbers:
        raise UsageError(f"{target} is written as {' or '.join(engine.numbers)}, not as {numbers}.")
    directory = ModelDirectory.load(model).speaking(*options.languages)
    directory.require_languages(for_good=True)
    if reason := refusal(directory, target):
        raise UsageError(f"{target} cannot express this model: {reason}.")
    pairs = (
        [(text, None) for text in options.sentences]
        if options.sentences
        else _test_pairs(model, directory.target_language)
    )
    with new_folder(output) as folder:
        engine.write(directory, folder, numbers)
        if target == "web":
            web.add_runtime(folder, options.runtime)
        proof = prove(directory, folder, engine, pairs, numbers)
        if proof.fault:
            raise DataError(f"The exported model is not the same: {proof.fault}. Nothing was written to {output}.")
        write_file(folder / "README.md", _readme(directory, target, proof, output.absolute().name).encode())
    return proof


def refusal(directory: ModelDirectory, target: str) -> str | None:
    """Why a format cannot express a model; None if it can."""
    source = directory.source_tokenizer
    if source.closing != source.special_ids and target != "transformers":
        return "its sources end with the token of their language (legacy_behaviour), which only transformers writes"
    return TARGETS[target].refusal(directory)


def prove(
    directory: ModelDirectory,
    folder: Path,
    engine: Target,
    pairs: Sequence[tuple[str, str | None]],
    quantization: str,
) -> Proof:
    """Translate the sources of `pairs` with both engines."""
    sources = directory.source_tokenizer.encode_batch(engine.prepared(directory, source) for source, _ in pairs)
    most = longest(directory)
    if too_long := next((number for number, ids in enumerate(sources, start=1) if len(ids) >= most), None):
        raise UsageError(f"Sentence {too_long} has more than the {most:,} tokens that the format has positions for.")
    penalty = directory.decoding.length_penalty
    original, directory = directory, engine.expressed(directory)
    agreements, found = {}, []
    for name, size in (("greedy", 1), (f"beam {BEAM_SIZE}", BEAM_SIZE)):
        ours = search(directory, sources, beam_size=size, length_penalty=penalty, beams=engine.beams)
        theirs = engine.search(folder, directory, sources, beam_size=size, length_penalty=penalty)
        agreements[name] = Agreement.of(ours, theirs)
        found = [ours, theirs]
    own = search(directory, sources, beam_size=BEAM_SIZE, length_penalty=penalty)
    same = Agreement.of(own, found[1]).identical
    references, language = [target for _, target in pairs if target is not None], directory.target_language
    ours, theirs = (directory.target_tokenizer.decode_batch([ids for ids, _ in each]) for each in found)

    def bleu(texts: list[str], references: list[str]) -> float:
        return score(texts, references, target_language=language, metrics=[MAIN])[MAIN.name].value

    complete = len(references) == len(pairs)
    difference = bleu(theirs, references) - bleu(ours, references) if complete else None
    known = dict(zip(map(tuple, sources), found[1], strict=True))
    raw = _same_as_translate(original, folder, engine, [text for text, _ in pairs], known)
    return Proof(quantization, agreements, same, difference, bleu(theirs, ours), raw)


def _same_as_translate(
    directory: ModelDirectory,
    folder: Path,
    engine: Target,
    texts: list[str],
    known: dict[tuple[int, ...], tuple[list[int], float]],
) -> int:
    """How many of the raw `texts` the engine translates as `dragoman translate` does; it has translated the `known`."""
    penalty, most = directory.decoding.length_penalty, longest(directory)
    raw = directory.source_tokenizer.encode_batch(map(normalised, texts))
    new = [ids for ids in raw if tuple(ids) not in known and len(ids) < most]
    found = engine.search(folder, engine.expressed(directory), new, beam_size=BEAM_SIZE, length_penalty=penalty)
    known = known | dict(zip(map(tuple, new), found, strict=True))
    theirs = directory.target_tokenizer.decode_batch([known.get(tuple(ids), ([], 0.0))[0] for ids in raw])
    ours = Translator(directory).translate(texts, beam_size=BEAM_SIZE, length_penalty=penalty)
    return sum(their.strip() == our.text for their, our in zip(theirs, ours, strict=True))


def _test_pairs(model: Path, language: str | None) -> list[tuple[str, str | None]]:
    """The first pairs in a language that the model was tested on, if it was trained here; else those of the grammar."""
    directory = RunDirectory(model)
    if (directory.data / "test.json").is_file():
        cut = [(*cut_label(source), target) for source, target in directory.pairs("test")]
        fitting = [pair for found, *pair in cut if not found or languages_in(found)[1] == language]
        return [(source, target) for source, target in fitting[:SENTENCES] if source.strip()]
    grammar = Bitext.open(f"builtin:grammar:{SENTENCES}:test")
    return [(source, None) for source, _ in islice(grammar, SENTENCES)]


def _readme(directory: ModelDirectory, target: str, proof: Proof, title: str) -> str:
    tokenizer = directory.source_tokenizer
    packages = {name: version(name) for name in TARGETS[target].packages} | {"torch": torch.__version__}
    return render(
        f"interop/exports/static/{target}.md",
        title=title,
        proof=proof,
        beam_size=BEAM_SIZE,
        length_penalty=directory.decoding.length_penalty,
        package=package(directory),
        codes=argos.codes(directory),
        special=directory.target_tokenizer.special_ids,
        sentences=next(iter(proof.agreements.values())).sentences,
        runtime=web.VERSION,
        punctuation=directory.style.punctuation,
        spelled=bool(directory.style.characters),
        masks=directory.source_tokenizer.placeholders,
        tag=f"{tokenizer.content.begin} " if isinstance(tokenizer, PretrainedTokenizer) and tokenizer.tagged else "",
        direction=" to ".join(code or "?" for code in directory.languages),
        versions={"dragoman": __version__} | packages,
    )
