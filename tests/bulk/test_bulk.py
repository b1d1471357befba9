"""Many files translated into a folder: killed and resumed, in shards, packed, with bad lines, and refused."""

import bz2
import gzip
import json
import lzma
import multiprocessing
import pickle
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from backports import zstd

import dragoman as dragoman_api
from dragoman.bulk import lines as bulk_lines
from dragoman.bulk.columns import ColumnTranslator
from dragoman.bulk.jobs import Job, shard_of
from dragoman.data.bitext import Bitext
from dragoman.decoding.translator import Translator
from dragoman.errors import UsageError
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.locks import lock
from tests.cli.test_translation import save_model

LINES = [source for source, _ in Bitext.open("builtin:grammar:400")]
PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".zst": zstd.compress}
UNPACK = {"": bytes, ".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress, ".zst": zstd.decompress}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "random")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The current folder, with three files in `in`: of several windows, with repeated lines, and empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bulk_lines, "WINDOW", 23)
    write("in/a.txt", LINES[:71])
    write("in/b.txt", LINES[40:90] + LINES[40:61])
    write("in/c.txt", [])
    return tmp_path


def write(path: str, lines: list[str]) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def content(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def command(model: Path, *options: object) -> list[str]:
    return [
        "translate",
        *map(str, (model, "--input", "in/*", "--beam-size", 2, "--precision", "float32", "--workers", 1, *options)),
    ]


@pytest.mark.slow
def test_translations_that_are_killed_at_random_and_resumed_have_the_same_bytes(model, dragoman, folder):
    from dragoman import cli

    def run() -> None:
        sys.argv = ["dragoman", *command(model, "--output", "killed/", "--resume", "--quiet")]
        cli.main()

    write("in/d.txt", LINES[:307])
    Path("in/e.txt.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in LINES).encode() + b"caf\xe9\n"))
    started = time.monotonic()
    assert dragoman(*command(model, "--output", "whole/"))[0] == 0
    seconds, dice, killed, half_written = time.monotonic() - started, random.Random(7), 0, 0
    for turn in range(12):
        process = multiprocessing.get_context("fork").Process(target=run)
        process.start()
        if turn % 2:
            process.join(dice.uniform(0.1, 0.6) * seconds)
        else:  # while the first file that is left is being written
            while process.is_alive() and not list(Path("killed").glob(".*.tmp")):
                time.sleep(0.001)
        half_written += len(list(Path("killed").glob(".*.tmp")))
        process.kill()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        for name, written in content("killed").items() if Path("killed").exists() else ():
            assert name.endswith((".tmp", ".lock")) or written == Path("whole", name).read_bytes()
    assert killed >= 3
    assert half_written
    code, out, _ = dragoman(*command(model, "--output", "killed", "--resume", "--json"))
    assert (code, json.loads(out)["files"] + json.loads(out)["skipped"]) == (0, 5)
    assert content("killed") == content("whole")
    assert dragoman(*command(model, "--output", "killed", "--resume", "--json"))[1].startswith(
        '{"files": 0, "skipped": 5, "lines": 0'
    )


def test_lines_are_translated_as_one_by_one_and_in_their_order(model, dragoman, folder):
    code, out, _ = dragoman(*command(model, "-o", "out/", "--json"))
    figures = json.loads(out)
    assert (code, figures["files"], figures["skipped"], figures["lines"], figures["rejected"]) == (0, 3, 0, 142, 0)
    translator = Translator.load(model, device="cpu")
    for name in ("a.txt", "b.txt", "c.txt"):
        lines = Path("in", name).read_text(encoding="utf-8").split("\n")[:-1]
        expected = [translator.translate([line], beam_size=2)[0].text for line in lines]
        assert Path("out", name).read_text(encoding="utf-8") == "".join(f"{line}\n" for line in expected)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_file_belongs_to_one_shard(count):
    jobs = [Job(Path(f"in/{name}"), Path(f"out/{name}")) for name in "abc"]
    shards = [shard_of(jobs, f"{number}/{count}") for number in range(1, count + 1)]
    assert sorted(job.source.name for shard in shards for job in shard) == ["a", "b", "c"]
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.slow
def test_shards_make_the_same_files(model, dragoman, folder):
    assert dragoman(*command(model, "--output", "whole/"))[0] == 0
    for number in range(1, 6):
        code, out, _ = dragoman(*command(model, "--output", "parts/", "--shard", f"{number}/5", "--json"))
        assert (code, json.loads(out)["files"]) == (0, number <= 3)
    assert content("parts") == content("whole")


@pytest.mark.first_is_quick
@pytest.mark.parametrize("packing", PACK)
def test_bad_lines_are_empty_and_listed_and_files_are_packed_as_they_were(packing, model, dragoman, folder):
    raw = [LINES[0].encode(), b"caf\xe9\tau lait", b"", b"x" * (bulk_lines.LONGEST + 1), f"{LINES[1]}\r".encode()]
    whole = b"\xef\xbb\xbf" + b"\n".join(raw)
    Path("in", f"bad{packing}").write_bytes(PACK[packing](whole))
    code, out, _ = dragoman(*command(model, "--output", "out/", "--json"))
    assert (code, json.loads(out)["lines"], json.loads(out)["rejected"]) == (0, 147, 2)
    translations = Translator.load(model, device="cpu").translate(LINES[:2], beam_size=2)
    good = [translation.text for translation in translations]
    written = Path("out", f"bad{packing}").read_bytes()
    assert UNPACK[packing](written).decode() == f"{good[0]}\n\n\n\n{good[1]}\n"
    listed = Path("out", f"bad{packing}.rejected.tsv").read_text(encoding="utf-8").split("\n")
    assert [line.split("\t") for line in listed[:-1]] == [
        ["2", "not UTF-8 (byte 0xE9 at position 4)", "caf\\xe9 au lait"],
        ["4", "longer than 1,048,576 characters", "x" * bulk_lines.SHOWN],
    ]
    # The list goes with the bad lines, and an output with other lines than its source is made again.
    Path("in", f"bad{packing}").write_bytes(PACK[packing](LINES[0].encode()))
    code, out, _ = dragoman(*command(model, "--output", "out/", "--resume", "--json"))
    assert (code, json.loads(out)["files"], json.loads(out)["skipped"]) == (0, 1, 3)
    assert content("out").keys() == {"a.txt", "b.txt", "c.txt", f"bad{packing}"}
    assert UNPACK[packing](content("out")[f"bad{packing}"]).decode() == f"{good[0]}\n"


@pytest.mark.slow
def test_a_sentence_with_more_tokens_than_the_model_has_positions_is_cut_or_rejected(model, dragoman, folder, tmp_path):
    directory = ModelDirectory.load(model)
    torch.manual_seed(3)
    small = Transformer(replace(directory.model.config, positions="learned", max_positions=40))
    replace(directory, model=small).save(tmp_path / "small")
    write("in/c.txt", [LINES[0], "man " * 60, LINES[1], "man " * 61])
    words = ["--input", "in/c.txt", "--beam-size", 1, "--output", "out/"]
    code, _, err = dragoman("translate", tmp_path / "small", *words)
    assert (code, "c.txt, line 2 and 1 more: a sentence of more than 39 tokens was cut" in err) == (0, True)
    assert not Path("out/c.txt.rejected.tsv").exists()
    code, _, err = dragoman("translate", tmp_path / "small", *words, "--no-split")
    assert (code, "4 lines" in err, "2 of them rejected" in err) == (0, True, True)
    rows = Path("out/c.txt.rejected.tsv").read_text(encoding="utf-8").split("\n")
    assert [row.split("\t")[0] for row in rows[:-1]] == ["2", "4"]
    assert "tokens and an end, but the model has 40 positions" in rows[0]
    assert [bool(line) for line in Path("out/c.txt").read_text(encoding="utf-8").split("\n")[:-1:2]] == [True] * 2


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_translated(model, dragoman, folder):
    Path("in/b.gz").write_bytes(gzip.compress(b"some text\n" * 1000)[:-9])
    Path("in/d.txt").write_bytes("some text\n".encode("utf-16"))
    Path("out").mkdir()
    Path("out/b.gz").write_bytes(b"of an earlier run")
    code, out, err = dragoman(*command(model, "--output", "out/", "--resume"))
    assert (code, out) == (3, "")
    assert err.count("Warning: ") == 2
    assert "in/d.txt, line 1 is encoded as UTF-16" in err
    assert "Error: 2 of 5 files were not translated. The first: in/b.gz cannot be read after line" in err
    assert content("out").keys() == {"a.txt", "b.gz", "b.txt", "c.txt"}
    assert Path("out/b.gz").read_bytes() == b"of an earlier run"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("--input in/*", 2, "name one, such as --output out/."),
        ("--input in/a.txt --resume", 2, "name one, such as --output out/."),
        ("--input in/* --output in/a.txt", 2, "name one, such as --output out/."),
        ("--resume --output out/", 2, "name files, such as --input 'in/*'"),
        ("Hello. --output out/", 2, "leave out other texts"),
        ("--input in/a.txt in/b.txt --output out/", 2, "put quotes around a pattern"),
        ("--input in/* --output in/", 2, "Files in in are read, which lies in in; choose another folder"),
        ("--input in/* --output .", 2, "Files in in are read, which lies in .; choose another folder"),
        ("--input in/** --output in/out/", 2, "in/out lies where 'in/**' looks for files"),
        ("--input in/* --input other/a.txt --output out/", 2, "in/a.txt and other/a.txt would both write out/a.txt"),
        ("--input in/a.txt --input in/a.txt.rejected.tsv -o out/", 2, "would both write out/a.txt.rejected.tsv"),
        ("--input in --output out/", 2, "in is no file; name files, or give a pattern such as 'in/*'"),
        ("--input in/*.en --output out/", 3, "No file matches 'in/*.en'; check the pattern."),
        ("--input in/a.txt --input in/no --output out/", 3, "in/no cannot be read: No such file"),
        ("--input in/* --output out/ --shard 0/3", 2, "--shard is 0/3; write K/N, such as 1/8"),
        ("--input in/* --output out/ --shard 4/3", 2, "--shard is 4/3; write K/N"),
        ("--input in/* --output out/ --shard one", 2, "--shard is one; write K/N"),
        ("--input in/* --output out/ --n-best 2", 2, "leave out --n-best"),
    ],
)
def test_what_would_lose_or_mix_files_is_refused(options, code, words, model, dragoman, folder):
    write("other/a.txt", LINES[:1])
    if "rejected" in options:
        write("in/a.txt.rejected.tsv", LINES[:1])
    before = content("in")
    found, out, err = dragoman("translate", model, *options.split())
    assert (found, out, err.count("\n")) == (code, "", 1), err
    assert words in err
    assert content("in") == before
    assert not Path("out").exists()


def test_an_existing_folder_as_output_gets_the_file(model, dragoman, folder):
    Path("out").mkdir()
    assert dragoman("translate", model, "-i", "in/a.txt", "-o", "out", "--beam-size", 2)[0] == 0
    _, expected, _ = dragoman("translate", model, "-i", "in/a.txt", "--beam-size", 2)
    assert Path("out/a.txt").read_text(encoding="utf-8") == expected


def test_what_a_killed_process_left_is_removed_but_not_what_a_running_one_writes(model, dragoman, folder):
    Path("out").mkdir()
    Path("out/.a.txt.0a1b2c3d.tmp").write_bytes(b"half a fi")
    Path("out/.a.txt.0a1b2c3d.lock").touch()
    Path("out/.a.txt.0a1b2c3e.tmp").write_bytes(b"half a fi")
    with open("out/.a.txt.0a1b2c3e.lock", "w") as running:
        assert lock(running)
        assert dragoman(*command(model, "--output", "out", "--resume"))[0] == 0
    left = {".a.txt.0a1b2c3e.tmp", ".a.txt.0a1b2c3e.lock"}
    assert content("out").keys() == {"a.txt", "b.txt", "c.txt"} | left


def test_a_column_has_one_text_in_each_row():
    for options in ({"n_best": 2}, {"alignments": True}, {"confidence": True}):
        with pytest.raises(UsageError, match="one text in each row; leave out"):
            ColumnTranslator("model", **options)
    ColumnTranslator("model", n_best=1, alignments=False)


@pytest.mark.slow
def test_a_file_from_python_has_the_columns_of_the_command(model, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(LINES[:3]) + "\n", encoding="utf-8")
    with Translator.load(model, device="cpu") as translator:
        dragoman_api.translate_file(translator, tmp_path / "in.txt", tmp_path / "out.txt", alignments=True)
        expected = translator.translate(LINES[:3], alignments=True)
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert lines == [translation.to_rows()[0] for translation in expected]
    assert all(line.count("\t") == 1 for line in lines)


def test_a_document_from_python_has_one_translation_of_each_text(model, tmp_path):
    (tmp_path / "a.md").write_text("# Old\n", encoding="utf-8")
    with Translator.load(model, device="cpu") as translator:
        with pytest.raises(UsageError, match="leave out `n_best`"):
            dragoman_api.translate_document(translator, tmp_path / "a.md", n_best=2)
        once = dragoman_api.translate_document(translator, tmp_path / "a.md").content
        translator.decoding = translator.decoding.model_copy(update={"n_best": 2})  # as a model may have it stored
        assert dragoman_api.translate_document(translator, tmp_path / "a.md").content == once


def test_several_translations_of_a_document_are_refused_before_anything_is_loaded(model, dragoman, tmp_path):
    (tmp_path / "a.md").write_text("# Old\n", encoding="utf-8")
    out = tmp_path / "a.fr.md"
    code, _, err = dragoman("translate", model, "--document", tmp_path / "a.md", "--output", out, "--n-best", "3")
    assert (code, "leave out --n-best" in err) == (2, True)
    assert not out.exists()


@pytest.mark.slow
def test_a_column_is_translated_in_any_process_that_gets_the_path(model):
    datasets = pytest.importorskip("datasets")
    translate = ColumnTranslator(str(model), "en", into="fr", loading={"device": "cpu"}, beam_size=2)
    translations = Translator.load(model, device="cpu").translate(LINES[:7], beam_size=2)
    expected = [translation.text for translation in translations]
    batch = {"en": [*LINES[:7], None, ""], "n": list(range(9))}
    found = translate(batch)
    assert found == {**batch, "fr": [*expected, None, ""]}
    sent = pickle.dumps(translate)
    assert len(sent) < 1000  # a path, not a model
    assert pickle.loads(sent)(batch) == found
    table = datasets.Dataset.from_dict(batch).map(translate, batched=True, batch_size=5)
    assert table.to_dict() == found


def test_a_source_behind_a_link_and_what_is_read_beside_are_not_overwritten(folder, model, dragoman):
    Path("out").mkdir()
    write("out/a.txt", LINES[:2])
    Path("linked").mkdir()
    Path("linked/a.txt").symlink_to(folder / "out" / "a.txt")
    write("terms/c.txt", ["dog\tchien"])
    before = content("out"), content("terms")
    for words in (
        ("--input", "linked/a.txt", "--output", "out/"),
        ("--input", "in/c.txt", "--glossary", "terms/c.txt", "--output", "terms/"),
    ):
        code, _, err = dragoman("translate", model, *words)
        assert (code, "is read and cannot be written at the same time" in err) == (2, True), err
    assert (content("out"), content("terms")) == before
    Path("out/b.txt.rejected.tsv").mkdir()
    code, _, err = dragoman("translate", model, "--input", "in/*.txt", "--output", "out/")
    assert (code, "it is a folder" in err) == (2, True), err


def test_a_link_stays_and_an_output_is_packed_as_its_name_says(folder, model):
    Path("link.txt").symlink_to("real.txt")
    with Translator.load(model, device="cpu") as translator:
        dragoman_api.translate_file(translator, "in/a.txt", "link.txt", beam_size=1)
        dragoman_api.translate_file(translator, "in/a.txt", "out.gz", beam_size=1)
    assert Path("link.txt").is_symlink()
    assert gzip.decompress(Path("out.gz").read_bytes()) == Path("real.txt").read_bytes()


def test_one_file_is_packed_as_its_name_says_too(folder, model, dragoman):
    for output in ("out.txt", "out.txt.gz"):
        code, _, err = dragoman("translate", model, "--input", "in/a.txt", "--output", output, "--beam-size", "1")
        assert code == 0, err
    assert gzip.decompress(Path("out.txt.gz").read_bytes()) == Path("out.txt").read_bytes()
