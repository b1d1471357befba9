"""An imported model translates as its notebook did, and is a model directory like any other."""

import json
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from safetensors.torch import load_file

from dragoman import Translator
from dragoman.errors import DataError, UsageError
from dragoman.interop.imports.notebook_models import NEVER, NotebookFiles, import_notebook, reordered
from dragoman.interop.imports.notebooks import from_notebook
from dragoman.interop.imports.styles import STYLES
from dragoman.storage import model_directory
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import check_files
from tests.interop.notebook_models import Sizes, random_weights
from tests.interop.notebook_tokenizers import SPECIAL
from tests.interop.notebooks import SOURCES, TARGETS, NotebookModel, make, save, train, without_tokenizers

SAMPLES = Path(__file__).parents[4] / "shared" / "notebooks"
LATE_POSITIONS = "layers/positional_embedding_1/position_embeddings/vars/0"


def load(files: NotebookFiles, folder: Path, *, note=lambda text: None) -> ModelDirectory:
    """The model directory `folder` / "model", written and read."""
    import_notebook(files, folder / "model", note=note)
    return ModelDirectory.load(folder / "model")


@pytest.fixture(scope="module", params=STYLES)
def notebook(request, tmp_path_factory) -> NotebookModel:
    if request.param == "keras":
        pytest.importorskip("h5py")
    trained = make(request.param, tmp_path_factory.mktemp(request.param), encoder_layers=1, decoder_layers=1)
    train(trained, steps=70)
    return trained


@pytest.fixture(scope="module")
def imported(notebook, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    load(notebook.files, folder)
    return folder / "model"


@pytest.fixture
def prenorm(tmp_path) -> NotebookModel:
    return make("prenorm", tmp_path / "notebook", encoder_layers=1, decoder_layers=1)


@pytest.fixture
def keras(tmp_path) -> NotebookModel:
    pytest.importorskip("h5py")
    return make("keras", tmp_path / "notebook", encoder_layers=1, decoder_layers=1)


@pytest.mark.slow
def test_greedy_translations_are_the_notebooks(notebook, imported):
    sentences = [*SOURCES, "The cat zzz", " ".join(["the"] * 17)]
    # The guard against repetitions is Dragoman's own.
    translations = [t.text for t in Translator.load(imported).translate(sentences, beam_size=1, max_copies=0)]
    assert translations == [notebook.translate(sentence) for sentence in sentences]
    targets = [" ".join(notebook.words[id_] for id_ in notebook.encode_target(text)[1:-1]) for text in TARGETS]
    assert sum(text == learned for text, learned in zip(translations, targets, strict=False)) >= 17


@pytest.mark.first_is_quick
def test_log_probabilities_are_the_notebooks_in_another_order(notebook, imported):
    loaded = ModelDirectory.load(imported)
    pieces = loaded.target_tokenizer.pieces(range(4, len(notebook.words)))
    order = [*notebook.special, *(notebook.words.index(piece.removeprefix("▁")) for piece in pieces)]
    end, begin = notebook.special[3], notebook.special[2]
    targets = [begin, 7, 5, 11, end, 13, 6]
    target = torch.tensor([[order.index(id_) for id_ in targets]])
    for sentence in SOURCES[:5]:
        source = torch.tensor([[*loaded.source_tokenizer.encode(sentence), 3]])
        with torch.no_grad():
            ours = loaded.model(source, target)[0].log_softmax(-1)
            expected = notebook.log_probabilities(torch.tensor([notebook.encode(sentence)]), torch.tensor([targets]))[0]
        torch.testing.assert_close(ours[:, : len(order)], expected[:, order], rtol=0, atol=1e-4)
    # The same of a translation that is given as text.
    ids = [*range(9, 14), end]
    rows = torch.tensor([notebook.encode(SOURCES[0])]), torch.tensor([[begin, *ids[:-1]]])
    expected = float(notebook.log_probabilities(*rows)[0][range(6), ids].sum())
    (scored,) = Translator.load(imported).score([(SOURCES[0], " ".join(notebook.words[9:14]))])
    assert scored.log_prob == pytest.approx(expected, abs=1e-3)


@pytest.mark.first_is_quick
def test_the_directory_is_one_like_any_other(notebook, imported):
    check_files(imported)
    assert {file.name for file in imported.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "source_tokenizer.json", "target_tokenizer.json"
    }  # fmt: skip
    translator = Translator.load(imported)
    (translation,) = translator.translate(["The cat."], beam_size=3, n_best=2, alignments=True)
    assert len(translation.alternatives) == 1
    long = translator.translate(["the cat " * 31, "cat " * 17, "cat " * 19], beam_size=2)
    assert all(isinstance(translation.text, str) for translation in long)
    stored = load_file(imported / "model.safetensors")
    config = json.loads((imported / "config.json").read_text())["model"]
    assert stored["projection.weight"].shape == (config["target_vocab_size"], config["d_model"])
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}


