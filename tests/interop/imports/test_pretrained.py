"""An imported pretrained model computes what transformers computes with the same files."""

import dataclasses
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from dragoman import Translator
from dragoman.config.decoding import DecodingConfig
from dragoman.config.settings import parse_settings
from dragoman.data.preparation import PreparedData
from dragoman.decoding.batch import Sentence
from dragoman.decoding.search import Beams, SearchOptions, beam_search, greedy_search
from dragoman.errors import DataError
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.runs.plan import plan_resume
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.interop import pretrained_models as models
from tests.interop.pretrained_models import SENTENCES
from tests.small import small_directory, train_run, write_pairs

Change = Callable[[Path], object]
LIMIT = 24
VARIANTS = {
    "marian": lambda folder: models.marian(folder),
    "marian, untied": lambda folder: models.marian(folder, tie_word_embeddings=False),
    "marian, separate": lambda folder: models.marian(folder, separate=True, activation_function="relu", seed=2),
    "marian, gelu": lambda folder: models.marian(
        folder, activation_function="gelu", scale_embedding=False, d_model=27, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_layers=1, decoder_layers=3, decoder_ffn_dim=80, seed=2,
    ),
    "marian, tags": lambda folder: models.marian(folder, tags=(">>fra<<", ">>deu<<"), seed=3),
    "m2m": lambda folder: models.m2m(folder),
    "m2m, wide": lambda folder: models.m2m(folder, d_model=48, encoder_attention_heads=2, decoder_attention_heads=2,
                                           encoder_ffn_dim=100, activation_function="gelu", seed=3),
    "nllb": lambda folder: models.nllb(folder),
    "nllb, legacy": lambda folder: models.nllb(folder, legacy=True),
    "nllb, SentencePiece": lambda folder: models.nllb_pieces(folder),
}  # fmt: skip
QUICK = ("marian, separate", "m2m", "nllb, SentencePiece")
TARGETS = {"m2m": ("en", "de"), "nllb": ("eng_Latn", "fra_Latn")}


@pytest.fixture(scope="module", params=models.some_slow(VARIANTS, quick=QUICK))
def theirs(request, tmp_path_factory) -> tuple[Path, tuple[str | None, str | None]]:
    """The folder of a model, and the languages to translate between."""
    folder = tmp_path_factory.mktemp("theirs") / "model"
    return VARIANTS[request.param](folder), TARGETS.get(request.param.partition(",")[0], (None, None))


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory) -> ModelDirectory:
    folder = tmp_path_factory.mktemp("ours") / "model"
    import_pretrained(theirs[0], folder, languages=theirs[1])
    return ModelDirectory.load(folder)


@pytest.fixture(scope="module")
def reference(theirs):
    folder, (source, target) = theirs
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        folder, **({"src_lang": source, "tgt_lang": target} if source else {})
    )
    return tokenizer, transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


@pytest.mark.slow
def test_source_ids_are_the_same(ours, reference):
    tokenizer, _ = reference
    texts = [*SENTENCES, ">>fra<< The cat sleeps." if ours.source_tokenizer.tagged else "A dog."]
    ids_by_dragoman = [[*ids, ours.source_tokenizer.closing.eos] for ids in ours.source_tokenizer.encode_batch(texts)]
    assert ids_by_dragoman == [tokenizer(text).input_ids for text in texts]


@pytest.mark.first_is_quick
def test_log_probabilities_are_the_same(ours, reference):
    _, model = reference
    source = ours.source_tokenizer.encode_batch(SENTENCES)
    target = ours.target_tokenizer.encode_batch(["Le chat", "La maison est vieille.", "x", "", "雪 !"])
    config, end = ours.model.config, ours.source_tokenizer.closing.eos
    for ids, labels in zip(source, target, strict=True):
        ids, labels = torch.tensor([[*ids, end]]), torch.tensor([[*labels, config.eos_id]])
        inputs = torch.cat([torch.tensor([[config.bos_id]]), labels[:, :-1]], 1)
        with torch.inference_mode():
            log_probs = ours.model(ids, inputs).log_softmax(-1)
            expected = model(input_ids=ids, decoder_input_ids=inputs).logits.log_softmax(-1)
        torch.testing.assert_close(log_probs, expected, rtol=0, atol=1e-4)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_search_finds_the_same(ours, reference, beam_size):
    tokenizer, model = reference
    translator = Translator(ours)
    forced, languages = ours.target_tokenizer.encode(""), [*ours.target_tokenizer.languages.values()]
    assert [tokenizer.convert_ids_to_tokens(id_) in languages for id_ in forced] == [True] * bool(languages)
    compared = 0
    for text in SENTENCES:
        ids = ours.source_tokenizer.encode(text)
        stepper = translator._work._stepper([Sentence(ids, forced)], DecodingConfig(max_copies=0))
        options = SearchOptions([LIMIT], ours.model.config.bos_id, ours.model.config.eos_id)
        search = greedy_search(stepper, options) if beam_size == 1 else beam_search(stepper, Beams(beam_size, options))
        pad = ours.model.config.pad_id
        settings = {"forced_bos_token_id": forced[0]} if forced else {"bad_words_ids": [[pad]]}
        expected = model.generate(
            torch.tensor([[*ids, ours.source_tokenizer.closing.eos]]), num_beams=beam_size, max_new_tokens=LIMIT,
            do_sample=False, length_penalty=1.0, early_stopping=False, forced_eos_token_id=None, **settings,
        )[0, 1:].tolist()  # fmt: skip
        best = search[0][0]
        # At the limit transformers prefers a better-scored translation to one that has come to its end.
        if ours.model.config.eos_id in expected or not best.finished:
            compared += 1
            assert [*best.tokens, ours.model.config.eos_id][:LIMIT] == expected[: len(best.tokens) + 1]
        if best.finished:
            assert sum(translator._work.score([(ids, best.tokens)])[0]) == pytest.approx(best.log_prob, abs=1e-3)
    assert compared > 0


