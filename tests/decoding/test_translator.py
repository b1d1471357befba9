"""The translator: an answer for each sentence, in order, the same whatever its neighbours are."""

import math
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from dragoman.decoding.batch import Sentence, batches_by_length
from dragoman.decoding.search import Beams, Hypothesis, SearchOptions, beam_search
from dragoman.decoding.torch_engine import TorchStepper
from dragoman.decoding.translator import Translation, Translator
from dragoman.errors import DataError, DragomanError, SentenceCut
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import EOS_ID, Tokenizer
from dragoman.text.truecasing import CaseTable
from dragoman.training.optimizer import eager
from tests.decoding.legible import legible

pytestmark = pytest.mark.usefixtures("annotations_unchecked")

PAIRS = [
    ("The dog sleeps.", "Le chien dort."),
    ("The cat sleeps.", "Le chat dort."),
    ("A black cat sees the dog.", "Un chat noir voit le chien."),
    ("A dog sees the black cat.", "Un chien voit le chat noir."),
    ("Yes.", "Oui."),
    ("No!", "Non\u202f!"),
    ("The dog and the cat sleep in the garden.", "Le chien et le chat dorment dans le jardin."),
    ("One\u2028two", "un\u2028deux"),
    ("nothing \0 here", "rien \0 ici"),
    ("👩‍👩‍👧 sleeps", "👩‍👩‍👧 dort"),
    ("Is it a cat?", "Est-ce un chat\u202f?"),
]
TARGETS = dict(PAIRS)
WORDS = sorted({word for pair in PAIRS for word in pair[0].split()})


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([text for pair in PAIRS for text in pair], vocab_size=307)


def small_model(vocab_size: int, **choices) -> Transformer:
    torch.manual_seed(7)
    sizes = {"d_model": 44, "d_ff": 97, "num_heads": 2}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2, "dropout": 0.0}
    vocabulary = {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size}
    return Transformer(TransformerConfig(**{**vocabulary, **sizes, **layers, **choices}))


@pytest.fixture(scope="module")
def taught(tokenizer: Tokenizer) -> Translator:
    """Has learned the pairs by heart."""
    model = small_model(tokenizer.vocab_size, share_embeddings=True)

    def padded(rows: list[list[int]]) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, rows)), batch_first=True)

    sources, targets = (tokenizer.encode_batch(texts) for texts in zip(*PAIRS, strict=True))
    config = model.config
    source_ids = padded([[*ids, config.eos_id] for ids in sources])
    target_ids = padded([[config.bos_id, *ids] for ids in targets])
    labels = padded([[*ids, config.eos_id] for ids in targets])
    optimizer = eager(torch.optim.Adam)(model.parameters(), lr=5e-3)
    for _ in range(80):
        logits = model(source_ids, target_ids)
        F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=config.pad_id).backward()
        optimizer.step()
        optimizer.zero_grad()
    return Translator(ModelDirectory(model, tokenizer, tokenizer))


def ending_model(vocab_size: int, **choices) -> Transformer:
    """Random and certain of itself, with a bias so that sentences end at very different lengths."""
    model = small_model(vocab_size, projection_bias=True, tie_projection=False, **choices)
    with torch.no_grad():
        model.projection.weight.mul_(3)
        model.projection.bias[EOS_ID] = 5.0
    return model


@pytest.fixture(scope="module")
def untaught(tokenizer: Tokenizer) -> Translator:
    model = legible(ending_model(tokenizer.vocab_size), tokenizer)
    return Translator(ModelDirectory(model, tokenizer, tokenizer))


def sentences(count: int) -> list[str]:
    dice = random.Random(11)
    return [" ".join(dice.choices(WORDS, k=dice.randint(1, 7))) for _ in range(count)]


def same(found: list[Translation], expected: list[Translation]) -> None:
    assert [(t.text, t.tokens) for t in found] == [(t.text, t.tokens) for t in expected]
    for name in ("log_prob", "score"):
        values = [[getattr(t, name) for t in group] for group in (found, expected)]
        assert values[0] == pytest.approx(values[1], abs=1e-4)


