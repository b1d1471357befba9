"""Mistakes that people make: each is answered by one sentence with the remedy and the right exit code, at once.

All rows of the first table run in one process in which torch cannot be imported: what takes longest to load is not
waited for. `{}` in a row stands for the folder of the files below.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from dragoman.config.run import RunConfig
from dragoman.data.bitext import Bitext
from dragoman.errors import ResourceError, quoted
from dragoman.interop.imports.notebooks import read_weights
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.optional import requirements
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_directory

ROOT = Path(__file__).resolve().parent.parent
LONG = "very " * 80

USAGE, DATA, RESOURCES = 2, 3, 4
MISTAKES = [
    # the command line itself
    ("trian pairs.tsv", USAGE, "no command 'trian' (did you mean 'train'?)"),
    ("pairs.tsv", USAGE, "no command 'pairs.tsv'; there are demo, train"),
    ("train --sise tiny pairs.tsv", USAGE, "no option --sise (did you mean '--size'?)"),
    ("translate model --beem-size 2 Hello.", USAGE, "did you mean '--beam-size'?"),
    ("translate model -5", USAGE, "put -- before a text that begins with -"),
    ("translate nowhere -- --json", DATA, "Error: nowhere does not exist"),
    ("translate", USAGE, "Error: Missing argument 'MODEL'; see `dragoman translate --help`."),
    ("average model", USAGE, "Error: Missing option '--output' / '-o'; see `dragoman average --help`."),
    ("doctor now", USAGE, "`dragoman doctor` takes no argument 'now'; put quotes around a text"),
    ("doctor --json=yes", USAGE, "Error: Option '--json' does not take a value; see `dragoman doctor"),
    ("train pairs.tsv --seed one", USAGE, "--seed is 'one'; it must be a whole number from 0"),
    ("translate model Hello. --beam-size", USAGE, "'--beam-size' requires an argument; see `dragoman translate"),
    ("translate model Hello. --beam-size 0", USAGE, "Error: --beam-size is 0; it must be a whole number from 1 to 64."),
    ("evaluate model pairs.tsv --beam-size 65", USAGE, "--beam-size is 65; it must be a whole number from 1 to 64."),
    ("translate model Hello. --workers 0", USAGE, "Error: --workers is 0; it must be a whole number from 1."),
    ("translate model Hello. --workers some", USAGE, "Error: --workers is 'some'; it must be a whole number from 1."),
    ("plot positions --length 1", USAGE, "Error: --length is 1; it must be a whole number from 2 to 2000."),
    ("score model pairs.tsv --length-penalty nan", USAGE, "is nan; it must be a finite number from 0 to 10."),
    ("inspect model Hello. --length-penalty inf", USAGE, "is inf; it must be a finite number from 0 to 10."),
    ("translate model Hello. --length-penalty -1", USAGE, "--length-penalty is -1; it must be a number from 0 to 10."),
    ("translate model Hello. --precision float17", USAGE, "no precision 'float17' (did you mean 'bfloat16'?)"),
    ("average model --last 1 -o new", USAGE, "--last is 1; it must be a whole number from 2."),
    ("translate model Hello. --max-copies 1", USAGE, "--max-copies is 1, which forbids 'very very'; give 2 or more"),
    ("translate model Hello. --top-k 3", USAGE, "--top-k is for sampling; add --sample, or leave it out"),
    ("translate model Hello. --n-best 9", USAGE, "--n-best is 9, but search keeps 5 hypotheses; raise --beam-size."),
    ("translate scored Hello. --n-best 5", USAGE, "--n-best is 5, but search keeps 4 hypotheses; raise --beam-size."),
    ("evaluate misset pairs.tsv", DATA, "misset/config.json, `decoding`: `beam_size` is 99; it must be a whole number"),
    # an output that is an input too
    ("translate model Hello. --forbid train.en -o train.en", USAGE, "train.en is read and cannot be written"),
    ("evaluate model pairs.tsv --output pairs.tsv", USAGE, "pairs.tsv is read and cannot be written"),
    ("score model pairs.tsv -o ./pairs.tsv", USAGE, "pairs.tsv is read and cannot be written at the same time"),
    # the wrong number or order of arguments
    ("compare finished", USAGE, "`compare` takes two runs or more; give another one beside finished"),
    ("train pairs.tsv training.schedule=cosine", USAGE, "training.max_steps"),
    ("train", USAGE, "no pairs to read; give a file of pairs or two aligned files, or a recipe with data.source"),
    ("data check", USAGE, "no pairs to read; give a file of pairs or two aligned files, or a recipe with data.source"),
    ("data check train.en train.fr pairs.tsv", USAGE, "`data check` takes a file of pairs or two aligned files, not 3"),
    ("data chekc pairs.tsv", USAGE, "no command 'chekc' (did you mean 'check'?)"),
    ("train pairs.tsv train.en train.fr", USAGE, "and list several corpora under data.corpora in a recipe."),
    ("train pairs.tsv --recipe mine.yaml", USAGE, "There is no file mine.yaml; check its name"),
    ("evaluate model", USAGE, "Error: Missing argument 'DATA | SOURCE REFERENCE [key=value ...]'; see `dragoman eva"),
    ("evaluate model a b c", USAGE, "not 3 files"),
    ("score model data.languages=[en,fr]", USAGE, "`score` takes a file of pairs or two aligned files, not 0 files"),
    ("translate Hello. model", USAGE, "MODEL comes first: write model before the other arguments"),
    (["translate", LONG, "model"], USAGE, "MODEL comes first"),
    ("evaluate pairs.tsv model", USAGE, "MODEL comes first: write model before the other"),
    ("translate model Hello. --input pairs.tsv", USAGE, "not both"),
    ("tokenize model Hello. --input pairs.tsv", USAGE, "not both"),
    ("train pairs.tsv --size tiny --recipe base", USAGE, "give one of them"),
    ("train pairs.tsv --size tiny --finetune model", USAGE, "--finetune keeps the size of its model"),
    ("train pairs.tsv --size tiny finetune.model=model", USAGE, "--finetune keeps the size of its model"),
    ("train pairs.tsv --learning-curve finetune.model=model", USAGE, "leave out --resume, --dry-run"),
    ("train pairs.tsv --resume finished", USAGE, "leave them out"),
    # what is no model
    ("translate nowhere Hello.", DATA, "nowhere does not exist; give the folder that `dragoman train` wrote"),
    (["translate", "The red house is old."], DATA, "The red house is old. does not exist; give the folder"),
    (["translate", LONG], DATA, "does not exist"),
    ("translate pairs.tsv Hello.", DATA, "pairs.tsv is a file, not a model directory"),
    ("translate folder Hello.", DATA, "it has no config.json; give the folder"),
    ("translate model-newer Hello.", DATA, "format 2, but this version of Dragoman reads format 1; use the version"),
    ("translate model-key Hello.", DATA, "unknown key 'd_modle'"),
    ("translate model-text Hello.", DATA, "cannot be read as JSON"),
    ("translate model-cut Hello.", DATA, "model.safetensors is cut short or damaged"),
    ("translate model-damaged Hello.", DATA, "is cut short or damaged (Expecting value"),
    ("translate model-weightless Hello.", DATA, "model.safetensors is missing; copy the whole folder again"),
    ("translate model-wordless Hello.", DATA, "tokenizer.json is missing; copy the whole folder again"),
    ("evaluate folder pairs.tsv", DATA, "no config.json"),
    ("translate model Hello. --ensemble nowhere", DATA, "nowhere does not exist; give the folder"),
    ("score model pairs.tsv --ensemble model-newer", DATA, "format 2, but this version of Dragoman reads format 1"),
    ("evaluate model pairs.tsv --ensemble model-cut", DATA, "model.safetensors is cut short or damaged"),
    ("average folder --output new", DATA, "no config.json"),
    # what is imported
    ("import nowhere.pt new --style prenorm --num-heads 2", DATA, "nowhere.pt cannot be read: No such file"),
    (
        "import folder new --style prenorm --num-heads 2",
        USAGE,
        "--style, --num-heads, --as-written and tokenizers are for a notebook",
    ),
    ("import folder new", DATA, "config.json cannot be read: No such file"),
    ("import hf:name new", USAGE, "`hf:name` names no model; write hf:OWNER/NAME"),
    ("import pairs.tsv folder --style keras --num-heads 2", USAGE, "folder exists and is not empty"),
    ("import pairs.tsv new --style karas --num-heads 2", USAGE, "no style 'karas' (did you mean 'keras'?); choose"),
    ("import pairs.tsv new --style keras", USAGE, "pairs.tsv is a file, and so a notebook's weights: give --style and"),
    ("import pairs.tsv new --style keras --num-heads 2 --target-tokenizer a.txt", USAGE, "the same file twice if both"),
    # data
    ("train absent", DATA, "no file absent; check the path"),
    ("train pears.tsv", DATA, "did you mean pairs.tsv?"),
    ("train folder", DATA, "folder is a folder; name a file in it"),
    ("train empty.tsv", DATA, "empty.tsv is empty; give a file with"),
    ("train few.tsv", DATA, "3 sentence pairs are too few"),
    ("train train.en train.short", DATA, "train.en has 60 lines but train.short has 59; line N of both"),
    ("train train.en train.en", DATA, "the same file train.en; give one per language"),
    ("train text.tsv", DATA, "text.tsv, line 2 has no tab"),
    ("train latin1.tsv", DATA, "latin1.tsv, line 1 is not valid UTF-8 (byte 0xE9"),
    ("train utf16.tsv", DATA, "1 sentence pairs are too few"),
    ("train binary.tsv", DATA, "binary.tsv, line 1 is"),
    ("train plain.tsv.gz", DATA, "plain.tsv.gz cannot be read after line 0: Not a gzipped file"),
    ("train cut.tsv.gz", DATA, "check that the file is whole"),
    ("train builtin:grammar:99999999999999", DATA, "for a number of pairs below ten million"),
    ("train builtin:poems", DATA, "no built-in data builtin:poems; write builtin:grammar"),
    ("train pairs.tsv --valid nowhere.tsv", DATA, "no file nowhere.tsv"),
    (
        "train pairs.tsv --valid a --valid b --valid c",
        USAGE,
        "--valid takes a file of pairs or two aligned files, not 3",
    ),
    ("evaluate model nowhere.tsv", DATA, "no file nowhere.tsv"),
    ("evaluate model train.en", DATA, "no tab between source and target"),
    ("evaluate model train.en train.short", DATA, "60 lines"),
    ("evaluate model memory.tmx", DATA, "3 languages (en, fr, de); choose source and target, such as 'data.languages="),
    ("data check memory.tmx", DATA, "3 languages (en, fr, de); choose source and target, such as 'data.languages="),
    ("data check memory.tmx data.languages=[en,it]", DATA, "memory.tmx has no text in 'it', only in en, fr, de"),
    ("data check pairs.tsv --test latin1.tsv", DATA, "latin1.tsv, line 1 is not valid UTF-8 (byte 0xE9"),
    ("translate model --input nowhere.txt", DATA, "nowhere.txt cannot be read: No such file"),
    ("translate model --input folder", DATA, "folder cannot be read: Is a directory"),
    ("translate model --input utf16.tsv", DATA, "UTF-16"),
    ("translate model --input table.xlsx", DATA, "table.xlsx is a document of an office program; save its table there"),
    ("train table.xlsx", DATA, "table.xlsx is a document of an office program; save its table there as .csv"),
    (
        "train pairs.tsv --columns 1",
        USAGE,
        "`data.columns` is [1]; it must be a list of 2 whole numbers from 1 or text",
    ),
    ("train pairs.tsv --columns 0,1", USAGE, "`data.columns` is [0, 1]; it must be a list of 2"),
    ("data check pairs.tsv --columns 1,3", DATA, "pairs.tsv has no column 3; give two of 1, 2 as --columns"),
    ("evaluate model train.en train.fr --columns 1,2", DATA, "train.en has no columns to choose from; leave out --col"),
    ("data check pairs.tsv --output pairs.tsv", USAGE, "pairs.tsv is read and cannot be written at the same time"),
    (
        "data check pairs.tsv --output clean.jsonl",
        USAGE,
        "tab-separated text is written; give a name that ends in .tsv",
    ),
    ("translate model --input plain.tsv.gz", DATA, "Not a gzipped file"),
    # pairs that models make
    ("distill model new", USAGE, "`--data` takes a file of pairs or two aligned files, not 0 files"),
    ("distill nowhere new --data pairs.tsv", DATA, "nowhere does not exist; give the folder"),
    ("distill model new --data pears.tsv", DATA, "did you mean pairs.tsv?"),
    ("distill model new --data pairs.tsv --valid nowhere.tsv", DATA, "no file nowhere.tsv"),
    ("distill model new --data pairs.tsv --size edge --recipe edge", USAGE, "give one of them"),
    ("distill model new --data pairs.tsv --choose worst", USAGE, "no choice 'worst'; choose closest, best"),
    ("distill model new --data pairs.tsv --max-minutes -3", USAGE, "--max-minutes is -3; it must be a number above 0."),
    ("distill model new --data pairs.tsv finetune.model=x", USAGE, "not for one that is gone on from; leave that out"),
    ("distill model finished --data pairs.tsv", USAGE, "finished holds a run already; go on with"),
    ("train pairs.tsv --ratio 1", USAGE, "are for sentences without translations; name some with --monolingual"),
    ("train pairs.tsv --monolingual nowhere.fr", DATA, "nowhere.fr cannot be read: No such file"),
    ("train pairs.tsv --monolingual train.fr --ratio 0,1", USAGE, "--ratio is 0,1; give numbers above 0 to 100"),
    ("train pairs.tsv --monolingual train.fr --ratio x", USAGE, "--ratio is x; give numbers above 0 to 100"),
    ("train pairs.tsv --monolingual train.fr --dry-run", USAGE, "leave out --resume, --finetune and --dry-run"),
    ("train pairs.tsv --monolingual train.fr --reverse nowhere", DATA, "nowhere does not exist; give the folder"),
    ("train pairs.tsv --output s3://bucket/run", USAGE, "to keep a copy of the run at a URL, set training.mirror"),
    # settings and recipes
    ("train pairs.tsv training.warmpu=3", USAGE, "no setting `training.warmpu` (did you mean 'training.warmup'?)"),
    ("train pairs.tsv training.warmup=soon", USAGE, "`training.warmup` is 'soon'"),
    ("train pairs.tsv training.learning_rate=-1", USAGE, "`training.learning_rate` is -1"),
    ("data check pairs.tsv data.langauges=[en,fr]", USAGE, "did you mean 'data.languages'?"),
    ("data check pairs.tsv training.warmup=3", USAGE, "`data check` takes no other settings than those of data; leave"),
    (
        "evaluate model pairs.tsv data.held_out=3",
        USAGE,
        "than data.columns, data.languages, data.language_column, data.replace_bad_bytes; leave",
    ),
    ("train pairs.tsv training=fast", USAGE, "`training` is 'fast', but it is a section; give keys of it, as in"),
    ("train pairs.tsv training.warmup.steps=3", USAGE, "training.warmup"),
    ("train pairs.tsv model.d_model=25", USAGE, "`d_model` is 25, not a multiple of `num_heads`"),
    ("train pairs.tsv model.norm=batch", USAGE, "`norm` is 'batch'; choose one of 'layer', 'rms'"),
    ("train pairs.tsv model.pad_id=5", USAGE, "`pad_id` follows from the tokenizer"),
    ("train pairs.tsv model.positions=learned model.max_positions=99", USAGE, "99, too few for sentences of data.max"),
    ("train pairs.tsv tokenizer.vocab_size=1e9", USAGE, "it must be a whole number from 260 to 1000000."),
    ("train pairs.tsv seed=99999999999999999999", USAGE, "`seed` is 99999999999999999999; it must be a whole"),
    ("train pairs.tsv decoding.length_penalty=1000", USAGE, "`decoding.length_penalty` is 1000; it must be a number"),
    ("train pairs.tsv training.r_drop=1e308", USAGE, "it must be a number from 0 to 1000."),
    ("train pairs.tsv training.max_minutes=nan", USAGE, "`training.max_minutes` is nan; it must be a finite number"),
    ("train pairs.tsv --max-minutes nan", USAGE, "Error: --max-minutes is nan; it must be a finite number above 0."),
    ("train pairs.tsv --max-minutes -3", USAGE, "--max-minutes is -3; it must be a number above 0."),
    ("train pairs.tsv --seed -1", USAGE, "--seed is -1; it must be a whole number from 0"),
    ("train pairs.tsv decoding.n_best=9", USAGE, "`decoding.n_best` is 9, but search keeps 5 hypotheses; raise `deco"),
    ("train pairs.tsv --size tinny", USAGE, "no size 'tinny' (did you mean 'tiny'?)"),
    ("train pairs.tsv --size demo", USAGE, "no size 'demo'; choose tiny, small, base, big, or a recipe with --recipe"),
    ("train pairs.tsv --recipe bsae", USAGE, "no recipe 'bsae' (did you mean 'base'?)"),
    ("train pairs.tsv --recipe wrong.yaml", DATA, "wrong.yaml cannot be used by this version of Dragoman: There is"),
    ("train pairs.tsv --recipe torn.yaml", DATA, "torn.yaml, line 2 is not YAML"),
    ("train pairs.tsv --recipe list.yaml", DATA, "must hold `key: value` lines, not a list"),
    # where to write
    ("train pairs.tsv -o folder", USAGE, "folder exists and is not empty; choose another folder"),
    ("train pairs.tsv -o pairs.tsv", USAGE, "pairs.tsv exists"),
    ("train pairs.tsv -o pairs.tsv/model", USAGE, "pairs.tsv is a file; choose another folder"),
    ("train pairs.tsv -o finished", USAGE, "finished holds a run already; go on with"),
    ("train pairs.tsv -o locked", RESOURCES, "locked is being trained by process {pid}"),
    ("demo -o folder", USAGE, "not empty"),
    ("average model -o model", USAGE, "not empty"),
    ("translate model Hello. -o no/such/folder.txt", USAGE, "there is no folder no/such; choose another --output"),
    ("translate model Hello. -o folder", USAGE, "leave out other texts, or name a file for them"),
    ("translate model -i train.en -o train.en", USAGE, "cannot be written at the same time"),
    ("evaluate model pairs.tsv -o no/such/folder.txt", USAGE, "there is no folder no/such"),
    ("inspect model Hello. -o no/such/page.html", USAGE, "there is no folder no/such"),
    ("inspect model Hello. -o folder", USAGE, "it is a folder"),
    ("plot mask -o no/such/mask.png", USAGE, "there is no folder no/such"),
    ("compare finished dataless -o no/such/page.html", USAGE, "there is no folder no/such"),
    # going on with a run
    ("train --resume nowhere", USAGE, "nowhere holds no run to go on with; start one with"),
    ("train --resume model", USAGE, "model holds no run"),
    ("train --resume finished", USAGE, "finished, after 7 steps; to train on, give a higher limit: --max-minutes"),
    ("train --resume finished seed=3", USAGE, "`seed=3` cannot change in a resumed run"),
    ("train --resume finished training.warmpu=3", USAGE, "did you mean 'training.warmup'?"),
    ("train --resume foreign", DATA, "no setting `trainign` (did you mean 'training'?)"),
    ("train --resume dataless", DATA, "is not complete; start a new run"),
    ("train --resume locked", RESOURCES, "locked is being trained by process {pid}"),
]
MISSING = [
    ("defusedxml", "train memory.tmx", "Reading memory.tmx", "formats"),
    ("defusedxml", "data check app.xlf", "Reading app.xlf", "formats"),
    ("zstd", "train pairs.tsv.zst", "Reading .zst files", "formats"),
    ("datasets", "train hf:a:en-fr", "Reading hf:a:en-fr", "hf"),
    ("tensorboard", "train pairs.tsv --tensorboard", "Writing curves for TensorBoard", "tensorboard"),
]
"""Libraries that are missing, commands that need them, what they are needed for, and the extra that has them."""


def needs(library: str, purpose: str, extra: str) -> str:
    """The error message where the libraries of an extra are missing, or a library that everybody should have."""
    always = {"zstd": "backports-zstd>=1.0", "defusedxml": "defusedxml>=0.7.1"}
    packages = requirements(extra) or [always[library]]
    return f"{purpose} needs another library; type: {quoted('pip', 'install', *packages)}"


AS_ANOTHER = [
    ("train secret.tsv", DATA, "secret.tsv cannot be read: Permission denied"),
    ("translate model --input secret.tsv", DATA, "secret.tsv cannot be read: Permission denied; check the path."),
    ("translate model Hello. -o precious.txt", USAGE, "precious.txt cannot be written: you may not write there"),
    ("train pairs.tsv -o theirs/model", USAGE, "theirs may not be written to; choose another folder"),
]
"""Mistakes of somebody who may not read and write everything, as the superuser may."""
CLOSED = [("translate model", USAGE, "stdin is closed; give sentences, or a file with --input")]
"""Mistakes of somebody who has closed stdin."""
AS_JSON = [
    ("trian --json", USAGE, "usage", "There is no command 'trian' (did you mean 'train'?)"),
    ("translate --json nowhere Hello.", DATA, "data", "nowhere does not exist; give the folder"),
    ("train pairs.tsv -o locked --json", RESOURCES, "resource", "is being trained by process"),
]
"""Mistakes whose answer is JSON: exit code, kind and a part of the message."""
TABLES = {
    "usual": MISTAKES,
    "json": [row[:3] for row in AS_JSON],
    "missing": [(line, RESOURCES, needs(library, *why) + "\n") for library, line, *why in MISSING],
    "another": AS_ANOTHER,
    "closed": CLOSED,
}

RUN_ALL = """
import contextlib, importlib.machinery, io, json, os, sys, time