@pytest.mark.slow
def test_half_precision_shards_and_pickles_are_read(tmp_path):
    folder = models.marian(tmp_path / "theirs")
    weights = load_file(folder / "model.safetensors")
    import_pretrained(folder, tmp_path / "whole")
    halves = {name: weight.half() for name, weight in weights.items()}
    torch.save(halves, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    import_pretrained(folder, tmp_path / "pickle")
    torch.save(halves, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    import_pretrained(folder, tmp_path / "old")
    (folder / "pytorch_model.bin").unlink()
    names = sorted(halves)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: halves[name] for name in part}, folder / file)
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    import_pretrained(folder, tmp_path / "shards")
    names = ("whole", "pickle", "old", "shards")
    whole, *others = (load_file(tmp_path / f"{name}/model.safetensors") for name in names)
    for loaded in others:
        assert whole.keys() == loaded.keys()
        assert all(torch.equal(loaded[name], weight.half().float()) for name, weight in whole.items())


def without(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def changed(name: str, **values: object) -> Change:
    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | values))

    return change


def bomb(folder: Path, *, zipped: bool = True) -> None:
    """A pickle of a few bytes that asks for a terabyte."""
    (folder / "model.safetensors").unlink()
    content = {"a": torch.zeros(1).expand(2**38)}
    torch.save(content, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)