# ---- an answer for each, in order ------------------------------------------------------------


@pytest.mark.parametrize("beam_size", [1, 5])
@pytest.mark.parametrize("max_tokens", [1, 61, 4096])
def test_every_order_and_count_is_kept(taught: Translator, beam_size: int, max_tokens: int) -> None:
    dice = random.Random(13)
    for count in (1, 2, 11):
        asked = dice.choices([source for source, _ in PAIRS], k=count)
        found = taught.translate(asked, beam_size=beam_size, max_tokens=max_tokens)
        assert [t.text for t in found] == [TARGETS[source] for source in asked]
        assert all(-1.0 < t.score < 0.0 for t in found)


def test_no_sentences_have_no_translations(taught: Translator) -> None:
    assert taught.translate([]) == []
    assert taught.translate(iter(())) == []
    assert list(taught.stream([])) == []


@pytest.mark.parametrize("beam_size", [1, 3])
def test_blank_sentences_stay_as_they_are_and_move_nothing(taught: Translator, beam_size: int) -> None:
    blanks = ["", " ", "\t \n", "\u2028", "\u3000\xa0"]
    asked = [blanks[0], "Yes.", *blanks[1:], "The dog sleeps.", ""]
    found = taught.translate(asked, beam_size=beam_size)
    assert [t.text for t in found] == ["", "Oui.", *blanks[1:], "Le chien dort.", ""]
    assert found[0] == Translation("", 0.0, 0.0, [])
    assert [t.text for t in taught.translate(blanks, beam_size=beam_size)] == blanks


