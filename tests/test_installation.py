"""Dragoman is installed as people install it: nothing presupposes a release, and each way does what its page says."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest

from dragoman.cli import notices
from dragoman.errors import ResourceError
from dragoman.system import diagnostics, optional
from tools.other_versions import without_floors

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXAMPLES = ROOT / "examples/serving"
FOLDERS = ("docs", "dragoman", "examples", "launch", "tools", "benchmarks")
TEXTS = {".md", ".py", ".txt", ".yaml", ".yml", ".toml", ".ipynb", ".html", ".service", ".sbatch", ".js", ""}
INSTALLERS = re.compile(
    r"\b(pip3?|pipx|uv|uvx|conda|mamba|poetry)\b[^\n]*?\b(install|add|run|tool)\b(?! --no-index)[^\n]*?"
    r"(?<![\w/.$-])dragoman(?![\w/.*-])(?!\[[\w,]+\] @ git\+)|pypi\.org/project/dragoman"
)


def test_the_pattern_finds_what_presupposes_a_release():
    wrong = [
        "pip install dragoman", 'pip install -U "dragoman[hf]"', "%pip install --quiet dragoman", "uv add dragoman",
        "pipx install 'dragoman[serve]==1.0'", "https://pypi.org/project/dragoman/", "uv tool install dragoman",
    ]  # fmt: skip
    right = [
        "pip install -e '.[hf]'", "pip install 'dragoman[serve] @ git+GIT-ADDRESS'", "%pip install dragoman-*.whl",
        "pip install dist/dragoman-0.1.0-py3-none-any.whl", "git clone GIT-ADDRESS dragoman",
        "pip install --no-index --find-links wheels dragoman", "make install ARGS=hf",
    ]  # fmt: skip
    assert all(INSTALLERS.search(line) for line in wrong)
    assert not any(INSTALLERS.search(line) for line in right)


def test_nothing_presupposes_that_an_index_has_the_package():
    files = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile")]
    files += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS]
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
        for line in path.read_text(encoding="utf-8", errors="ignore").split("\n")
        if "dragoman" in line
        for match in INSTALLERS.finditer(line)
    ]
    assert not found


def test_the_page_of_installing_names_each_extra():
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    extras = PROJECT["optional-dependencies"].keys() - {"docs", "test"}
    assert not {extra for extra in extras if f"`{extra}`" not in page.split("### Extras")[1]}


@pytest.mark.parametrize(
    ("platform", "command"),
    [("linux", "pip install 'b[c]>=2' 'd>=3'"), ("win32", 'pip install "b[c]>=2" "d>=3"')],
)
def test_a_missing_library_is_told_with_the_packages_of_its_extra(platform: str, command: str, monkeypatch):
    lines = [
        "a>=1", "b[c]>=2; extra == 'x'", "d>=3; python_version >= '3' and extra == 'x'",
        "e>=4; python_version < '3' and extra == 'x'", "f>=5; extra == 'y'", "g>=6; python_version >= '3'",
    ]  # fmt: skip
    monkeypatch.setattr(importlib.metadata, "requires", {"dragoman": lines}.get)
    monkeypatch.setattr(sys, "platform", platform)
    with pytest.raises(ResourceError) as caught:
        optional.load("no_such_module", extra="x", purpose="This")
    assert str(caught.value) == f"This needs another library; type: {command}"


def test_in_a_source_tree_a_missing_library_is_told_by_its_name(monkeypatch):
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    with pytest.raises(ResourceError, match="type: pip install no_such_module"):
        optional.load("no_such_module", extra="keras", purpose="This")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ('{"url": "https://a.example/b", "vcs_info": {"vcs": "git"}}', "git+https://a.example/b"),
        ('{"url": "file:///src", "dir_info": {}}', "--no-cache-dir file:///src"),
        ('{"url": "file:///dist/a.whl", "archive_info": {}}', "install a wheel that was built where there is one"),
        (None, "install a wheel"),
    ],
)
def test_the_doctor_knows_where_the_package_came_from(origin: str | None, command: str, monkeypatch):
    about = SimpleNamespace(read_text=lambda _: origin)
    monkeypatch.setattr(diagnostics, "_distribution", lambda _: about)
    monkeypatch.setattr(diagnostics, "in_checkout", lambda: False)
    assert command in diagnostics.install_again()


class Spoken:
    """A context of a command that collects its notes."""

    def __init__(self, **options: bool):
        self.as_json, self.quiet, self.notes = options.get("as_json", False), options.get("quiet", False), []

    def display(self) -> SimpleNamespace:
        return SimpleNamespace(note=self.notes.append)


def test_missing_kernels_are_mentioned_once_and_only_to_people(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("dragoman.native.library.functions", None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    calls = [Spoken(as_json=True), Spoken(quiet=True), Spoken(), Spoken()]
    for context in calls:
        notices.mention_missing_kernels(context)
    assert [len(context.notes) for context in calls] == [0, 0, 1, 0]
    assert "\n" not in calls[2].notes[0]
    assert "doctor" in calls[2].notes[0]
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")  # where nothing can be remembered
    notices.mention_missing_kernels(calls[3])
    assert not calls[3].notes


def test_kernels_that_are_there_are_not_mentioned(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("dragoman.native.library.functions", object())
    context = Spoken()
    notices.mention_missing_kernels(context)
    assert not context.notes
    assert not list(tmp_path.iterdir())


# --- the container and the unit ------------------------------------------------------------------


def steps_of_the_container() -> list[list[str]]:
    """The instructions of the Containerfile, each as its words."""
    lines = (EXAMPLES / "Containerfile").read_text(encoding="utf-8").split("\n")
    return [line.split() for line in lines if line and not line.startswith("#")]


def copy_the_source(folder: Path) -> None:
    """Copy what the Containerfile copies, and nothing else."""
    for _, *sources, target in [step for step in steps_of_the_container() if step[0] == "COPY"]:
        if sources[0].startswith("--from"):
            continue
        to = folder / target.removeprefix("/source").strip("/")
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            else:
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, to)


def test_the_container_copies_files_that_are_there_and_requires_its_kernels(tmp_path: Path):
    copy_the_source(tmp_path)
    assert {"pyproject.toml", "README.md", "LICENSE", "tools", "dragoman"} <= {each.name for each in tmp_path.iterdir()}
    text = (EXAMPLES / "Containerfile").read_text(encoding="utf-8")
    assert text.index("DRAGOMAN_REQUIRE_KERNELS=1 pip wheel") < text.index("COPY --from=build")


@pytest.mark.slow
def test_what_the_container_copies_builds_a_wheel_with_kernels(tmp_path: Path, monkeypatch):
    pytest.importorskip("hatchling")
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    copy_the_source(tmp_path / "source")
    monkeypatch.setenv("DRAGOMAN_REQUIRE_KERNELS", "1")
    monkeypatch.setenv("CFLAGS", "-O0")  # for this test it need not be quick
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w"]
    subprocess.run([*command, tmp_path / "wheels", tmp_path / "source"], check=True)
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert re.fullmatch(r"dragoman-[\d.]+-py3-none-\w+\.whl", wheel.name)
    assert "dragoman/native/libkernels.so" in ZipFile(wheel).namelist()


@pytest.mark.slow
def test_the_container_is_built(tmp_path: Path):
    builder = next(filter(shutil.which, ("podman", "buildah")), None)
    image = "docker.io/library/python:3.11-slim"
    if not builder or subprocess.run([builder, "inspect", image], capture_output=True).returncode:
        pytest.skip(f"needs podman or buildah, and {image}")
    command = [builder, "build", "-t", "dragoman-test", "-f", EXAMPLES / "Containerfile", ROOT]
    assert not subprocess.run(command).returncode


@pytest.mark.slow
def test_systemd_accepts_the_unit(tmp_path: Path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze, of the package systemd")
    unit = (EXAMPLES / "dragoman.service").read_text(encoding="utf-8")
    # It is not installed where the unit expects it.
    (tmp_path / "dragoman.service").write_text(unit.replace("/opt/dragoman/bin/dragoman", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "dragoman.service"], capture_output=True, text=True
    )
    mentioned = [line for line in done.stderr.split("\n") if "dragoman.service" in line]
    assert (done.returncode, mentioned) == (0, [])


# --- versions ------------------------------------------------------------------------------------


def test_a_floor_that_cannot_be_installed_is_named(tmp_path: Path):
    lines = [line.replace(">=", "==") for line in PROJECT["dependencies"]]
    (tmp_path / "locked.txt").write_text("\n".join(lines).replace("sentencex==1.0.11", "sentencex==1.0.13"))
    assert without_floors(tmp_path / "locked.txt") == ["sentencex>=1.0.11 (1.0.13)"]
    (tmp_path / "locked.txt").write_text("\n".join(lines).replace("torch==2.8", "torch==2.8.0+cpu"))
    assert without_floors(tmp_path / "locked.txt") == []
