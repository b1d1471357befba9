"""Nobody stops the others: costly texts, locks on the memory, documents hard to read, processes that die."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError
from dragoman.serving.background import DOCUMENTS, Background
from dragoman.serving.inspection import InspectedModel, InspectionWorker
from dragoman.serving.limits import SHUTDOWN
from dragoman.serving.queue import DeadlinePassed, TranslationQueue
from dragoman.serving.queued import LONG
from dragoman.storage.memory import Memory
from dragoman.system.helpers import HelperDied, Helpers
from dragoman.text.tokenizers.tokenizer import EOS_ID
from tests.report.models import small_model
from tests.serving.conftest import Running, Words, multipart, serve  # noqa: F401
from tests.waiting import wait_until

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
        translator.engines[0].model.projection.bias[EOS_ID] = -1_000.0
    return translator


@pytest.mark.slow
def test_a_text_is_translated_in_units_with_the_result_that_a_translator_gives(queue):
    translator = Translator(small_model())
    texts = ["The red house is old.  The cat sees two dogs.\nYes.", "", " ", "A dog.", "The old house. " * 40]
    config = translator.decoding.model_copy(update={"alignments": True, "n_best": 2})
    found = queue.submit(translator, texts, config, seconds=60).result()
    assert [each.text for each in found] == [each.text for each in translator.translate(texts, config)]
    assert [each.alignment for each in found] == [each.alignment for each in translator.translate(texts, config)]
    assert queue.tokens == 0


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("text", "prefix"),
    [("The old house. " * LONG, ""), ("The old house. " * 80, "La maison " * 150)],
    ids=["text", "prefix"],
)
def test_a_long_unit_or_prefix_stops_nobody(queue, text, prefix):
    translator, begun = endless(), threading.Event()
    translator.engines[0].model.decoder.register_forward_pre_hook(lambda *_: begun.set())
    queue.watch(translator)
    long = queue.submit(translator, [text], WHOLE, seconds=600, prefixes=[prefix])
    assert begun.wait(30)
    for _ in range(3):
        assert queue.submit(Words(), ["short"], PLAIN, seconds=60).result()[0].text == "SHORT"
    assert not long.done()
    long.cancel()


@pytest.mark.slow
def test_a_batch_that_takes_too_long_makes_place_and_is_done_again(queue):
    translator, text = endless(), "The old house. " * 4
    expected = translator.translate([text], WHOLE)[0].text
    begun = threading.Event()

    def slow_step(*_):
        begun.set()
        time.sleep(0.02)

    translator.engines[0].model.decoder.register_forward_pre_hook(slow_step)
    queue.watch(translator)
    slow = queue.submit(translator, [text], WHOLE, seconds=600)
    assert begun.wait(30)
    assert queue.submit(Words(), ["short"], PLAIN, seconds=60).result()[0].text == "SHORT"
    assert not slow.done()
    assert slow.result()[0].text == expected


@pytest.mark.slow
def test_a_unit_whose_time_is_over_is_stopped(queue):
    translator, steps = endless(), []

    def slow_step(*_):
        steps.append(1)
        time.sleep(0.05)

    translator.engines[0].model.decoder.register_forward_pre_hook(slow_step)
    queue.watch(translator)
    for text in ("The old house. " * 9, "The old house. " * LONG):
        steps.clear()
        with pytest.raises(DeadlinePassed):
            queue.submit(translator, [text], WHOLE, seconds=1).result()
        assert len(steps) < 60  # all would be 200 and more


def test_units_with_forbidden_terms_are_translated_beside_the_batches(queue):
    translator, begun, go_on = Translator(small_model()), threading.Event(), threading.Event()

    def search(texts, prefixes, config):
        begun.set()
        go_on.wait(30)
        return type(translator).translate_units(translator, texts, prefixes, config)

    translator.translate_units = search
    forbidding = PLAIN.model_copy(update={"forbid": ["maison"]})
    slow = queue.submit(translator, ["The house."] * 3, forbidding, seconds=60)
    begun.wait(30)
    assert queue.submit(Words(), ["short"], PLAIN, seconds=60).result()[0].text == "SHORT"
    assert not slow.done()
    go_on.set()
    assert len(slow.result()) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.md", b"*a* "),
        pytest.param("a.html", b"<p>a", marks=pytest.mark.slow),
        pytest.param("a.xlf", None, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_translated_of_a_document_whose_client_has_gone(serve, name, part):  # noqa: F811
    running = serve(Words(seconds=0.5))
    if part is None:
        unit = "<unit id='%d'><segment><source>House %d.</source></segment></unit>"
        units = "".join(unit % (number, number) for number in range(400))
        head = "<xliff xmlns='urn:oasis:names:tc:xliff:document:2.0' version='2.0' srcLang='en' trgLang='fr'>"
        content = f"{head}<file id='f'>{units}</file></xliff>".encode()
    else:
        content = b"\n\n".join(part + b"house %d" % number for number in range(400))
    for field in ({"file": (name, content)}, {"q": content.decode()[:4_000], "format": "html"}):
        before = len(running.models[0].batches)
        kind, body = multipart(PAIR, *field["file"]) if "file" in field else ("application/json", None)
        route = "/translate_file" if "file" in field else "/translate"
        body = body or json.dumps(PAIR | field).encode()
        with socket.create_connection(("127.0.0.1", running.port)) as client:
            client.sendall(
                b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
                % (route.encode(), kind.encode(), len(body))
                + body
            )
            wait_until(lambda before=before: len(running.models[0].batches) > before)
        time.sleep(1.5)  # long enough for three more batches
        assert len(running.models[0].batches) <= before + 2
        assert running.server.queue.tokens == 0
        helpers = running.server.background._helpers.values()
        assert all(not each._idle for each in helpers)  # it was killed at its work


def test_a_document_that_is_read_for_a_client_who_has_gone_is_read_no_further(serve, monkeypatch):  # noqa: F811
    running = serve(Words())
    background, ended = running.server.background, threading.Event()

    async def read(*_):
        try:
            return await background.read(DOCUMENTS, never_ends, seconds=600)
        finally:
            ended.set()

    monkeypatch.setattr(running.server, "pair_of_document", read)
    kind, body = multipart({"source": "auto", "target": "fr"}, "a.txt", b"a house")
    head = b"POST /translate_file HTTP/1.1\r\nHost: x\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", running.port)) as client:
        client.sendall(head % (kind.encode(), len(body)) + body)
        wait_until(lambda: any(map(_is_waiting, _document_threads())))
        assert not ended.is_set()
    assert ended.wait(10)
    jobs = _document_threads()
    wait_until(lambda: not (background._threads[DOCUMENTS]._work_queue.qsize() or any(map(_is_waiting, jobs))))


def _document_threads():
    """The threads that wait for processes which read documents."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("document")]


