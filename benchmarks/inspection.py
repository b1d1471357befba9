"""How long a page of `dragoman inspect` takes for 200 by 200 tokens: to be written, and to be drawn in Chromium.

    .venv/bin/python benchmarks/inspection.py [SIZE ...]

SIZE is tiny (4+4 layers of 4 heads) and base (6+6 of 8) unless given; the weights are random, which changes nothing
here. Drawing counts from the beginning of the navigation to the second frame after the script, and is compared with
that of an empty page. Medians of some rounds.
"""

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from dragoman.data.bitext import Bitext
from dragoman.model import Transformer, TransformerConfig
from dragoman.report import inspect_translation, render_inspection
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer

TOKENS, ROUNDS = 200, 7
EMPTY = "<!DOCTYPE html><title>empty</title><body></body>"
REPORT = """<script type="module">
requestAnimationFrame(() => requestAnimationFrame(() => console.log(`DRAWN ${Math.round(performance.now())}`)));
</script></body>"""


def page(size: str) -> str:
    """The page of an untrained model, with what it took to write it."""
    pairs = list(Bitext.open("builtin:grammar:500"))
    texts = [" ".join(pair[side] for pair in pairs) for side in (0, 1)]
    tokenizer = Tokenizer.train(texts, vocab_size=1000)
    sizes = {"source_vocab_size": tokenizer.vocab_size, "target_vocab_size": tokenizer.vocab_size}
    model = Transformer(TransformerConfig.preset(size, **sizes)).eval()
    source, target = (tokenizer.decode(tokenizer.encode(text)[: TOKENS - 1]) for text in texts)
    loaded = ModelDirectory(model, tokenizer, tokenizer, "en", "fr")
    inspection = inspect_translation(loaded, source, target=target, beam_size=2)
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        html = render_inspection(inspection)
        times.append(time.perf_counter() - started)
    shape = " x ".join(map(str, inspection.attention["cross"].weights.shape))
    print(f"{size}: cross-attention {shape}, page {len(html.encode()) / 1e6:.1f} MB, written in", end=" ")
    print(f"{statistics.median(times):.3f} s", end=", ", flush=True)
    return html


def seconds_to_draw(html: str) -> float:
    """The median over fresh browsers."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    # The policy of the page would keep out the script that reports.
    html = re.sub(r"<meta http-equiv[^>]*>", "", html).replace("</body>", REPORT)
    times = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = Path(folder, "page.html")
            path.write_text(html, encoding="utf-8")
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
            command += ["--enable-logging=stderr", "--remote-debugging-port=0", f"--user-data-dir={folder}/profile"]
            with subprocess.Popen([*command, path.as_uri()], stderr=subprocess.PIPE, text=True) as process:
                found = next(filter(None, (re.search(r"DRAWN (\d+)", line) for line in process.stderr)))
                process.terminate()
            times.append(int(found[1]) / 1000)
    return statistics.median(times)


if __name__ == "__main__":
    torch.manual_seed(1)
    for size in sys.argv[1:] or ("tiny", "base"):
        print(f"drawn in {seconds_to_draw(page(size)):.2f} s")
    print(f"an empty page: drawn in {seconds_to_draw(EMPTY):.2f} s")
