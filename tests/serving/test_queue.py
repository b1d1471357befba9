"""Texts of all clients are batched; everybody gets their own, in time or not at all."""

import threading
import time
from collections import deque
from concurrent.futures import CancelledError, Future

import pytest
import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError
from dragoman.serving.background import _DocumentRequest
from dragoman.serving.queue import BATCH, FEW, DeadlinePassed, QueueFull, TranslationQueue
from dragoman.text.tokenizers.tokenizer import EOS_ID
from tests.report.models import small_model
from tests.serving.conftest import Words
from tests.waiting import wait_until

PLAIN = DecodingConfig()


@pytest.fixture
def queue():
    queue = TranslationQueue()
    yield queue
    queue.close()


def texts_of(future):
    return [translation.text for translation in future.result(timeout=30)]


def busy(queue):
    """A model whose first batch is being translated, until the test sets `go_on`. All that is submitted waits."""
    words = Words(held=True)
    queue.submit(words, ["first"], PLAIN, seconds=60)
    assert words.begun.wait(30)
    return words


def test_what_waits_is_translated_together_and_each_gets_their_own(queue):
    words = Words(held=True)
    first = queue.submit(words, ["first"], PLAIN, seconds=60)
    assert words.begun.wait(30)
    others = [queue.submit(words, [f"a{n}", f"b{n}"], PLAIN, seconds=60) for n in range(20)]
    words.go_on.set()
    assert texts_of(first) == ["FIRST"]
    assert [texts_of(future) for future in others] == [[f"A{n}", f"B{n}"] for n in range(20)]
    assert [len(batch) for batch in words.batches] == [1, 40]
    assert queue.tokens == 0


def test_other_models_and_searches_are_batches_of_their_own(queue):
    one, two, greedy = busy(queue), Words("fr", "en"), DecodingConfig(beam_size=1)
    requests = (one, ["a"], PLAIN), (one, ["b"], greedy), (two, ["c"], PLAIN)
    futures = [queue.submit(*request, seconds=60) for request in requests]
    one.go_on.set()
    assert [texts_of(future) for future in futures] == [["A"], ["B"], ["C"]]
    assert one.batches == [["first"], ["a"], ["b"]]


def test_a_long_request_does_not_keep_a_short_one_waiting(queue):
    go_on = threading.Event()

    class SlowWithLongTexts(Words):
        def translate(self, texts, config, prefixes):
            if texts != ["short"]:
                go_on.wait(30)
            return super().translate(texts, config, prefixes)

    words = SlowWithLongTexts()
    long = queue.submit(words, ["x" * BATCH] * 20, PLAIN, seconds=60)
    short = queue.submit(words, ["short"], PLAIN, seconds=60)
    assert texts_of(short) == ["SHORT"]
    assert not long.done()
    go_on.set()
    assert len(texts_of(long)) == 20


def test_what_nobody_waits_for_is_not_translated(queue):
    words = busy(queue)
    gone = queue.submit(words, ["gone"], PLAIN, seconds=60)
    late = queue.submit(words, ["late"], PLAIN, seconds=0)
    kept = queue.submit(words, ["kept"], PLAIN, seconds=60)
    assert gone.cancel()
    words.go_on.set()
    assert texts_of(kept) == ["KEPT"]
    with pytest.raises(DeadlinePassed):
        late.result(timeout=5)
    with pytest.raises(CancelledError):
        gone.result()
    assert words.batches == [["first"], ["kept"]]
    assert queue.tokens == 0


@pytest.mark.slow
def test_a_batch_is_stopped_between_two_steps_when_nobody_waits_for_it(queue):
    translator, steps, go_on = Translator(small_model()), [], threading.Event()
    with torch.no_grad():
        translator.engines[0].model.projection.bias[
            EOS_ID
        ] = -1_000.0  # so each translation has all steps that it may have
    text, sure = "The old house. " * 4, {"split": False, "max_copies": 0, "beam_size": 1}
    config = DecodingConfig(**sure)
    all_steps = len(translator.search([text], config)[0][0].tokens)

    def step(*_):
        steps.append(1)
        if len(steps) == 3:
            go_on.wait(30)

    translator.engines[0].model.decoder.register_forward_pre_hook(step)
    queue.watch(translator)

    def begun(number):
        """Requests that make one batch, whose third step waits until `go_on` is set."""
        words = busy(queue)
        steps.clear()
        go_on.clear()
        futures = [queue.submit(translator, [text], config, seconds=60) for _ in range(number)]
        words.go_on.set()
        wait_until(lambda: len(steps) == 3)
        return futures

    for future in begun(2):
        future.cancel()
    following = queue.submit(Words(), ["next"], PLAIN, seconds=60)  # gives the cancelled batch no more time
    go_on.set()
    assert texts_of(following) == ["NEXT"]
    assert len(steps) < all_steps / 4
    assert queue.tokens == 0
    gone, kept = begun(2)
    gone.cancel()
    go_on.set()
    assert len(kept.result(timeout=60)[0].tokens) == all_steps == len(steps)


