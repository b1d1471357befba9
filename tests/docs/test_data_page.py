"""docs/data.md tells the truth: its examples are read as it says, and its commands find their data."""

import gzip
import re
import shlex
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from dragoman.config.data import CleaningConfig
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.data.prepared_folder import PreparedFolder
from dragoman.data.readers import huggingface
from dragoman.data.readers.registry import FORMATS
from dragoman.runs.plan import plan_run
from dragoman.runs.prepared import prepare_folder
from tests.report.models import small_model

PAGE = (Path(__file__).parents[2] / "docs/data.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.first_is_quick
@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "tmx", "xlf", "po"])
def test_every_example_is_the_same_pair(tmp_path: Path, form: str):
    assert len(blocks(form)) == (3 if form == "jsonl" else 1)
    for text in blocks(form):
        (tmp_path / f"a.{form}").write_text(text, encoding="utf-8")
        assert list(Bitext.open(tmp_path / f"a.{form}")) == [("The house is red.", "La maison est rouge.")]


def test_every_format_and_rule_is_on_the_page():
    assert all(f"`{suffix}`" in PAGE for suffix in FORMATS)
    for name, field in CleaningConfig.model_fields.items():
        default = "null" if field.default is None else str(field.default).lower().removesuffix(".0")
        assert re.search(rf"^\| `data.cleaning.{name}` \| {default} \|", PAGE, re.MULTILINE), name


@pytest.mark.slow
def test_every_command_finds_its_data(tmp_path: Path, monkeypatch):
    pairs = list(Bitext.open("builtin:grammar:40"))
    files = {"train.en": "".join(f"{s}\n" for s, _ in pairs), "train.fr": "".join(f"{t}\n" for _, t in pairs)}
    files |= {"valid.en": files["train.en"], "valid.fr": files["train.fr"], "corpora.yaml": blocks("yaml")[0]}
    files["pairs.tsv"] = files["crawl.en-fr.tsv"] = "".join(f"{s}\t{t}\n" for s, t in pairs)
    unit = "".join(f'<tuv xml:lang="{code}"><seg>{{}}</seg></tuv>' for code in ("en", "fr", "de", "es"))
    files["memory.tmx"] = f"<tmx>{''.join(f'<tu>{unit.format(s, t, t, t)}</tu>' for s, t in pairs)}</tmx>"
    files["languages.yaml"], other = blocks("yaml")[1], list(Bitext.open("builtin:grammar:9:test"))
    files |= {f"test.{code}": "".join(f"{pair[side]}\n" for pair in other) for side, code in enumerate(("en", "fr"))}
    files["table.tsv"] = "".join(f"{s}\t{t}\tfr\n{s}\t{t}\tde\n" for s, t in pairs[:20])
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    archives = {
        "fra-eng.zip": {"fra.txt": files["pairs.tsv"], "_about.txt": "A note."},
        "Tatoeba.en-fr.zip": {
            "README": "A note.",
            **{
                f"Tatoeba.en-fr.{code}": "".join(f"{pair[side]}\n" for pair in pairs)
                for side, code in enumerate(("en", "fr"))
            },
        },
    }
    for name, members in archives.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface, "load", lambda *_, **__: Library())
    model = small_model()
    model.save(Path("runs/en-fr"))
    replace(model, source_language="fr", target_language="en").save(Path("runs/fr-en"))
    monkeypatch.setitem(_registry, "s3", Bucket)
    bucket = Bucket()
    bucket.pipe("/bucket/pairs.tsv.gz", gzip.compress(files["pairs.tsv"].encode()))
    bucket.pipe("/bucket/valid.tsv", b"A bird sings.\tUn oiseau chante.\n")
    commands = [line for block in blocks("sh") for line in block.split("\n") if line]
    assert len(commands) == 20
    for command in commands:
        program, verb, *words = shlex.split(command)
        assert program == "dragoman"
        assert verb == "train" or [verb, words.pop(0)] == ["data", "prepare"]
        options = dict(pairwise(words))
        taken = [i for i, word in enumerate(words) if word.startswith("--") or (i and words[i - 1].startswith("--"))]
        rest = [word for i, word in enumerate(words) if i not in taken]
        settings, paths = [word for word in rest if "=" in word], [word for word in rest if "=" not in word]
        if verb == "data":
            prepare_folder(paths, Path(options["--output"]), recipe=None, settings=parse_settings(settings))
            continue
        _, bitext = plan_run(paths, recipe=options.get("--recipe"), settings=parse_settings(settings))
        if isinstance(bitext, PreparedFolder):
            assert bitext.counts[0] == 40
            continue
        assert bitext.report.read == (120 if "--recipe" in options else 40), command
        several = {"languages.yaml": 3, "table.tsv": 2}
        assert len(bitext.counts.labels) == next((several[word] for word in words if word in several), 0)
        if "[fr,en]" in command:
            assert next(iter(bitext)) == pairs[0][::-1]


class Bucket(MemoryFileSystem):
    """Stands in for S3."""

    protocol = "s3"
    store: ClassVar[dict] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("s3://"))


class Library:
    """What `datasets` would give for any name: the pairs in a column for each language."""

    def __init__(self):
        self.rows = [{"en": source, "fr": target} for source, target in Bitext.open("builtin:grammar:40")]

    def load_dataset(self, name: str, config: str | None, *, split: str) -> "Library":
        return self

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> dict[str, str]:
        return self.rows[row]

    def iter(self, size: int) -> Iterator[dict[str, list[str]]]:
        yield {name: [row[name] for row in self.rows] for name in self.rows[0]}