@pytest.mark.slow
def test_the_card_says_where_the_model_comes_from(notebook, imported):
    card = (imported / "README.md").read_text(encoding="utf-8")
    assert STYLES[notebook.style].program in card
    for file in (notebook.files.weights, *notebook.files.tokenizers):
        assert file.name.replace("_", r"\_") in card
    assert "It has not been scored" in card
    assert "report.html" not in card
    assert ("the first 18 words, filled up with padding" in card) == (notebook.style == "keras")


def test_the_guard_against_repetitions_does_not_count_the_padding(keras, tmp_path):
    keras.weights["layers/dense/vars/1"][9] += 50.0  # says one word again and again
    save(keras.weights, keras.files.weights)
    load(keras.files, tmp_path)
    (translation,) = Translator.load(tmp_path / "model").translate(["The cat."], beam_size=1)
    runs = [len(list(run)) for word, run in groupby(translation.text.split()) if word == keras.words[9]]
    assert max(runs) == 3


# ---- without tokenizers ----------------------------------------------------------------------


@pytest.mark.first_is_quick
def test_without_tokenizers_sentences_are_ids(notebook, tmp_path):
    files = without_tokenizers(notebook)
    loaded = load(files, tmp_path)
    original = from_notebook(files.weights, style=files.style, num_heads=files.num_heads)
    assert loaded.target_tokenizer.encode("7 5 11") == [7, 5, 11]
    source = torch.tensor([[*loaded.source_tokenizer.encode("9 5 4"), 3]])
    padded = torch.tensor([[9, 5, 4, *[0] * 16]]) if notebook.style == "keras" else torch.tensor([[2, 9, 5, 4, 3]])
    target = torch.tensor([[2, 7, 5, 11]])
    with torch.no_grad():
        expected = original(padded, target, torch.ones_like(padded, dtype=torch.bool))
        torch.testing.assert_close(loaded.model(source, target), expected, rtol=0, atol=1e-4)
    (translation,) = Translator.load(tmp_path / "model").translate(["9 5 4"], beam_size=2)
    assert translation.tokens
    assert all(word.isdecimal() or word == "<unk>" for word in translation.text.split())
    assert "`5 7 11`" in (tmp_path / "model/README.md").read_text(encoding="utf-8")


@pytest.mark.first_is_quick
@pytest.mark.parametrize("style", STYLES)
def test_the_reference_cases_through_a_model_directory(tmp_path, style):
    case = SAMPLES / f"{style}_sample.npz"
    if not case.exists():
        pytest.skip("no reference cases beside the checkout")
    arrays = np.load(case)
    file = SAMPLES / ("keras_sample.weights.h5" if style == "keras" else f"{style}_sample.pt")
    loaded = load(NotebookFiles(file, style, int(arrays["num_heads"])), tmp_path)
    source, target = (torch.as_tensor(arrays[side]).long() for side in ("source", "target"))
    if style == "keras":
        # Padding is the end of sentence, 1 unknown, and the others follow the special tokens.
        source = torch.where(source == 0, 3, torch.where(source == 1, 1, source + 2))
        expected, counted = torch.as_tensor(arrays["probabilities"]).log(), torch.ones_like(target, dtype=torch.bool)
    else:
        expected, counted = torch.as_tensor(arrays["log_probabilities"]), target != 0
    with torch.no_grad():
        ours = loaded.model(source, target).log_softmax(-1)
    torch.testing.assert_close(ours[counted], expected[counted], rtol=0, atol=1e-4)


