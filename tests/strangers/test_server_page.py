"""The page in a real browser where it stands behind a proxy, gets long texts, or has its languages changed."""

import http.client
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from dragoman.storage.memory import Memory
from tests.serving.conftest import Words, serve  # noqa: F401
from tests.serving.test_page import browser  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(serve, tmp_path_factory):  # noqa: F811
    memory = Memory(tmp_path_factory.mktemp("memory") / "memory")
    yield serve(Words("en", "fr"), Words("en", "de"), memory=memory)
    memory.close()


@pytest.fixture
def proxy(running):
    """The address of a proxy that serves everything under a path."""

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.removeprefix("/mt/")
            if path == self.path:
                return self.answer(404, [("Content-Type", "text/html")], b"<h1>No such page.</h1>")
            connection = http.client.HTTPConnection("127.0.0.1", running.port)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kept = {name: self.headers[name] for name in ("Content-Type", "Origin", "Host") if name in self.headers}
            connection.request(self.command, f"/{path}", body or None, kept)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            return self.answer(answer.status, answer.getheaders(), content)

        do_POST = do_GET

        def answer(self, status, headers, content):
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("connection", "transfer-encoding", "date", "server", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mt/"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser, running):  # noqa: F811
    page = browser.new_context(accept_downloads=True).new_page()
    page.goto(f"{running.url}/")
    expect(page.locator("#target option")).not_to_have_count(0)
    page.select_option("#source", "en")
    page.select_option("#target", "fr")
    yield page
    page.context.close()


def test_a_correction_belongs_to_the_languages_of_the_translation_that_was_corrected(page, running):
    page.fill("#text", "A correction.")
    expect(page.locator("#result")).to_have_text("A CORRECTION.")
    page.locator("#improve").click()
    page.locator("#result").fill("Une correction.")
    page.select_option("#target", "de")
    page.locator("#improve").click()
    expect(page.locator("#status")).to_contain_text("Kept.")
    assert ("en", "fr", "A correction.", "Une correction.") in list(running.server.memory.pairs())
    expect(page.locator("#result")).to_have_text("A CORRECTION.")


def test_a_text_that_is_too_long_is_said_and_not_cut(page, running):
    batches = len(running.models[0].batches)
    page.fill("#text", "x" * 7_500)
    expect(page.locator("#count")).to_have_text("7,500 of 5,000 characters")
    expect(page.locator("#status")).to_contain_text("2,500 characters too many")
    expect(page.locator("#result")).to_have_text("")
    assert len(page.locator("#text").input_value()) == 7_500
    assert len(running.models[0].batches) == batches
    page.fill("#text", "\N{PILE OF POO}" * 3_000 + " a")
    expect(page.locator("#count")).to_have_text("3,002 of 5,000 characters")
    expect(page.locator("#result")).to_contain_text("A")


def test_documents_are_fetched_behind_the_path_of_a_proxy(page, proxy):
    page.goto(proxy)
    page.select_option("#source", "en")
    page.select_option("#target", "fr")
    with page.expect_download() as download:
        page.set_input_files("#file", {"name": "a b.md", "mimeType": "", "buffer": b"# The *red* house\n"})
    assert download.value.path().read_text(encoding="utf-8") == "# THE *RED* HOUSE\n"


def _fulfill(answer, route):
    route.fulfill(**answer)


def test_a_page_with_an_error_is_not_saved_as_the_document(page):
    downloads = []
    page.on("download", lambda download: downloads.append(download))
    for status in (200, 502):
        html = {"status": status, "content_type": "text/html", "body": "<h1>Bad gateway</h1>"}
        page.route("**/download_file/**", partial(_fulfill, html))
        page.set_input_files("#file", {"name": f"a{status}.md", "mimeType": "", "buffer": b"# The *red* house\n"})
        expect(page.locator("#status")).to_contain_text(f"cannot be fetched: the server answered {status}")
    assert downloads == []


def test_escape_brings_back_the_translation_that_was_chosen(page):
    page.fill("#text", "A choice.")
    expect(page.locator("#result")).to_have_text("A CHOICE.")
    page.locator("#alternatives button").first.click()
    expect(page.locator("#result")).to_have_text("A CHOICE.1")
    page.locator("#improve").click()
    page.locator("#result").fill("Something else.")
    page.locator("#result").press("Escape")
    expect(page.locator("#result")).to_have_text("A CHOICE.1")
    expect(page.locator("#result")).to_have_attribute("contenteditable", "false")


def test_a_direction_that_nobody_serves_is_said_and_nothing_is_emptied(page):
    page.select_option("#source", "auto")
    page.select_option("#target", "de")
    page.fill("#text", "")
    page.locator("#swap").click()
    expect(page.locator("#status")).to_have_text("No model here translates in that direction.")
    assert [page.locator(f"#{side}").input_value() for side in ("source", "target")] == ["auto", "de"]


def test_one_key_press_translates_once(page, running):
    batches = len(running.models[0].batches)
    page.locator("#text").press_sequentially("Once")
    page.locator("#text").press("Control+Enter")
    expect(page.locator("#result")).to_have_text("ONCE")
    page.wait_for_timeout(600)
    assert [text for batch in running.models[0].batches[batches:] for text in batch].count("Once") == 1