def _is_waiting(thread, function="_converse"):
    """Whether a thread is in a function; by default the one that waits for the answer of a process."""
    frame = sys._current_frames().get(thread.ident)
    while frame:
        if frame.f_code.co_name == function:
            return True
        frame = frame.f_back
    return False


def _killed(job):
    with pytest.raises(HelperDied):
        job.run("compute")


READING = """
import socket
from dragoman.serving.app import run
from dragoman.serving.background import DOCUMENTS
from dragoman.serving.hosts import Hosts
from dragoman.serving.server import Server
from tests.serving.conftest import Words
from tests.strangers.test_server_others import never_ends

class Reading(Server):
    async def pair_of_document(self, *arguments):
        print("reads", flush=True)
        return await self.background.read(DOCUMENTS, never_ends, seconds=600)

server = Reading([Words()])
server.background.start()
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    run(server, listener, Hosts())
"""


@pytest.mark.slow
def test_the_server_ends_in_time_while_documents_are_read():
    command = [sys.executable, "-c", READING]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            running = Running(None, int(process.stdout.readline()))
            kind, body = multipart({"source": "auto", "target": "fr"}, "a.txt", b"a house")
            answers = []
            asking = [
                threading.Thread(
                    target=lambda: answers.append(running.ask("POST", "/translate_file", body, Content_Type=kind))
                )
                for _ in range(4)
            ]
            for thread in asking:
                thread.start()
            for _ in asking:
                assert process.stdout.readline() == "reads\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(SHUTDOWN) == 0
            for thread in asking:
                thread.join()
            assert [(status, told["error"]) for status, told, _ in answers] == [
                (503, "The server is ending; try again later")
            ] * 4
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


def test_nobody_waits_for_a_process_to_be_forked_who_kills_one():
    helpers = Helpers(work)
    helpers.start()
    job = helpers.job()
    running = threading.Thread(target=_killed, args=(job,))
    running.start()
    wait_until(lambda: job._helper)
    with helpers._forking:  # as long as a busy machine takes
        waiting = helpers.job()
        begun = threading.Thread(target=_killed, args=(waiting,))
        begun.start()
        wait_until(lambda: _is_waiting(begun, "_take"))
        for each in (job, waiting):
            killing = threading.Thread(target=each.kill)
            killing.start()
            killing.join(5)
            assert not killing.is_alive()
        running.join(10)
        assert not running.is_alive()
    begun.join(10)
    assert not begun.is_alive()
    helpers.close()


@pytest.mark.slow
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


@pytest.mark.slow
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
    wait_until(lambda: _is_waiting(ended))
    background.close()
    ended.join()
    queue.close()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "secret" / "en-fr"
    path.parent.mkdir()
    small_model().save(path)
    return path


@pytest.mark.slow
def test_a_killed_looker_is_followed_by_another(serve, path):  # noqa: F811
    inspector = InspectionWorker({("en", "fr"): InspectedModel(path)})
    running = serve(Translator.load(path), inspector=inspector)
    asked = PAIR | {"q": "The cat.", "translation": "Le chat."}
    first = running.ask("POST", "/explore", asked)
    (helper,) = inspector._helpers._idle
    os.kill(helper.process, signal.SIGKILL)
    helper.connection.poll(30)  # until its end is noticed
    statuses = [running.ask("POST", "/explore", asked)[0] for _ in range(2)]
    assert (statuses[1], {*statuses} <= {200, 503}) == (200, True)
    assert running.ask("POST", "/explore", asked)[:2] == first[:2]


@pytest.mark.first_is_quick
@pytest.mark.parametrize("change", ["replaced", "removed"])
def test_a_model_that_was_replaced_is_not_looked_into(serve, path, change):  # noqa: F811
    running = serve(Translator.load(path), inspector=InspectionWorker({("en", "fr"): InspectedModel(path)}, fork=False))
    if change == "replaced":
        small_model().save(path)
    else:
        path.rename(path.with_name("elsewhere"))
    for route in ("/explore", "/words", "/inspect"):
        status, told, _ = running.ask("POST", route, PAIR | {"q": "The cat.", "translation": "Le chat."})
        assert (status, "start the server again" in told["error"]) == (503, True)
        assert "secret" not in told["error"]
