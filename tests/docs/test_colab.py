"""The notebooks of the walk run from the two files that `make colab` builds, away from the checkout."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import v4

from tools import make_colab, pages


@pytest.mark.slow
def test_a_notebook_sets_itself_up_on_colab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    make_colab.build(tmp_path / "content")
    fake, site = tmp_path / "fake", tmp_path / "site"
    site.mkdir()
    (fake / "google").mkdir(parents=True)
    (fake / "google/colab.py").touch()
    # Colab has the requirements from its index; here they are those of the tests.
    for name, value in {"PIP_TARGET": site, "PIP_NO_DEPS": 1, "PIP_NO_INDEX": 1}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (site, fake))))
    notebook = nbformat.read(pages.CHAPTERS / "0-the-whole.ipynb", as_version=4)
    notebook.cells.insert(0, v4.new_code_cell("import google.colab"))
    notebook.cells.append(v4.new_code_cell("import counting, dragoman\nprint(dragoman.__file__, counting.__file__)"))
    made = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path / "content"}}).execute()
    assert made.cells[-1].outputs[0].text.split() == [
        str(site / "dragoman/__init__.py"), str(tmp_path / "content/counting.py")
    ]  # fmt: skip
