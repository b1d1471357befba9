"""Translating, documents and scores without the extra `train`; commands that need it say so before all else."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_directory

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORDS = ["the", "red", "house", "is", "old", "a", "cat", "sees", "two", "dogs"]
EXTRA = [re.match(r"[\w-]+", need)[0] for need in PROJECT["optional-dependencies"]["train"]]
"""Packages of the extra `train`; those of its packages are imported under the same names."""
# They are found, and fail when they are imported; the second makes it look as if torch were not installed.
IMPORTED_BY_NOBODY = f"""
import importlib.machinery, json, os, sys

class NotImported:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name in {EXTRA} else None

    def create_module(self, spec):
        raise ImportError(spec.name + " is imported")

sys.meta_path.insert(0, NotImported())
"""
NOT_INSTALLED = "import sys\nsys.modules['torch'] = None\n"


@pytest.fixture(scope="module", params=[32, 24], ids=["eight bits", "float32"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose width suits products of eight bits, and one whose width does not."""
    path = tmp_path_factory.mktemp("model") / ("int8" if request.param == 32 else "float32")
    small_directory(Tokenizer.train(WORDS, vocab_size=271), d_model=request.param, num_heads=2, d_ff=48).save(path)
    return path


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True)


def test_a_program_translates_scores_and_aligns_without_torch(model: Path) -> None:
    program = f"""{IMPORTED_BY_NOBODY}
from dragoman import Translator
options = {{"device": "cpu", "workers": 2, "precision": os.path.basename(sys.argv[1])}}
with Translator.load(sys.argv[1], ensemble=[sys.argv[1]], **options) as translator:
    texts = ["the red house", "a cat sees two dogs. the house is old."] * 3
    (first, *_) = translator.translate(texts, beam_size=2, n_best=2, alignments=True, glossary={{"cat": "chat"}})
    sampled = translator.translate(texts[:1], sample=True, seed=1)
    scores = translator.score([("the red house", first.text)])
print(json.dumps([first.text, scores[0].log_prob, "torch" in sys.modules]))
"""
    result = run(program, model)
    assert result.returncode == 0, result.stderr
    text, log_prob, is_loaded = json.loads(result.stdout)
    assert text.strip()
    assert log_prob < 0
    assert not is_loaded


@pytest.mark.slow
def test_commands_translate_texts_and_documents_without_torch(model: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>the <b>red</b> house</p>\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("the red house\ttwo dogs\n", encoding="utf-8")
    precision = ["--precision", model.name]
    for arguments in (
        ["translate", model, "the red house", "--json", *precision],
        ["translate", model, "--document", tmp_path / "page.html", "--output", tmp_path / "out.html", *precision],
        ["score", model, tmp_path / "pairs.tsv"],
        ["tokenize", model, "the red house"],
    ):
        result = run(f"{IMPORTED_BY_NOBODY}\nfrom dragoman.cli import main\nmain()", *arguments)
        assert result.returncode == 0, (arguments, result.stderr)
    assert "<b>" in (tmp_path / "out.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["train pairs.tsv", "demo", "distill a b", "evaluate a pairs.tsv", "inspect a text", "import a b", "plot mask"],
)
def test_a_command_that_needs_torch_says_so_at_once(command: str) -> None:
    result = run(f"{NOT_INSTALLED}\nfrom dragoman.cli import main\nmain()", *command.split())
    name = " ".join(command.split()[: 2 if command.startswith("plot") else 1])
    assert result.returncode == 4
    assert result.stderr.startswith(f"Error: `dragoman {name}` needs another library; type: pip install ")
    assert "torch" in result.stderr


def test_its_help_does_not_need_torch() -> None:
    result = run(f"{NOT_INSTALLED}\nfrom dragoman.cli import main\nmain()", "train", "--help")
    assert result.returncode == 0
    assert "--max-minutes" in result.stdout
