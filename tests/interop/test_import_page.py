"""docs/import.md tells the truth: its commands and its Python run, and it lists what there is."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import torch

from dragoman import cli
from dragoman.interop.imports.styles import STYLES
from tests.interop.notebook_models import Sizes, random_weights
from tests.interop.notebooks import SOURCES, TARGETS, make

PAGE = (Path(__file__).parents[2] / "docs/import.md").read_text(encoding="utf-8")
SIZES = {"heads": 8, "d_model": 24, "encoder_layers": 1, "decoder_layers": 1}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the files that the page names."""
    pytest.importorskip("h5py")
    path = tmp_path_factory.mktemp("page")
    annotated = make("annotated", path, **SIZES)
    annotated.files.weights.rename(path / "multi30k_model_final.pt")
    for file, name in zip(annotated.files.tokenizers, ("vocab_de.txt", "vocab_en.txt"), strict=True):
        size = getattr(annotated.sizes, "source_vocab" if "de" in name else "target_vocab")
        words = ["<unk>", "<blank>", "<s>", "</s>", *(f"word{number}" for number in range(size - 4))]
        (path / name).write_text("\n".join(words), encoding="utf-8")
        file.unlink()
    make("keras", path, **SIZES)
    sizes = Sizes(d_model=24, heads=8, encoder_layers=1, decoder_layers=1)
    networks = re.compile(r"decoder_layers\.\d+\.feed_forward\.")
    weights = random_weights("postnorm", sizes)
    torch.save({name: weight for name, weight in weights.items() if not networks.match(name)}, path / "transformer.pt")
    prenorm = make("prenorm", path, **SIZES)
    prenorm.files.weights.rename(path / "tmodel_19.pt")
    prenorm.files.tokenizers[1].rename(path / "tokenizer_it.json")
    for name, side in (("test.en", SOURCES), ("test.it", TARGETS)):
        (path / name).write_text("".join(text + "\n" for text in side[:3]), encoding="utf-8")
    return path


def test_every_command_runs(folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    commands = [line for block in blocks("sh") for line in block.split("\n") if line]
    assert sum(" import " in command for command in commands) == 5
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        assert exit_.value.code == 0, f"{command}\n{capfd.readouterr().err}"


def test_the_python_that_uses_a_model_runs(folder, monkeypatch):
    monkeypatch.chdir(folder)
    ids = torch.tensor([[2, 7, 5, 3]])
    names = {"source_ids": ids, "target_ids": ids[:, :3], "source_mask": ids != 1}
    exec(blocks("python")[-1], names)
    assert names["logits"].shape[:2] == (1, 3)


def test_every_style_is_on_the_page():
    for style in STYLES:
        assert re.search(rf"^\| `{style}` \|", PAGE, re.MULTILINE)