def test_space_around_a_sentence_comes_back_and_changes_nothing_else(taught: Translator) -> None:
    found = taught.translate(["  Yes. ", "Yes.", "\tYes.\r\n"])
    assert [t.text for t in found] == ["  Oui. ", "Oui.", "\tOui.\r\n"]
    same([replace(t, text=t.text.strip()) for t in found], [found[1]] * 3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dragoman.errors.SentenceCut")
@pytest.mark.parametrize("beam_size", [1, 2])
def test_odd_sentences_have_one_answer_each(untaught: Translator, beam_size: int) -> None:
    odd = [
        "👩‍👩‍👧🏳️‍🌈" * 7,
        "\0",
        "a\0b",
        "a\u2028b\u2029c\x85d\x0be",
        "\ud800 alone",
        "\u202eright to left\u202c مرحبا",
        "</s> <pad> <s>",
        "e\u0301" * 53,
        "\u200b",
        "The dog. " * 1009,
        "x" * 3001,
    ]
    for split in (True, False):
        found = untaught.translate(odd, beam_size=beam_size, max_tokens=8192, split=split)
        assert len(found) == len(odd)
        for source, translation in zip(odd, found, strict=True):
            assert math.isfinite(translation.log_prob)
            assert translation.log_prob < 0 or translation.text == source
            assert math.isfinite(translation.score)
            translation.text.encode()  # no lone surrogate comes out
            limit = 2 * len(untaught.source_tokenizer.encode(source.strip())) + 20
            assert split or len(translation.tokens) <= limit


@pytest.mark.slow
def test_duplicates_get_the_same_answer(untaught: Translator) -> None:
    once = sentences(13)
    found = untaught.translate(once * 3, beam_size=3, max_tokens=211)
    same(found[:13], untaught.translate(once, beam_size=3, max_tokens=211))
    same(found[13:26], found[:13])
    same(found[26:], found[:13])


# ---- the same answer, however it is found ----------------------------------------------------


@pytest.mark.first_is_quick
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_a_batch_gives_what_each_sentence_gives_alone(untaught: Translator, beam_size: int) -> None:
    asked = sentences(9)
    options = {"beam_size": beam_size, "max_copies": 0}
    together = untaught.translate(asked, **options)
    assert len({len(t.tokens) for t in together}) > 5, "too even to show anything"
    alone = [untaught.translate([each], **options)[0] for each in asked]
    same(together, alone)
    same(untaught.translate(asked, max_tokens=61, **options), alone)
    same(untaught.translate(asked[::-1], **options), alone[::-1])


@pytest.mark.slow
def test_of_many_sentences_nearly_all_are_the_same_alone_and_in_a_batch(untaught: Translator) -> None:
    """Sums in another order may exchange two hypotheses that are almost equally good, in 1 of 1,000 sentences."""
    asked = sentences(10_000)
    together = untaught.translate(asked, beam_size=2)
    alone = [untaught.translate([each], beam_size=2)[0] for each in asked]
    equal = [(one, other) for one, other in zip(together, alone, strict=True) if one.text == other.text]
    assert len(equal) >= 9_990
    assert [one.log_prob for one, _ in equal] == pytest.approx([other.log_prob for _, other in equal], abs=1e-4)


@torch.inference_mode()
def test_greedy_is_a_beam_of_one(untaught: Translator) -> None:
    tokenizer, config = untaught.source_tokenizer, untaught.engines[0].model.config
    asked = sentences(11)
    for text, translation in zip(asked, untaught.translate(asked, beam_size=1, max_copies=0, split=False), strict=True):
        ids = tokenizer.encode(text)
        stepper = TorchStepper(untaught.engines[0].model, torch.tensor([[*ids, config.eos_id]]))
        ((best,),) = beam_search(stepper, Beams(1, SearchOptions([2 * len(ids) + 20], 2, 3)))
        assert translation.text == tokenizer.decode(best.tokens)
        assert translation.log_prob == pytest.approx(best.log_prob, abs=1e-4)
        assert translation.score == pytest.approx(best.score, abs=1e-4)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(("beam_size", "penalty"), [(1, 1.0), (3, 0.0), (5, 0.6)])
@torch.no_grad()
def test_scores_are_those_of_the_forward_pass(untaught: Translator, beam_size: int, penalty: float) -> None:
    tokenizer, model = untaught.target_tokenizer, untaught.engines[0].model
    asked = sentences(17)
    groups = untaught.search(asked, beam_size=beam_size, length_penalty=penalty)
    for text, group in zip(asked, groups, strict=True):
        assert len(group) == beam_size
        assert [t.score for t in group] == sorted((t.score for t in group), reverse=True)
        assert len({tuple(t.tokens) for t in group}) == beam_size
        source = [*tokenizer.encode(text), EOS_ID]
        for hypothesis in group:
            target = list(hypothesis.tokens)
            if len(target) < 2 * (len(source) - 1) + 20:
                target.append(EOS_ID)
            logits = model(torch.tensor([source]), torch.tensor([[2, *target[:-1]]]))
            log_probs = logits[0].double().log_softmax(-1)
            total = float(log_probs.gather(1, torch.tensor(target)[:, None]).sum())
            assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)
            assert hypothesis.score == pytest.approx(total / len(target) ** penalty, abs=1e-4)


def test_a_translation_is_scored_as_it_was_found(taught: Translator) -> None:
    rule = {"length_penalty": 0.6, "length_offset": 5.0}
    found = taught.translate(list(TARGETS), **rule)
    scored = taught.score([(source, t.text) for source, t in zip(TARGETS, found, strict=True)], **rule)
    assert [s.tokens for s in scored] == [t.tokens for t in found]
    assert [s.log_prob for s in scored] == pytest.approx([t.log_prob for t in found], abs=1e-4)
    assert [s.score for s in scored] == pytest.approx([t.score for t in found], abs=1e-4)
    # Each target after the source before its own.
    wrong = taught.score(list(zip(list(TARGETS)[:-1], list(TARGETS.values())[1:], strict=True)), **rule)
    assert all(bad.score < good.score for bad, good in zip(wrong, scored[1:], strict=True))
    assert taught.score([]) == []


