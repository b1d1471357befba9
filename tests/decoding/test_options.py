"""The options of translating, through the translator: what each promises of its translations."""

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.rules import most_copies
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import EOS_ID, PAD_ID, Tokenizer
from tests.decoding.legible import legible

pytestmark = pytest.mark.usefixtures("annotations_unchecked")

WORDS = ["the", "red", "house", "is", "old", "and", "a", "cat", "sees", "two", "dogs", "in", "garden"]
TEXTS = ["the red house is old", "a cat", "two dogs", "the garden and the cat and a dog", "is a cat in the garden"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([*TEXTS, *WORDS], vocab_size=307)


def random_model(vocab_size: int, *, end: float) -> Transformer:
    """With `end`, the bias towards the end of sentence, translations end sooner or later."""
    torch.manual_seed(7)
    sizes = {"d_model": 44, "d_ff": 97, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
    vocabulary = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    choices = {"projection_bias": True, "tie_projection": False, "dropout": 0.0}
    model = Transformer(TransformerConfig(**vocabulary, **sizes, **choices))
    with torch.no_grad():
        model.projection.weight.mul_(3)
        model.projection.bias[EOS_ID] = end
    return model


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Translator:
    model = legible(random_model(tokenizer.vocab_size, end=5.0), tokenizer)
    return Translator(ModelDirectory(model, tokenizer, tokenizer))


@pytest.fixture(scope="module")
def endless(tokenizer: Tokenizer) -> Translator:
    """Never ends by itself, and says the same again and again."""
    model = legible(random_model(tokenizer.vocab_size, end=-1e4), tokenizer)
    return Translator(ModelDirectory(model, tokenizer, tokenizer))


def test_longer_sentences_may_be_shorter_by_a_smaller_share(tokenizer: Tokenizer) -> None:
    """The shortest length, by hand: 1.25 n - 1.5 sqrt(n), rounded down, and never below 0."""
    model = legible(random_model(tokenizer.vocab_size, end=1e4), tokenizer)
    translator = Translator(ModelDirectory(model, tokenizer, tokenizer))
    for words, fewest in [(1, 0), (4, 2), (9, 6), (28, 27)]:
        text = " ".join([*WORDS, *WORDS, *WORDS][:words])
        assert len(tokenizer.encode(text)) == words
        (translation,) = translator.translate([text], min_ratio=1.25, min_slack=1.5, split=False, max_copies=0)
        assert len(translation.tokens) == fewest


def test_an_option_takes_the_place_of_what_contradicts_it_in_the_search_of_a_model() -> None:
    stored = DecodingConfig(min_ratio=1.1, min_slack=2.0)
    assert stored.with_options({"beam_size": 2}).min_slack == 2.0
    assert stored.with_options({"min_ratio": 0.5}).min_slack is None
    assert stored.with_options({"min_ratio": 0.5, "min_slack": 1.0}).min_slack == 1.0
    agreeing = DecodingConfig(mbr=24, beam_size=4)
    assert agreeing.with_options({"sample": True, "temperature": 0.5}).mbr == 0
    assert agreeing.with_options({"diversity": 1.0, "n_best": 2}).mbr == 0
    assert agreeing.with_options({"length_penalty": 0.5}).mbr == 24
    assert agreeing.by_beams(3) == DecodingConfig(beam_size=4, n_best=3, split=False)
    drawing = DecodingConfig(sample=True, top_k=5, beam_size=4)
    assert drawing.with_options({"mbr": 8}) == DecodingConfig(mbr=8, beam_size=4)
    assert drawing.with_options({"sample": False}) == DecodingConfig(beam_size=4)
    assert DecodingConfig(sample=True, n_best=8).with_options({"mbr": 8}) == DecodingConfig(mbr=8)
    diverse = DecodingConfig(diversity=1.0, n_best=2, beam_size=4)
    assert diverse.with_options({"sample": True}) == DecodingConfig(sample=True, n_best=2, beam_size=4)
    assert diverse.with_options({"n_best": 1}) == DecodingConfig(beam_size=4)
    assert drawing.by_beams().with_options({"beam_size": 2}).beam_size == 2
    for off in ("0", 0, "false", False):  # commands and forms have texts
        name = "sample" if off in ("false", False) and off != 0 else "diversity"
        assert agreeing.with_options({name: off}).mbr == 24
    assert drawing.with_options({"mbr": "0"}).sample
    with pytest.raises(UsageError, match="leave out `sample`"):
        agreeing.with_options({"mbr": 8, "sample": True})


@pytest.mark.parametrize(("ratio", "extra"), [(2.0, 20), (1.0, 50), (0.5, 0), (0.0, 3)])
def test_a_translation_that_does_not_end_has_as_many_tokens_as_it_may(
    endless: Translator, ratio: float, extra: int
) -> None:
    (found,) = endless.translate([TEXTS[3]], split=False, max_copies=0, beam_size=2, max_ratio=ratio, max_extra=extra)
    length = len(endless.source_tokenizer.encode(TEXTS[3]))
    assert len(found.tokens) == max(1, int(ratio * length) + extra)


@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 1}, {"sample": True}, {"diversity": 1.0, "n_best": 2, "beam_size": 4}, {"mbr": 2}]
)
def test_padding_is_no_part_of_a_translation_however_probable_it_is(tokenizer: Tokenizer, options: dict) -> None:
    model = random_model(tokenizer.vocab_size, end=0.0)
    with torch.no_grad():
        model.projection.bias[PAD_ID] = 1e3
    translator = Translator(ModelDirectory(legible(model, tokenizer), tokenizer, tokenizer))
    found = translator.translate(TEXTS, glossary={"house": "garden", "cat": "dogs"}, confidence=False, **options)
    assert not any(PAD_ID in translation.tokens for translation in found)
    assert "garden" in found[0].text


