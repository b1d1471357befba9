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
from dragoman.interop.importing import NEVER, NotebookFiles, import_notebook, reordered
from dragoman.interop.notebooks import from_notebook
from dragoman.interop.styles import STYLES
from dragoman.storage import model_directory
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import check_files
from tests.interop.notebook_models import Sizes, random_weights
from tests.interop.notebook_tokenizers import SPECIAL
from tests.interop.notebooks import SOURCES, TARGETS, NotebookModel, make, save, train, without_tokenizers

SAMPLES = Path(__file__).parents[3] / "shared" / "notebooks"


def silent(text: str) -> None:
    """Notes of no interest."""


@pytest.fixture(scope="module", params=STYLES)
def notebook(request, tmp_path_factory) -> NotebookModel:
    if request.param == "keras":
        pytest.importorskip("h5py")
    made = make(request.param, tmp_path_factory.mktemp(request.param), encoder_layers=1, decoder_layers=1)
    train(made, steps=100)
    return made


@pytest.fixture(scope="module")
def imported(notebook, tmp_path_factory):
    """The model directory."""
    path = tmp_path_factory.mktemp("imported") / notebook.style
    import_notebook(notebook.files, path, note=silent)
    return path


def test_greedy_translations_are_the_notebooks(notebook, imported):
    sentences = [*SOURCES, "The cat zzz", "the " * 17]
    # The guard against repetitions is Dragoman's own.
    found = [t.text for t in Translator.load(imported).translate(sentences, beam_size=1, max_copies=0)]
    assert found == [notebook.translate(sentence) for sentence in sentences]
    known = [" ".join(notebook.words[id_] for id_ in notebook.encode_target(text)[1:-1]) for text in TARGETS]
    assert sum(text == learned for text, learned in zip(found, known, strict=False)) >= 17


def test_log_probabilities_are_the_notebooks_in_another_order(notebook, imported):
    loaded = ModelDirectory.load(imported)
    order = [notebook.words.index(name(loaded, id_)) for id_ in range(4, len(notebook.words))]
    order = [*notebook.special, *order]
    end, begin = notebook.special[3], notebook.special[2]
    targets = [begin, 7, 5, 11, end, 13, 6]
    with torch.no_grad():
        for sentence in SOURCES[:5]:
            source = torch.tensor([[*loaded.source_tokenizer.encode(sentence), 3]])
            target = torch.tensor([[order.index(id_) for id_ in targets]])
            ours = loaded.model(source, target)[0].log_softmax(-1)
            expected = notebook.log_probabilities(sentence, targets)
            torch.testing.assert_close(ours[:, : len(order)], expected[:, order], rtol=0, atol=1e-4)


def name(loaded: ModelDirectory, id_: int) -> str:
    return loaded.target_tokenizer.pieces([id_])[0].removeprefix("▁")


def test_scores_of_given_translations_are_the_notebooks(notebook, imported):
    begin, end = notebook.special[2:]
    ids = [*range(9, 14), end]
    log_probs = notebook.log_probabilities(SOURCES[0], [begin, *ids[:-1]])
    expected = sum(float(log_probs[place, id_]) for place, id_ in enumerate(ids))
    (scored,) = Translator.load(imported).score([(SOURCES[0], " ".join(notebook.words[9:14]))])
    assert scored.log_prob == pytest.approx(expected, abs=1e-3)


def test_the_directory_is_one_like_any_other(imported):
    check_files(imported)
    assert {file.name for file in imported.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "source_tokenizer.json", "target_tokenizer.json"
    }  # fmt: skip
    (translation,) = Translator.load(imported).translate(["The cat."], beam_size=3, n_best=2, alignments=True)
    assert len(translation.alternatives) == 1


def test_the_card_says_where_the_model_comes_from(notebook, imported):
    card = (imported / "README.md").read_text(encoding="utf-8")
    assert STYLES[notebook.style].notebook in card
    for file in (notebook.files.weights, *notebook.files.tokenizers):
        assert file.name.replace("_", r"\_") in card
    assert "It has not been scored" in card
    assert "report.html" not in card
    if notebook.style == "keras":
        assert "the first 18 words, filled up with padding" in card


def test_a_sentence_of_any_length_is_translated(imported):
    translations = Translator.load(imported).translate(["the cat " * 31, "cat " * 17, "cat " * 19], beam_size=2)
    assert all(isinstance(each.text, str) for each in translations)


def test_the_guard_against_repetitions_does_not_count_the_fill(tmp_path):
    pytest.importorskip("h5py")
    notebook = make("keras", tmp_path)
    notebook.weights["layers/dense/vars/1"][9] += 50.0  # says one word again and again
    save(notebook.weights, notebook.files.weights)
    import_notebook(notebook.files, tmp_path / "model", note=silent)
    (translation,) = Translator.load(tmp_path / "model").translate(["The cat."], beam_size=1)
    runs = [len(list(run)) for word, run in groupby(translation.text.split()) if word == notebook.words[9]]
    assert max(runs) == 3


