"""Numbers of an inspection, compared with direct calls of the model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError
from dragoman.model.attention import AttentionMaps
from dragoman.report import inspect_translation
from dragoman.report.attention import MOST_TOKENS
from dragoman.report.inspection import AXES, SHOWN_ALTERNATIVES
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import BOS_ID, EOS_ID
from tests.report.models import HEADS, LAYERS, SOURCE, TARGET, small_model


def ids(model: ModelDirectory) -> tuple[list[int], list[int]]:
    return tuple([*model.source_tokenizer.encode(text), EOS_ID] for text in (SOURCE, TARGET))


@pytest.mark.slow
def test_the_attention_is_what_the_model_records(model, given):
    source, target = (torch.tensor([tokens]) for tokens in ids(model))
    maps = AttentionMaps()
    with torch.inference_mode():
        model.model.states(source, torch.cat([torch.tensor([[BOS_ID]]), target[:, :-1]], dim=1), maps=maps)
    assert {kind: heads.weights.shape[:2] for kind, heads in given.attention.items()} == {
        "encoder": (LAYERS["num_encoder_layers"], HEADS),
        "decoder": (LAYERS["num_decoder_layers"], HEADS),
        "cross": (LAYERS["num_decoder_layers"], HEADS),
    }
    for kind in given.attention:
        for part, values in given.attention[kind]._asdict().items():
            expected = [getattr(layer, part)[0] for layer in getattr(maps, kind)]
            np.testing.assert_allclose(values, torch.stack(expected), atol=1e-6)


def test_words_are_looked_at_with_all_their_pieces_and_look_with_the_mean_of_them(given):
    assert max(map(len, given.source.words)) > 1 < max(map(len, given.target.words))
    for kind in AXES:
        rows, columns = given.axes(kind)
        pieces, words = given.attention[kind].weights, given.word_maps(kind)
        assert words.shape == (*pieces.shape[:2], len(rows.labels), len(columns.labels))
        np.testing.assert_allclose(words.sum(-1), 1, atol=1e-5)
        for r, c in ((0, 0), (2, 1), (len(rows.words) - 1, len(columns.words) - 1)):
            expected = sum(pieces[:, :, i, j] for i in rows.words[r] for j in columns.words[c]) / len(rows.words[r])
            np.testing.assert_allclose(words[:, :, r, c], expected, atol=1e-6)


def test_the_decoder_looks_at_what_it_has_read_and_not_ahead(given):
    assert given.inputs.labels == ["<s>", *given.target.labels[:-1]]
    assert given.target.labels == [*TARGET.split(), "</s>"]
    pieces, words = given.attention["decoder"].weights, given.word_maps("decoder")
    assert not np.triu(pieces, 1).any()
    assert np.diagonal(pieces, axis1=2, axis2=3).all()
    assert not np.triu(words, 2).any()  # of its own pieces a word may see the first ones


@pytest.mark.slow
def test_probabilities_are_those_of_the_model_given_the_words_before(model, given):
    source, target = ids(model)
    total = 0.0
    for index, token in enumerate(target):
        # One position after another, instead of all at once.
        with torch.inference_mode():
            logits = model.model(torch.tensor([source]), torch.tensor([[BOS_ID, *target[:index]]]))[0, -1]
        probabilities = logits.softmax(-1)
        total += float(probabilities[token].log())
        assert given.log_probs[index] == pytest.approx(float(probabilities[token].log()), abs=1e-4)
        best = [float(p) for p in probabilities.sort(descending=True).values[:SHOWN_ALTERNATIVES]]
        assert [value for _, value in given.alternatives[index]] == pytest.approx(best, abs=1e-5)
    assert given.log_prob == pytest.approx(total, abs=1e-3)
    assert given.score == pytest.approx(total / len(target), abs=1e-4)


@pytest.mark.slow
def test_without_a_target_it_looks_at_what_translate_gives(model):
    inspection = inspect_translation(model, SOURCE, beam_size=3, length_penalty=0.6, length_offset=5.0)
    translator = Translator(ModelDirectory(model.model, model.source_tokenizer, model.target_tokenizer))
    (expected,) = translator.translate([SOURCE], beam_size=3, length_penalty=0.6, length_offset=5.0)
    assert inspection.target_text == expected.text
    assert not inspection.given
    best = inspection.search.hypotheses[0]
    assert inspection.score == pytest.approx(best.score, abs=1e-4)
    assert inspection.score == pytest.approx(expected.score, abs=1e-4)
    assert inspection.target.ids == [*best.tokens, EOS_ID][: len(inspection.log_probs)]
    assert len(inspection.search.hypotheses) == 3


def test_a_translation_that_was_cut_has_no_end():
    endless = small_model(positions="learned", max_positions=5)
    with torch.no_grad():
        endless.model.projection.bias[EOS_ID] = -1e4
    inspection = inspect_translation(endless, "old", beam_size=2)
    assert not inspection.search.hypotheses[0].finished
    assert EOS_ID not in inspection.target.ids
    assert len(inspection.target.ids) == 5


def test_json_holds_words_probabilities_attention_and_the_search(given):
    content = given.to_dict()
    assert [word["text"] for word in content["source"]["words"]] == [*SOURCE.split(), "</s>"]
    words = content["target"]["words"]
    assert np.prod([word["probability"] for word in words]) == pytest.approx(np.exp(given.log_prob), rel=1e-3)
    for word in words:
        assert word["probability"] == pytest.approx(np.prod([p["probability"] for p in word["pieces"]]), rel=1e-3)
        assert all(len(piece["alternatives"]) == SHOWN_ALTERNATIVES for piece in word["pieces"])
    assert [piece["text"] for word in words for piece in word["pieces"]] == given.target.pieces
    attention = given.attention_dict()
    assert attention["cross"][1][2][3][4] == pytest.approx(given.word_maps("cross")[1, 2, 3, 4], abs=5e-5)
    search = content["search"]
    assert [hypothesis["score"] for hypothesis in search["hypotheses"]] == sorted(
        (hypothesis["score"] for hypothesis in search["hypotheses"]), reverse=True
    )
    assert [search["nodes"][hypothesis["node"]]["state"] for hypothesis in search["hypotheses"]] == ["result"] * 3


@pytest.mark.parametrize(
    ("text", "target", "error", "words"),
    [
        ("", None, UsageError, "text to inspect is empty"),
        (" \n\t", None, UsageError, "text to inspect is empty"),
        ("old", "  ", UsageError, "target to inspect is empty"),
        ("x " * MOST_TOKENS, None, DataError, f"at most {MOST_TOKENS}"),
        ("old", "x " * MOST_TOKENS, DataError, f"at most {MOST_TOKENS}"),
    ],
)
def test_what_cannot_be_shown_is_refused(model, text, target, error, words):
    with pytest.raises(error, match=words):
        inspect_translation(model, text, target=target)


def test_a_text_longer_than_the_positions_a_model_learned_is_refused():
    model = small_model(positions="learned", max_positions=23)
    with pytest.raises(DataError, match="at most 23"):
        inspect_translation(model, "x " * 23)
    with pytest.raises(DataError, match="at most 23"):
        inspect_translation(model, "old", target="x " * 23)


def test_a_model_without_probabilities_is_refused():
    model = small_model()
    with torch.no_grad():
        model.model.projection.bias[:] = float("nan")
    with pytest.raises(DataError, match="NaN"):
        inspect_translation(model, "old")


@pytest.mark.slow
def test_bytes_that_are_no_text_become_a_mark(model):
    assert (
        inspect_translation(model, "old \udcff house", beam_size=1).source_text == "old \N{REPLACEMENT CHARACTER} house"
    )


@pytest.mark.slow
def test_each_word_of_the_source_is_removed_in_turn(model, given):
    source, target = ids(model)
    translator = Translator(ModelDirectory(model.model, model.source_tokenizer, model.target_tokenizer))
    words = SOURCE.split()
    assert [removal.word for removal in given.removals] == words
    for removal, word, places in zip(given.removals, words, given.source.words, strict=False):
        # The first word keeps no space before it, and others do: the tokens of the rest are those of the sentence.
        rest = [id_ for index, id_ in enumerate(source) if index not in places]
        with torch.inference_mode():
            inputs = torch.tensor([[BOS_ID, *target[:-1]]])
            log_probs = model.model(torch.tensor([rest]), inputs)[0].log_softmax(-1)
        expected = float(log_probs[range(len(target)), target].sum())
        assert removal.log_prob == pytest.approx(expected, abs=1e-3)
        if word != words[0]:
            text = SOURCE.replace(f" {word}", "")
            assert removal.target_text == translator.translate([text], beam_size=3)[0].text


@pytest.mark.parametrize("text", ["Old", "house " * 50])
def test_few_or_many_words_are_not_removed(model, text):
    assert inspect_translation(model, text, target=TARGET, beam_size=1).removals == []


def test_the_search_is_that_of_the_model_unless_another_is_given(model):
    directory = replace(model, decoding=model.decoding.model_copy(update={"beam_size": 2, "length_penalty": 0.5}))
    own, other = inspect_translation(directory, SOURCE), inspect_translation(directory, SOURCE, beam_size=3)
    assert (own.search_config.beam_size, own.search_config.length_penalty) == (2, 0.5)
    assert (other.search_config.beam_size, other.search_config.length_penalty) == (3, 0.5)
    assert len(own.search.hypotheses) == 2