class NoTorch:  # finds torch, and fails when it is imported
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == "torch" else None

    def create_module(self, spec):
        raise ImportError("torch is imported")

sys.meta_path.insert(0, NoTorch())
from dragoman import cli

def answer(arguments):
    sys.argv = ["dragoman", *arguments]
    out, err, started, code = io.StringIO(), io.StringIO(), time.process_time(), "none"
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main()
        except SystemExit as exit_:
            code = exit_.code
        except BaseException as error:
            code = f"Traceback of {error!r}"
    return {"code": code, "out": out.getvalue(), "err": err.getvalue(), "seconds": time.process_time() - started}

tables = json.load(sys.stdin)
answers = {"usual": [answer(arguments) for arguments in tables["usual"]]}
answers["json"] = [answer(arguments) for arguments in tables["json"]]
answers["missing"] = []
for library, arguments in zip(tables["libraries"], tables["missing"]):
    # Of zstd, the first is Python's own from 3.14 on.
    modules = ["compression.zstd", "backports.zstd"] if library == "zstd" else [library]
    sys.modules.update(dict.fromkeys(modules))
    answers["missing"].append(answer(arguments))
    for module in modules:
        del sys.modules[module]
if os.geteuid() == 0:
    os.setuid(65534)
answers["another"] = [answer(arguments) for arguments in tables["another"]]
sys.stdin = None
answers["closed"] = [answer(arguments) for arguments in tables["closed"]]
print(json.dumps(answers))
"""


def words(line: str | list[str]) -> list[str]:
    return line.split() if isinstance(line, str) else line


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that others may enter, unlike those of pytest, with all that the rows name."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        pairs = list(Bitext.open("builtin:grammar:60"))
        write_data(path, pairs)
        write_models(path, pairs)
        write_runs(path)
        with RunDirectory(path / "locked").locked():
            yield path


def write_data(path: Path, pairs: list[tuple[str, str]]) -> None:
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    (path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    (path / "few.tsv").write_text("".join(lines[:3]), encoding="utf-8")
    (path / "train.en").write_text("".join(source + "\n" for source, _ in pairs), encoding="utf-8")
    (path / "train.fr").write_text("".join(target + "\n" for _, target in pairs), encoding="utf-8")
    (path / "train.short").write_text("".join(target + "\n" for _, target in pairs[1:]), encoding="utf-8")
    units = "".join(f'<tuv xml:lang="{code}"><seg>x</seg></tuv>' for code in ("en", "fr", "de"))
    (path / "memory.tmx").write_text(f"<tmx><body><tu>{units}</tu></body></tmx>")
    (path / "app.xlf").write_text("<xliff/>")
    (path / "pairs.tsv.zst").touch()
    (path / "empty.tsv").touch()
    (path / "table.xlsx").write_bytes(b"PK\x03\x04 [Content_Types].xml")
    (path / "text.tsv").write_text("A cat.\tUn chat.\nA dog.\n")
    (path / "latin1.tsv").write_bytes("Été.\tSummer.\n".encode("latin-1").replace(b"\xc9", b"E"))
    (path / "utf16.tsv").write_text("A cat.\tUn chat.\n", encoding="utf-16")
    (path / "binary.tsv").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (path / "plain.tsv.gz").write_text("A cat.\tUn chat.\n")
    (path / "cut.tsv.gz").write_bytes(gzip.compress("".join(lines).encode())[:-40])
    (path / "wrong.yaml").write_text("training:\n  lerning_rate: 1\n")
    (path / "torn.yaml").write_text("training:\n  : [\n")
    (path / "list.yaml").write_text("- training\n")
    (path / "folder").mkdir()
    (path / "folder" / "notes.txt").write_text("mine")
    (path / "theirs").mkdir(mode=0o555)
    (path / "secret.tsv").write_text("A cat.\tUn chat.\n")
    (path / "secret.tsv").chmod(0)
    (path / "precious.txt").write_text("Keep me.\n")
    (path / "precious.txt").chmod(0o444)


def write_models(path: Path, pairs: list[tuple[str, str]]) -> None:
    """`model` is whole; each of the others has one fault."""
    tokenizer = Tokenizer.train((source for source, _ in pairs), vocab_size=300)
    model = small_directory(tokenizer)
    for fault in ("", "-newer", "-key", "-text", "-cut", "-damaged", "-weightless", "-wordless"):
        model.save(path / f"model{fault}")
    weights = (path / "model" / "model.safetensors").read_bytes()
    described = json.loads((path / "model" / "config.json").read_text())
    (path / "model-newer" / "config.json").write_text(json.dumps(described | {"format": 2}))
    for name, decoding in (("scored", {"beam_size": 4}), ("misset", {"beam_size": 99})):
        shutil.copytree(path / "model", path / name)
        (path / name / "config.json").write_text(json.dumps(described | {"decoding": decoding}))
    (path / "model-key" / "config.json").write_text(json.dumps(described | {"model": {"d_modle": 8}}))
    (path / "model-text" / "config.json").write_text("d_model = 8")
    (path / "model-cut" / "model.safetensors").write_bytes(weights[:-100])
    (path / "model-damaged" / "model.safetensors").write_bytes(weights[:8] + b"?" + weights[9:])
    (path / "model-weightless" / "model.safetensors").unlink()
    (path / "model-wordless" / "tokenizer.json").unlink()


def write_runs(path: Path) -> None:
    for name in ("finished", "foreign", "dataless", "locked"):
        run = RunDirectory(path / name)
        run.data.mkdir(parents=True)
        run.config.write_text(RunConfig().to_yaml())
        (run.data / "manifest.json").write_text("{}")
    RunDirectory(path / "finished").metrics.write_text('{"event": "end", "step": 7, "reason": "7 steps"}\n')
    RunDirectory(path / "foreign").config.write_text("trainign: {}\n")
    (RunDirectory(path / "dataless").data / "manifest.json").unlink()


@pytest.fixture(scope="module")
def answers(folder) -> dict[str, dict]:
    """What each command line is answered, by its words."""
    lines = {name: [words(line) for line, *_ in table] for name, table in TABLES.items()}
    lines["libraries"] = [library for library, *_ in MISSING]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    before = sorted(folder.rglob("*"))
    command = [sys.executable, "-c", RUN_ALL]
    done = subprocess.run(command, input=json.dumps(lines), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(folder.rglob("*")) == before, "a mistake left something behind"
    found = json.loads(done.stdout)
    return {" ".join(line): each for name in TABLES for line, each in zip(lines[name], found[name], strict=True)}


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        pytest.param(line, code, sentence, id=" ".join(words(line))[:60])
        for name, table in TABLES.items()
        if name != "json"
        for line, code, sentence in table
    ],
)
def test_a_mistake_is_answered_by_one_sentence_at_once(line, code, sentence, answers):
    answer = answers[" ".join(words(line))]
    error = answer["err"]
    assert (answer["code"], answer["out"]) == (code, ""), answer
    assert sentence.format(pid=os.getpid()) in error
    assert error.startswith("Error: ")
    assert error.endswith((".\n", "?\n", ']"\n', "'\n"))
    assert error.count("\n") == 1
    assert not re.search(r"[.!?] [A-Z]", error.replace(" ".join(words(line)[1:2]), "")), "more than one sentence"
    assert answer["seconds"] < 0.5


@pytest.mark.parametrize(("line", "code", "kind", "message"), AS_JSON)
def test_with_json_a_mistake_is_one_line_of_json(line, code, kind, message, answers):
    answer = answers[line]
    assert (answer["code"], answer["out"], answer["err"].count("\n")) == (code, "", 1)
    error = json.loads(answer["err"])["error"]
    assert message in error.pop("message")
    assert error == {"exit_code": code, "kind": kind}


# --- what shows only when torch is there, or when the output is written -------------------------------


def test_weights_that_are_no_numbers_or_of_another_model_are_refused(folder, tmp_path, dragoman):
    for fault, sentence in (("nan", "that are no finite numbers"), ("shape", "the two files belong to different")):
        shutil.copytree(folder / "model", tmp_path / fault)
        weights = safetensors.numpy.load_file(tmp_path / fault / "model.safetensors")
        name = next(name for name, weight in weights.items() if weight.ndim == 2)
        weights[name] = weights[name] * np.float32("nan") if fault == "nan" else weights[name][:-1].copy()
        safetensors.numpy.save_file(weights, tmp_path / fault / "model.safetensors")
        code, _, err = dragoman("translate", tmp_path / fault, "Hello.")
        assert (code, err.count("\n")) == (DATA, 1)
        assert sentence in err


def test_a_tokenizer_that_is_none_is_refused(folder, tmp_path, dragoman):
    shutil.copytree(folder / "model", tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    code, _, err = dragoman("translate", tmp_path / "model", "Hello.")
    assert (code, err.count("\n")) == (DATA, 1)
    assert "tokenizer.json is damaged or belongs to another model" in err


def test_a_damaged_snapshot_is_named(folder, tmp_path, dragoman):
    shutil.copytree(folder / "model", tmp_path / "model")
    for step in ("step_00000007", "step_00000013"):
        (tmp_path / "model" / "run" / "snapshots" / step).mkdir(parents=True)
    code, _, err = dragoman("average", tmp_path / "model", "--output", tmp_path / "new")
    assert (code, err.count("\n")) == (DATA, 1)
    assert "step_00000007 is damaged (manifest.json is not what was written); delete its folder" in err
    assert not (tmp_path / "new").exists()


def test_weights_of_keras_need_an_extra_that_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.weights.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ResourceError) as caught:
        read_weights(tmp_path / "a.weights.h5")
    assert str(caught.value) == needs("h5py", "Reading weights of Keras", "keras")


needs_dev_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's full disk")


@needs_dev_full
def test_a_full_disk_is_named_with_the_remedy(folder, dragoman):
    arguments = ["translate", folder / "model", "Hello.", "--output", "/dev/full"]
    code, _, err = dragoman(*arguments)
    assert (code, err.count("\n")) == (RESOURCES, 1)
    assert "no space left on device; make room on the disk and try again." in err


def shell(command: str, folder: Path) -> tuple[int, str]:
    """The exit code and stderr of a shell command in which `dragoman` is this one."""
    # Buffered, as it usually is: the disk is then found full when Python ends.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | {"PYTHONPATH": str(ROOT)}
    command = command.replace("dragoman", f'"{sys.executable}" -m dragoman')
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr


@needs_dev_full
def test_a_full_disk_behind_stdout_is_no_traceback_at_the_end(folder):
    code, err = shell("dragoman --version > /dev/full", folder)
    assert (code, err.count("\n")) == (RESOURCES, 1)
    assert "make room" in err


def test_closed_streams_are_no_tracebacks(folder):
    assert shell("dragoman --version >&-", folder) == (0, "")
    assert shell("dragoman translate nowhere Hello. 2>&-", folder) == (DATA, "")
    code, err = shell("dragoman translate model <&-", folder)
    assert (code, "stdin is closed" in err) == (USAGE, True)
