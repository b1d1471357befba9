"""Exported models translate the same in the other engine; what a format cannot express is refused."""

import dataclasses
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from dragoman import Translator
from dragoman.config.decoding import DecodingConfig
from dragoman.data.bitext import Bitext
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.errors import DataError, UsageError
from dragoman.interop.exports.ctranslate2 import write_model
from dragoman.interop.exports.engine_files import spelled
from dragoman.interop.exports.exporting import TARGETS, ExportOptions, export, refusal
from dragoman.interop.exports.onnx import FILES, write_graphs
from dragoman.interop.exports.web import RUNTIME
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.interop import pretrained_models
from tests.small import SIZES, small_model

ARCHITECTURES = {
    "the default: pre-norm, rotary": {"positions": "rotary"},
    "the paper: post-norm, sinusoidal": {"norm_order": "post", "positions": "sinusoidal"},
    "post-norm, learned positions": {"norm_order": "post", "positions": "learned", "max_positions": 90},
    "post-norm, GELU, own projection": {
        "norm_order": "post", "activation": "gelu", "tie_projection": False, "projection_bias": True,
        "guided_head": True, "aligned_token": "read",
    },
    "post-norm, one gain for all features": {"norm_order": "post", "norm_gain": "scalar"},
    "pre-norm, sinusoidal": {"scale_embeddings": False},
    "RMSNorm": {"norm_order": "post", "norm": "rms"},
    "SwiGLU": {"norm_order": "post", "activation": "swiglu"},
    "notebook B, as written": {"norm_order": "post", "decoder_feed_forward": "positions"},
}  # fmt: skip
IMPORTED = {
    "Marian, imported": lambda folder: pretrained_models.marian(folder, separate=False),
    "M2M-100, imported": pretrained_models.m2m,
    "NLLB-200, imported": pretrained_models.nllb,
    "NLLB-200 with SentencePiece, imported": pretrained_models.nllb_pieces,
    "NLLB-200 with legacy sources, imported": lambda folder: pretrained_models.nllb(folder, legacy=True),
}
NLLB = ("NLLB-200, imported", "NLLB-200 with SentencePiece, imported", "NLLB-200 with legacy sources, imported")
QUICK = ("the default: pre-norm, rotary", "Marian, imported")
MODELS = pretrained_models.some_slow([*ARCHITECTURES, *IMPORTED], quick=QUICK)
LANGUAGES = {"M2M-100, imported": ("en", "fr")} | dict.fromkeys(NLLB, ("eng_Latn", "fra_Latn"))
SENTENCES = [
    "The red house is old.",
    "A cat sees the bird!",
    "the dogs",
    "x",
    "Two men do not like the green umbrella.",
]
FEW = SENTENCES[:3]
DOCS = Path(__file__).parents[3] / "docs" / "export.md"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = itertools.chain.from_iterable(Bitext.open("builtin:grammar:300"))
    return Tokenizer.train(texts, vocab_size=340)


def random_model(vocab_size: int, *, seed: int, **choices: Any) -> Transformer:
    """A model in evaluation mode whose sides share a table of embeddings."""
    model = small_model(vocab_size, **({"num_encoder_layers": 2, "share_embeddings": True} | choices)).eval()
    pretrained_models.randomise(model, end=3, seed=seed)
    return model


class Models(dict[str, Path]):
    """Model directories by name, each made when it is first asked for."""

    def __init__(self, folder: Path, tokenizer: Tokenizer):
        self.folder, self.tokenizer = folder, tokenizer

    def __missing__(self, name: str) -> Path:
        path = self[name] = self.folder / str(len(self))
        if name in IMPORTED:
            theirs = IMPORTED[name](self.folder / f"theirs-{len(self)}")
            import_pretrained(theirs, path, languages=LANGUAGES.get(name, (None, None)))
        else:
            seed = [*ARCHITECTURES].index(name)
            model = random_model(self.tokenizer.vocab_size, seed=seed, **ARCHITECTURES[name])
            search = DecodingConfig(min_ratio=1.2, min_slack=0.7)  # a random model may end at once
            ModelDirectory(model, self.tokenizer, self.tokenizer, "en", "fr", search).save(path)
        return path


@pytest.fixture(scope="module")
def models(tokenizer, tmp_path_factory) -> Models:
    return Models(tmp_path_factory.mktemp("models"), tokenizer)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", [target for target in TARGETS if target != "dragoman-int8"])
