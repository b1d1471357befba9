"""The translator as a program meets it: streams, warnings, names, other processes."""

import copy
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_type_hints

import pytest
import torch

import dragoman
from dragoman import SentenceCut, Translator
from dragoman.config.decoding import DecodingConfig, DecodingOptions
from dragoman.decoding.precision import INT8, Precision
from dragoman.engine.int8 import can_quantise
from dragoman.errors import DataError, UsageError
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.device import PRECISIONS, available_device
from dragoman.text.tokenizers.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("annotations_unchecked")
TEXTS = ["The red house is old.", "A cat.", "Two dogs.", "The garden and the cat.", "Is it a cat?"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random model that has eight bits where the processor has."""
    tokenizer = Tokenizer.train(TEXTS, vocab_size=300)
    torch.manual_seed(7)
    sizes = {"d_model": 32, "d_ff": 48, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    vocabulary = {"source_vocab_size": tokenizer.vocab_size, "target_vocab_size": tokenizer.vocab_size}
    path = tmp_path_factory.mktemp("program") / "model"
    ModelDirectory(Transformer(TransformerConfig(**vocabulary, **sizes)), tokenizer, tokenizer, "en", "fr").save(path)
    return path


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu")


def test_the_first_translation_comes_before_the_second_text_is_read(translator: Translator) -> None:
    read: list[str] = []

    def texts() -> Iterator[str]:
        for text in TEXTS:
            read.append(text)
            yield text

    stream = translator.stream(texts(), beam_size=1)
    assert read == []
    first = next(stream)
    assert read == TEXTS[:1]
    rest = list(stream)
    assert [first.text, *(t.text for t in rest)] == [t.text for t in translator.translate(TEXTS, beam_size=1)]


def test_more_texts_are_taken_together_as_long_as_they_come_fast(translator: Translator, monkeypatch) -> None:
    sizes: list[int] = []

    def quietly(texts: list[str], *_: object) -> list[dragoman.Translation]:
        sizes.append(len(texts))
        return [dragoman.Translation(text, 0.0, 0.0, []) for text in texts]

    moments = iter(range(10_000))
    monkeypatch.setattr("dragoman.decoding.windows.time", SimpleNamespace(monotonic=lambda: next(moments)))
    monkeypatch.setattr(translator, "translate_quietly", quietly)
    assert [t.text for t in translator.stream(map(str, range(100)), window=16)] == [*map(str, range(100))]
    assert sizes == [1, 2, 4, 8, 16, 16, 16, 16, 16, 5]


def test_slow_texts_are_translated_one_by_one(translator: Translator, monkeypatch) -> None:
    clock = [0.0]
    sizes: list[int] = []

    def slow() -> Iterator[str]:
        for text in TEXTS:
            clock[0] += 1
            yield text

    def quietly(texts: list[str], *_: object) -> list[dragoman.Translation]:
        clock[0] += 0.5
        sizes.append(len(texts))
        return [dragoman.Translation(text, 0.0, 0.0, []) for text in texts]

    monkeypatch.setattr("dragoman.decoding.windows.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(translator, "translate_quietly", quietly)
    assert len(list(translator.stream(slow()))) == len(TEXTS)
    assert sizes == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("texts", ["abc", ["a", None], ["a", 3.0], {"a": 1}])
def test_a_stream_takes_texts_alone(translator: Translator, texts: object) -> None:
    with pytest.raises((UsageError, DataError), match=r"The texts are|Item 1 of the texts is"):
        list(translator.stream(texts))  # type: ignore[arg-type]


def test_sentences_that_were_cut_are_warnings_that_name_the_text(translator: Translator) -> None:
    long = "the cat and " * 200
    for translate in (translator.translate, lambda texts, **options: list(translator.stream(texts, **options))):
        with pytest.warns(SentenceCut, match="Text 1: a sentence of more than 9 tokens was cut"):
            translate(["A cat.", long], beam_size=1, max_source_length=9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = translator.translate_quietly([long], DecodingConfig(beam_size=1, max_source_length=9))
    assert "was cut" in (found.warning or "")


def test_it_is_loaded_anew_from_its_folder_in_another_process(translator: Translator, model: Path) -> None:
    loaded = pickle.loads(pickle.dumps(translator))
    assert (loaded.path, loaded.languages) == (model, ("en", "fr")) == (translator.path, translator.languages)
    assert loaded.precision == translator.precision
    assert loaded.translate(TEXTS, beam_size=2) == translator.translate(TEXTS, beam_size=2)
    in_memory = Translator(ModelDirectory.load(model))
    with pytest.raises(TypeError, match="from a model in memory"):
        pickle.dumps(in_memory)
    assert copy.copy(in_memory).engines is in_memory.engines
    assert copy.copy(translator).engines is translator.engines


def test_it_says_what_it_is(translator: Translator, model: Path) -> None:
    assert repr(translator) == f"<Translator of '{model}', en to fr, on cpu>"
    (translation,) = translator.translate(["A cat."], beam_size=2, n_best=2)
    assert str(translation) == translation.text
    assert repr(translation) == f"<Translation {translation.text!r}, score {translation.score:.3f}>"
    fields = translation.to_dict()
    assert fields["text"] == translation.text
    assert fields["alternatives"][0]["text"] == translation.alternatives[0].text
    assert "alignment" not in fields


def test_eight_bits_are_the_default_where_they_hold(translator: Translator, model: Path) -> None:
    assert translator.precision == ("int8" if can_quantise(translator.engines[0].config) else "float32")
    assert Translator.load(model, device="cpu", precision="float32").precision == "float32"
    assert {*get_args(Precision)} == {"auto", INT8, *PRECISIONS}
    with pytest.raises(UsageError, match="'fp16' is unknown; choose auto, float32, bfloat16 or int8"):
        Translator.load(model, precision="fp16")  # type: ignore[arg-type]


def test_a_path_is_loaded_and_not_called(model: Path) -> None:
    with pytest.raises(UsageError, match=r"write Translator\.load\('runs/en-fr'\)"):
        Translator("runs/en-fr")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"`ensemble` is a single path; write \[path\]"):
        Translator.load(model, ensemble=str(model))
    with pytest.raises(UsageError, match="`languages` is 'fr'"):
        Translator.load(model, languages="fr")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "no device 'gpu'; give cpu, cuda"),
        (3.5, "no device '3.5'"),
        ("cuda:99", "`device` is 'cuda:99', but PyTorch finds"),
    ],
)
def test_a_device_that_is_not_there_is_named(device: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        available_device(device)  # type: ignore[arg-type]
    assert available_device("cpu") == torch.device("cpu")


def test_options_for_editors_are_the_fields_of_the_config() -> None:
    hints = get_type_hints(DecodingOptions)
    assert hints == {name: field.annotation for name, field in DecodingConfig.model_fields.items()}


def test_public_names_are_found_and_explained() -> None:
    assert [name for name in dir(dragoman) if not name.startswith("__")] == [
        name for name in sorted(dragoman.__all__) if not name.startswith("__")
    ]
    for name in dragoman.__all__:
        assert getattr(dragoman, name).__doc__ or name == "__version__"


def test_a_document_is_translated_into_a_file(translator: Translator, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<p>The <b>red</b> house.</p>", encoding="utf-8")
    translated = dragoman.translate_document(translator, page, tmp_path / "page.fr.html", beam_size=1)
    assert (tmp_path / "page.fr.html").read_bytes() == translated.content
    assert translated.report.translated == 1
    assert dragoman.translate_document(translator, str(page), beam_size=1).content == translated.content
    long = tmp_path / "long.txt"
    long.write_text("the cat and " * 40, encoding="utf-8")
    report = dragoman.translate_document(translator, long, beam_size=1, max_source_length=9).report
    assert report.notes() == ["has 1 text with a sentence that is too long for the model, translated in parts."]
    assert report.to_dict()["cut"] == 1
    for wrong, message in (
        (lambda: dragoman.translate_document(translator, page, page), "is read and cannot be written at the same time"),
        (lambda: dragoman.translate_document(translator, page, tmp_path / "no/a.html"), "there is no folder"),
        (lambda: dragoman.translate_document(translator, "a.pdf"), "is no document that can be translated"),
        (lambda: dragoman.translate_document(translator, tmp_path / "b.html"), "b.html"),
        (lambda: dragoman.translate_document(translator, page, num_beams=2), "`beam_size`"),
    ):
        with pytest.raises((UsageError, DataError), match=message):
            wrong()
    assert page.read_text(encoding="utf-8") == "<p>The <b>red</b> house.</p>"


def test_a_file_of_lines_is_translated_into_a_file(translator: Translator, tmp_path: Path) -> None:
    lines = tmp_path / "a.en"
    lines.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    done = dragoman.translate_file(translator, lines, tmp_path / "a.fr", beam_size=1)
    assert done.lines == len(TEXTS)
    expected = [t.text for t in translator.translate(TEXTS, beam_size=1)]
    assert (tmp_path / "a.fr").read_text(encoding="utf-8").splitlines() == expected
    for wrong, message in (
        (lambda: dragoman.translate_file(translator, lines, lines), "is read and cannot be written at the same time"),
        (lambda: dragoman.translate_file(translator, lines, tmp_path / "no/a.fr"), "there is no folder"),
        (
            lambda: dragoman.translate_file(translator, lines, tmp_path / "b", n_best=2, beam_size=2),
            "leave out `n_best`",
        ),
        (lambda: dragoman.translate_file(translator, tmp_path / "c.en", tmp_path / "b"), r"c\.en"),
    ):
        with pytest.raises((UsageError, DataError), match=message):
            wrong()
    assert lines.read_text(encoding="utf-8").splitlines() == TEXTS