# ---- without tokenizers ----------------------------------------------------------------------


def test_without_tokenizers_sentences_are_ids(notebook, tmp_path):
    files = without_tokenizers(notebook)
    import_notebook(files, tmp_path / "model", note=silent)
    loaded = ModelDirectory.load(tmp_path / "model")
    original = from_notebook(files.weights, style=files.style, num_heads=files.num_heads)
    assert loaded.target_tokenizer.encode("7 5 11") == [7, 5, 11]
    source = torch.tensor([[*loaded.source_tokenizer.encode("9 5 4"), 3]])
    padded = torch.tensor([[9, 5, 4, *[0] * 16]]) if notebook.style == "keras" else torch.tensor([[2, 9, 5, 4, 3]])
    target = torch.tensor([[2, 7, 5, 11]])
    with torch.no_grad():
        expected = original(padded, target, torch.ones_like(padded, dtype=torch.bool))
        torch.testing.assert_close(loaded.model(source, target), expected, rtol=0, atol=1e-4)
    (translation,) = Translator.load(tmp_path / "model").translate(["9 5 4"], beam_size=2)
    assert all(word.isdecimal() or word == "<unk>" for word in translation.text.split())
    assert "`5 7 11`" in (tmp_path / "model/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("style", STYLES)
def test_the_reference_cases_through_a_model_directory(tmp_path, style):
    case = SAMPLES / f"{style}_sample.npz"
    if not case.exists():
        pytest.skip("no reference cases beside the checkout")
    arrays = np.load(case)
    file = SAMPLES / ("keras_sample.weights.h5" if style == "keras" else f"{style}_sample.pt")
    import_notebook(NotebookFiles(file, style, int(arrays["num_heads"])), tmp_path / "model", note=silent)
    source, target = (torch.as_tensor(arrays[side]).long() for side in ("source", "target"))
    if style == "keras":
        # Padding is the end of sentence, 1 unknown, and the others follow the special tokens.
        source = torch.where(source == 0, 3, torch.where(source == 1, 1, source + 2))
        expected, counted = torch.as_tensor(arrays["probabilities"]).log(), torch.ones_like(target, dtype=torch.bool)
    else:
        expected, counted = torch.as_tensor(arrays["log_probabilities"]), target != 0
    with torch.no_grad():
        ours = ModelDirectory.load(tmp_path / "model").model(source, target).log_softmax(-1)
    torch.testing.assert_close(ours[counted], expected[counted], rtol=0, atol=1e-4)


# ---- rows ------------------------------------------------------------------------------------


def test_a_token_that_the_notebook_lacks_is_never_predicted():
    model = from_notebook(random_weights("prenorm", Sizes()), style="prenorm", num_heads=3)
    source_rows, target_rows = [None, 5, *range(5), *range(6, 53)], [3, None, *range(3), *range(4, 47), None]
    other = reordered(model, source_rows, target_rows)
    source, target = torch.tensor([[7, 4, 31]]), torch.tensor([[3, 2, 40]])
    theirs = torch.tensor([[source_rows[i] for i in source[0]]]), torch.tensor([[target_rows[i] for i in target[0]]])
    visible = torch.ones_like(source, dtype=torch.bool)
    with torch.no_grad():
        ours = other(source, target, visible).log_softmax(-1)
        expected = model(*theirs, visible).log_softmax(-1)
    known = [place for place, row in enumerate(target_rows) if row is not None]
    torch.testing.assert_close(ours[..., known], expected[..., [target_rows[i] for i in known]], rtol=0, atol=1e-5)
    assert (ours[..., [1, 48]] < NEVER / 2).all()
    assert ours.isfinite().all()


# ---- what is refused, and what is left behind ------------------------------------------------


def test_tokenizers_of_other_sizes_are_refused_with_both_sizes(tmp_path):
    notebook = make("prenorm", tmp_path)
    source, target = notebook.files.tokenizers
    sizes = notebook.sizes.source_vocab, notebook.sizes.target_vocab
    swapped = NotebookFiles(notebook.files.weights, "prenorm", 3, (target, source))
    with pytest.raises(
        DataError, match=rf"fr.json has {sizes[1]} words, but the source table in .*model.pt has {sizes[0]} rows"
    ):
        import_notebook(swapped, tmp_path / "model", note=silent)
    assert not (tmp_path / "model").exists()


def test_rows_of_keras_without_a_word_are_told(tmp_path):
    pytest.importorskip("h5py")
    notes = []
    notebook = make("keras", tmp_path)
    import_notebook(notebook.files, tmp_path / "model", note=notes.append)
    rows = notebook.sizes.source_vocab
    assert f"english.txt has {rows - 7} words, fewer than the {rows} rows of the source table" in notes[0]
    assert "french.txt" in notes[1]
    more = notebook.files.tokenizers[0]
    more.write_text(more.read_text(encoding="utf-8") + "".join(f"\nword{n}" for n in range(8)), encoding="utf-8")
    with pytest.raises(DataError, match=rf"english.txt has {rows + 1} words, but the source table .* has {rows} rows"):
        import_notebook(notebook.files, tmp_path / "other", note=silent)


@pytest.mark.parametrize(
    ("side", "token", "problem"),
    [
        (1, "[SOS]", r"fr.json has no token that begins a sentence; one should be called \[SOS\], <s>"),
        (1, "[EOS]", r"fr.json has no token that ends a sentence; one should be called \[EOS\], </s>"),
        (0, "[EOS]", "en.json has no token that ends a sentence"),
    ],
)
def test_a_tokenizer_without_begin_or_end_is_refused(tmp_path, side, token, problem):
    notebook = make("postnorm", tmp_path)
    file = notebook.files.tokenizers[side]
    file.write_text(file.read_text(encoding="utf-8").replace(token, "[other]"), encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        import_notebook(notebook.files, tmp_path / "model", note=silent)


def test_a_source_tokenizer_without_begin_makes_sources_without(tmp_path):
    notebook = make("annotated", tmp_path)
    file = notebook.files.tokenizers[0]
    file.write_text(file.read_text(encoding="utf-8").replace("[SOS]", "[other]"), encoding="utf-8")
    loaded = import_notebook(notebook.files, tmp_path / "model", note=silent)
    assert len(loaded.source_tokenizer.encode("cat")) == 1


@pytest.mark.parametrize(("template", "begins"), [("[SOS] $A [EOS]", True), ("$A [EOS]", False)])
def test_what_the_file_puts_around_a_text_decides(tmp_path, template, begins):
    notebook = make("prenorm", tmp_path)
    wrap(notebook.files.tokenizers[0], template)
    loaded = import_notebook(notebook.files, tmp_path / "model", note=silent)
    assert (loaded.source_tokenizer.encode("cat")[0] == 2) == begins


@pytest.mark.parametrize("template", ["[SOS] $A", "[EOS] $A [EOS]", "[UNK] $A [EOS]"])
def test_other_surroundings_are_refused(tmp_path, template):
    notebook = make("prenorm", tmp_path)
    wrap(notebook.files.tokenizers[0], template)
    with pytest.raises(DataError, match=r"en.json puts .* around a text; only a begin and an end"):
        import_notebook(notebook.files, tmp_path / "model", note=silent)


def wrap(file, template: str) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    special = [(token, id_) for id_, token in enumerate(SPECIAL)]
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single=template, special_tokens=special)
    tokenizer.save(str(file))


def test_fewer_positions_for_targets_than_for_sources_are_refused(tmp_path):
    pytest.importorskip("h5py")
    notebook = make("keras", tmp_path)
    table = "layers/positional_embedding_1/position_embeddings/vars/0"
    save(notebook.weights | {table: notebook.weights[table][:11]}, notebook.files.weights)
    with pytest.raises(DataError, match="has 19 positions for sources, but 11 for targets"):
        import_notebook(notebook.files, tmp_path / "model", note=silent)


def test_more_positions_for_targets_allow_longer_translations(tmp_path):
    pytest.importorskip("h5py")
    notebook = make("keras", tmp_path)
    table = "layers/positional_embedding_1/position_embeddings/vars/0"
    weights = notebook.weights | {table: torch.randn(23, notebook.sizes.d_model)}
    weights["layers/dense/vars/1"][notebook.special[3]] -= 50.0
    save(weights, notebook.files.weights)
    import_notebook(notebook.files, tmp_path / "model", note=silent)
    (found,) = Translator.load(tmp_path / "model").search(["The cat."], beam_size=1, max_copies=0)
    assert len(found[0].tokens) == 23
    assert not found[0].finished


def test_a_folder_in_use_is_not_touched(notebook, imported):
    before = {file.name: file.read_bytes() for file in imported.iterdir()}
    with pytest.raises(UsageError, match="exists and is not empty"):
        import_notebook(notebook.files, imported, note=silent)
    assert {file.name: file.read_bytes() for file in imported.iterdir()} == before


@pytest.mark.parametrize("failure", [OSError("full"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("exists", [False, True])
def test_nothing_is_left_behind_by_a_failure(tmp_path, monkeypatch, failure, exists):
    def fail(*_) -> None:
        raise failure

    notebook = make("prenorm", tmp_path / "notebook")
    if exists:
        (tmp_path / "model").mkdir()
    monkeypatch.setattr(model_directory, "save_weights", fail)
    with pytest.raises(type(failure)):
        import_notebook(notebook.files, tmp_path / "model", note=silent)
    left = {"notebook", "model"} if exists else {"notebook"}
    assert {path.name for path in tmp_path.iterdir()} == left
    monkeypatch.undo()
    import_notebook(notebook.files, tmp_path / "model", note=silent)
    check_files(tmp_path / "model")


def test_weights_are_saved_once_and_in_full_precision(notebook, imported):
    stored = load_file(imported / "model.safetensors")
    config = json.loads((imported / "config.json").read_text())["model"]
    assert stored["projection.weight"].shape == (config["target_vocab_size"], config["d_model"])
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
