"""Compares the output of the commands before and after a change that should change nothing.

    python benchmarks/sameness.py record FOLDER
    python benchmarks/sameness.py compare FOLDER

`record` makes inputs in a new folder, and keeps what the commands of this checkout make of them: weights of short runs
by their SHA-256, what is prepared from each kind of file, translations in all modes, documents, and the JSON of each
command. `compare` runs the commands of another checkout on the same inputs, lists the differences, and exits with 1 if
there are any. Weights are the same on one kind of processor, on one machine.
"""

import argparse
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAIRS, SHORT = 600, "builtin:grammar:211"
RUNS = {
    "default": [],
    "words": ["tokenizer.kind=word", "model.norm_order=post", "model.norm=layer", "model.positions=sinusoidal"],
    "r-drop": ["training.r_drop=3", "training.accumulate=2", "model.dropout=0.1"],
    "adam": ["training.optimizer=adam", "training.ema=0.9", "training.average=2", "tokenizer.kind=unigram"],
}
"""Settings of short runs, by their names."""
SMALL = ["size=tiny", "training.max_steps=12", "training.validate_every=6", "tokenizer.vocab_size=400"]
MODES: dict[str, list[str]] = {
    "greedy": ["--beam-size", "1"],
    "beam": ["--beam-size", "5"],
    "float32": ["--precision", "float32"],
    "eight bits": ["--precision", "int8"],
    "n-best": ["--n-best", "3"],
    "diverse": ["--n-best", "2", "--beam-size", "4", "--diversity", "0.5"],
    "samples": ["--sample", "--n-best", "2", "--seed", "3", "--top-k", "9"],
    "prefix": ["--prefix", "le"],
    "alignments": ["--alignments"],
    "unguarded": ["--max-copies", "0"],
    "whole": ["--no-split"],
}
"""Options of `translate`, by the names of modes."""
CHANGING = {
    "minutes",
    "seconds",
    "sentences_per_second",
    "tokens_per_second",
    "time",
    "memory",
    "versions",
    "path",
    "output",
    "speed",
}
"""Keys of JSON whose values differ from run to run."""

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
OPEN_DOCUMENT = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
)
"""The names of elements in documents of Word and of others."""


class Commands:
    """Runs commands of this checkout in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def run(self, *arguments: object, stdin: str = "") -> str:
        """Output of a command; its error message if it fails."""
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, input=stdin, capture_output=True, text=True, encoding="utf-8"
        )
        return done.stdout if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr[-500:]}"


def make_inputs(folder: Path) -> None:
    """Pairs in each kind of file, texts, and documents."""
    sys.path.insert(0, str(ROOT))
    from dragoman.data.bitext import Bitext
    from tests.documents import samples

    pairs = list(Bitext.open(f"builtin:grammar:{PAIRS}"))
    write = {name: folder / name for name in ("a.tsv", "a.csv", "a.jsonl", "a.json", "a.en", "a.fr", "a.tmx", "a.po")}
    write["a.tsv"].write_text("".join(f"{en}\t{fr}\n" for en, fr in pairs), encoding="utf-8")
    write["a.csv"].write_text("en,fr\n" + "".join(f'"{en}","{fr}"\n' for en, fr in pairs), encoding="utf-8")
    rows = [{"translation": {"en": en, "fr": fr}} for en, fr in pairs]
    write["a.jsonl"].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write["a.json"].write_text(json.dumps(rows), encoding="utf-8")
    write["a.en"].write_text("".join(f"{en}\n" for en, _ in pairs), encoding="utf-8")
    write["a.fr"].write_text("".join(f"{fr}\n" for _, fr in pairs), encoding="utf-8")
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{en}</seg></tuv><tuv xml:lang="fr"><seg>{fr}</seg></tuv></tu>' for en, fr in pairs
    )
    head = '<?xml version="1.0"?><tmx version="1.4"><header srclang="en"/><body>'
    write["a.tmx"].write_text(f"{head}{units}</body></tmx>", encoding="utf-8")
    entries = "".join(f'\nmsgctxt "{n}"\nmsgid "{en}"\nmsgstr "{fr}"\n' for n, (en, fr) in enumerate(pairs))
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: fr\\n"\n'
    write["a.po"].write_text(header + entries, encoding="utf-8")
    (folder / "a.tsv.gz").write_bytes(gzip.compress(write["a.tsv"].read_bytes(), mtime=0))
    with zipfile.ZipFile(folder / "pairs.zip", "w") as archive:
        archive.write(write["a.tsv"], "pairs/a.tsv")
    (folder / "terms.tsv").write_text("red house\tdemeure écarlate\ncat\tfélin\n", encoding="utf-8")
    (folder / "forbidden").write_text("maison\n", encoding="utf-8")
    odd = ["", "12:30", "THE RED HOUSE IS OLD.", "The cat sees 1,234 dogs. A dog sleeps.", "A title", "“Quoted” text…"]
    texts = [en for en, _ in pairs[:30]] + odd
    (folder / "texts").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    documents = {name: getattr(samples, name) for name in dir(samples) if name.isupper()}
    endings = {"MARKDOWN": "md"}
    for name, text in documents.items():
        if isinstance(text, str):
            (folder / f"document.{endings.get(name, name.lower())}").write_bytes(text.encode())
    bold = "<w:r><w:rPr><w:b/></w:rPr><w:t>old</w:t></w:r>"
    body = f'<w:p><w:r><w:t xml:space="preserve">The red house is </w:t></w:r>{bold}<w:r><w:t>.</w:t></w:r></w:p>'
    office(folder / "document.docx", {"word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>"})
    body = "<text:p>The red <text:span>house</text:span> is old.</text:p>"
    body = f"<office:body><office:text>{body}</office:text></office:body>"
    content = f"<office:document-content {OPEN_DOCUMENT}>{body}</office:document-content>"
    office(folder / "document.odt", {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def office(path: Path, files: dict[str, str]) -> None:
    """Write a document of an office, which is an archive of XML."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)


