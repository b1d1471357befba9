"""Pairs at URLs are those of the disk, with the same promises."""

import gzip
import json
import lzma
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


class Status(BaseHTTPRequestHandler):
    """Answers with the status that the path names."""

    def do_HEAD(self) -> None:
        self.send_error(int(self.path.split("/")[1]))

    do_GET = do_HEAD

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Status)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (404, DataError, "it is not there"),
        (403, DataError, "may not be read .*403.*; its server asks for rights"),
        (503, ResourceError, "cannot be read: 503.*; check the network"),
    ],
)
def test_what_a_web_server_refuses_is_told_from_what_is_not_there(server, status, kind, message):
    with pytest.raises(kind, match=message):
        Bitext.open(f"http://127.0.0.1:{server.server_port}/{status}/pairs.tsv")


def test_a_server_that_is_not_there_is_told_from_a_file_that_is_not_there(server):
    server.server_close()
    with pytest.raises(ResourceError, match="cannot be read: Cannot connect to host"):
        Bitext.open(f"http://127.0.0.1:{server.server_port}/pairs.tsv")


def test_a_certificate_of_nobody_is_named(server, tmp_path):
    pytest.importorskip("cryptography")
    server.socket = tls(server.socket, tmp_path)
    with pytest.raises(ResourceError, match=r"CERTIFICATE_VERIFY_FAILED.*name the file of its authority in SSL_CERT"):
        Bitext.open(f"https://127.0.0.1:{server.server_port}/404/pairs.tsv")


def tls(listening: socket.socket, folder: Path) -> ssl.SSLSocket:
    """A socket that shows a certificate which it has signed itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(private + certificate.public_bytes(encoding))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context.wrap_socket(listening, server_side=True)


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