def code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"a": print}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("config.json"), r"config\.json cannot be read: No such file"),
        (without("vocab.json"), r"vocab\.json cannot be read: No such file"),
        (without("source.spm"), r"source\.spm cannot be read: No such file"),
        (without("model.safetensors"), "has no weights, which are called model.safetensors or"),
        (changed("config.json", model_type="bart"), "is of the type 'bart'; Dragoman imports marian and m2m_100"),
        (changed("config.json", d_model=2**40), r"`d_model` is 1099511627776; it must be above 0 and at most"),
        (changed("config.json", encoder_layers=3), r"lacks `model\.encoder\.layers\.2\."),
        (changed("config.json", decoder_layers=1), r"has the weights `model\.decoder\.layers\.1\."),
        (changed("config.json", vocab_size=4_000_000), "of shape"),
        (changed("config.json", encoder_ffn_dim=4_096), "of shape"),
        (changed("config.json", d_model=64), "of shape"),
        (changed("config.json", activation_function="tanh"), "the activation is 'tanh'"),
        (changed("config.json", decoder_attention_heads=2), "another number of heads"),
        (changed("config.json", normalize_before=True), "`normalize_before` is true"),
        (changed("vocab.json", extra=-1), "numbers 'extra' as -1"),
        (bomb, "takes more time, or more memory than"),
        (lambda folder: bomb(folder, zipped=False), "takes more time, or more memory than"),
        (code, "is refused"),
    ],
)
def test_files_that_cannot_be_used_are_refused(change, words, tmp_path, marian_folder):
    shutil.copytree(marian_folder, tmp_path / "theirs")
    change(tmp_path / "theirs")
    with pytest.raises(DataError, match=words):
        import_pretrained(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_a_model_of_ours_needs_no_import(tmp_path):
    small_directory(Tokenizer.train(["the red house"], vocab_size=270)).save(tmp_path / "ours")
    with pytest.raises(DataError, match="is a model of Dragoman already; use it as it is:  "):
        import_pretrained(tmp_path / "ours", tmp_path / "again")


@pytest.fixture(scope="module")
def marian_folder(tmp_path_factory) -> Path:
    return models.marian(tmp_path_factory.mktemp("marian") / "model")


def test_punctuation_is_that_of_moses(marian_folder, tmp_path):
    import_pretrained(marian_folder, tmp_path / "ours")
    ours = ModelDirectory.load(tmp_path / "ours")
    assert ours.preprocessor("«A  cat» , ( and so).").text == '"A cat" , (and so).'
    ids = ours.source_tokenizer.encode_batch(['"A cat" , (and so).', "«A  cat» , ( and so)."])
    assert ours.tokenize("«A  cat» , ( and so).")[1] == ids[0] != ids[1]


@pytest.mark.slow
def test_the_model_of_marian_itself_is_the_same(marian_folder, tmp_path):
    """Written as Marian writes it: names and layout from its documentation, by hand."""
    folder = tmp_path / "npz"
    folder.mkdir()
    models.as_npz(marian_folder, folder)
    for name, source in (("from-npz", folder), ("from-transformers", marian_folder)):
        import_pretrained(source, tmp_path / name)
    from_npz, from_transformers = (ModelDirectory.load(tmp_path / name) for name in ("from-npz", "from-transformers"))
    assert from_npz.model.config == dataclasses.replace(
        from_transformers.model.config, dropout=from_npz.model.config.dropout
    )
    for (name, ours), theirs in zip(
        from_npz.model.named_parameters(), from_transformers.model.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs), name
    assert from_npz.source_tokenizer.encode("A cat.") == from_transformers.source_tokenizer.encode("A cat.")


@pytest.mark.slow
def test_a_model_of_marian_itself_may_have_two_vocabularies_of_different_sizes(tmp_path):
    theirs = models.marian(tmp_path / "theirs", separate=True, seed=4)
    (tmp_path / "npz").mkdir()
    models.as_npz(theirs, tmp_path / "npz")
    import_pretrained(tmp_path / "npz", tmp_path / "ours")
    ours, tokenizer = ModelDirectory.load(tmp_path / "ours"), transformers.AutoTokenizer.from_pretrained(theirs)
    sizes = [len([piece for piece in side.content.pieces if piece[0] != "<"]) for side in ours.tokenizers]
    assert sizes[0] < sizes[1]
    ids = ours.source_tokenizer.encode_batch(SENTENCES)
    assert [[*source, 0] for source in ids] == [tokenizer(text).input_ids for text in SENTENCES]
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(theirs).eval()
    size = sizes[1] + 2  # with </s> and <unk>
    begin = torch.tensor([[ours.model.config.bos_id]]), torch.tensor([[model.config.decoder_start_token_id]])
    target = torch.tensor([ours.target_tokenizer.encode("Le chat")])
    for source_ids in ids:
        source = torch.tensor([[*source_ids, 0]])
        inputs = [torch.cat([first, target], 1) for first in begin]
        with torch.inference_mode():
            logits = ours.model(source, inputs[0])
            expected = model(input_ids=source, decoder_input_ids=inputs[1]).logits
        torch.testing.assert_close(logits[..., :size], expected[..., :size], rtol=0, atol=1e-4)
    models.as_npz(theirs, tmp_path / "npz", exchanged=True)  # the source now has the larger vocabulary
    import_pretrained(tmp_path / "npz", tmp_path / "exchanged")
    for translation in Translator.load(tmp_path / "exchanged").translate(SENTENCES):
        assert not any(token.startswith("<unused") for token in translation.tokens)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("source.spm", b"no model"),
        ("vocab.json", b'{"a": '),
        ("tokenizer_config.json", b'{"source_lang": 5}'),
        ("config.json", b'{"model_type": ["marian"]}'),
        ("config.json", b'{"model_type": "marian", "encoder_ffn_dim": "x"}'),
        ("model.safetensors", b"\0" * 64),
    ],
)
def test_damaged_files_end_in_a_sentence_or_are_left_out(marian_folder, tmp_path, name, damage):
    shutil.copytree(marian_folder, tmp_path / "theirs")
    (tmp_path / "theirs" / name).write_bytes(damage)
    if name == "tokenizer_config.json":
        assert import_pretrained(tmp_path / "theirs", tmp_path / "ours").languages == (None, None)
        return
    with pytest.raises(DataError):
        import_pretrained(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.slow
def test_finetuning_prepares_sources_as_translating_does(marian_folder, tmp_path):
    import_pretrained(marian_folder, tmp_path / "base")
    own = write_pairs(tmp_path / "own.tsv", [(f"« A cat {n} » …", f"Un chat {n}") for n in range(40)])
    settings = [f"finetune.model={tmp_path / 'base'}", "training.max_steps=2", "data.held_out=3", "training.warmup=1"]
    train_run(tmp_path / "run", own, settings=settings, recipe=None)
    base = ModelDirectory.load(tmp_path / "base")
    data = PreparedData.open(
        tmp_path / "run/run/data", plan_resume(tmp_path / "run", parse_settings(["training.max_steps=3"]))
    )
    expected = {tuple(base.tokenize(source)[1]) for source, _ in data.valid_pairs}
    assert {tuple(data.valid.source[i].tolist()) for i in range(3)} == expected