def test_more_work_than_can_be_done_is_refused_at_once(queue):
    words = busy(queue)
    long = ["word " * 400] * 20  # texts that are longer still leave the queue of batches, and are not counted
    waiting = [queue.submit(words, long, PLAIN, seconds=60) for _ in range(FEW - 1)]  # so few wait in any case
    with pytest.raises(QueueFull) as refused:
        waiting += (queue.submit(words, long, PLAIN, seconds=60) for _ in range(3))
    assert 1 <= refused.value.seconds < 600
    assert queue.overload() == 0  # for those who ask for little
    short = [queue.submit(words, ["short " * 40], PLAIN, seconds=60) for _ in range(8)]
    with pytest.raises(QueueFull) as refused:
        short += (queue.submit(words, ["short " * 40], PLAIN, seconds=60) for _ in range(300))
    assert 1 <= refused.value.seconds < 60
    assert queue.overload() >= 1
    for future in waiting:
        future.cancel()
    words.go_on.set()
    assert texts_of(short[0]) == ["SHORT " * 40]


def test_short_texts_of_falling_lengths_are_refused_like_others(queue):
    words = busy(queue)
    texts = ("x" * length for length in range(6_000, 40, -40))  # each a little shorter than all before it
    with pytest.raises(QueueFull):
        deque(queue.submit(words, [text], PLAIN, seconds=60) for text in texts)
    assert queue.overload() >= 1
    words.go_on.set()


@pytest.mark.parametrize("alone", [DecodingConfig(forbid=["bad"]), PLAIN], ids=["forbidden terms", "long units"])
def test_more_units_that_are_translated_alone_than_there_is_time_for_are_refused(queue, alone):
    words = Words(held=True)
    text = "word" if alone.forbid else "word " * 500
    waiting = [queue.submit(words, [text], alone, seconds=60)]
    assert words.begun.wait(30)
    waiting += (queue.submit(words, [text], alone, seconds=60) for _ in range(FEW))
    wait_until(lambda: len(queue._brief.waiting) + len(queue._lasting.waiting) == FEW)
    for future in [queue.submit(words, [text], alone, seconds=60) for _ in range(3)]:
        with pytest.raises(QueueFull) as full:
            future.result(timeout=30)
        assert 1 <= full.value.seconds < 60
    assert texts_of(queue.submit(Words("fr", "en"), ["short"], PLAIN, seconds=60)) == ["SHORT"]  # in a batch
    for future in waiting[1:]:
        future.cancel()  # so that there is room again
    last = queue.submit(words, [text], alone, seconds=60)
    words.go_on.set()
    assert texts_of(last) == [text.upper()]
    assert texts_of(waiting[0]) == [text.upper()]
    wait_until(lambda: queue.tokens == 0)


def test_a_document_waits_while_the_queue_is_full(monkeypatch):
    """It is told so at once, or when its texts are split; it comes again as late as it is told to."""
    full, later = Future(), Future()
    full.set_exception(QueueFull(3))
    later.set_result(["translated"])
    outcomes = deque([QueueFull(7), full, later])

    class Full:
        def submit(self, *_, **__):
            outcome = outcomes.popleft()
            if isinstance(outcome, QueueFull):
                raise outcome
            return outcome

    slept = []
    monkeypatch.setattr("dragoman.serving.background.time.sleep", slept.append)
    request = _DocumentRequest(Full(), Words(), PLAIN, time.monotonic() + 60, None)
    assert request.translate(["a"]) == ["translated"]
    assert slept == [7, 3]
    request.cancel()
    with pytest.raises(DeadlinePassed):
        request.translate(["a"])


def test_short_texts_come_before_long_ones_every_second_time(queue):
    def are_split():
        with queue._lock:
            return not (queue._unsplit or queue._splitting)

    words = busy(queue)
    long = [queue.submit(words, [f"{name} " * 900] * 8, PLAIN, seconds=60) for name in "abc"]
    wait_until(are_split)  # long requests wait for a turn only when a thread of their own has split them
    short = [queue.submit(words, [f"short {number}"], PLAIN, seconds=60) for number in range(4)]
    words.go_on.set()
    for future in (*short, *long):
        future.result(timeout=30)
    kinds = ["short" if batch[0].startswith("short") else "long" for batch in words.batches[1:]]
    assert kinds[:2] == ["long", "short"]
    assert kinds[2:] == ["long"] * (len(kinds) - 2)
    assert words.batches[2][:4] == [f"short {number}" for number in range(4)]


