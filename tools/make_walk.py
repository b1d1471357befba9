"""Run the guided walk (docs/walk/) and docs/errata.md, and write what they print into them and into the notebooks.

    python -m tools.make_walk [page ...]

Each core runs a page at a time. Tests run the notebooks again and compare.
"""

import base64
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from nbclient import NotebookClient
from nbformat import NotebookNode, v4
from traitlets.config import Config

from dragoman.system.resources import cores
from tools.outputs import Output, smaller
from tools.pages import ROOT, notebook, runnable_pages, shown_outputs, up_to_date, with_outputs

LONGEST = 600  # seconds that a cell, or the start of a kernel, may take on a busy machine


@contextmanager
def kernel() -> Iterator[Callable[[str, Path], list[Output]]]:
    """Starts a kernel; the function runs the cells of a page that lies in a folder, from the beginning.

    It raises `nbclient.exceptions.CellExecutionError` for a cell that fails.
    """
    # In this checkout, and on one thread: the same sums in the same order.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        # Through files of this user, where the system can, instead of ports that are open to all.
        through = {"transport": "ipc", "ip": f"{scratch}/kernel"} if os.name == "posix" else {}
        config = Config(AsyncKernelManager=through)
        limits = {"timeout": LONGEST, "startup_timeout": LONGEST, "shutdown_kernel": "immediate"}
        client = NotebookClient(v4.new_notebook(), config=config, **limits)

        def run(page: str, folder: Path) -> list[Output]:
            forget = v4.new_code_cell(f"%reset -sf\n%cd -q {folder}")
            client.nb = notebook(page, folder, with_output=False)
            client.nb.cells.insert(0, forget)
            for index, cell in enumerate(client.nb.cells):
                client.execute_cell(cell, index)
            return [output_of(cell) for cell in client.nb.cells[1:] if cell.cell_type == "code"]

        with client.setup_kernel(env=environment):
            yield run


def output_of(cell: NotebookNode) -> Output:
    """The printed text and the picture of a cell that was run."""
    pictures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
    printed = [output for output in cell.outputs if output not in pictures]
    for output in printed:
        if output.get("name") != "stdout":
            raise ValueError(f"A cell leaves something that is neither printed nor a picture: {output}\n{cell.source}")
    if len(pictures) > 1:
        raise ValueError(f"A cell shows {len(pictures)} pictures, and the page has room for one:\n{cell.source}")
    return Output(
        "".join(output.text for output in printed),
        smaller(base64.b64decode(pictures[0].data["image/png"])) if pictures else None,
    )


def make(path: Path) -> None:
    """Run one page and write its outputs into it, and its pictures beside it; what still agrees stays as it is."""
    page = path.read_text(encoding="utf-8")
    with kernel() as run:
        pairs = zip(shown_outputs(page, path.parent), run(page, path.parent), strict=True)
    outputs = [old if old.agrees(new) else new for old, new in pairs]
    page, pictures = with_outputs(page, outputs, lambda number: f"pictures/{path.stem}-{number}.png")
    for name, data in pictures.items():
        (path.parent / name).write_bytes(data)
    path.write_text(page, encoding="utf-8")


def chosen(names: list[str]) -> Iterator[Path]:
    """The pages of these names, all of them without names."""
    known = {path.stem: path for path in runnable_pages()}
    for name in names or known:
        if Path(name).stem not in known:
            sys.exit(f"There is no page {name}; choose from {', '.join(known)}.")
        yield known[Path(name).stem]


if __name__ == "__main__":
    # Long pages take longest: begun first, they are not what the others wait for.
    pages = sorted(chosen(sys.argv[1:]), key=lambda page: page.stat().st_size, reverse=True)
    with ProcessPoolExecutor(cores(), mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(make, page): page for page in pages}
        for ended in as_completed(running):
            ended.result()
            print(f"ran {running[ended].relative_to(ROOT)}", flush=True)
    for path, text in up_to_date().items():
        path.write_text(text, encoding="utf-8")