@pytest.mark.slow
def test_translations_stop_at_twice_the_source_and_twenty(tokenizer: Tokenizer) -> None:
    model = ending_model(tokenizer.vocab_size)
    with torch.no_grad():
        model.projection.bias[EOS_ID] = -1e4
    asked = sentences(7)
    for beam_size in (1, 2):
        found = Translator(ModelDirectory(model, tokenizer, tokenizer)).translate(
            asked, beam_size=beam_size, max_copies=0, split=False
        )
        limits = [2 * len(ids) + 20 for ids in tokenizer.encode_batch(asked)]
        assert [len(t.tokens) for t in found] == limits
        for t, limit in zip(found, limits, strict=True):
            assert t.score == pytest.approx(t.log_prob / limit)


def test_dropout_is_off(tokenizer: Tokenizer) -> None:
    model = ending_model(tokenizer.vocab_size, dropout=0.3, projection_dropout=0.3).train()
    translator = Translator(ModelDirectory(model, tokenizer, tokenizer))
    asked = sentences(5)
    assert translator.translate(asked) == translator.translate(asked)


# ---- streams and batches ---------------------------------------------------------------------


@pytest.mark.first_is_quick
@pytest.mark.parametrize("window", [1, 2, 7, 2048])
def test_a_stream_is_the_same_translations(untaught: Translator, window: int) -> None:
    asked = ["", *sentences(11), " "]
    expected = untaught.translate(asked, beam_size=2)
    same(list(untaught.stream(iter(asked), window=window, beam_size=2)), expected)


def test_a_stream_reads_no_further_than_it_must(taught: Translator) -> None:
    def lines() -> Iterator[str]:
        yield from ("Yes.", "", "No!")
        raise DataError("line 4 is no text")

    stream = taught.stream(lines(), window=3, beam_size=1)
    assert [next(stream).text for _ in range(3)] == ["Oui.", "", "Non\u202f!"]
    with pytest.raises(DataError, match="line 4"):
        next(stream)


def test_an_endless_stream_is_answered(taught: Translator) -> None:
    def lines() -> Iterator[str]:
        while True:
            yield "Yes."

    stream = taught.stream(lines(), window=5, beam_size=1)
    assert [next(stream).text for _ in range(13)] == ["Oui."] * 13


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_workers_may_be_forked_in_a_program_whose_threads_translate(untaught: Translator, tokenizer: Tokenizer):
    texts = [f"The {'old ' * (number % 5)}house {number}." for number in range(11)]
    wanted = [each.text for each in untaught.translate(texts)]
    ended = threading.Event()

    def translate_on() -> None:
        while not ended.is_set():
            assert [each.text for each in untaught.translate(texts)] == wanted

    with ThreadPoolExecutor(2) as threads:
        others = [threads.submit(translate_on) for _ in range(2)]
        try:
            for _ in range(3):
                directory = ModelDirectory(untaught.engines[0].model, tokenizer, tokenizer)
                with Translator(directory, workers=2) as translator:
                    assert [each.text for each in translator.translate(texts)] == wanted
        finally:
            ended.set()
        assert [each.result() for each in others] == [None, None]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("budget", [200, 700, 100_000])
