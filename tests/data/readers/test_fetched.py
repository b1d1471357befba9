"""Pairs at URLs are those of the disk, with the same promises."""

import gzip
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from dragoman.config.data import without_folders
from dragoman.config.run import load_config
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.errors import DataError, ResourceError, redacted
from dragoman.formats import text_files
from dragoman.runs.prepared import prepare_folder
from dragoman.system.seals import read_sealed
from dragoman.system.urls import is_url, name_of

MEMORY = fsspec.filesystem("memory")
ROWS = [(f"The house {n} is red.", f"La maison {n} est rouge.") for n in range(1, 60)]
TSV = "".join(f"{source}\t{target}\n" for source, target in ROWS).encode()
SMALL = ["tokenizer.vocab_size=300", "data.held_out=5"]


def zstd(data: bytes) -> bytes:
    return text_files.zstd().compress(data)


@pytest.fixture(autouse=True)
def put():
    yield lambda name, data: MEMORY.pipe_file(f"/bucket/{name}", data)
    MEMORY.store.clear()


@pytest.mark.slow
def test_what_is_prepared_from_s3_is_what_is_prepared_from_the_disk(bucket, tmp_path):
    files = fsspec.filesystem("s3")
    (tmp_path / "pairs.en-fr.tsv.gz").write_bytes(gzip.compress(TSV))
    (tmp_path / "valid.tsv").write_bytes(b"Go.\tVa !\nStop.\tHalte !\n")
    for name in ("pairs.en-fr.tsv.gz", "valid.tsv"):
        files.put_file(str(tmp_path / name), f"pairs/date=1/{name}")
    for folder, there in (("disk", tmp_path), ("s3", f"{bucket}/date=1")):
        settings = [*SMALL, f"data.valid=[{there}/valid.tsv]"]
        prepare_folder(
            [f"{there}/pairs.en-fr.tsv.gz"], tmp_path / folder, recipe=None, settings=parse_settings(settings)
        )
    own = {"config.yaml", "origin.json", "manifest.json"}
    for path in (tmp_path / "disk").iterdir():
        assert path.name in own or path.read_bytes() == (tmp_path / "s3" / path.name).read_bytes()
    url = f"{bucket}/date=1/pairs.en-fr.tsv.gz"
    state = read_sealed(tmp_path / "s3/origin.json")["files"][url]
    assert state == [len((tmp_path / "pairs.en-fr.tsv.gz").read_bytes()), files.info(url)["ETag"]]


@pytest.mark.slow
def test_missing_objects_buckets_and_rights_are_told(bucket, monkeypatch):
    for url in (f"{bucket}/none.tsv", "s3://no-such-bucket/none.tsv"):
        with pytest.raises(DataError, match="it is not there"):
            Bitext.open(url)
    with monkeypatch.context() as without_keys:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            without_keys.delenv(name)
        without_keys.setenv("AWS_EC2_METADATA_DISABLED", "true")
        fsspec.filesystem("s3").clear_instance_cache()
        with pytest.raises(DataError, match="AWS_ACCESS_KEY_ID"):
            Bitext.open(f"{bucket}/none.tsv")
    fsspec.filesystem("s3").clear_instance_cache()


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ResourceError, match="pip install s3fs"):
        Bitext.open("s3a://bucket/pairs.tsv")
    with pytest.raises(ResourceError, match="pip install gcsfs"):
        Bitext.open("gs://bucket/pairs.tsv")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("pairs.tsv", TSV),
        ("packed", gzip.compress(TSV)),
        ("pairs.csv.xz", lzma.compress("".join(f"{a};{b}\n" for a, b in ROWS).encode())),
        ("pairs.jsonl.zst", zstd("".join(json.dumps({"en": a, "fr": b}) + "\n" for a, b in ROWS).encode())),
    ],
)
def test_formats_and_packings_are_those_of_files(put, name, data):
    put(name, data)
    assert list(Bitext.open(f"memory://bucket/{name}")) == ROWS


def test_a_file_is_downloaded_once_until_it_changes(put, monkeypatch):
    put("pairs.tsv", TSV)
    downloads = []
    get = MEMORY.get_file
    monkeypatch.setattr(MEMORY, "get_file", lambda *a: (downloads.append(a), get(*a)), raising=False)
    for _ in range(2):
        assert len(list(Bitext.open("memory://bucket/pairs.tsv"))) == len(ROWS)
    assert len(downloads) == 1
    put("pairs.tsv", b"Go.\tVa !\n")
    assert list(Bitext.open("memory://bucket/pairs.tsv")) == [("Go.", "Va !")]
    monkeypatch.setattr(MEMORY, "get_file", lambda *a: (get(*a), put("new.tsv", TSV + b"a\tb\n")), raising=False)
    put("new.tsv", TSV)
    with pytest.raises(DataError, match="changed while it was read"):
        Bitext.open("memory://bucket/new.tsv")


def test_errors_name_the_url_and_no_copy_of_it(put):
    put("bad.tsv", b"a\tb\nc\n\xff\td\n")
    with pytest.raises(DataError, match=r"^memory://bucket/bad\.tsv, line 3 is not valid UTF-8"):
        list(Bitext.open("memory://bucket/bad.tsv"))
    with pytest.raises(DataError, match="memory://bucket is a folder"):
        Bitext.open("memory://bucket")


def test_copies_are_deleted_and_local_files_need_no_library(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(TSV)
    program = (
        "import sys, tempfile\nfrom dragoman.data.bitext import Bitext\n"
        f"list(Bitext.open({str(tmp_path / 'pairs.tsv')!r}))\nassert 'fsspec' not in sys.modules\n"
        f"list(Bitext.open({(tmp_path / 'pairs.tsv').as_uri()!r}))\nassert 'fsspec' in sys.modules\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "TMPDIR": str(temporary)})
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("url", "kept", "name"),
    [
        ("ftp://me:p@ss@host/x/pairs.tsv", "ftp://me@host/x/pairs.tsv", "pairs.tsv"),
        ("https://host/a.en-fr.tsv?sig=a/b&x=1", "https://host/a.en-fr.tsv", "a.en-fr.tsv"),
        ("zip://a.tsv::https://host/b.zip?sig=1", "zip://a.tsv::https://host/b.zip", "a.tsv"),
        ("s3://bucket/date=1/a.tsv", "s3://bucket/date=1/a.tsv", "a.tsv"),
    ],
)
def test_buckets_and_keys_are_not_published(url, kept, name):
    assert is_url(url)
    assert redacted(url) == kept
    assert without_folders({"source": [url]}) == {"source": [name_of(url)]} == {"source": [name]}
    config = load_config(
        {}, parse_settings([f"data.source={url}", "finetune.model=m", f"finetune.mix=[{json.dumps(url)}]"])
    )
    assert config.to_yaml().count(kept) == 2
    assert url == kept or url not in config.to_yaml()
    assert config.data.origin == name
    assert str(DataError(f"'{url}' is wrong")) == f"'{kept}' is wrong"


@pytest.mark.parametrize(
    "name", ["hf:NAME::train", "builtin:grammar:3:test", "C:\\pairs.tsv", "a/b.tsv", "data.x=s3://a/b"]
)
def test_other_names_are_no_urls(name):
    assert not is_url(name)
    assert Path(name)