def answers(inputs: Path) -> Iterator[tuple[str, str]]:
    """Name and value of all that is compared."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(inputs, folder, dirs_exist_ok=True)
        commands = Commands(folder)
        for name, settings in RUNS.items():
            yield f"training {name}", steady(commands.run("train", "a.tsv", "-o", name, *SMALL, *settings, "--json"))
            yield f"weights of {name}", digest(folder / name / "model.safetensors")
        student = ["distill", "default", "student", "--data", "a.tsv", *SMALL, "--json"]
        yield "distilling", steady(commands.run(*student))
        yield "weights of the student", digest(folder / "student/model.safetensors")
        files = ["a.tsv", "a.csv", "a.jsonl", "a.json", "a.tmx", "a.po", "a.tsv.gz", "pairs.zip", "a.en a.fr", SHORT]
        for number, file in enumerate(files):
            options = ["-o", f"prepared{number}", "tokenizer.vocab_size=400"]
            yield f"preparing {file}", steady(commands.run("data", "prepare", *file.split(), *options, "--json"))
            for path in sorted((folder / f"prepared{number}").rglob("*")):
                if path.is_file() and path.name not in ("about.json", "manifest.json"):
                    yield f"{path.name} of {file}", digest(path)
            yield f"checking {file}", steady(commands.run("data", "check", *file.split(), "--json"))
        texts = (folder / "texts").read_text(encoding="utf-8")
        for name, options in MODES.items():
            yield f"translating: {name}", commands.run("translate", "default", *options, stdin=texts)
            yield (
                f"translating as JSON: {name}",
                steady(commands.run("translate", "default", *options, "--json", stdin=texts)),
            )
        for name, options in {"terms": ["--glossary", "terms.tsv"], "forbidden": ["--forbid", "forbidden"]}.items():
            yield f"translating: {name}", commands.run("translate", "default", *options, stdin=texts)
        for path in sorted(folder.glob("document.*")):
            out = folder / f"out{path.suffix}"
            message = commands.run("translate", "default", "--document", path.name, "-o", out.name)
            yield f"translating {path.name}", digest(out) if out.exists() else message
        for command in (
            ["evaluate", "default", SHORT],
            ["score", "default", SHORT],
            ["tokenize", "default", "The red house is old."],
            ["inspect", "default", "The red house is old.", "-o", "page.html"],
            ["compare", "default", "words"],
            ["average", "adam", "--last", "2", "-o", "averaged"],
        ):
            yield " ".join(command), steady(commands.run(*command, "--json"))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "missing"


def steady(text: str) -> str:
    """JSON, on one or several lines, without values that differ from run to run; other text as it is."""
    try:
        return json.dumps(_without(json.loads(text)), ensure_ascii=False)
    except ValueError:
        pass
    try:
        return "\n".join(json.dumps(_without(json.loads(line)), ensure_ascii=False) for line in text.splitlines())
    except ValueError:
        return text


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without(inner) for key, inner in value.items() if not CHANGING & {key, *key.split("_")} - {"output"}
        }
    return [_without(inner) for inner in value] if isinstance(value, list) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    inputs, kept = arguments.folder / "inputs", arguments.folder / "answers.json"
    if arguments.verb == "record":
        inputs.mkdir(parents=True)
        make_inputs(inputs)
        values = dict(answers(inputs))
        kept.write_text(json.dumps(values, indent=1, ensure_ascii=False), encoding="utf-8")
        print(f"{len(values)} answers are in {kept}.")
        return 0
    before, number, differences = json.loads(kept.read_text(encoding="utf-8")), 0, 0
    for name, value in answers(inputs):
        number += 1
        if steady(before.pop(name, "")) != value:
            differences += 1
            print(f"{name} differs", flush=True)
    for name in before:
        print(f"{name} is missing")
    print(f"{number} answers, {differences} of them differ, {len(before)} are missing.")
    return 1 if differences or before else 0


if __name__ == "__main__":
    sys.exit(main())