# ---- rows ------------------------------------------------------------------------------------


def test_a_token_that_the_notebook_lacks_is_never_predicted():
    model = from_notebook(random_weights("prenorm", Sizes()), style="prenorm", num_heads=3)
    source_rows, target_rows = [None, 5, *range(5), *range(6, 53)], [3, None, *range(3), *range(4, 47), None]
    new_model = reordered(model, source_rows, target_rows)
    source, target = torch.tensor([[7, 4, 31]]), torch.tensor([[3, 2, 40]])
    theirs = torch.tensor([[source_rows[i] for i in source[0]]]), torch.tensor([[target_rows[i] for i in target[0]]])
    visible = torch.ones_like(source, dtype=torch.bool)
    with torch.no_grad():
        ours = new_model(source, target, visible).log_softmax(-1)
        expected = model(*theirs, visible).log_softmax(-1)
    shared = [index for index, row in enumerate(target_rows) if row is not None]
    torch.testing.assert_close(ours[..., shared], expected[..., [target_rows[i] for i in shared]], rtol=0, atol=1e-5)
    assert (ours[..., [1, 48]] < NEVER / 2).all()
    assert ours.isfinite().all()


def test_rows_of_keras_without_a_word_are_told_and_no_text_has_them(keras, tmp_path):
    notes: list[str] = []
    loaded = load(keras.files, tmp_path, note=notes.append)
    rows = keras.sizes.source_vocab
    assert f"english.txt has {rows - 7} words, fewer than the {rows} rows of the source table" in notes[0]
    assert "french.txt" in notes[1]
    source, last = loaded.source_tokenizer, loaded.source_tokenizer.vocab_size - 1
    assert source.decode([last]) == f"<unused{rows - 1}>"
    assert not set(source.encode(f"unused{rows - 1} <unused{rows - 1}>")) & set(range(last - 6, last + 1))
    more = keras.files.tokenizers[0]
    more.write_text(more.read_text(encoding="utf-8") + "".join(f"\nword{n}" for n in range(8)), encoding="utf-8")
    with pytest.raises(DataError, match=rf"english.txt has {rows + 1} words, but the source table .* has {rows} rows"):
        load(keras.files, tmp_path / "other")


# ---- what is refused, and what is left behind ------------------------------------------------


def test_tokenizers_of_other_sizes_are_refused_with_both_sizes(prenorm, tmp_path):
    few, many = prenorm.sizes.source_vocab, prenorm.sizes.target_vocab
    english, french = prenorm.files.tokenizers
    for files, problem in (
        ((french, french), f"fr.json has {many} words, but the source table in .*model.pt has {few} rows"),
        ((english, english), f"en.json has {few} words, but the target table in .*model.pt has {many} rows"),
    ):
        with pytest.raises(DataError, match=problem):
            load(NotebookFiles(prenorm.files.weights, "prenorm", 3, files), tmp_path)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("side", "token", "problem"),
    [
        (1, "[SOS]", r"fr.json has no token that begins a sentence: \[SOS\] or <s>"),
        (1, "[EOS]", r"fr.json has no token that ends a sentence: \[EOS\] or </s>"),
        (0, "[EOS]", "en.json has no token that ends a sentence"),
    ],
)
def test_a_tokenizer_without_begin_or_end_is_refused(prenorm, tmp_path, side, token, problem):
    rename(prenorm.files.tokenizers[side], token)
    with pytest.raises(DataError, match=problem):
        load(prenorm.files, tmp_path)


