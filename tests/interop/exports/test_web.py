"""The page of `export --to web` in a real browser without a network: its texts are those of our search."""

import gzip
import json
import shutil
import subprocess
import threading
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dragoman.config.recipes import read_recipe
from dragoman.data.bitext import Bitext
from dragoman.errors import DataError
from dragoman.interop.exports import web
from dragoman.interop.exports.exporting import ExportOptions, export
from dragoman.interop.exports.proof import search
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.templates import read_static
from dragoman.text.characters import normalised
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import train_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
COUNT = 50
SPACES = ["The\x85 red house", "\ufeffThe red\ufeff cat. \ufeff", "\x1c the\u3000dogs \x85"]
"""What JavaScript and Python disagree about."""
TEST_PAGE = """<!doctype html><meta charset="utf-8"><script type="module">
const post = (content) => fetch("/result", { method: "POST", body: JSON.stringify(content) });
try {
  const { load } = await import("./app.js");
  const translate = await load();
  const sentences = await (await fetch("/sentences")).json();
  const found = [];
  const began = performance.now();
  for (const [text, beamSize] of sentences) found.push(await translate(text, { beamSize }));
  const seconds = (performance.now() - began) / 1000;
  await post({ seconds, found: found.map((each) => each.map(({ text, score, attention, rows, columns }) =>
    ({ text, score, rows, columns, attention: attention.map((row) => Array.from(row)) }))) });
} catch (error) { await post({ error: String(error.stack ?? error) }); }
</script>"""
WASM = "runtime/ort-wasm-simd-threaded.wasm.gz"
CASES: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "whole": ("app.js", bytes, "Ready. Nothing leaves this page."),
    "decompressed": (WASM, gzip.decompress, "Ready. Nothing leaves this page."),
    "runtime": (WASM, lambda content: content[:-9], f"The page cannot start: {WASM} is damaged."),
    "graph": (
        "model/encoder.onnx",
        lambda content: content[:-9],
        "model/encoder.onnx is damaged, or of another export.",
    ),
    "other": ("model/shared.bin", lambda content: content[::-1], "model/shared.bin is damaged, or of another export."),
    "config": ("model/config.json", lambda content: content[:-9], "model/config.json is damaged."),
    "missing": ("model/tokenizer.json", lambda _: b"", "model/tokenizer.json cannot be read (404 Not Found)."),
    "script": ("search.js", lambda content: content[:-9], "a script is missing or damaged."),
    "none": ("tokenizer.js", lambda _: b"", "a script is missing or damaged."),
    "old": (
        "start.js",
        lambda content: b"delete self.DecompressionStream;" + content,
        "too old for the page. Use Chrome",
    ),
}
"""A file of the page, what a server makes of it (nothing: it is missing), and a part of what the page says then."""
CASES_PAGE = """<!doctype html><meta charset="utf-8"><script type="module">
const said = (frame) => frame.contentDocument?.getElementById("status")?.textContent ?? "Loading";
const frames = Object.fromEntries(NAMES.map((name) => {
  const frame = document.createElement("iframe");
  frame.src = `/case-${name}/index.html`;
  document.body.append(frame);
  return [name, frame];
}));
const result = () => Object.fromEntries(Object.entries(frames).map(([name, frame]) => [name, said(frame)]));
const wait = () => new Promise((done) => setTimeout(done, 100));
while (Object.values(result()).some((text) => text.startsWith("Loading"))) await wait();
await fetch("/result", { method: "POST", body: JSON.stringify(result()) });
</script>""".replace("NAMES", json.dumps([*CASES]))


class Pages(ThreadingHTTPServer):
    """Serves an exported folder and two pages more, and receives what these find."""

    def __init__(self, folder: Path, sentences: list[tuple[str, int]]):
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.folder, self.sentences, self.result, self.arrived = folder, sentences, {}, threading.Event()


