"""`dragoman export`: writes a model for another engine, and keeps it only if both engines translate the same.

Both translate the same sentences, greedily and with a beam. In float32 the tokens have to be identical, and the scores
may differ by `TOLERANCE`. For other numbers, the README tells the share of identical translations and the difference of
BLEU.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from dragoman.interop.exports.proof import Agreement, EngineTranslation, FirstBeams, ScoreBeams, position_limit, search
from dragoman.metrics import MAIN
from dragoman.storage.beside import copy_beside
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory, refuse_to_overwrite
from dragoman.system.atomic import new_folder, write_file
from dragoman.system.templates import render
from dragoman.text.characters import cut_label, normalised
from dragoman.text.labels import languages_in
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer

TOLERANCE = 1e-3
"""Largest difference between the scores of a translation in float32."""
BEAM_SIZE = 5
SENTENCES = 200
"""Number of sentences that both engines translate by default."""


def _never_refused(directory: ModelDirectory) -> None:
    """A format that expresses all models has no reason to refuse one."""


def _unchanged(directory: ModelDirectory) -> ModelDirectory:
    """The model of an engine that computes what Dragoman computes."""
    return directory


def _preprocessed(directory: ModelDirectory, text: str) -> str:
    """A text as Dragoman encodes it."""
    return directory.preprocessor(text).text


def _only_normalised(directory: ModelDirectory, text: str) -> str:
    """A text for an engine that knows nothing of the style of the sources."""
    return normalised(text)


@dataclass(frozen=True)
class Target:
    """A format, and the engine that runs it."""

    write: Callable[[ModelDirectory, Path, str], None]
    """Writes a model into a folder; the third argument is the kind of numbers."""
    search: Callable[..., list[EngineTranslation]]
    """Translates source tokens with the written model, as `dragoman.interop.exports.proof.search` does with ours."""
    beams: type[Beams]
    """Beam search of Dragoman by the engine's rule for its end."""
    packages: tuple[str, ...] = ()
    """Packages whose versions the README of the export lists."""
    numbers: tuple[str, ...] = ("float32",)
    """Kinds of numbers that can be written; the first one is the default."""
    refusal: Callable[[ModelDirectory], str | None] = _never_refused
    """Function that gives the reason why a model cannot be expressed; None if it can."""
    expressed: Callable[[ModelDirectory], ModelDirectory] = _unchanged
    """Function that gives the model as the engine computes it."""
    prepared: Callable[[ModelDirectory, str], str] = _preprocessed
    """Function that gives a text as it is before tokenization."""
    has_shortest: bool = True
    """Whether those who use what is written end no translation before its shortest length."""