def test_engines_agree_or_the_format_is_refused(models, name, target, tmp_path):
    reason = refusal(ModelDirectory.load(models[name]), target)
    options = ExportOptions(sentences=FEW, quantization="float32", runtime=tmp_path / "runtime")
    (tmp_path / "runtime").mkdir()
    for file in RUNTIME:  # the page itself is tested in test_web.py
        (tmp_path / "runtime" / file).touch()
    answer = [part.strip() for part in row(name)[TARGETS_IN_DOCS.index(target) + 1].split(":")]
    if reason:
        assert answer[0] == "no"
        with pytest.raises(UsageError, match=f"{target} cannot express this model"):
            export(models[name], tmp_path / "out", target, options)
        assert not (tmp_path / "out").exists()
        return
    assert answer == ["yes"]
    proof = export(models[name], tmp_path / "out", target, options)
    for agreement in proof.agreements.values():
        assert agreement.identical == agreement.sentences == len(FEW)
        assert agreement.largest_difference < 1e-3


@pytest.mark.first_is_quick
@pytest.mark.parametrize("target", ["ctranslate2", "onnx", "transformers"])
def test_engines_agree_up_to_the_last_position(tokenizer, target, tmp_path):
    choices = ARCHITECTURES["post-norm, learned positions"] | {"max_positions": 24}
    model = random_model(tokenizer.vocab_size, seed=1, **choices)
    ModelDirectory(model, tokenizer, tokenizer, "en", "fr").save(tmp_path / "model")
    words, text = SENTENCES[0].split(), ""
    while len(tokenizer.encode(longer := " ".join([text, words[len(text.split()) % len(words)]]).strip())) < 24:
        text = longer
    options = ExportOptions(sentences=[text], quantization="float32")
    proof = export(tmp_path / "model", tmp_path / "out", target, options)
    assert all(agreement.identical == 1 for agreement in proof.agreements.values())
    with pytest.raises(UsageError, match="Sentence 1 has more than the 24 tokens that the format has positions for"):
        export(tmp_path / "model", tmp_path / "none", target, ExportOptions(sentences=[f"{longer} {text}"]))


TARGETS_IN_DOCS = ["ctranslate2", "argos", "onnx", "transformers", "web"]


def row(name: str) -> list[str]:
    """The cells of the table in the docs."""
    lines = [line for line in DOCS.read_text(encoding="utf-8").split("\n") if line.startswith(f"| {name} |")]
    assert len(lines) == 1, name
    return [cell.strip() for cell in lines[0].strip("|").split("|")]


@pytest.mark.slow
@pytest.mark.parametrize("name", pretrained_models.some_slow(IMPORTED, quick=QUICK))
def test_import_and_export_are_inverse(models, name, tmp_path):
    languages = LANGUAGES.get(name, (None, None))
    export(models[name], tmp_path / "theirs", "transformers", ExportOptions(sentences=FEW))
    import_pretrained(tmp_path / "theirs", tmp_path / "again", languages=languages)
    first, again = ModelDirectory.load(models[name]), ModelDirectory.load(tmp_path / "again")
    assert again.model.config == first.model.config
    assert [tokenizer.to_json() for tokenizer in again.tokenizers] == [
        tokenizer.to_json() for tokenizer in first.tokenizers
    ]
    weights, weights_again = (load_file(path / "model.safetensors") for path in (models[name], tmp_path / "again"))
    assert weights.keys() == weights_again.keys()
    assert all(torch.equal(weights[key], weights_again[key]) for key in weights)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("name", MODELS)