def test_workers_get_equally_many_batches_of_equal_size(untaught: Translator, workers: int, budget: int, monkeypatch):
    monkeypatch.setattr(untaught, "workers", SimpleNamespace(count=workers))
    lengths = [7 + i * i % 23 for i in range(120)]
    batches = list(untaught._shared_out(lengths, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(120))
    sizes = [len(batch) * max(lengths[index] for index in batch) for batch in batches]
    assert max(sizes) <= budget
    assert len(batches) % workers == 0
    assert len(batches) - len(list(batches_by_length(lengths, budget))) < workers
    assert min(sizes) > 0.4 * max(sizes)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(("beam_size", "max_tokens"), [(1, 101), (3, 101), (5, 4096), (7, 3)])
def test_batches_keep_to_their_budget(untaught: Translator, beam_size: int, max_tokens: int) -> None:
    shapes = []
    hook = untaught.engines[0].model.encoder.register_forward_hook(lambda _, args, __: shapes.append(args[0]))
    asked = sentences(13)
    untaught.translate(asked, beam_size=beam_size, max_tokens=max_tokens, split=False)
    hook.remove()
    assert sum(len(ids) for ids in shapes) == len(asked)
    for ids in shapes:
        assert len(ids) == 1 or ids.numel() * beam_size <= max_tokens
        assert (ids != untaught.engines[0].model.config.pad_id).any(dim=0).all(), "a column of mere padding"
    lengths = [int(n) for ids in shapes for n in (ids != untaught.engines[0].model.config.pad_id).sum(dim=1)]
    assert lengths == sorted(lengths, reverse=True)


# ---- models ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_loaded_translator_says_the_same(taught: Translator, tmp_path: Path) -> None:
    tokenizer = taught.source_tokenizer
    ModelDirectory(taught.engines[0].model, tokenizer, tokenizer, "en", "fr").save(tmp_path / "model")
    asked = [source for source, _ in PAIRS]
    for path in (tmp_path / "model", str(tmp_path / "model")):
        loaded = Translator.load(path, device="cpu", precision="float32")
        same(loaded.translate(asked), taught.translate(asked))
    with pytest.raises(DataError, match="absent does not exist"):
        Translator.load(tmp_path / "absent")


def test_source_and_target_may_have_tokenizers_of_their_own(tokenizer: Tokenizer) -> None:
    target = Tokenizer.train(["Le chien dort.", "Un chat noir."], vocab_size=271)
    model = ending_model(tokenizer.vocab_size, target_vocab_size=target.vocab_size)
    for translation in Translator(ModelDirectory(model, tokenizer, target)).translate(sentences(5), beam_size=3):
        assert "".join(translation.tokens)
        known = {target.pieces([id_])[0] for id_ in range(target.vocab_size)}
        assert known.issuperset(translation.tokens)


def test_half_precision_gives_finite_scores(untaught: Translator) -> None:
    tokenizer = untaught.source_tokenizer
    halved = Translator(ModelDirectory(untaught.engines[0].model, tokenizer, tokenizer), precision="bfloat16")
    for beam_size in (1, 3):
        for translation in halved.translate(sentences(5), beam_size=beam_size):
            assert math.isfinite(translation.score)
            assert translation.score < 0


def test_a_model_can_train_on_after_a_long_translation(tokenizer: Tokenizer) -> None:
    # Its table of positions has grown meanwhile, without gradients.
    model = ending_model(tokenizer.vocab_size, max_positions=5)
    Translator(ModelDirectory(model, tokenizer, tokenizer)).translate(sentences(3), beam_size=1)
    model.train()
    model(torch.tensor([[5, 7, 3]]), torch.tensor([[2, 11]])).sum().backward()
    assert model.encoder.embedding.table.weight.grad.abs().sum() > 0


def test_learned_positions_end_a_translation_not_the_program(tokenizer: Tokenizer) -> None:
    # The sentence fits, but twice its length and twenty do not.
    model = ending_model(tokenizer.vocab_size, positions="learned", max_positions=23)
    with torch.no_grad():
        model.projection.bias[EOS_ID] = -1e4
    translator = Translator(ModelDirectory(model, tokenizer, tokenizer))
    for beam_size in (1, 3):
        (found,) = translator.translate(["The dog sleeps."], beam_size=beam_size)
        assert len(found.tokens) == 23


def test_a_sentence_too_long_for_learned_positions_is_a_data_error(tokenizer: Tokenizer) -> None:
    model = ending_model(tokenizer.vocab_size, positions="learned", max_positions=23)
    translator = Translator(ModelDirectory(model, tokenizer, tokenizer))
    with pytest.raises(DataError, match="23"):
        translator.translate(["The dog sleeps. " * 11], split=False)
    with pytest.warns(SentenceCut):
        (found,) = translator.translate(["The dog sleeps. " + "dog " * 111])
    assert "more than 22 tokens" in found.warning


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_model_that_has_diverged_is_an_error(tokenizer: Tokenizer, beam_size: int) -> None:
    model = ending_model(tokenizer.vocab_size)
    with torch.no_grad():
        model.encoder.embedding.table.weight.fill_(math.nan)
    translator = Translator(ModelDirectory(model, tokenizer, tokenizer))
    with pytest.raises(DragomanError, match="only NaN"):
        translator.translate(["Yes."], beam_size=beam_size)


# ---- settings that make no sense -------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: t.translate(["Yes."], beam_size=0),
        lambda t: t.translate(["Yes."], beam_size=-1),
        lambda t: list(t.stream(["Yes."], window=0)),
        lambda t: Translator(
            ModelDirectory(t.engines[0].model, t.source_tokenizer, t.target_tokenizer), precision="int8"
        ),
        lambda t: Translator(
            ModelDirectory(t.engines[0].model, t.source_tokenizer, t.target_tokenizer), precision="float99"
        ),
        lambda t: t.translate("Yes."),  # one sentence, not four of a letter each
    ],
    ids=["beam 0", "beam -1", "window 0", "precision int8", "precision float99", "bare text"],
)
def test_senseless_settings_are_refused(taught: Translator, wrong: Callable[[Translator], object]) -> None:
    with pytest.raises((DragomanError, ValueError)):
        wrong(taught)


