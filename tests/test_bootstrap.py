"""tools/bootstrap.py: what it installs, when it installs nothing, and what it passes on."""

import ast
import importlib.metadata
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tools" / "bootstrap.py"
INSTALL = ["pip", "--disable-pip-version-check", "install"]
CONSTRAINED = ["-c", "constraints.txt"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project set up with the extra `test` and the CPU build, as the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TORCH", raising=False)
    python = Path(bootstrap.PYTHON)
    python.parent.mkdir(parents=True)
    for file in (python, Path("pyproject.toml"), Path("constraints.txt")):
        file.touch()
    (bootstrap.VENV / "pyvenv.cfg").write_text("version = 3.11.7\n")
    stamp = bootstrap.Setup(bootstrap.fingerprint(), ("test",), "cpu")
    bootstrap.STAMP.write_text(json.dumps(stamp._asdict()))
    return tmp_path


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have been run with `.venv/bin/python -m`; every command succeeds."""
    lines: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "run", lambda command: lines.append(command[2:]) or 0)
    monkeypatch.setattr(bootstrap, "works", lambda statement: True)
    monkeypatch.setattr(bootstrap, "offers_cpu_build", lambda listed, constraints: True)
    monkeypatch.setattr(bootstrap, "listed_versions", lambda: "")
    monkeypatch.setattr(bootstrap.platform, "system", lambda: "Linux")
    return lines


# --- when something is installed ------------------------------------------------------------------


@pytest.mark.parametrize("extras", [(), ("test",)])
def test_what_is_there_is_not_installed_again(checkout: Path, typed: list, extras: tuple):
    bootstrap.prepare(extras)
    assert typed == []


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt", ".venv/pyvenv.cfg"])
def test_new_requirements_or_another_python_are_installed_once(checkout: Path, typed: list, changed: str):
    with (checkout / changed).open("a") as file:
        file.write("\n")
    bootstrap.prepare(())
    assert typed == [[*INSTALL, *CONSTRAINED, "-e", ".[train,test]"]]
    bootstrap.prepare(("test",))
    assert len(typed) == 1


def test_kernels_that_are_gone_are_compiled_again(checkout: Path, typed: list):
    """As after `git clean`, or in a checkout made anew around an environment that is kept."""
    kernels = checkout / bootstrap.KERNELS
    kernels.parent.mkdir(parents=True)
    kernels.touch()
    bootstrap.STAMP.write_text(json.dumps(bootstrap.Setup(bootstrap.fingerprint(), (), "cpu", True)._asdict()))
    bootstrap.prepare(())
    assert typed == []
    kernels.unlink()
    bootstrap.prepare(())
    assert len(typed) == 1


def test_a_moved_checkout_is_installed_again(checkout: Path, typed: list, monkeypatch: pytest.MonkeyPatch):
    moved = checkout.rename(checkout.with_name("moved"))
    monkeypatch.chdir(moved)
    bootstrap.prepare(())
    assert len(typed) == 1


def test_an_extra_is_added_to_those_that_are_there(checkout: Path, typed: list):
    bootstrap.prepare(("hf",))
    assert typed == [[*INSTALL, *CONSTRAINED, "-e", ".[train,hf,test]"]]


@pytest.mark.parametrize("stamp", ["", "{", "[]", "null", '{"fingerprint": "x"}'])
def test_an_unreadable_stamp_counts_as_none(checkout: Path, typed: list, stamp: str):
    bootstrap.STAMP.write_text(stamp)
    bootstrap.prepare(())
    assert typed == [[*INSTALL, *CONSTRAINED, "-e", ".[train]"]]


def test_a_failed_installation_is_not_taken_for_done(
    checkout: Path, typed: list, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    monkeypatch.setattr(bootstrap, "run", lambda command: 1)
    bootstrap.STAMP.unlink()
    with pytest.raises(SystemExit) as stop:
        bootstrap.prepare(())
    assert stop.value.code == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert bootstrap.read_stamp() == bootstrap.Setup()


# --- which PyTorch --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "remembered", "driver", "flavour"),
    [
        ("", "", False, "cpu"),
        ("", "", True, "cuda"),
        ("auto", "cpu", True, "cuda"),
        ("", "cpu", True, "cpu"),
        ("", "cuda", False, "cuda"),
        ("cpu", "cuda", True, "cpu"),
        ("cuda", "cpu", False, "cuda"),
    ],
)
def test_torch_is_chosen_by_setting_then_memory_then_driver(setting: str, remembered: str, driver: bool, flavour: str):
    assert bootstrap.torch_flavour(setting, remembered, lambda: driver) == flavour


def test_an_unknown_setting_of_torch_is_a_usage_error(capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit) as stop:
        bootstrap.torch_flavour("gpu", "", lambda: True)
    assert stop.value.code == 2
    assert "'gpu'" in capsys.readouterr().err


def test_another_choice_replaces_the_build(checkout: Path, typed: list, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TORCH", "cuda")
    bootstrap.prepare(())
    assert typed[0][-3:] == ["uninstall", "--yes", "torch"]
    monkeypatch.delenv("TORCH")
    bootstrap.prepare(())
    assert len(typed) == 2
    assert bootstrap.read_stamp().torch == "cuda"


@pytest.mark.parametrize(
    ("flavour", "system", "offered", "own_step"),
    [
        ("cpu", "Linux", False, True),
        ("cpu", "Linux", True, False),
        ("cpu", "Darwin", False, False),
        ("cpu", "Windows", False, False),
        ("cuda", "Linux", False, False),
    ],
)
def test_the_cpu_index_serves_torch_alone_and_only_where_needed(
    checkout: Path, typed: list, monkeypatch: pytest.MonkeyPatch, flavour: str, system: str,
    offered: bool, own_step: bool,
):  # fmt: skip
    monkeypatch.setattr(bootstrap, "offers_cpu_build", lambda listed, constraints: offered)
    monkeypatch.setattr(bootstrap.platform, "system", lambda: system)
    bootstrap.install_torch(flavour)
    index = ["--index-url", bootstrap.CPU_INDEX, "--no-deps"]
    assert typed == ([[*INSTALL, *index, *CONSTRAINED, "torch"]] if own_step else [])


@pytest.mark.parametrize(
    ("listed", "offered"),
    [
        ("Available versions: 2.15.0, 2.13.0+cpu, 2.13.0", True),
        ("Available versions: 2.13.1.post1+cpu", True),
        ("Available versions: 2.15.0+cpu, 2.13.0, 2.12.1+cpu", False),
        ("Available versions: 12.13.0+cpu, 2.130.0+cpu, 2.13.0+cpuless", False),
        ("", False),
    ],
)
def test_a_cpu_build_counts_only_in_the_pinned_version(listed: str, offered: bool):
    constraints = "# torch==2.15.*\ntorch==2.13.*\ntorchvision==2.15.*\n"
    assert bootstrap.offers_cpu_build(listed, constraints) is offered


# --- what is run ----------------------------------------------------------------------------------


def test_further_arguments_go_to_the_last_command():
    lint, types, tests = bootstrap.commands(bootstrap.VERBS["test"], ["-k", "foo bar"])
    assert (lint[1:], types[1:]) == (["-m", "ruff", "check", "."], ["-m", "mypy"])
    assert tests[1:4] == ["-m", "pytest", "-q"]
    assert tests[-2:] == ["-k", "foo bar"]


def test_a_failed_check_of_style_ends_the_verb(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bootstrap, "ROOT", checkout)
    monkeypatch.setattr(bootstrap, "run", lambda command: 5)
    monkeypatch.setattr(bootstrap, "hand_over", lambda command: pytest.fail("went on"))
    assert bootstrap.main(["test"]) == 5


def test_the_last_command_has_the_input_and_gives_the_exit_code():
    code = "import sys; sys.exit(7 if sys.stdin.read() == 'yes' else 1)"
    line = f"import bootstrap, sys; bootstrap.hand_over([sys.executable, '-c', {code!r}])"
    process = subprocess.run(
        [sys.executable, "-c", line], input="yes", text=True, cwd=SCRIPT.parent, capture_output=True
    )
    assert process.returncode == 7
    assert process.stderr.startswith("$ ")


@pytest.mark.parametrize("arguments", [["deploy"], ["install", "nonesuch"]])
def test_an_unknown_verb_or_extra_is_a_usage_error(arguments: list[str]):
    process = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    assert process.returncode == 2
    assert f"'{arguments[-1]}'" in process.stderr
    assert process.stderr.count("\n") == 1


def test_clean_keeps_what_was_trained(checkout: Path):
    (checkout / "runs").mkdir()
    bootstrap.clean()
    assert sorted(path.name for path in checkout.iterdir()) == [
        "constraints.txt", "pyproject.toml", "runs",
    ]  # fmt: skip


# --- it starts on a bare machine ------------------------------------------------------------------


def test_an_old_python_is_told_what_is_needed():
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 7))
    line = f"import runpy, sys; sys.version_info = (3, 9, 1); runpy.run_path({str(SCRIPT)!r})"
    process = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr.startswith("Dragoman needs Python 3.11 or newer, and this is 3.9;")


def test_it_imports_the_standard_library_only():
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = {alias.name for node in plain for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("manager", "remedy"),
    [("apt-get", "sudo apt-get install python3."), ("brew", "brew reinstall python"), ("", "pip")],
)
def test_a_python_without_venv_gets_the_line_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, manager: str, remedy: str
):
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: None)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: name == manager)
    with pytest.raises(SystemExit):
        bootstrap.venv_command()
    assert remedy in capsys.readouterr().err
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: name == "uv")
    assert bootstrap.venv_command()[:2] == ["uv", "venv"]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


# --- constraints.txt ------------------------------------------------------------------------------


def pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("\n")
    return [line for line in lines if line and not line.startswith("#")]


def required(requirements: list[str], extras: frozenset[str], seen: set[tuple[str, str]]) -> Iterator[str]:
    """The names of all installed packages that the requirements of a package with some extras lead to."""
    for requirement in map(Requirement, requirements):
        name, marker = canonicalize_name(requirement.name), requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            continue
        if name == "dragoman":  # an extra that holds others
            for extra in requirement.extras:
                yield from required(PROJECT["optional-dependencies"][extra], frozenset(), seen)
            continue
        # The CUDA build of torch pins its own libraries; the CPU build has none.
        if name.startswith(("nvidia-", "cuda-", "triton")):
            continue
        new = {(name, extra) for extra in {"", *requirement.extras}} - seen
        if new:
            seen |= new
            yield name
            yield from required(importlib.metadata.requires(name) or [], frozenset(requirement.extras), seen)


def test_every_package_that_the_tests_install_is_pinned():
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    pinned = {canonicalize_name(Requirement(pin).name) for pin in pins()}
    assert set(required(wanted, frozenset(), set())) - pinned == set()


def test_pins_are_exact_and_torch_leaves_the_build_open():
    first, *rest = map(Requirement, pins())
    assert (first.name, str(first.specifier)[-2:]) == ("torch", ".*")
    for pin in rest:
        (specifier,) = pin.specifier
        assert specifier.operator == "=="
        assert not set("*+") & set(specifier.version)
