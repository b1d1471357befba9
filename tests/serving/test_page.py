"""The page in a real browser: it translates, escapes, asks no other host, and works by keyboard."""

import json
import re
import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from dragoman.decoding.translator import Translator
from dragoman.serving.inspection import InspectedModel, InspectionWorker
from dragoman.storage.memory import Memory
from tests.report.models import small_model
from tests.serving.conftest import Words

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
STRANGE = "<img src=x onerror=alert(1)> \"'><script>alert(2)</script>"


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def running(serve, tmp_path_factory):
    memory = Memory(tmp_path_factory.mktemp("memory") / "memory")
    yield serve(Words("en", "fr"), Words("fr", "en"), memory=memory)
    memory.close()


@pytest.fixture(scope="module")
def model_server(serve, tmp_path_factory):
    """One with a random model, which can be looked into."""
    path = tmp_path_factory.mktemp("model") / "en-fr"
    small_model().save(path)
    return serve(Translator.load(path), inspector=InspectionWorker({("en", "fr"): InspectedModel(path)}, fork=False))


@pytest.fixture
def page(browser, running):
    yield from opened(browser, running)


@pytest.fixture(params=["light", "dark"])
def model_page(browser, model_server, request):
    yield from opened(browser, model_server, color_scheme=request.param)


def opened(browser, running, **options):
    size = {"width": 390, "height": 800}
    page = browser.new_context(viewport=size, accept_downloads=True, **options).new_page()
    page.faults, page.hosts = [], set()
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("dialog", lambda dialog: page.faults.append(dialog.message))
    page.on("console", lambda message: page.faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: page.hosts.add(request.url.partition("//")[2].partition("/")[0]))
    page.goto(f"{running.url}/")
    expect(page.locator("#target option")).not_to_have_count(0)
    yield page
    assert page.faults == []
    assert page.hosts <= {f"127.0.0.1:{running.port}", ""}
    page.context.close()


@pytest.mark.slow
def test_it_translates_while_one_types_and_shows_others(page):
    page.locator("#text").press_sequentially("the cat is in the house")
    expect(page.locator("#result")).to_have_text("THE CAT IS IN THE HOUSE")
    expect(page.locator("#status")).to_contain_text("From English")
    page.locator("#alternatives button").first.click()
    expect(page.locator("#result")).to_have_text("THE CAT IS IN THE HOUSE1")
    page.select_option("#source", "en")
    page.locator("#swap").click()
    expect(page.locator("#source")).to_have_value("fr")
    expect(page.locator("#target")).to_have_value("en")
    expect(page.locator("#text")).to_have_value("THE CAT IS IN THE HOUSE")


@pytest.mark.slow
def test_a_correction_is_kept_and_shown_beside_others(page):
    page.select_option("#source", "en")
    page.fill("#text", "The red house is old.")
    expect(page.locator("#result")).to_have_text("THE RED HOUSE IS OLD.")
    page.locator("#improve").click()
    page.fill("#text", "Typed while somebody improves the text before.")
    page.locator("#result").fill("La maison rouge est vieille.")
    page.locator("#improve").click()
    expect(page.locator("#status")).to_contain_text("Kept.")
    page.fill("#text", "The red house is very old.")
    expect(page.locator("#similar")).to_contain_text("La maison rouge est vieille.")
    expect(page.locator("#similar ins")).to_have_text("very ")
    page.fill("#text", "The red house is old.")
    expect(page.locator("#result")).to_have_text("La maison rouge est vieille.")
    expect(page.locator("#status")).to_contain_text("From the translation memory.")


@pytest.mark.slow
def test_what_is_typed_is_text_and_never_markup(page):
    page.select_option("#source", "en")
    page.fill("#text", STRANGE)
    expect(page.locator("#result")).to_have_text(STRANGE.upper())
    expect(page.locator("#alternatives li")).to_have_count(2)
    assert page.locator("img, #result *").count() == 0


@pytest.mark.slow
def test_corrections_entries_of_the_memory_and_names_of_files_are_text(page, running):
    near = f"{STRANGE} Nobody reads this."
    page.select_option("#source", "en")
    page.fill("#text", STRANGE)
    expect(page.locator("#alternatives button").first).to_have_text(f"{STRANGE.upper()}1")
    page.locator("#improve").click()
    page.locator("#result").fill(STRANGE)
    page.locator("#improve").click()
    expect(page.locator("#status")).to_contain_text("Kept.")
    page.fill("#text", f"{STRANGE} ")
    expect(page.locator("#status")).to_contain_text("From the translation memory.")
    expect(page.locator("#result")).to_have_text(STRANGE)
    running.ask("POST", "/suggest", {"q": near, "s": near, "source": "en", "target": "fr", "who": STRANGE})
    page.fill("#text", f"{STRANGE} Nobody ever reads this.")
    expect(page.locator("#similar dd").first).to_have_text(near)
    expect(page.locator("#similar ins").first).to_have_text("ever ")
    name = re.sub('["/]', "", STRANGE)
    page.set_input_files("#file", {"name": f"{name}.json", "mimeType": "", "buffer": b"{"})
    expect(page.locator("#status")).to_contain_text(f"{name}.json is no JSON")
    page.faults.clear()  # the browser tells of the answer 400
    with page.expect_download():
        page.set_input_files("#file", {"name": f"{name}.txt", "mimeType": "", "buffer": STRANGE.encode()})
    expect(page.locator("#status")).to_contain_text("is in your downloads")
    status, answer, head = running.ask(
        "POST", "/translate", {"q": "a", "source": "en", "target": STRANGE, "glossary": {STRANGE: 1}}
    )
    assert (status, STRANGE in answer["error"], head["content-type"]) == (400, True, "application/json")
    assert page.locator("main img, main script").count() == 0