def test_what_was_written_for_transformers_translates_the_same_when_it_comes_back(models, name, tmp_path):
    answer = row(name)[-1]
    if refusal(ModelDirectory.load(models[name]), "transformers"):
        assert answer == "no"
        return
    assert answer == "yes"
    export(models[name], tmp_path / "theirs", "transformers", ExportOptions(sentences=FEW))
    import_pretrained(tmp_path / "theirs", tmp_path / "again", languages=LANGUAGES.get(name, (None, None)))
    first, again = Translator.load(models[name]), Translator.load(tmp_path / "again")
    assert again.languages == first.languages
    assert again.decoding == first.decoding.model_copy(update={"min_ratio": None, "min_slack": None})
    configs = [ModelDirectory.load(folder).model.config for folder in (models[name], tmp_path / "again")]
    assert configs[0].guided_head == configs[1].guided_head
    assert configs[0].aligned_token == configs[1].aligned_token
    for translation, expected in zip(again.translate(FEW), first.translate(FEW, min_ratio=0), strict=True):
        assert (translation.text, translation.tokens) == (expected.text, expected.tokens)
        assert translation.score == pytest.approx(expected.score, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", pretrained_models.some_slow(["bpe", "unigram", "char", "word"], quick=["bpe"]))
def test_tokenizers_of_dragoman_come_back_with_the_style_of_their_sources(kind, tmp_path):
    texts = [*itertools.chain.from_iterable(Bitext.open("builtin:grammar:300"))]
    tokenizer = Tokenizer.train(texts, vocab_size=340, kind=kind, symbols=[*SLOTS, "<x>"])
    model = random_model(tokenizer.vocab_size, seed=1, norm_order="post")
    style = SourceStyle.learn([(text, text) for text in texts])
    style = style.model_copy(update={"translated": ["TV"]})
    ModelDirectory(model, tokenizer, tokenizer, "en", "fr", style=style).save(tmp_path / "model")
    texts = ["The TV of 12 MEN <x> is at https://a.org.", "THE RED HOUSE IS OLD 99 TIMES", "  the\tcat\n 雪 "]
    export(tmp_path / "model", tmp_path / "theirs", "transformers", ExportOptions(sentences=texts))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    assert [theirs(text).input_ids for text in texts] == [[*ids, 3] for ids in tokenizer.encode_batch(texts)]
    import_pretrained(tmp_path / "theirs", tmp_path / "again")
    first, again = (ModelDirectory.load(tmp_path / name) for name in ("model", "again"))
    assert again.source_tokenizer.to_json() == first.source_tokenizer.to_json()
    assert again.style == first.style
    assert Translator(again).translate(texts) == Translator(first).translate(texts)
    for name, content, words in (
        ("source_style.json", '{"case": 1}', "does not say how sources are written"),
        ("tokenizer.json", Tokenizer.train(texts, vocab_size=300).to_json(), "does not put the end of sentence alone"),
        ("tokenizer.json", (tmp_path / "theirs/tokenizer.json").read_text().replace('"<pad>"', '"<p>"'), "special"),
    ):
        shutil.copytree(tmp_path / "theirs", tmp_path / "damaged", dirs_exist_ok=True)
        (tmp_path / "damaged" / name).write_text(content, encoding="utf-8")
        with pytest.raises(DataError, match=words):
            import_pretrained(tmp_path / "damaged", tmp_path / "none")


@pytest.mark.first_is_quick
@pytest.mark.parametrize("name", pretrained_models.some_slow(["the default: pre-norm, rotary", *IMPORTED], quick=QUICK))
@pytest.mark.parametrize(("target", "beam_size"), [("ctranslate2", 5), ("onnx", 1)])
def test_the_script_beside_the_model_translates_text(models, tmp_path, target, beam_size, name):
    directory, out = ModelDirectory.load(models[name]), tmp_path / "out"
    if refusal(directory, target):
        return
    export(models[name], out, target, ExportOptions(sentences=FEW))
    process = subprocess.run(
        [sys.executable, out / "translate.py"],
        input="\n".join(FEW), capture_output=True, text=True, timeout=60, encoding="utf-8",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    sources = directory.source_tokenizer.encode_batch(FEW)
    translations = TARGETS[target].search(out, directory, sources, beam_size=beam_size, length_penalty=1.0)
    texts = [directory.target_tokenizer.decode(ids).strip() for ids, _ in translations]
    assert process.stdout.split("\n")[:-1] == texts


@pytest.mark.first_is_quick
@pytest.mark.parametrize("numbers", ["float32", "int8"])
def test_onnx_stores_a_table_once_that_both_graphs_and_the_projection_share(tokenizer, tmp_path, numbers):
    size, width, copies = 5_003, SIZES["d_model"], {}
    for tied in (True, False):
        model = random_model(size, seed=1, tie_projection=tied, projection_bias=True, positions="rotary")
        folder = tmp_path / str(tied)
        folder.mkdir()
        write_graphs(ModelDirectory(model, tokenizer, tokenizer), folder, numbers)
        copies[tied] = [
            sum(
                size in tensor.dims and width in tensor.dims and not tensor.external_data
                for tensor in tensors(folder / name)
            )
            for name in ("encoder.onnx", "decoder.onnx")
        ]
        table = size * width * (1 if numbers == "int8" else 4)
        assert table <= (folder / "shared.bin").stat().st_size < 1.3 * table
    assert copies == {True: [0, 0], False: [0, 1]}


def tensors(file: Path) -> list:
    return [*onnx.load(file, load_external_data=False).graph.initializer]


@pytest.mark.slow
def test_the_readme_tells_how_many_raw_texts_the_script_translates_as_dragoman_does(tmp_path):
    texts = [*itertools.chain.from_iterable(Bitext.open("builtin:grammar:300"))]
    tokenizer = Tokenizer.train(texts, vocab_size=340, symbols=SLOTS)
    model = random_model(tokenizer.vocab_size, seed=2, projection_bias=True)
    model.projection.bias.data[3] = 2.5  # short translations
    style, plain = SourceStyle.learn([(text, text) for text in texts]), SENTENCES
    search = DecodingConfig(max_copies=0)  # a random model repeats itself
    ModelDirectory(model, tokenizer, tokenizer, "en", "fr", search, style).save(tmp_path / "model")
    special = ["THE RED HOUSE IS OLD.", "The cat sees 1,234 dogs.", "A dog sleeps. The cat sleeps."]
    proof = export(tmp_path / "model", tmp_path / "out", "ctranslate2", ExportOptions(sentences=[*plain, *special]))
    process = subprocess.run(
        [sys.executable, tmp_path / "out/translate.py"],
        input="\n".join(["\ufeff" + plain[0], *plain[1:], *special]), capture_output=True, text=True, timeout=60,
        encoding="utf-8", check=True,
    )  # fmt: skip
    ours = Translator.load(tmp_path / "model").translate([*plain, *special], beam_size=5)
    same = [text == our.text for text, our in zip(process.stdout.split("\n")[:-1], ours, strict=True)]
    assert not any(same[-3:])  # unusual case, a number, and two sentences
    assert 0 < sum(same) == proof.same_as_translate
    card = " ".join((tmp_path / "out/README.md").read_text().split())
    assert f"with beam 5, {sum(same)} of the 8 texts above are the same when nothing prepares them" in card
    assert "spells characters that the training sources hardly had" in card


def test_a_model_that_is_not_the_same_is_not_written(models, tmp_path, monkeypatch):
    write = TARGETS["ctranslate2"].write

    def wrong(directory: ModelDirectory, folder: Path, numbers: str) -> None:
        weight = directory.model.projection.weight
        kept = weight.detach().clone()
        with torch.no_grad():
            weight.copy_(weight.roll(1, 0))
            write(directory, folder, numbers)
            weight.copy_(kept)

    changed = dataclasses.replace(TARGETS["ctranslate2"], write=wrong)
    monkeypatch.setitem(TARGETS, "ctranslate2", changed)
    with pytest.raises(DataError, match=r"The exported model is not the same: \d of 5 translations differ"):
        export(
            models["the default: pre-norm, rotary"], tmp_path / "out", "ctranslate2", ExportOptions(sentences=SENTENCES)
        )
    assert not (tmp_path / "out").exists()


def test_eight_bits_tell_how_far_they_agree(models, tmp_path, dragoman):
    model = models["the default: pre-norm, rotary"]
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    command = f"export {model} {tmp_path / 'out'} --to ctranslate2 --quantization int8 --json"
    code, out, _ = dragoman(*command.split(), "--sentences", tmp_path / "text")
    proof = json.loads(out)
    assert code == 0
    assert proof["numbers"] == "int8"
    assert proof["agreements"]["greedy"]["sentences"] == len(SENTENCES)
    card = (tmp_path / "out/README.md").read_text()
    assert f"| greedy | {proof['agreements']['greedy']['identical']} of 5 |" in card
    assert "ctranslate2 " in card


@pytest.mark.slow
def test_a_model_in_eight_bits_is_a_quarter_as_large_and_says_what_it_would_say(tokenizer, tmp_path, dragoman):
    model, small, text = tmp_path / "model", tmp_path / "small", tmp_path / "text"
    widths = {"d_model": 32, "d_ff": 64, "num_heads": 2}  # eight bits need multiples of 16
    network = random_model(tokenizer.vocab_size, seed=1, norm_order="post", activation="swiglu", **widths)
    ModelDirectory(network, tokenizer, tokenizer, "en", "fr").save(model)
    text.write_text("\n".join(SENTENCES), encoding="utf-8")
    code, out, err = dragoman("export", model, small, "--to", "dragoman-int8", "--sentences", text, "--json")
    assert code == 0, err
    assert json.loads(out)["numbers"] == "int8"
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (model, small)]
    assert sizes[1] < 0.4 * sizes[0]  # biases and header count in so small a model
    rounded, again = ModelDirectory.load(small), tmp_path / "again"
    rounded.save(again, int8=True)
    assert (again / "model.safetensors").read_bytes() == (small / "model.safetensors").read_bytes()
    said = []
    for folder, precision in ((small, "int8"), (model, "int8"), (small, "float32")):
        code, out, err = dragoman("translate", folder, "--precision", precision, "--input", text)
        assert code == 0, err
        said.append(out.splitlines())
    assert any(said[0])
    assert said[0] == said[1]  # the same integers, rounded when they were written or when they are loaded
    assert len(said[2]) == len(SENTENCES)


def test_scales_of_another_matrix_are_refused(models, tmp_path):
    ModelDirectory.load(models["RMSNorm"]).save(tmp_path, int8=True)
    weights = load_file(tmp_path / "model.safetensors")
    name = next(weight for weight in weights if weight.endswith(".scale"))
    save_file(weights | {name: weights[name][1:]}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="copy the model again"):
        ModelDirectory.load(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--to onyx", "There is no format 'onyx'"),
        ("--to transformers --quantization int8", "transformers is written as float32, not as int8"),
        ("--to ctranslate2 --languages en", "write source and target"),
        ("--to ctranslate2 --languages en,de", "This model has 'fr' where 'de' is asked for"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(models, tmp_path, dragoman, arguments, words):
    model = models["the paper: post-norm, sinusoidal"]
    code, _, err = dragoman("export", model, tmp_path / "out", *arguments.split())
    assert (code, words in err) == (2, True), err
    assert not (tmp_path / "out").exists()


def test_a_folder_without_the_runtime_of_the_page_is_refused(models, tmp_path):
    options = ExportOptions(sentences=SENTENCES, runtime=tmp_path)
    with pytest.raises(UsageError, match=r"has no ort\.wasm\.min\.mjs; give the folder `dist`"):
        export(models["the default: pre-norm, rotary"], tmp_path / "page", "web", options)
    assert not (tmp_path / "page").exists()


@pytest.mark.slow
@pytest.mark.parametrize("quantization", ["float32", "int8"])
@pytest.mark.parametrize("name", ["the default: pre-norm, rotary", "post-norm, one gain for all features"])
def test_an_export_can_be_repeated_byte_for_byte(models, tmp_path, name, quantization):
    options = ExportOptions(sentences=FEW, quantization=quantization)
    for time in ("once", "twice"):
        (tmp_path / time).mkdir()
        export(models[name], tmp_path / time / "model", "onnx", options)
    for path in (tmp_path / "once/model").iterdir():
        assert path.read_bytes() == (tmp_path / "twice/model" / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_other_engines_read_the_guided_head(tokenizer, tmp_path):
    model = random_model(tokenizer.vocab_size, seed=4, num_decoder_layers=3, guided_head=True)
    directory = ModelDirectory(model, tokenizer, tokenizer, "en", "fr")
    pieces = spelled(tokenizer)
    source = [*tokenizer.encode(SENTENCES[0]), model.config.eos_id]
    for name in ("ctranslate2", "onnx"):
        (tmp_path / name).mkdir()

    write_model(directory, tmp_path / "ctranslate2", "float32", (pieces, pieces))
    translator = ctranslate2.Translator(str(tmp_path / "ctranslate2"))
    words = [[pieces[id_] for id_ in source[:-1]]]
    (result,) = translator.translate_batch(words, beam_size=1, max_decoding_length=8, return_attention=True)
    found = [pieces.index(piece) for piece in result.hypotheses[0]]
    inputs = np.array([[model.config.bos_id, *found]])
    expected = TorchEngine(model).attention(np.array([source]), inputs)[0]
    rows = len(found)
    # CTranslate2 leaves out the attention to the end of the source.
    np.testing.assert_allclose(np.array(result.attention[0])[:rows], expected[:rows, :-1], atol=1e-4)

    write_graphs(directory, tmp_path / "onnx", "float32")
    encoder, decoder = (onnxruntime.InferenceSession(tmp_path / "onnx" / file) for file in FILES)
    outputs = [output.name for output in encoder.get_outputs()]
    values = dict(zip(outputs, encoder.run(None, {"ids": np.array([source])}), strict=True))
    values |= {"tokens": np.array([[model.config.bos_id]]), "position": np.array([0])}
    width = model.config.d_model // model.config.num_heads
    past = np.zeros((1, model.config.num_heads, 0, width), np.float32)
    wanted = [given.name for given in decoder.get_inputs()]
    (attention,) = decoder.run(["attention"], {name: values.get(name, past) for name in wanted})
    np.testing.assert_allclose(attention[0], expected[0], atol=1e-4)