# ---- alternatives ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"diversity": 5.0, "beam_size": 6}, {"sample": True}])
def test_alternatives_come_best_first(translator: Translator, options: dict) -> None:
    for t in translator.translate([*TEXTS, " "], n_best=3, **options)[:-1]:
        assert len(t.alternatives) == 2
        scores = [t.score, *(other.score for other in t.alternatives)]
        assert scores == sorted(scores, reverse=True)
        assert all(other.alternatives is None for other in t.alternatives)
    assert translator.translate([" "], n_best=3, **options)[0].alternatives == []


def test_the_best_is_the_same_with_and_without_alternatives(translator: Translator) -> None:
    alone, with_others = translator.translate(TEXTS), translator.translate(TEXTS, n_best=5)
    assert [t.text for t in alone] == [t.text for t in with_others]
    assert all(t.alternatives is None for t in alone)


# ---- samples ---------------------------------------------------------------------------------


def test_samples_do_not_depend_on_neighbours_order_or_batches(translator: Translator) -> None:
    options = {"sample": True, "n_best": 3, "seed": 11}
    together = translator.translate(TEXTS, **options)
    assert len({each.text for t in together for each in (t, *t.alternatives)}) > 5
    alone = [translator.translate([text], **options)[0] for text in TEXTS]
    backwards = translator.translate(TEXTS[::-1], max_tokens=13, **options)[::-1]
    for others in (alone, backwards):
        for one, other in zip(together, others, strict=True):
            assert [t.tokens for t in (one, *one.alternatives)] == [t.tokens for t in (other, *other.alternatives)]
    first = translator.translate(TEXTS, sample=True, seed=11)
    assert all(t.tokens in [u.tokens for u in (s, *s.alternatives)] for t, s in zip(first, together, strict=True))


def test_the_most_probable_token_alone_is_greedy_search(translator: Translator) -> None:
    sampled, greedy = translator.translate(TEXTS, sample=True, top_k=1), translator.translate(TEXTS, beam_size=1)
    assert [t.tokens for t in sampled] == [t.tokens for t in greedy]
    assert [t.log_prob for t in sampled] == pytest.approx([t.log_prob for t in greedy], abs=1e-4)