@pytest.mark.slow
def test_inside_too_it_is_text(model_page):
    page = model_page
    page.fill("#text", STRANGE)
    expect(page.locator("#result .word").first).to_be_visible()
    page.locator("#result .word").first.click()
    expect(page.locator("#options button").first).to_be_visible()
    page.locator("#look").click()
    inside = page.frame_locator("#inside iframe")
    expect(inside.locator("#source-text")).to_have_text(STRANGE)
    assert page.locator("main img, main script").count() == inside.locator("img, main script").count() == 0


@pytest.mark.slow
def test_documents_are_translated(page, tmp_path):
    (tmp_path / "a.md").write_text("# The *red* house\n", encoding="utf-8")
    page.select_option("#source", "en")
    with page.expect_download() as download:
        page.set_input_files("#file", tmp_path / "a.md")
    assert download.value.suggested_filename == "a.fr.md"
    assert download.value.path().read_text(encoding="utf-8") == "# THE *RED* HOUSE\n"
    page.set_input_files("#file", {"name": "a.exe", "mimeType": "", "buffer": b"x"})
    expect(page.locator("#status")).to_contain_text("file format not supported")
    page.faults.clear()  # the browser tells of the answer 400


@pytest.mark.slow
def test_a_document_is_dropped(page):
    page.select_option("#source", "en")
    dropped = page.evaluate_handle(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["# The *red* house\\n"], "a.md"));
          return data;
        }"""
    )
    page.dispatch_event("#text", "dragover", {"dataTransfer": dropped})
    expect(page.locator("body")).to_have_class("dropping")
    with page.expect_download() as download:
        page.dispatch_event("#text", "drop", {"dataTransfer": dropped})
    assert download.value.suggested_filename == "a.fr.md"
    assert download.value.path().read_text(encoding="utf-8") == "# THE *RED* HOUSE\n"
    expect(page.locator("body")).not_to_have_class("dropping")


@pytest.mark.slow
def test_it_works_by_keyboard_alone_and_everything_has_a_name(page):
    reached = []
    for _ in range(8):
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        page.keyboard.press("Tab")
    assert reached[0] == "text"
    assert {"file", "result"} <= set(reached)
    page.locator("#text").press_sequentially("a dog")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result")).to_contain_text("A DOG")
    for element in page.locator("select, textarea, button, input, output, a").all():
        if element.is_visible():
            assert element.evaluate("(e) => e.labels?.length || e.textContent.trim() || e.ariaLabel || e.placeholder")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_words_are_exchanged_and_the_translation_goes_on(model_page):
    page = model_page
    page.fill("#text", "The red house is old.  The cat sees two dogs.")
    expect(page.locator("#result .word").first).to_be_visible()
    before = page.locator("#result").text_content()
    words = page.locator("#result .word")
    assert "".join(words.all_text_contents()) == "".join(before.split())
    assert "% sure" in words.first.get_attribute("title")
    words.first.press("ArrowRight")
    expect(words.nth(1)).to_be_focused()
    words.nth(1).press("Enter")
    option = page.locator("#options button").nth(1)
    expect(option).to_be_visible()
    taken, kept = option.text_content(), words.first.text_content()
    note = page.locator("#options small").nth(1).text_content()
    option.click()
    expect(words.nth(1)).to_have_text(taken)
    expect(words.nth(1)).to_be_focused()
    expect(page.locator("#choices")).to_be_hidden()
    assert words.first.text_content() == kept
    assert note.partition(": ")[2] in page.locator("#result").text_content()
    assert accessibility(page) == []


@pytest.mark.slow
def test_one_looks_inside(model_page, tmp_path):
    page = model_page
    page.fill("#text", "The old house.")
    expect(page.locator("#look")).to_be_enabled()
    page.locator("#look").click()
    inside = page.frame_locator("#inside iframe")
    expect(inside.locator("h1")).to_have_text(
        page.locator("#result").text_content().strip() or "(an empty translation)"
    )
    expect(inside.locator("#removed li")).to_have_count(3)
    for _ in range(5):  # what is drawn above may still move the words
        inside.locator("#removed li").nth(1).hover()
        page.wait_for_timeout(200)
        if "old" in inside.locator("#without").text_content():
            break
    expect(inside.locator("#without")).to_contain_text("Without “\u2068old\u2069”")
    for button, start in (
        ("map-svg", b"<svg"),
        ("map-png", b"\x89PNG"),
        ("tree-svg", b"<svg"),
        ("tree-png", b"\x89PNG"),
    ):
        with page.expect_download() as download:
            inside.locator(f"#{button}").click()
        assert download.value.suggested_filename == f"inspection-{button.replace('-', '.')}"
        assert Path(download.value.path()).read_bytes().startswith(start)
    with page.expect_download() as download:
        inside.locator("#save-json").click()
    assert json.loads(Path(download.value.path()).read_text())["source"]["text"] == "The old house."
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def accessibility(page) -> list[str]:
    """What axe finds wrong with a page."""
    rules = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
    violations = Axe().run(page, options={"runOnly": rules}).response["violations"]
    return [
        f"{violation['id']}: {node['html']} {node['failureSummary']}"
        for violation in violations
        for node in violation["nodes"]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "The red house is old."])
def test_nobody_is_kept_out(page, text, running):
    page.fill("#text", text)
    page.wait_for_timeout(600)
    assert accessibility(page) == []
    page.goto(f"{running.url}/docs")
    assert accessibility(page) == []


@pytest.mark.slow
def test_the_description_for_programs(page, running):
    page.goto(f"{running.url}/docs")
    expect(page.get_by_text("POST /v2/translate")).to_be_visible()
    assert page.evaluate("fetch('spec').then((answer) => answer.ok)")