def test_a_keras_vocabulary_without_padding_is_refused(keras, tmp_path):
    vocab = {f"word{id_}": id_ for id_ in range(keras.sizes.source_vocab)}
    source = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="word0"))
    source.save(str(keras.files.tokenizers[0]))
    with pytest.raises(DataError, match=r"english.txt has no padding, which the Keras notebook needs"):
        load(keras.files, tmp_path)


def test_a_source_tokenizer_without_begin_makes_sources_without(prenorm, tmp_path):
    rename(prenorm.files.tokenizers[0], "[SOS]")
    assert len(load(prenorm.files, tmp_path).source_tokenizer.encode("cat")) == 1


@pytest.mark.parametrize(("template", "begins"), [("[SOS] $A [EOS]", True), ("$A [EOS]", False)])
def test_what_the_file_puts_around_a_text_decides(prenorm, tmp_path, template, begins):
    wrap(prenorm.files.tokenizers[0], template)
    assert (load(prenorm.files, tmp_path).source_tokenizer.encode("cat")[0] == 2) == begins


@pytest.mark.parametrize("template", ["[SOS] $A", "[EOS] $A [EOS]", "[UNK] $A [EOS]"])
def test_other_surroundings_are_refused(prenorm, tmp_path, template):
    wrap(prenorm.files.tokenizers[0], template)
    with pytest.raises(DataError, match=r"en.json puts .* around a text; only a begin and an end"):
        load(prenorm.files, tmp_path)


def rename(file: Path, token: str) -> None:
    file.write_text(file.read_text(encoding="utf-8").replace(token, "[other]"), encoding="utf-8")


def wrap(file: Path, template: str) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    special = [(token, id_) for id_, token in enumerate(SPECIAL)]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single=template, special_tokens=special)
    tokenizer.save(str(file))


def test_fewer_positions_for_targets_than_for_sources_are_refused(keras, tmp_path):
    save(keras.weights | {LATE_POSITIONS: keras.weights[LATE_POSITIONS][:11]}, keras.files.weights)
    with pytest.raises(DataError, match="has 19 positions for sources, but 11 for targets"):
        load(keras.files, tmp_path)


def test_more_positions_for_targets_allow_longer_translations(keras, tmp_path):
    weights = keras.weights | {LATE_POSITIONS: torch.randn(23, keras.sizes.d_model)}
    weights["layers/dense/vars/1"][keras.special[3]] -= 50.0
    save(weights, keras.files.weights)
    load(keras.files, tmp_path)
    (hypotheses,) = Translator.load(tmp_path / "model").search(["The cat."], beam_size=1, max_copies=0)
    assert len(hypotheses[0].tokens) == 23
    assert not hypotheses[0].finished


@pytest.mark.first_is_quick
@pytest.mark.parametrize("failure", [OSError("full"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("exists", [False, True])
def test_nothing_is_left_behind_by_a_failure(prenorm, tmp_path, monkeypatch, failure, exists):
    def fail(*_, **__) -> None:
        raise failure

    if exists:
        (tmp_path / "model").mkdir()
    monkeypatch.setattr(model_directory, "weights_file", fail)
    with pytest.raises(type(failure)):
        load(prenorm.files, tmp_path)
    left = {"notebook", "model"} if exists else {"notebook"}
    assert {path.name for path in tmp_path.iterdir()} == left
    monkeypatch.undo()
    load(prenorm.files, tmp_path)
    check_files(tmp_path / "model")
    before = {file.name: file.read_bytes() for file in (tmp_path / "model").iterdir()}
    with pytest.raises(UsageError, match="exists and is not empty"):
        load(prenorm.files, tmp_path)
    assert {file.name: file.read_bytes() for file in (tmp_path / "model").iterdir()} == before