class Handler(SimpleHTTPRequestHandler):
    server: Pages

    def guess_type(self, path: object) -> str:
        """The few types that old web servers know."""
        types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
        return types.get(Path(str(path)).suffix, "application/octet-stream")

    def do_GET(self) -> None:
        contents = {
            "/test.html": TEST_PAGE,
            "/cases.html": CASES_PAGE,
            "/sentences": json.dumps(self.server.sentences),
        }
        case, _, path = self.path.removeprefix("/case-").partition("/")
        if self.path in contents:
            self.answer(self.path, contents[self.path].encode())
        elif case in CASES and (self.server.folder / path).is_file():
            changed, change, _ = CASES[case]
            content = (self.server.folder / path).read_bytes()
            self.answer(path, change(content) if path == changed else content)
        else:
            super().do_GET()

    def answer(self, path: str, content: bytes) -> None:
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", self.guess_type(path))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        self.server.result = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer("", b"done")
        self.server.arrived.set()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model that has learned enough to say something."""
    path = tmp_path_factory.mktemp("model") / "run"
    settings = [
        "model.d_model=48", "model.d_ff=96", "model.num_heads=4", "model.num_encoder_layers=1",
        "model.num_decoder_layers=2", "tokenizer.vocab_size=400", "tokenizer.placeholders=false",
        "training.max_steps=60", "data.languages=[en,fr]",
    ]  # fmt: skip
    train_run(path, "builtin:grammar:2000", settings=settings)
    return path


@pytest.fixture(scope="module")
def runtime(tmp_path_factory) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    try:
        return web._downloaded(tmp_path_factory.mktemp("runtime"))
    except DataError as error:
        pytest.skip(f"npm has no network: {error}")


@pytest.fixture
def served(model, runtime, tmp_path) -> Iterator[tuple[Pages, Path]]:
    # In eight bits, the kernels of a browser round otherwise, and a model that has learned little is often undecided.
    export(model, tmp_path / "page", "web", ExportOptions(runtime=runtime, quantization="float32"))
    sources = [*SPACES, *(source for source, _ in Bitext.open(f"builtin:grammar:{COUNT - len(SPACES)}:test"))]
    server = Pages(tmp_path / "page", [(text, 1 + 3 * (index % 2)) for index, text in enumerate(sources)])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, tmp_path / "page"
    server.shutdown()
    server.server_close()


TOKENIZING = """
import { readFileSync } from "node:fs";
import { Tokenizer } from "./tokenizer.mjs";
const tokenizer = new Tokenizer(JSON.parse(readFileSync("tokenizer.json", "utf-8")));
const texts = JSON.parse(readFileSync("texts.json", "utf-8"));
const found = texts.map((text) => tokenizer.encode(text));
console.log(JSON.stringify(found.map((ids) => [ids, tokenizer.decode(ids)])));
"""


@pytest.mark.first_is_quick
@pytest.mark.parametrize("kind", web.KINDS)
def test_the_tokenizer_of_the_page_is_that_of_dragoman_for_any_text(kind, tmp_path):
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    odd = [chr(code) for code in range(0x20000) if chr(code).isspace() or unicodedata.category(chr(code)) == "Cf"]
    odd += ["\x00", "\x1a", "e\u0301", "\u1e9b\u0323", "\U0001f1eb\U0001f1f7", "\ufdd0", "\uffff", "\u0915\u093f"]
    texts = [
        form.format(character) for character in odd for form in ("{0}", "{0}The red{0}cat. {0}", " {0}{0}a{0} {0}b{0}1")
    ]
    texts += SPACES
    corpus = [text for pair in Bitext.open("builtin:grammar:200") for text in pair]
    tokenizer = Tokenizer.train([*corpus, *map(normalised, texts)], vocab_size=700, kind=kind)
    tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    (tmp_path / "tokenizer.mjs").write_text(read_static("interop/exports/static/web/tokenizer.js"), encoding="utf-8")
    (tmp_path / "test.mjs").write_text(TOKENIZING, encoding="utf-8")
    process = subprocess.run([node, "test.mjs"], cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert process.returncode == 0, process.stderr
    wanted = tokenizer.encode_batch(map(normalised, texts))
    for text, result, ids in zip(texts, json.loads(process.stdout), wanted, strict=True):
        assert (ascii(text), *result) == (ascii(text), ids, tokenizer.decode(ids))


def browser(tmp_path: Path, *arguments: str) -> list[str]:
    """The command of a browser that reaches nothing but this machine."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    return [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--proxy-server=", "--no-first-run", *arguments,
    ]  # fmt: skip


def answer(server: Pages, page: str, tmp_path: Path) -> dict:
    """What a page of the server finds in a browser."""
    command = browser(tmp_path, f"http://127.0.0.1:{server.server_port}/{page}")
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert server.arrived.wait(300), "the page did not answer"
    finally:
        running.kill()
        running.wait()
    return server.result


@pytest.mark.slow
def test_a_browser_without_a_network_says_the_same(served, model, tmp_path):
    server, _ = served
    result = answer(server, "test.html", tmp_path)
    assert "error" not in result, result["error"]
    directory = ModelDirectory.load(model)
    for size in (1, 4):
        rows = [index for index, (_, beams) in enumerate(server.sentences) if beams == size]
        texts = [server.sentences[index][0] for index in rows]
        sources = directory.source_tokenizer.encode_batch(map(normalised, texts))
        translations = search(directory, sources, beam_size=size, length_penalty=1.0)
        for row, (ids, score) in zip(rows, translations, strict=True):
            theirs = result["found"][row]
            assert theirs[0]["text"] == directory.target_tokenizer.decode(ids)
            assert theirs[0]["score"] == pytest.approx(score, abs=1e-3)
            assert len(theirs) == size
            for line in theirs[0]["attention"]:
                assert sum(line) == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_the_page_says_why_it_cannot_start(served, tmp_path):
    server, folder = served
    for name, message in answer(server, "cases.html", tmp_path).items():
        assert CASES[name][-1] in message, (name, message)
    command = browser(tmp_path, "--dump-dom", (folder / "index.html").as_uri())
    process = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60)
    assert "Type python -m http.server in this folder" in process.stdout


@pytest.mark.slow
def test_a_page_with_a_student_takes_less_than_six_megabytes(runtime, tmp_path):
    sizes = {"source_vocab_size": 4000, "target_vocab_size": 4000, "d_model": 128, "num_heads": 4, "d_ff": 256}
    choices = {"positions": "rotary", "share_embeddings": True} | read_recipe("edge")["model"]
    config = TransformerConfig(**sizes, **choices)
    corpus = [text for pair in Bitext.open("builtin:grammar:2000") for text in pair]
    tokenizer = Tokenizer.train(corpus, vocab_size=4000)
    web.write(ModelDirectory(Transformer(config).eval(), tokenizer, tokenizer), tmp_path, "int8")
    web.add_runtime(tmp_path, runtime)
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.*")) < 6_000_000
