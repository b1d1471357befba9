"""docs/bulk.md tells the truth: its commands, jobs and programs run and translate every file; its table is computed."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from dragoman.data.bitext import Bitext
from tests.cli.test_translation import save_model

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/bulk.md").read_text(encoding="utf-8")
LINES = [source for source, _ in Bitext.open("builtin:grammar:60")]
PARALLEL = """#!{python}
import subprocess, sys
line, values = sys.argv[3], sys.argv[5:]
assert sys.argv[1:3] == ["--retries", "3"] and sys.argv[4] == ":::" and len(values) == 4
sys.exit(any(subprocess.run(line.replace("{{}}", value), shell=True).returncode for value in values))
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A folder with a model, three files of lines, one large file, and the programs that the page calls."""
    folder = tmp_path_factory.mktemp("bulk")
    save_model(folder / "MODEL")
    (folder / "in").mkdir()
    for number in range(3):
        text = "".join(f"{line}\n" for line in LINES[number * 20 : number * 20 + 20])
        (folder / "in" / f"{number}.txt").write_text(text, encoding="utf-8")
    (folder / "corpus.en").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    for name in ("launch", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    programs = {
        "dragoman": f'#!/bin/sh\nexec {sys.executable} -m dragoman "$@"\n',
        "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        "parallel": PARALLEL.format(python=sys.executable),
    }
    (folder / "bin").mkdir()
    for name, program in programs.items():
        (folder / "bin" / name).write_text(program)
        (folder / "bin" / name).chmod(0o755)
    return folder


@pytest.fixture
def folder(prepared, tmp_path) -> Path:
    return shutil.copytree(prepared, tmp_path / "copy", symlinks=True)


def shell(command: str, folder: Path, **environment: str) -> str:
    known = {"PYTHONPATH": str(ROOT), "PATH": f"{folder}/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    known |= {"HOME": str(folder), "HF_HOME": str(folder / "hf")}
    done = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=os.environ | known | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def translated(folder: Path) -> dict[str, int]:
    """Lines of each file in `out`."""
    return {path.name: path.read_bytes().count(b"\n") for path in (folder / "out").iterdir()}


WHOLE = {"0.txt": 20, "1.txt": 20, "2.txt": 20}
COMMANDS = [block for block in blocks("sh") if "launch/" not in block and "benchmarks/" not in block]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(block, id=block.split()[0], marks=[pytest.mark.slow] * block.startswith("parallel"))
        for block in COMMANDS
    ],
)
@pytest.mark.slow
def test_commands_translate_every_file(command, folder):
    shell(command, folder)
    if command.startswith("split"):
        assert (folder / "corpus.fr").read_bytes().count(b"\n") == 60
    else:
        assert translated(folder) == WHOLE


@pytest.mark.slow
def test_jobs_of_engines_share_the_files(folder):
    (script,), (job,) = blocks("bash"), map(yaml.safe_load, blocks("yaml"))
    assert "#SBATCH --array=1-64\n" in script
    assert job["spec"]["completions"] == 64
    assert job["spec"]["completionMode"] == "Indexed"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (line,) = container["args"]
    assert container["command"] == ["sh", "-c"]
    for index, names in ((0, {"0.txt"}), (2, {"0.txt", "2.txt"}), (63, {"0.txt", "2.txt"})):
        shell(line, folder, JOB_COMPLETION_INDEX=str(index))
        assert translated(folder).keys() == names
    shell(script, folder, SLURM_ARRAY_TASK_ID="2")
    assert translated(folder) == WHOLE


@pytest.mark.slow
def test_the_program_for_datasets_runs(folder):
    pq = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("datasets")
    (program,) = blocks("python")
    (folder / "program.py").write_text(program, encoding="utf-8")
    shell("python program.py", folder)
    table = pq.read_table(folder / "out.parquet").to_pydict()
    assert table["text"] == LINES
    assert [bool(text) for text in table["fr"]] == [True] * 60


@pytest.mark.slow
def test_the_command_for_ray_runs(folder):
    if find_spec("ray") is None:
        pytest.skip("needs ray")
    (command,) = (block for block in blocks("sh") if "launch/" in block)
    shell(command, folder)
    assert translated(folder) == WHOLE


@pytest.mark.slow
def test_the_table_of_machines_follows_from_the_formula_and_the_figures_of_performance(folder):
    (command,) = (block for block in blocks("sh") if "benchmarks/" in block)
    assert shell(command, folder) == blocks("text")[0]
    figures = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (greedy|beam 5), (\w+) \| ([\d,]+) \| ([\d,.]+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for search, precision, speed, hours, machines in rows:
        (row,) = re.findall(rf"^\| Dragoman, {precision} \| 2 workers \| (.*) \|$", figures, re.MULTILINE)
        assert row.split(" | ")[0 if search == "greedy" else 2] == speed
        needed = 1e9 / int(speed.replace(",", "")) / 3600 / 0.95
        assert f"{needed:,.1f}" == hours
        assert int(machines) - 1 < needed / 24 <= int(machines)
