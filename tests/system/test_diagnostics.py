"""What the doctor finds and what it says to type."""

import json
import socket
import sys
import tomllib
from email.message import Message
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.system import diagnostics
from dragoman.system.diagnostics import Diagnosis

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("check", "fix"),
    [
        (diagnostics.check_build("2.13.0+cpu", cuda=None, gpu=None, driver=False), None),
        (diagnostics.check_build("2.13.0+cpu", cuda=None, gpu=None, driver=True), "TORCH=cuda make install"),
        (diagnostics.check_build("2.13.0", cuda="13.0", gpu="NVIDIA H200", driver=True), None),
        (diagnostics.check_build("2.13.0", cuda="13.0", gpu=None, driver=True), "nvidia-smi"),
        (diagnostics.check_build("2.13.0", cuda="13.0", gpu=None, driver=False), None),
        (diagnostics.check_threads(2, cores=2, wanted=None), None),
        (diagnostics.check_threads(64, cores=3, wanted=None), "export OMP_NUM_THREADS=3"),
        (diagnostics.check_threads(1, cores=4, wanted="1"), "unset OMP_NUM_THREADS"),
        (diagnostics.check_threads(2, cores=4, wanted=None), None),  # PyTorch counts hyper-threads once
        (diagnostics.check_memory(None), None),
        (diagnostics.check_memory(1_900_000_000), "--size tiny"),
        (diagnostics.check_memory(2_100_000_000), None),
        (diagnostics.check_encoding("UTF-8"), None),
        (diagnostics.check_encoding("ascii"), "export PYTHONUTF8=1"),
    ],
)
def test_each_finding_is_fine_or_says_what_to_type(check: Diagnosis, fix: str | None):
    assert check.found
    assert (check.fix is None) if fix is None else (fix in check.fix)


def test_a_full_disk_and_a_folder_of_others_are_seen(monkeypatch, tmp_path):
    monkeypatch.setattr(
        diagnostics.shutil, "disk_usage", lambda _: diagnostics.shutil._ntuple_diskusage(10**12, 0, 10**9)
    )
    assert "make room" in diagnostics.check_disk(tmp_path).fix
    monkeypatch.setattr(diagnostics.os, "access", lambda *_: False)
    assert "--output" in diagnostics.check_disk(tmp_path).fix


def test_a_torch_that_does_not_load_is_reinstalled(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(diagnostics, "is_installed", lambda _: True)
    (check,) = diagnostics.check_torch()
    assert "does not load" in check.found
    assert "install" in check.fix


def test_without_torch_nothing_is_wrong_and_what_learning_needs_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    check, kernels = diagnostics.check_torch()
    assert check.found == "not installed; translating needs none, and to learn: make install ARGS=train"
    assert (check.fix, kernels.name) == (None, "kernels")


def test_outside_of_a_checkout_pip_is_what_is_typed(monkeypatch):
    assert diagnostics.install_torch("cpu") == "TORCH=cpu make install"
    monkeypatch.setattr(diagnostics, "in_checkout", lambda: False)
    assert "-m pip install --force-reinstall torch --index-url https" in diagnostics.install_torch("cpu")
    assert diagnostics.install_torch("cuda").endswith("-m pip install --force-reinstall torch")
    assert diagnostics.install_extra("keras").endswith("-m pip install 'h5py>=3.11'")


@pytest.fixture
def packages(monkeypatch) -> dict[str, SimpleNamespace]:
    """All that is installed, by name, for tests to fill."""
    packages: dict[str, SimpleNamespace] = {}
    monkeypatch.setattr(diagnostics, "_distribution", packages.get)
    return packages


def test_requirements_are_those_of_pyproject(packages):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    odd = ["torch[opt]>=2.8; python_version >= '3' and extra == \"odd-1\"", "old>=1; python_version < '3'"]
    unmet = [str(requirement) for requirement, _ in diagnostics.unmet([*project["dependencies"], *odd])]
    assert unmet == [line.replace("'", '"') for line in project["dependencies"]]
    *_, (extra, version) = diagnostics.unmet([*project["dependencies"], *odd], "odd-1")
    assert (extra.name, str(extra.specifier), version) == ("torch", ">=2.8", None)


def test_old_and_missing_packages_are_named_with_the_version_that_is_wanted(packages):
    def install(**versions: str) -> None:
        packages.update({name: SimpleNamespace(version=version) for name, version in versions.items()})

    lines = ["torch>=2.8", "numpy>=2.0", "typer>=0.16", "rich>=13.8", 'h5py>=3; extra == "keras"']
    metadata = Message()
    metadata["Provides-Extra"] = "keras"
    packages["dragoman"] = SimpleNamespace(requires=lines, metadata=metadata)
    install(torch="2.13.0+cpu", numpy="1.26.4", typer="0.9.0")
    check, extra = diagnostics.check_packages()
    assert check.found == "numpy 1.26.4, typer 0.9.0, rich is missing"
    assert check.fix.endswith("-m pip install 'numpy>=2.0' 'typer>=0.16' 'rich>=13.8'")
    assert extra.fix is None
    assert extra.found == "not installed (numpy, typer, rich, h5py); if you want it: make install ARGS=keras"
    install(rich="15.0.0", numpy="2.10.1", typer="0.16", h5py="3.1")
    assert [check.found for check in diagnostics.check_packages()] == ["all there", "installed"]


def test_without_packaging_it_is_what_is_missing(monkeypatch):
    monkeypatch.setattr(diagnostics, "find_spec", lambda _: None)
    (check,) = diagnostics.check_packages()
    assert check.fix.endswith("-m pip install packaging")


def test_a_source_tree_that_is_not_installed_has_no_requirements(packages):
    assert list(diagnostics.check_packages()) == []


def test_the_command_prints_a_line_a_check_and_exits_with_4_if_one_is_wrong(dragoman, monkeypatch):
    checks = [Diagnosis("first", "fine"), Diagnosis("second", "not fine", "type this")]
    monkeypatch.setattr(diagnostics, "examine", lambda _: checks)
    code, out, _ = dragoman("doctor")
    assert code == 4
    assert out.split("\n")[:-1] == ["OK  first   fine", "--  second  not fine", " " * 12 + "fix: type this"]
    assert dragoman("doctor", "--quiet")[1].startswith("--  second")
    code, out, _ = dragoman("doctor", "--json")
    report = json.loads(out)
    assert (code, report["ok"]) == (4, False)
    assert report["checks"][1] == {"name": "second", "found": "not fine", "fix": "type this"}
    checks.pop()
    assert dragoman("doctor")[0] == 0
    assert dragoman("doctor", "--quiet") == (0, "", "")


def test_this_machine_is_examined_without_network(monkeypatch, tmp_path):
    def refuse(*_):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    names = [check.name for check in diagnostics.examine(tmp_path)]
    assert {"Python", "packages", "PyTorch", "threads", "precision", "memory", "disk", "text"} <= set(names)