TARGETS = {
    "ctranslate2": Target(
        packages=("ctranslate2",),
        refusal=ctranslate2.refusal,
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
        prepared=_only_normalised,
        has_shortest=False,
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
        has_shortest=False,
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
    """Comparison of the translations of the same sentences by both engines."""

    numbers: str
    """Kind of numbers of the exported model."""
    agreements: dict[str, Agreement]
    """How far the engines agree in greedy and in beam search."""
    same_rule: int
    """Number of translations of the engine's beam search that Dragoman also finds by its own rule for the end."""
    bleu_difference: float | None
    """BLEU of the engine's translations less that of ours; None without references."""
    bleu_with_ours: float
    """BLEU of the engine's translations with ours as references."""
    same_as_translate: int
    """Number of raw texts that the engine translates as `dragoman translate` does, which prepares texts."""

    @property
    def fault(self) -> str | None:
        """Why the exported model is not the same; None if it is, or if its numbers are rounded."""
        if self.numbers != "float32":
            return None
        for name, agreement in self.agreements.items():
            differing = agreement.sentences - agreement.identical
            if differing:
                return f"{differing} of {agreement.sentences} translations differ ({name})"
            if agreement.largest_difference > TOLERANCE:
                return f"scores differ by up to {agreement.largest_difference:.2g} ({name})"
        return None

    def to_dict(self) -> dict:
        """All results, for JSON."""
        return {
            "numbers": self.numbers,
            "agreements": {name: vars(agreement) for name, agreement in self.agreements.items()},
            "same_with_our_rule": self.same_rule,
            "bleu_difference": self.bleu_difference,
            "bleu_with_ours": self.bleu_with_ours,
            "same_as_translate": self.same_as_translate,
        }


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Options of `export`."""

    quantization: str | None = None
    """Kind of numbers; None: the default of the engine."""
    languages: tuple[str | None, str | None] = (None, None)
    """Source and target language, for a model of many."""
    sentences: Sequence[str] | None = None
    """Sentences that both engines translate; None: the first test sentences of the training, or built-in ones."""
    runtime: Path | None = None
    """For the web: the folder with the runtime of the page; None: it is downloaded."""


def export(model: Path, output: Path, target: str, options: ExportOptions = ExportOptions()) -> Proof:
    """Write `model` for the engine `target` to `output`, a new or empty folder, which stays as it was if that fails.

    Raises `UsageError` for what the format cannot express, and `DataError` if the engines do not agree.
    """
    refuse_to_overwrite(output)
    engine = TARGETS[target]
    name = str(output.absolute())
    if target != "dragoman-int8" and not is_spelled(name):
        raise UsageError(f"{name} is no UTF-8, and the library of {target} opens no other names; choose another OUT.")
    numbers = options.quantization or engine.numbers[0]
    if numbers not in engine.numbers:
        raise UsageError(f"{target} is written as {' or '.join(engine.numbers)}, not as {numbers}.")
    directory = ModelDirectory.load(model).speaking(*options.languages)
    directory.require_languages(for_good=True)
    if reason := refusal(directory, target):
        raise UsageError(f"{target} cannot express this model: {reason}.")
    pairs: list[tuple[str, str | None]] = [(sentence, None) for sentence in options.sentences or ()]
    if not pairs:
        limit = _most_tokens(directory, engine)
        pairs = _test_pairs(directory, model)
        sources = _encoded(directory, engine, pairs)
        pairs = [pair for pair, ids in zip(pairs, sources, strict=True) if len(ids) < limit]
    with new_folder(output) as folder:
        engine.write(directory, folder, numbers)
        if target == "dragoman-int8":
            copy_beside(model, folder)
        if target == "web":
            web.add_runtime(folder, options.runtime)
        proof = prove(directory, folder, engine, pairs, numbers)
        if proof.fault:
            raise DataError(f"The exported model is not the same: {proof.fault}. Nothing was written to {output}.")
        write_file(folder / "README.md", _readme(directory, target, proof, output.absolute().name).encode())
    return proof


def _most_tokens(directory: ModelDirectory, engine: Target) -> int:
    """Tokens of a sentence, with its end, that both engines have positions for."""
    if engine is TARGETS["dragoman-int8"]:
        return directory.model.config.max_length or sys.maxsize
    return position_limit(directory)


def _encoded(directory: ModelDirectory, engine: Target, pairs: Sequence[tuple[str, str | None]]) -> list[list[int]]:
    """The tokens of the sources of `pairs`, as an engine prepares them."""
    return directory.source_tokenizer.encode_batch(engine.prepared(directory, source) for source, _ in pairs)


def refusal(directory: ModelDirectory, target: str) -> str | None:
    """Why a format cannot express a model; None if it can."""
    is_changed = any(tokenizer.is_changed for tokenizer in directory.tokenizers)
    if is_changed and target != "dragoman-int8":
        return "its vocabulary was trimmed or extended, and other programs split texts as before; import it whole"
    source = directory.source_tokenizer
    if source.closing != source.special_ids and target != "transformers":
        return "its sources end with the token of their language (legacy_behaviour), which only transformers writes"
    return TARGETS[target].refusal(directory)


def prove(
    directory: ModelDirectory,
    folder: Path,
    engine: Target,
    pairs: Sequence[tuple[str, str | None]],
    numbers: str,
) -> Proof:
    """Translate the sources of `pairs` with both engines, and compare the translations.

    `folder` holds the exported model, `numbers` is its kind of numbers.
    """
    sources = _encoded(directory, engine, pairs)
    limit = _most_tokens(directory, engine)
    for number, ids in enumerate(sources, start=1):
        if len(ids) >= limit:
            raise UsageError(
                f"Sentence {number} has more than the {limit:,} tokens that the format has positions for; leave it out."
            )
    expressed = _without_shortest(engine.expressed(directory))
    penalty = directory.decoding.length_penalty
    agreements = {}
    for name, beam_size in (("greedy", 1), (f"beam {BEAM_SIZE}", BEAM_SIZE)):
        ours = search(expressed, sources, beam_size=beam_size, length_penalty=penalty, beams=engine.beams)
        theirs = engine.search(folder, expressed, sources, beam_size=beam_size, length_penalty=penalty)
        agreements[name] = Agreement.of(ours, theirs)
    # From here on, `ours` and `theirs` are the translations of the beam search.
    by_our_rule = search(expressed, sources, beam_size=BEAM_SIZE, length_penalty=penalty)
    our_texts = directory.target_tokenizer.decode_batch([translation.tokens for translation in ours])
    their_texts = directory.target_tokenizer.decode_batch([translation.tokens for translation in theirs])
    references = [target for _, target in pairs if target is not None]
    language = directory.target_language
    difference = None
    if len(references) == len(pairs):
        difference = _bleu(their_texts, references, language) - _bleu(our_texts, references, language)
    translated = {tuple(ids): translation for ids, translation in zip(sources, theirs, strict=True)}
    return Proof(
        numbers=numbers,
        agreements=agreements,
        same_rule=Agreement.of(by_our_rule, theirs).identical,
        bleu_difference=difference,
        bleu_with_ours=_bleu(their_texts, our_texts, language),
        same_as_translate=_same_as_translate(directory, folder, engine, [source for source, _ in pairs], translated),
    )


def _without_shortest(directory: ModelDirectory) -> ModelDirectory:
    """The model with a search that may end at once.

    Engines are compared without a shortest length: where it forbids the end, CTranslate2 raises the probabilities of
    all other tokens until they add up to 1, so that scores differ.
    """
    return replace(directory, decoding=directory.decoding.of_any_length())


def _bleu(texts: list[str], references: list[str], language: str | None) -> float:
    return score(texts, references, target_language=language, metrics=[MAIN])[MAIN.name].value


def _same_as_translate(
    directory: ModelDirectory,
    folder: Path,
    engine: Target,
    texts: list[str],
    translated: dict[tuple[int, ...], EngineTranslation],
) -> int:
    """Number of the raw `texts` that the engine translates as `dragoman translate` does.

    `translated` are its translations so far, by the token ids of their sources.
    """
    penalty, limit = directory.decoding.length_penalty, position_limit(directory)
    expressed = engine.expressed(directory)
    if engine.has_shortest and directory.decoding.min_ratio:
        translated = {}
    else:
        expressed = _without_shortest(expressed)
    sources = directory.source_tokenizer.encode_batch(map(normalised, texts))
    new = [ids for ids in sources if tuple(ids) not in translated and len(ids) < limit]
    translations = engine.search(folder, expressed, new, beam_size=BEAM_SIZE, length_penalty=penalty)
    translated = translated | dict(zip(map(tuple, new), translations, strict=True))
    too_long = EngineTranslation([], 0.0)
    theirs = directory.target_tokenizer.decode_batch([translated.get(tuple(ids), too_long).tokens for ids in sources])
    ours = Translator(directory).translate(texts, beam_size=BEAM_SIZE, length_penalty=penalty)
    return sum(their.strip() == our.text for their, our in zip(theirs, ours, strict=True))


def _test_pairs(directory: ModelDirectory, model: Path) -> list[tuple[str, str | None]]:
    """The first pairs in its languages that the model was tested on, if it was trained here; else sentences of the
    built-in grammar, without targets."""
    language = directory.target_language
    source_language = directory.source_language if directory.source_tokenizer.languages else None
    run = RunDirectory(model)
    if (run.data / "test.json").is_file():
        pairs = []
        for labelled, target in run.pairs("test"):
            label, source = cut_label(labelled)
            of_source, of_target = languages_in(label) if label else (source_language, language)
            if of_target == language and (not source_language or of_source == source_language):
                pairs.append((source, target))
        pairs = [(source, target) for source, target in pairs[:SENTENCES] if source.strip()]
        if not pairs:
            raise UsageError(f"The run in {model} was not tested on pairs into {language}; give --sentences.")
        return pairs
    grammar = Bitext.open(f"builtin:grammar:{SENTENCES}:test")
    return [(source, None) for source, _ in islice(grammar, SENTENCES)]


def _readme(directory: ModelDirectory, target: str, proof: Proof, title: str) -> str:
    """The README.md of an export."""
    tokenizer = directory.source_tokenizer
    tag = f"{tokenizer.content.begin} " if isinstance(tokenizer, PretrainedTokenizer) and tokenizer.tagged else ""
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
        reading=directory.style.reading,
        has_shortest=TARGETS[target].has_shortest,
        masks=tokenizer.placeholders,
        length_offset=directory.decoding.length_offset,
        tag=tag,
        direction=" to ".join(code or "?" for code in directory.languages),
        versions={"dragoman": __version__} | packages,
    )
