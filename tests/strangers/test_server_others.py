"""Nobody stops the others: costly texts, locks on the memory, documents hard to read, processes that die."""

import asyncio
import os
import signal
import sqlite3
import threading
import time
from contextlib import closing

import pytest
import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.data.readers.memory import Memory
from dragoman.data.tokenizers.tokenizer import EOS_ID
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError
from dragoman.serving.background import DOCUMENTS, Background
from dragoman.serving.insides import Inside, Lookers
from dragoman.serving.queue import LONG, DeadlinePassed, TranslationQueue
from dragoman.system.helpers import HelperDied, Helpers
from tests.report.models import small_model
from tests.serving.conftest import Words, serve  # noqa: F401

PAIR = {"source": "en", "target": "fr"}
PLAIN = DecodingConfig()
WHOLE = DecodingConfig(split=False, max_copies=0, beam_size=1)


@pytest.fixture
def queue():
    queue = TranslationQueue()
    yield queue
    queue.close()


def endless() -> Translator:
    """One whose translations all have as many tokens as they may."""
    translator = Translator(small_model())
    with torch.no_grad():
        translator.model.projection.bias[EOS_ID] = -1_000.0
    return translator


def test_a_text_is_translated_in_units_with_the_result_that_a_translator_gives(queue):
    translator = Translator(small_model())
    texts = ["The red house is old.  The cat sees two dogs.\nYes.", "", " ", "A dog.", "The old house. " * 40]
    config = translator.decoding.model_copy(update={"alignments": True, "n_best": 2})
    found = queue.submit(translator, texts, config, seconds=60).result()
    assert [each.text for each in found] == [each.text for each in translator.translate(texts, config)]
    assert [each.alignment for each in found] == [each.alignment for each in translator.translate(texts, config)]
    assert queue.tokens == 0


@pytest.mark.parametrize(
    ("text", "prefix"),
    [("The old house. " * LONG, ""), ("The old house. " * 80, "La maison " * 150)],
    ids=["text", "prefix"],
)
def test_a_long_unit_or_prefix_stops_nobody(queue, text, prefix):
    translator = endless()
    queue.watch(translator)
    long = queue.submit(translator, [text], WHOLE, seconds=600, prefixes=[prefix])
    time.sleep(0.2)
    for _ in range(3):
        assert queue.submit(Words(), ["short"], PLAIN, seconds=60).result()[0].text == "SHORT"
    assert not long.done()
    long.cancel()


def test_a_batch_that_takes_too_long_makes_place_and_is_done_again(queue):
    translator, text = endless(), "The old house. " * 4
    expected = translator.translate([text], WHOLE)[0].text
    translator.model.decoder.register_forward_pre_hook(lambda *_: time.sleep(0.01))
    queue.watch(translator)
    slow = queue.submit(translator, [text], WHOLE, seconds=600)
    time.sleep(0.1)
    assert queue.submit(Words(), ["short"], PLAIN, seconds=60).result()[0].text == "SHORT"
    assert not slow.done()
    assert slow.result()[0].text == expected


def test_a_unit_whose_time_is_over_is_stopped(queue):
    translator, steps = endless(), []

    def slow_step(*_):
        steps.append(1)
        time.sleep(0.05)

    translator.model.decoder.register_forward_pre_hook(slow_step)
    queue.watch(translator)
    for text in ("The old house. " * 9, "The old house. " * LONG):
        steps.clear()
        with pytest.raises(DeadlinePassed):
            queue.submit(translator, [text], WHOLE, seconds=1).result()
        assert len(steps) < 60  # all would be 200 and more


def test_a_lock_on_the_memory_stops_no_other_request(serve, tmp_path):  # noqa: F811
    path = tmp_path / "memory"
    memory = Memory(path)
    running = serve(Words(), memory=memory)
    suggestion = PAIR | {"q": "A dog.", "s": "Un chien."}
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM pairs").fetchall()
        assert running.ask("POST", "/suggest", suggestion)[0] == 200  # who reads does not keep others from writing
        reader.rollback()
        reader.execute("BEGIN EXCLUSIVE")
        statuses = []
        asking = threading.Thread(target=lambda: statuses.append(running.ask("POST", "/suggest", suggestion)[0]))
        asking.start()
        answered = 0
        while asking.is_alive():
            assert running.ask("GET", "/health")[0] == 200
            assert running.ask("POST", "/translate", PAIR | {"q": "A dog."})[0] == 200
            answered += asking.is_alive()
        assert answered, "the others were answered only after the one who waited for the memory"
        assert statuses == [503]
        reader.rollback()
    assert running.ask("POST", "/suggest", suggestion)[0] == 200
    memory.close()


