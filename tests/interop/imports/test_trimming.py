"""Pretrained vocabularies without the pieces that some languages never use."""

import pytest
import torch

from dragoman.errors import DataError, UsageError
from dragoman.interop.exports.exporting import TARGETS, refusal
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.interop.imports.trimming import trimmed
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.interop import pretrained_models as models
from tests.small import small_directory

VARIANTS = {
    "marian": lambda folder: models.marian(folder),
    "marian, separate": lambda folder: models.marian(folder, separate=True),
    "marian, tags": lambda folder: models.marian(folder, tags=(">>fra<<", ">>deu<<")),
    "m2m": lambda folder: models.m2m(folder),
    "nllb, legacy": lambda folder: models.nllb(folder, legacy=True),
    "nllb, SentencePiece": lambda folder: models.nllb_pieces(folder),
}
LANGUAGES = {"m2m": ("en", "fr"), "nllb": ("eng_Latn", "fra_Latn")}
TEXTS = ["The red house is old.", "A cat sees the bird!", "La maison est vieille.", "x"]


@pytest.fixture(scope="module", params=models.some_slow(VARIANTS, quick=("marian, separate", "m2m")))
def both(request, tmp_path_factory) -> tuple[ModelDirectory, ModelDirectory]:
    """A model, and the same with the pieces of `TEXTS`, written and read again."""
    folder = tmp_path_factory.mktemp("models")
    theirs = VARIANTS[request.param](folder / "theirs")
    languages = LANGUAGES.get(request.param.partition(",")[0], (None, None))
    import_pretrained(theirs, folder / "whole", languages=languages)
    import_pretrained(theirs, folder / "small", languages=languages, trim_to=iter(TEXTS))
    return ModelDirectory.load(folder / "whole"), ModelDirectory.load(folder / "small")


def test_texts_have_the_same_pieces_under_new_ids(both) -> None:
    for whole, small in zip(both[0].tokenizers, both[1].tokenizers, strict=True):
        assert 10 < small.vocab_size < whole.vocab_size
        for text in TEXTS:
            assert small.pieces(small.encode(text)) == whole.pieces(whole.encode(text))
        for old, new in zip(whole.special_ids, small.special_ids, strict=True):
            assert whole.pieces([old]) == small.pieces([new])
        assert small.languages == whole.languages


def test_logits_of_what_is_kept_are_the_same(both) -> None:
    found = []
    for directory in both:
        source, target = (
            tokenizer.encode(text) for tokenizer, text in zip(directory.tokenizers, TEXTS[::2], strict=False)
        )
        config, end = directory.model.config, directory.source_tokenizer.closing.eos
        with torch.inference_mode():
            logits = directory.model(torch.tensor([[*source, end]]), torch.tensor([[config.bos_id, *target]]))
        found.append(logits)
    old_ids = {piece: id_ for id_, piece in enumerate(both[0].target_tokenizer.content.pieces)}
    kept = [old_ids[piece] for piece in both[1].target_tokenizer.content.pieces]
    torch.testing.assert_close(found[1], found[0][..., kept], rtol=0, atol=1e-5)


def test_pieces_that_are_gone_are_spelled_by_parts(both) -> None:
    whole, small = (directory.source_tokenizer for directory in both)
    gone = [
        piece.removeprefix("▁")
        for piece in whole.content.pieces
        if piece not in small.content.pieces and piece.startswith("▁") and piece[1:].isalpha()
    ]
    assert gone
    for word in gone:
        ids = small.encode(f"The {word} x")
        assert small.special_ids.unk not in ids
        assert small.decode(ids) == f"The {word} x"


def test_other_programs_cannot_spell_what_is_gone(both) -> None:
    for target in TARGETS:
        assert ("was trimmed or extended" in (refusal(both[1], target) or "")) == (target != "dragoman-int8")
        assert "was trimmed or extended" not in (refusal(both[0], target) or "")


def test_a_vocabulary_needs_texts_and_a_pretrained_model(both) -> None:
    with pytest.raises(DataError, match="have no letters"):
        trimmed(both[0], ["12", ""])
    with pytest.raises(UsageError, match="for the vocabularies of pretrained models"):
        trimmed(small_directory(Tokenizer.train(TEXTS, vocab_size=300)), TEXTS)