def test_an_error_is_that_of_its_clients_alone(queue):
    class Broken(Words):
        def translate(self, texts, config, prefixes):
            raise DataError("The model gives no probabilities.")

    failing = queue.submit(Broken(), ["a"], PLAIN, seconds=9)
    with pytest.raises(DataError):
        failing.result(timeout=5)
    assert texts_of(queue.submit(Words(), ["b"], PLAIN, seconds=9)) == ["B"]
    assert queue.tokens == 0


def test_a_text_that_fails_fails_nobody_else(queue):
    class Picky(Words):
        def translate(self, texts, config, prefixes):
            if "bad" in texts:
                raise DataError("This text is bad.")
            return super().translate(texts, config, prefixes)

    words = Picky(held=True)
    first = queue.submit(words, ["first"], PLAIN, seconds=60)
    assert words.begun.wait(30)
    others = [queue.submit(words, [text], PLAIN, seconds=60) for text in ("one", "bad", "two")]
    words.go_on.set()
    assert [texts_of(future) for future in (first, others[0], others[2])] == [["FIRST"], ["ONE"], ["TWO"]]
    with pytest.raises(DataError, match="is bad"):
        others[1].result(timeout=5)
    assert queue.tokens == 0


def test_many_clients_at_once(queue):
    words, translated = Words(), {}

    def ask(number):
        translated[number] = texts_of(queue.submit(words, [f"t{number}"], PLAIN, seconds=30))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert translated == {number: [f"T{number}"] for number in range(200)}


def test_models_are_loaded_by_the_thread_that_translates(queue):
    threads = [queue.call_first(threading.current_thread) for _ in range(2)]
    assert {thread.name for thread in threads} == {"translating"}
    with pytest.raises(DataError, match="no model"):
        queue.call_first(lambda: (_ for _ in ()).throw(DataError("This is no model.")))
    assert texts_of(queue.submit(Words(), ["a"], PLAIN, seconds=9)) == ["A"]


class AtOnce(Words):
    """Counts how many batches are translated at the same time, at most."""

    def __init__(self, *, computes_in_threads, **keywords):
        super().__init__(**keywords)
        self.computes_in_threads, self.workers = computes_in_threads, None
        self.counter = {"now": 0, "most": 0}
        self.lock = threading.Lock()

    def translate(self, texts, config, prefixes):
        with self.lock:
            self.counter["now"] += 1
            self.counter["most"] = max(self.counter.values())
        try:
            return super().translate(texts, config, prefixes)
        finally:
            with self.lock:
                self.counter["now"] -= 1


@pytest.fixture
def lanes():
    queue = TranslationQueue(lanes=3)
    yield queue
    queue.close()


def test_lanes_translate_batches_side_by_side(lanes):
    words = AtOnce(computes_in_threads=True, held=True)
    futures = [lanes.submit(words, [f"t{number}"], PLAIN, seconds=60) for number in range(30)]
    wait_until(lambda: words.counter["now"] == 3)
    words.go_on.set()
    assert [texts_of(future) for future in futures] == [[f"T{number}"] for number in range(30)]
    assert words.counter["most"] == 3
    assert lanes.tokens == 0


def test_idle_lanes_share_out_a_request(lanes):
    words = AtOnce(computes_in_threads=True, held=True)
    future = lanes.submit(words, [f"t{number}" for number in range(30)], PLAIN, seconds=60)
    wait_until(lambda: words.counter["now"] == 3)
    words.go_on.set()
    assert texts_of(future) == [f"T{number}" for number in range(30)]
    assert sorted(map(len, words.batches)) == [10, 10, 10]


def test_what_does_not_compute_in_threads_has_one_lane(lanes):
    alone, beside = AtOnce(computes_in_threads=False, held=True), AtOnce(computes_in_threads=True)
    futures = [lanes.submit(alone, [f"t{number}"], PLAIN, seconds=60) for number in range(9)]
    wait_until(lambda: alone.counter["now"])
    assert texts_of(lanes.submit(beside, ["b"], PLAIN, seconds=60)) == ["B"]  # another lane is free for it
    alone.go_on.set()
    assert [texts_of(future) for future in futures] == [[f"T{number}"] for number in range(9)]
    assert alone.counter["most"] == 1
    assert len(alone.batches) <= 2  # no share of what waits is left for lanes that could not take it


def test_lanes_split_many_requests_once(lanes):
    words = AtOnce(computes_in_threads=True)
    futures = [lanes.submit(words, ["a b. " * 50, f"t{number}"], PLAIN, seconds=60) for number in range(15)]
    assert [texts_of(future)[1] for future in futures] == [f"T{number}" for number in range(15)]
    assert sum(map(len, words.batches)) == 30


def test_closing_finishes_what_was_accepted():
    queue = TranslationQueue()
    futures = [queue.submit(Words(seconds=0.1), [f"{n}"], PLAIN, seconds=9) for n in range(3)]
    queue.close()
    assert all(future.done() for future in futures)
    with pytest.raises(QueueFull):
        queue.submit(Words(), ["x"], PLAIN, seconds=9)