def test_a_copy_of_the_memory_has_what_was_kept(tmp_path):
    path = tmp_path / "memory"
    memory = Memory(path)
    memory.add(("en", "fr"), "A dog.", "Un chien.")
    (tmp_path / "copy").write_bytes(path.read_bytes())
    copied = Memory(tmp_path / "copy")
    assert list(copied.pairs()) == [("en", "fr", "A dog.", "Un chien.")]
    copied.close()
    memory.close()


def never_ends(engine=None):
    """Stands for a document that takes forever to read, while Python's lock is held."""
    while True:
        pow(7, 10**6, 10**4_000)


def test_a_document_that_is_hard_to_read_stops_nobody_and_is_ended(serve):  # noqa: F811
    running = serve(Words())
    background = running.server.background

    async def read(seconds, error):
        with pytest.raises(error):
            await background.read(DOCUMENTS, never_ends, seconds=seconds)

    asyncio.run(read(0.5, TimeoutError))
    reading = threading.Thread(target=lambda: asyncio.run(read(600, DataError)))
    reading.start()
    for _ in range(3):
        assert running.ask("POST", "/translate", PAIR | {"q": "a"})[0] == 200
    assert reading.is_alive()
    background.close()
    reading.join()


def work(ask, kind, *arguments):
    """What the processes of these tests do."""
    match kind:
        case "compute":
            never_ends()
        case "die":
            os._exit(1)
        case "memory":
            return len(bytearray(2**31))
        case "fail":
            raise DataError("This is no document.")
        case "ask":
            return [ask("double", number) for number in arguments]


def test_a_process_is_limited_killed_and_followed_by_another():
    helpers = Helpers(work, memory=2**29)
    assert helpers.job().run("ask", 1, 2, answer=lambda _, number: 2 * number) == [2, 4]
    with pytest.raises(DataError, match="no document"):
        helpers.job().run("fail")
    for kind in ("die", "memory", "compute"):
        with pytest.raises(HelperDied):
            helpers.job().run(kind, processor_seconds=1)
    job = helpers.job()
    threading.Timer(0.5, job.kill).start()
    with pytest.raises(HelperDied):
        job.run("compute")
    assert helpers.job().run("ask", 3, answer=lambda _, number: 2 * number) == [6]
    helpers.close()
    with pytest.raises(HelperDied):
        helpers.job().run("ask", 1)


def test_closing_ends_what_is_read_at_once():
    queue = TranslationQueue()
    background = Background(queue)
    background.start()
    job = background._helpers[DOCUMENTS].job()

    def read():
        with pytest.raises(HelperDied):
            job.run(never_ends, None, False)

    ended = threading.Thread(target=read)
    ended.start()
    time.sleep(0.5)
    background.close()
    ended.join()
    queue.close()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "secret" / "en-fr"
    path.parent.mkdir()
    small_model().save(path)
    return path


def test_a_killed_looker_is_followed_by_another(serve, path):  # noqa: F811
    lookers = Lookers({("en", "fr"): Inside(path)})
    running = serve(Translator.load(path), lookers=lookers)
    asked = PAIR | {"q": "The cat.", "translation": "Le chat."}
    first = running.ask("POST", "/explore", asked)
    (helper,) = lookers._helpers._idle
    os.kill(helper.process, signal.SIGKILL)
    time.sleep(0.2)
    statuses = [running.ask("POST", "/explore", asked)[0] for _ in range(2)]
    assert (statuses[1], {*statuses} <= {200, 503}) == (200, True)
    assert running.ask("POST", "/explore", asked)[:2] == first[:2]


@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_a_model_that_was_replaced_is_not_looked_into(serve, path, change):  # noqa: F811
    running = serve(Translator.load(path), lookers=Lookers({("en", "fr"): Inside(path)}, fork=False))
    if change == "replaced":
        small_model().save(path)
    else:
        path.rename(path.with_name("elsewhere"))
    for route in ("/explore", "/words", "/inspect"):
        status, told, _ = running.ask("POST", route, PAIR | {"q": "The cat.", "translation": "Le chat."})
        assert (status, "start the server again" in told["error"]) == (503, True)
        assert "secret" not in told["error"]
