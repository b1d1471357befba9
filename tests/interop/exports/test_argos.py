"""Packages for Argos Translate: SentencePiece cuts text as our tokenizer does, and Argos installs the file."""

import itertools
import os
import subprocess
import sys

import pytest
import sentencepiece

from dragoman.data.bitext import Bitext
from dragoman.interop.exports.argos import sentencepiece_model
from dragoman.interop.exports.exporting import ExportOptions, export
from dragoman.interop.exports.proof import FirstBeams, search
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "The red house isn't old, l'été 2024; 3 men's hats (12a).",
    "Ça va ? « Où ça » — “là”.",
    "夏の花がきれいです。今年の夏は暑い。",
    "Привет, как дела? हिन्दी में",
    "two  spaces\tand ▁ Ġ_ \N{HEAVY BLACK HEART}\N{GRINNING FACE}",
    "x",
]


@pytest.fixture(scope="module", params=["bpe", "unigram", "char"])
def tokenizer(request) -> Tokenizer:
    texts = [*itertools.chain.from_iterable(Bitext.open("builtin:grammar:300")), *TEXTS * 3]
    return Tokenizer.train(texts, vocab_size=700, kind=request.param)


@pytest.mark.first_is_quick
def test_sentencepiece_finds_our_tokens_and_puts_them_together(tokenizer):
    pieces = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(tokenizer))
    grammar = (source for source, _ in Bitext.open("builtin:grammar:200:test"))
    texts = [*TEXTS, *(text[::-1] for text in TEXTS), *grammar]
    for text in texts:
        assert pieces.encode(text) == tokenizer.encode(text)
        assert pieces.decode_pieces(pieces.encode(text, out_type=str)).replace("▁", " ") == text.replace("▁", " ")


@pytest.mark.first_is_quick
def test_half_a_character_is_no_error(tokenizer):
    pieces = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(tokenizer))
    half = tokenizer.spelled(tokenizer.encode("\U00012345")[-1])
    assert "x" in pieces.decode_pieces(["▁x", half, "y"])


PROGRAM = """
import sys
from argostranslate import package, translate
package.install_from_path(sys.argv[1])
translation = translate.get_translation_from_codes("en", "fr").underlying
# Its model for sentences would be downloaded.
translation.sentencizer.split_sentences = lambda text: [text]
for line in sys.stdin:
    print(translation.translate(line.strip()))
"""


@pytest.mark.slow
def test_argos_translate_installs_the_package_and_translates(tmp_path, dragoman):
    packages = "argostranslate==1.11.0 stanza==1.10.1 minisbd==0.9.5 emoji networkx requests urllib3 certifi idna"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "packages"]
    if subprocess.run([*install, *packages.split(), "charset_normalizer"]).returncode:
        pytest.skip("pip has no network")
    settings = ["training.max_steps=300", "training.max_tokens=1024"]
    assert dragoman("train", "builtin:grammar:2000", "--output", tmp_path / "model", *settings)[0] == 0
    options = ExportOptions(quantization="float32", languages=("en", "fr"))
    export(tmp_path / "model", tmp_path / "out", "argos", options)
    # By itself it rounds the weights where the processor likes that.
    places = {"PYTHONPATH": str(tmp_path / "packages"), "HOME": str(tmp_path)}
    environment = os.environ | places | {"ARGOS_COMPUTE_TYPE": "float32"}
    sentences = [source for source, _ in Bitext.open("builtin:grammar:50:test")]
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "out/en_fr.argosmodel"],
        input="\n".join(sentences), capture_output=True, text=True, env=environment, encoding="utf-8",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    directory = ModelDirectory.load(tmp_path / "model")
    sources = directory.source_tokenizer.encode_batch(sentences)
    # Beam and length penalty are those of Argos Translate.
    translations = search(directory, sources, beam_size=4, length_penalty=0.2, beams=FirstBeams)
    assert process.stdout.split("\n")[:-1] == directory.target_tokenizer.decode_batch([ids for ids, _ in translations])