# ---- placeholders ----------------------------------------------------------------------------


def test_placeholders_are_copied_from_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a search that gives back the source tokens, what comes out is what went in."""
    texts = ["Hello {name}, <b>%d</b> dogs & 100%!", "<2de> {name}", "", "no \ufdd0 slot"]
    tokenizer = Tokenizer.train(texts, vocab_size=331, symbols=["<2de>", *SLOTS])
    translator = Translator(ModelDirectory(small_model(tokenizer.vocab_size), tokenizer, tokenizer))
    searched = []

    def echo(_, sentences: list[Sentence], *__) -> list[list[Hypothesis]]:
        searched.extend(sentence.source for sentence in sentences)
        return [[Hypothesis(sentence.source, -1.0, -1.0)] for sentence in sentences]

    echo.max_length = 99
    monkeypatch.setattr(translator, "_work", echo)
    assert [t.text for t in translator.translate(texts)] == [*texts[:3], "no \ufffd slot"]
    shown = {piece for ids in searched for piece in tokenizer.pieces(ids)}
    assert {"<ph1>", "<ph2>", "<ph3>", "<ph4>", "<2de>"} <= shown
    assert not {"name", "{"} & shown


@pytest.mark.first_is_quick
@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 3}, {"beam_size": 2, "glossary": {"Yes": "chat"}}])
def test_what_is_to_be_copied_is_copied_once_whatever_a_model_has_learned(options: dict) -> None:
    tokenizer = Tokenizer.train(WORDS, vocab_size=331, symbols=SLOTS)
    directory = ModelDirectory(ending_model(tokenizer.vocab_size), tokenizer, tokenizer)
    texts = ["Yes. 2024-05-06", "The dog (NASA, 1,234.56) sleeps.", "Is it 👍🏽 or {name}?", "The cat sleeps.", "NASA"]
    copied = [["2024-05-06"], ["NASA", "1,234.56"], ["👍🏽", "{name}"], [], ["NASA"]]
    for translation, values in zip(Translator(directory).translate(texts, **options), copied, strict=True):
        assert [translation.text.count(value) for value in values] == [1] * len(values)
        assert not {*translation.text} & {*SLOTS}


def test_what_a_beginning_has_copied_is_not_copied_again() -> None:
    tokenizer = Tokenizer.train(WORDS, vocab_size=331, symbols=SLOTS)
    translator = Translator(ModelDirectory(ending_model(tokenizer.vocab_size), tokenizer, tokenizer))
    asked = translator.translate(["Yes. 2024-05-06 and NASA"] * 2, prefixes=["Oui le 2024-05-06", "7 Oui"], split=False)
    for translation, prefix in zip(asked, ("Oui le 2024-05-06", "7 Oui"), strict=True):
        assert translation.text.startswith(prefix)
        assert [translation.text.count(value) for value in ("2024-05-06", "NASA")] == [1, 1]


def test_terms_are_not_copied_as_well() -> None:
    tokenizer = Tokenizer.train([*WORDS, "chat"], vocab_size=331, symbols=SLOTS)
    model = legible(ending_model(tokenizer.vocab_size), tokenizer)
    translator = Translator(ModelDirectory(model, tokenizer, tokenizer))
    terms = {"beam_size": 3, "glossary": {"the NASA": "la NASA"}, "forbid": ["covid-19", "42"]}
    asked = translator.translate(["In the NASA", "COVID-19 and 42", "COVID-20"], **terms)
    assert [each.text.count("NASA") for each in asked] == [1, 0, 0]
    assert not any(value in asked[1].text for value in ("COVID-19", "42"))
    assert "COVID-20" in asked[2].text


@pytest.mark.parametrize("beam_size", [1, 3])
def test_translations_have_whole_characters(beam_size: int) -> None:
    texts = ["我喜欢北京。", "他不在家。", "猫在哪里？"]
    tokenizer = Tokenizer.train(texts, vocab_size=271)
    # Tokens are half of the bytes of Chinese characters, and the model is random.
    translator = Translator(ModelDirectory(ending_model(tokenizer.vocab_size), tokenizer, tokenizer))
    found = translator.search(texts, beam_size=beam_size)
    assert "\ufffd" not in "".join(tokenizer.decode(group[0].tokens) for group in found)


# ---- case ------------------------------------------------------------------------------------


def test_capitals_title_case_and_lower_case_are_translated_as_usual(taught: Translator, tokenizer: Tokenizer) -> None:
    table = CaseTable.learn([*list(TARGETS)[:7], "Now the dog and a black cat."] * 2)
    translator = Translator(
        ModelDirectory(taught.engines[0].model, tokenizer, tokenizer, style=SourceStyle(case=table))
    )
    for source, target in PAIRS[2:4] + PAIRS[6:7]:
        texts = [source, source.upper(), source.title(), source.lower()]
        found = translator.translate(texts, beam_size=2, alignments=True)
        assert [each.text for each in found] == [target, target.upper(), target, target]
        assert len({tuple(each.alignment) for each in found}) == 1
        assert len({tuple(each.tokens) for each in found}) == 1
        scores = translator.score([(text, target) for text in texts])
        assert [each.log_prob for each in scores] == pytest.approx([found[0].log_prob] * 4, rel=1e-4)


MODES = [
    {"beam_size": 1, "alignments": True},
    {"beam_size": 3, "alignments": True},
    {"beam_size": 2, "n_best": 2, "max_copies": 0},
    {"beam_size": 4, "n_best": 2, "diversity": 0.7},
    {"sample": True, "n_best": 2, "seed": 5},
    {"beam_size": 2, "glossary": {"dog": "chat"}},
    {"beam_size": 2, "forbid": ["chien", "le"], "alignments": True},
    {"beam_size": 2, "forbid": ["chat"], "prefix": "Un"},
]


def test_threads_that_share_a_translator_get_what_each_gets_alone(taught: Translator) -> None:
    """Each mode in a thread of its own, twice, all of them at once."""
    texts = [source for source, _ in PAIRS[:3]]
    alone = [taught.translate(texts, **mode) for mode in MODES]
    pairs = [(text, TARGETS[text]) for text in texts]
    scores = taught.score(pairs)
    with ThreadPoolExecutor(len(MODES) + 1) as pool:
        jobs = [pool.submit(taught.translate, texts, **mode) for _ in range(2) for mode in MODES]
        scored = [pool.submit(taught.score, pairs) for _ in range(2)]
        for number, job in enumerate(jobs):
            assert job.result() == alone[number % len(MODES)]
    assert all(job.result() == scores for job in scored)


def test_sentences_are_batched_from_the_longest_on_within_a_budget():
    assert list(batches_by_length([3, 1, 2, 5, 2, 7, 2], 6)) == [[5], [3], [0, 2], [4, 6, 1]]
