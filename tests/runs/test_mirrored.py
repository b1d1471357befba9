"""A run that is copied to a URL goes on from there on a machine that has nothing, to the same bits."""

import shutil
from pathlib import Path

import fsspec
import pytest

from dragoman.config.run import RunConfig
from dragoman.errors import ResourceError, UsageError
from dragoman.runs import train as run
from dragoman.runs.mirrored import fetch_run
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.mirror import Mirror
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.terminal import Display
from tests.runs.test_train import SMALL
from tests.small import plan

QUIET = Display(quiet=True)
MORE = ["training.average=2", "training.max_steps=21"]


class Killed(BaseException):
    """The end of a process."""


def begin(path: Path, *settings: str) -> RunConfig:
    config, pairs = plan("builtin:grammar:200", settings=[*SMALL, *MORE, *settings])
    run.start_run(pairs, config, path, listener=QUIET)
    return config


def bits(path: Path) -> dict[str, bytes]:
    """The model, and the tensors of the last checkpoint."""
    checkpoint = sorted((path / "run/checkpoints").iterdir())[-1]
    files = [path / "model.safetensors", *checkpoint.glob("*.safetensors")]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.slow
@pytest.mark.usefixtures("with_reports")
def test_it_goes_on_elsewhere_to_the_same_bits(bucket, tmp_path, monkeypatch, capsys):
    begin(tmp_path / "whole")
    url, saves = f"{bucket}/runs/en-fr", []

    def killed(mirror: Mirror, folder: Path) -> None:
        saves.append(folder)
        if len(saves) == 4:
            raise Killed
        save(mirror, folder)

    save = Mirror.save
    monkeypatch.setattr(Mirror, "save", killed)
    with pytest.raises(Killed):
        begin(tmp_path / "lost", f"training.mirror={url}")
    monkeypatch.setattr(Mirror, "save", save)
    reached = Checkpoints(tmp_path / "lost/run/checkpoints", warn=print).steps()[-1]
    shutil.rmtree(tmp_path / "lost")

    with pytest.raises(UsageError, match="holds a run already"):
        plan("builtin:grammar:200", settings=[f"training.mirror={url}"])
    monkeypatch.chdir(tmp_path)
    path, config = fetch_run(url, None, {}, warn=pytest.fail)
    assert path == Path("en-fr")
    assert 0 < Checkpoints(path / "run/checkpoints", warn=print).steps()[-1] < reached
    run.resume_run(path, config, listener=QUIET)
    assert bits(path) == bits(tmp_path / "whole")
    with pytest.raises(UsageError, match="holds a run already"):
        fetch_run(url, path, {}, warn=pytest.fail)

    # At the end, the URL holds the model itself, too, whose card does not name the bucket.
    fsspec.filesystem("s3").get(f"{url}/*", f"{tmp_path}/model/")
    assert ModelDirectory.load(tmp_path / "model").source_language == "en"
    assert (tmp_path / "model/model.safetensors").read_bytes() == bits(path)["model.safetensors"]
    assert bucket not in (tmp_path / "model/README.md").read_text() + (tmp_path / "model/report.html").read_text()
    with pytest.raises(UsageError, match="is finished"):
        fetch_run(url, tmp_path / "again", {}, warn=pytest.fail)
    assert "not mirrored" not in capsys.readouterr().err


@pytest.mark.slow
def test_without_network_the_run_ends_well_with_a_warning(tmp_path, monkeypatch, capsys):
    files = fsspec.filesystem("memory")

    def away(path: str, data: bytes) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(files, "pipe_file", away, raising=False)
    begin(tmp_path / "run", "training.mirror=memory://bucket/run")
    assert read_metrics(RunDirectory(tmp_path / "run").metrics)[-1]["event"] == "end"
    warnings = [line for line in capsys.readouterr().err.split("Warning: ") if "no route to host" in line]
    assert len(warnings) == 3  # at the beginning, at the first checkpoint, at the end
    assert "tried again with each checkpoint" in warnings[0]
    assert "training.mirror=memory://bucket/run" in " ".join(warnings[-1].split())


def test_a_mirror_without_its_library_or_with_a_password_is_refused_before_pairs_are_read(monkeypatch):
    with pytest.raises(ResourceError, match="pip install gcsfs"):
        plan("none.tsv", settings=["training.mirror=gs://bucket/run"], recipe=None)
    for url in ("ftp://me:secret@host/run", "runs/en-fr"):
        with pytest.raises(UsageError, match="must be a URL without password") as caught:
            plan("none.tsv", settings=[f"training.mirror={url}"], recipe=None)
        assert "secret" not in str(caught.value)