# ---- beginnings ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"beam_size": 1}, {}, {"sample": True}, {"diversity": 1.0, "n_best": 5}])
def test_each_translation_begins_with_its_prefix(translator: Translator, options: dict) -> None:
    prefixes = ["the old", "", "two dogs in the garden is", "a", "cat "]
    found = translator.translate(TEXTS, prefixes=prefixes, **options)
    free = translator.translate(TEXTS, **options)
    for t, other, prefix in zip(found, free, prefixes, strict=True):
        assert t.text.startswith(prefix.strip())
        assert t.tokens == other.tokens or prefix
    for t in translator.translate(TEXTS, prefix="old house", **options):
        assert t.text.startswith("old house")


def test_a_whole_translation_as_prefix_scores_as_when_scored(translator: Translator, tokenizer: Tokenizer) -> None:
    targets = ["the old dogs", "a cat sees", "red", "two", "garden and house"]
    found = translator.translate(TEXTS, prefixes=targets)
    for t, text, target in zip(found, TEXTS, targets, strict=True):
        ((scored,), count) = translator.score([(text, target)]), len(tokenizer.encode(target))
        assert t.tokens[:count] == scored.tokens
        whole = translator.score([(text, t.text)])[0]
        assert whole.token_log_probs[:count] == pytest.approx(scored.token_log_probs[:count], abs=1e-4)
        if whole.tokens == t.tokens:
            assert t.log_prob == pytest.approx(whole.log_prob, abs=1e-3)


# ---- terms -----------------------------------------------------------------------------------

GLOSSARY = {"cat": "a sleepy cat", "house": "mansion", "the": "THE"}


def test_terms_appear_where_their_source_does_and_change_nothing_elsewhere(translator: Translator) -> None:
    texts = [*TEXTS, "two two"]
    found = translator.translate(texts, glossary=GLOSSARY, n_best=3)
    plain = translator.translate(texts, n_best=3)
    for text, t, other in zip(texts, found, plain, strict=True):
        wanted = [target for source, target in GLOSSARY.items() if source in text.split()]
        assert all(term in each.text for term in wanted for each in (t, *t.alternatives))
        assert wanted or t.tokens == other.tokens
    alone = [translator.translate([text], glossary=GLOSSARY, n_best=3)[0] for text in texts]
    assert [t.tokens for t in alone] == [t.tokens for t in found]


def test_a_term_may_repeat_itself_more_often_than_the_guard_allows(translator: Translator) -> None:
    (t,) = translator.translate(["a cat"], glossary={"cat": "red red red red red red"})
    assert "red red red red red red" in t.text


def test_a_term_without_spelling_is_refused(tokenizer: Tokenizer, translator: Translator) -> None:
    with pytest.raises(UsageError, match="asks for 'a sleepy cat', but 'sleepy' is forbidden"):
        translator.translate(TEXTS, glossary=GLOSSARY, forbid=["sleepy"])


# ---- loops -----------------------------------------------------------------------------------


@pytest.mark.first_is_quick
@pytest.mark.parametrize("beam_size", [1, 5])
def test_no_phrase_is_repeated_more_often_than_allowed(
    endless: Translator, tokenizer: Tokenizer, beam_size: int
) -> None:
    texts = [*TEXTS, *WORDS, *map(str.upper, WORDS)]

    def repeated(most: int, **options: int) -> int:
        groups = endless.search(texts, beam_size=beam_size, **options)
        # It never ends by itself: what was stopped in its loop has ended, all else runs to the limit.
        groups = [group for group in groups if group[0].tokens]  # others are no text
        assert any(group[0].finished for group in groups) == (options.get("max_copies") != 0)
        return sum(most_copies(group[0].tokens) > most for group in groups)

    assert repeated(3, max_copies=0) > 10
    assert repeated(3) == 0
    assert repeated(2, max_copies=2) == 0
    assert repeated(4, max_copies=5) > 0


