"""The page of an inspection: it holds the right numbers, loads nothing, and no text becomes markup."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from dragoman.report import inspect_translation, render_inspection
from dragoman.report.inspection import AXES
from tests.report.models import HEADS, LAYERS

EVIL = "</script><script>alert(1)</script><img src=x> \"'&amp;<!--"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """The text of each element that has an id, the names of all elements, and the scripts."""

    def __init__(self, html: str):
        super().__init__()
        self.tags, self.scripts, self.styles, self.policy, self.links = [], [], [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [given[name] for name in ("src", "href", "srcset", "action") if name in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag in ("script", "style"):
            (self.scripts if tag == "script" else self.styles).append("")

    def handle_data(self, data):
        last = self.tags[-1] if self.tags else ""
        if last == "script":
            self.scripts[-1] += data
        elif last == "style":
            self.styles[-1] += data

    def handle_endtag(self, tag):
        self.tags.append("/" + tag)

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[0])


@pytest.mark.slow
def test_the_page_holds_every_weight_to_half_a_percent(given):
    data = Page(render_inspection(given)).data
    for kind, heads in given.attention.items():
        weights = heads.weights
        packed = data["attention"][kind]
        stored = np.frombuffer(base64.b64decode(packed["weights"]), np.uint8).reshape(weights.shape)
        roots = stored.astype(float) / 255
        assert np.abs(roots - np.sqrt(weights)).max() <= 0.5 / 255 + 1e-6
        assert np.abs(roots**2 - weights).max() < 0.005
        assert (packed["layers"], packed["heads"]) == weights.shape[:2]
        axes = [data["axes"][packed[name]] for name in ("rows", "columns")]
        assert [sum(len(word["pieces"]) for word in axis) for axis in axes] == list(weights.shape[2:])
        assert [[word["text"] for word in axis] for axis in axes] == [axis.labels for axis in given.axes(kind)]


@pytest.mark.slow
def test_the_page_holds_the_vectors_that_the_weights_come_from(given):
    vectors = Page(render_inspection(given)).data["vectors"]
    for kind, heads in given.attention.items():
        read = {
            name: np.frombuffer(base64.b64decode(part["numbers"]), "<i2") / 32767 * part["largest"]
            for name, part in vectors[kind].items()
            if name != "width"
        }
        query, key, value = (read[name].reshape(getattr(heads, name).shape) for name in ("query", "key", "value"))
        assert query.shape[-1] == vectors[kind]["width"]
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
        if kind == "decoder":
            scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        np.testing.assert_allclose(weights, heads.weights, atol=1e-3)
        np.testing.assert_allclose(value, heads.value, atol=1e-4 * np.abs(heads.value).max())


def test_the_page_loads_nothing_and_runs_its_own_script_only(given):
    html = render_inspection(given)
    page = Page(html)
    assert page.links == []
    assert not re.search(r"@import|url\(|fetch|XMLHttp|innerHTML|document\.write|eval", html)
    assert set(re.findall(r"https?://[^\"' ]+", html)) <= {"http://www.w3.org/2000/svg"}
    allowed = {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (*page.scripts[1:], *page.styles)
    }
    assert len(allowed) == 2
    assert set(re.findall(r"'[^']+'", page.policy)) == {"'none'", *allowed}
    assert page.policy.startswith("default-src 'none'; ")


@pytest.mark.first_is_quick
@pytest.mark.parametrize("side", ["text", "target", "both"])
def test_a_text_stays_in_its_place(model, given, side):
    texts = {"text": (EVIL, "old"), "target": ("old", EVIL), "both": (EVIL, EVIL)}[side]
    html = render_inspection(inspect_translation(model, texts[0], target=texts[1], beam_size=1))
    assert Page(html).tags == Page(render_inspection(given)).tags
    data = Page(html).data
    assert (data["source"]["text"], data["target"]["text"]) == texts


# ---- in a browser -----------------------------------------------------------------------------

DRIVER = """
<script type="module">
const told = [];
const press = (id, key) => document.getElementById(id).dispatchEvent(new KeyboardEvent("keydown", { key }));
for (const [index, grid] of document.querySelectorAll(".grid").entries()) {
  const button = grid.querySelectorAll("button")[GRID_INDICES[index]];
  button.click();
  for (const key of ["ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight"]) press("matrix", key);
  told.push([button.title, document.getElementById("readout").textContent]);
}
const grids = [...document.querySelectorAll("canvas:not(.strip)")].map((c) => [c.width, c.height]);
const labels = (side) => [...document.querySelectorAll(`#matrix .${side} bdi`)].map((each) => each.textContent);
const words = labels("left");
const head = [...document.querySelectorAll("#head td.bar")].map((each) => each.textContent);
document.getElementById("pieces").click();
press("tree", "ArrowRight");
const prefix = document.getElementById("prefix").textContent;
const result = { told, grids, words, head, prefix, pieces: labels("left") };
const holder = document.createElement("pre");
holder.id = "result";
holder.textContent = JSON.stringify(result);
document.body.append(holder);
</script>
"""


def browse(page: str, folder: Path) -> str:
    """The page as a real browser has it after its scripts have run."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += ["--dump-dom", path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_shows_the_weights_of_the_model(given, tmp_path):
    heads = 1 + HEADS  # and their mean
    # Layer 2 head 3, layer 2 mean, layer 3 head 1, as indices among the buttons of a grid.
    indices = {"encoder": 1 * heads + 2, "decoder": 1 * heads + HEADS, "cross": 2 * heads}
    expected = {
        "encoder": given.word_maps("encoder")[1, 2],
        "decoder": given.word_maps("decoder")[1].mean(0),
        "cross": given.word_maps("cross")[2, 0],
    }
    driver = DRIVER.replace("GRID_INDICES", json.dumps(list(indices.values())))
    page = re.sub(r"<meta http-equiv[^>]*>", "", render_inspection(given)).replace("</body>", driver + "</body>")
    element = re.search(r'<pre id="result">(.*?)</pre>', browse(page, tmp_path), re.DOTALL)
    result = json.loads(element[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    titles = [title for title, _ in result["told"]]
    assert titles == [
        "Encoder self-attention, layer 2, head 3",
        f"Decoder self-attention, layer 2, mean of {HEADS} heads",
        "Cross-attention, layer 3, head 1",
    ]
    for kind, (_, sentence) in zip(AXES, result["told"], strict=True):
        rows, columns = given.axes(kind)
        sentence = sentence.replace("\u2068", "").replace("\u2069", "")
        assert f"“{rows.labels[2]}”" in sentence  # the first key shows where the cursor is
        assert f"“{columns.labels[1]}”" in sentence
        assert float(sentence.split()[-2]) == pytest.approx(100 * expected[kind][2, 1], abs=0.6)
    # The chosen head step by step computes its weights anew, from queries and keys; it begins with the first position.
    shares = [float(share.strip("<%")) for share in result["head"]]
    assert shares == pytest.approx(100 * given.attention["cross"].weights[2, 0, 0], abs=0.6)
    assert result["words"] == given.target.labels
    assert result["pieces"] == given.target.pieces
    # A picture for each layer and head and mean, the legend, and the large one.
    count = heads * (LAYERS["num_encoder_layers"] + 2 * LAYERS["num_decoder_layers"])
    assert len(result["grids"]) == count + 2
    assert result["grids"][0] == [len(given.source.labels)] * 2
    # One step to the right of the beginning is how the best translation begins.
    nodes = given.to_dict()["search"]["nodes"]
    index = given.search.leaves[0]
    while nodes[index]["parent"]:
        index = nodes[index]["parent"]
    assert result["prefix"].startswith(f"“\u2068{nodes[index]['text'].replace('▁', ' ').strip()}\u2069”: ")
    assert result["prefix"].endswith(f"(log-probability −{-nodes[index]['log_prob']:.2f}).")


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_shows_any_text_as_text(model, tmp_path):
    evil = inspect_translation(model, EVIL, target="x", beam_size=2)
    dom = browse(render_inspection(evil), tmp_path)
    assert "Point at a box or a translation." in dom  # its own script has run to the end
    assert "<title>Inspection: &lt;/script&gt;" in dom
    assert dom.count("<script") == 2
    assert "<img" not in dom
    shown = re.search(r'<p id="source-text"[^>]*>(.*?)</p>', dom)[1]
    assert shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == EVIL
    assert dom.count('class="node ') == len(evil.search.nodes)