def test_what_the_source_repeats_may_be_repeated(tokenizer: Tokenizer) -> None:
    model = legible(random_model(tokenizer.vocab_size, end=-1e4), tokenizer)
    with torch.no_grad():
        model.projection.bias[tokenizer.encode("cat")] = 1e3  # says one token, and nothing else if it may
    repeating, calm = "cat cat cat cat cat cat cat", "the red house is old and a"
    assert most_copies(tokenizer.encode(repeating)) == 7
    found = Translator(ModelDirectory(model, tokenizer, tokenizer)).search([repeating, calm], beam_size=1, max_copies=2)
    assert [most_copies(group[0].tokens) for group in found] == [7, 2]


# ---- endless pipes ---------------------------------------------------------------------------


@pytest.mark.slow
def test_memory_does_not_grow_with_an_endless_pipe(translator: Translator) -> None:
    def lines() -> Iterator[str]:
        number = 0
        while True:
            yield f"{TEXTS[number % 5]} {number}"
            number += 1

    stream = translator.stream(lines(), window=3, beam_size=1)

    def held_after(count: int) -> int:
        for _ in range(count):
            next(stream)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        # Three times 30 windows. To hold on to their translations alone would take some 90 kB each time; once, another
        # thread of the process may take memory.
        held = [held_after(90), held_after(90), held_after(90), held_after(90)]
        assert min(after - before for before, after in pairwise(held)) < 30_000
    finally:
        tracemalloc.stop()


def test_a_pause_is_used_to_translate_what_is_there(translator: Translator) -> None:
    reached: list[str] = []

    def lines() -> Iterator[str | None]:
        for line in ("a cat", None, None, "two dogs", "the house", None, "old"):
            reached.append(str(line))
            yield line

    greedy = translator.decoding.model_copy(update={"beam_size": 1})
    stream = translator.translate_windows(lines(), greedy)
    seen = []
    for expected in (2, 6, 6, 7):
        seen.append(next(stream))
        assert len(reached) == expected
    assert next(stream, None) is None
    assert [t.text for t in seen] == [
        t.text for t in translator.translate(["a cat", "two dogs", "the house", "old"], beam_size=1)
    ]


# ---- settings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beem_size": 3}, "no setting `beem_size` .did you mean 'beam_size'"),
        ({"beam_size": 0}, "`beam_size` is 0; it must be"),
        ({"n_best": 6}, "`n_best` is 6, but search keeps 5"),
        ({"top_k": 3}, "`top_k` is for sampling; add `sample`"),
        ({"diversity": 0.5, "n_best": 2}, "multiple"),
        ({"glossary": {"a": " "}}, "blank"),
        ({"forbid": "cat"}, "`forbid` is 'cat'; it must be a list of texts"),
        ({"max_copies": 1}, "'very very'"),
    ],
)
def test_a_mistake_becomes_one_sentence(translator: Translator, options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        translator.translate(TEXTS, **options)
    assert "\n" not in str(caught.value)


def test_options_go_before_the_config(translator: Translator) -> None:
    config = DecodingConfig(beam_size=2, n_best=2)
    assert translator.translate(TEXTS, config, n_best=1) == translator.translate(TEXTS, beam_size=2)
    with pytest.raises(UsageError, match="n_best"):
        translator.translate(TEXTS, config, beam_size=1)


def test_as_many_prefixes_as_sentences(translator: Translator) -> None:
    with pytest.raises(UsageError, match="2 prefixes for 5 sentences"):
        translator.translate(TEXTS, prefixes=["a", "b"])


def test_a_prefix_longer_than_learned_positions_is_refused(tokenizer: Tokenizer) -> None:
    size = tokenizer.vocab_size
    options = {"d_model": 24, "num_heads": 3, "positions": "learned", "max_positions": 23}
    model = Transformer(TransformerConfig.preset("tiny", source_vocab_size=size, target_vocab_size=size, **options))
    with pytest.raises(DataError, match="23 positions"):
        Translator(ModelDirectory(model, tokenizer, tokenizer)).translate(
            ["a cat sees the red house and a cat"], prefix="the red house " * 11
        )
