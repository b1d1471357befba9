"""The files of launch/ start runs on several machines, which stand in for each other here."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from dragoman.data.bitext import Bitext
from tests.small import MODEL_SETTINGS

LAUNCH = Path(__file__).parents[1] / "launch"
SMALL = [
    *MODEL_SETTINGS, "training.log_every=1", "training.validate_sentences=5", "data.held_out=10",
]  # fmt: skip

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs bash and processes of Linux")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The disk that all machines see, with pairs; programs of a cluster are in its folder bin."""
    pairs = list(Bitext.open("builtin:grammar:200"))
    for language, side in (("en", 0), ("de", 1)):
        (tmp_path / f"train.{language}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    (tmp_path / "bin").mkdir()
    program(tmp_path, "torchrun", f'exec {sys.executable} -m torch.distributed.run "$@"')
    return tmp_path


def program(shared: Path, name: str, script: str) -> None:
    file = shared / "bin" / name
    file.write_text(f"#!/bin/bash\n{script}\n")
    file.chmod(0o755)


def environment(shared: Path, **variables: object) -> dict[str, str]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    path = f"{shared / 'bin'}:{os.environ['PATH']}"
    fixed = {"PATH": path, "PORT": port, "OMP_NUM_THREADS": 1, "PYTHONPATH": LAUNCH.parent, "SHARED": shared}
    return os.environ | {name: str(value) for name, value in (fixed | variables).items()}


def ended(run: Path) -> bool:
    """Whether a run of two ranks has come to its end."""
    events = [json.loads(line) for line in (run / "run/metrics.jsonl").read_text().split("\n") if line]
    return events[-1]["event"] == "end"


def test_the_files_can_be_read():
    assert subprocess.run(["bash", "-n", LAUNCH / "slurm.sbatch"]).returncode == 0
    for name in ("kubeflow-trainjob", "skypilot"):
        assert yaml.safe_load((LAUNCH / f"{name}.yaml").read_text())


@pytest.mark.slow
def test_slurm_saves_and_queues_a_job_that_has_to_make_way_and_goes_on(shared: Path):
    """Two copies of a command stand in for two machines."""
    program(shared, "scontrol", f'[ "$1" = show ] && echo localhost || echo "$@" >> {shared}/requeued')
    program(shared, "srun", '"$@" & first=$!; "$@" & second=$!\ntrap "kill $first $second" TERM\nwait; wait')
    variables = {"SLURM_NNODES": 2, "SLURM_JOB_NODELIST": "localhost", "SLURM_JOB_ID": 7, "SLURM_GPUS_ON_NODE": 1}
    run = shared / "runs/en-de"
    files = [str(shared / "train.en"), str(shared / "train.de"), "--output", str(run)]
    command = ["bash", str(LAUNCH / "slurm.sbatch"), *files, *SMALL, "training.max_steps=150"]
    around = environment(shared, **variables)
    with open(shared / "log", "w") as log:
        job = subprocess.Popen(command, env=around, stdout=log, stderr=log)
        while not (run / "run/metrics.jsonl").exists() or '"step": 5,' not in (run / "run/metrics.jsonl").read_text():
            time.sleep(0.1)
            assert job.poll() is None, (shared / "log").read_text()
        job.send_signal(signal.SIGUSR1)
        assert job.wait(60) == 0
        assert (shared / "requeued").read_text() == "requeue 7\n"
        assert list((run / "run/checkpoints").glob("step_*"))
        assert not ended(run)
        assert subprocess.run(command, env=around, stdout=log, stderr=log).returncode == 0
    assert ended(run)


@pytest.mark.slow
def test_the_command_of_kubeflow_trains_on_two_pods(shared: Path):
    trainer = yaml.safe_load((LAUNCH / "kubeflow-trainjob.yaml").read_text())["spec"]["trainer"]
    arguments = [each.replace("/shared", str(shared)) for each in (*trainer["command"], *trainer["args"])]
    around = environment(shared, PET_NNODES=trainer["numNodes"], PET_NPROC_PER_NODE=1, PET_MASTER_ADDR="localhost")
    around["PET_MASTER_PORT"] = around["PORT"]
    two_machines([*arguments, *SMALL, "training.max_steps=5"], around, "PET_NODE_RANK", shared)


@pytest.mark.slow
def test_the_script_of_skypilot_trains_on_two_machines(shared: Path):
    task = yaml.safe_load((LAUNCH / "skypilot.yaml").read_text())
    nodes = {"SKYPILOT_NUM_NODES": task["num_nodes"], "SKYPILOT_NUM_GPUS_PER_NODE": 1}
    more = " ".join([*SMALL, "training.max_steps=5"])
    around = environment(shared, **nodes, SKYPILOT_NODE_IPS="localhost\nlocalhost", MORE=more)
    two_machines(["bash", "-c", task["run"]], around, "SKYPILOT_NODE_RANK", shared)


def two_machines(command: list[str], around: dict[str, str], rank: str, shared: Path) -> None:
    with open(shared / "log", "w") as log:
        starts = [around | {rank: str(index)} for index in range(2)]
        machines = [subprocess.Popen(command, env=start, stdout=log, stderr=log) for start in starts]
        assert [each.wait(120) for each in machines] == [0, 0], (shared / "log").read_text()
    assert "on 2 times 1 CPU thread" in (shared / "log").read_text()
    assert ended(shared / "runs/en-de")


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("ray"), reason="needs the extra ray")
def test_ray_trains_with_two_workers(shared: Path):
    files = [shared / "train.en", shared / "train.de", "--output", shared / "runs/en-de", "training.max_steps=5"]
    command = [sys.executable, LAUNCH / "ray_train.py", "--workers", "2", "--", *files, *SMALL]
    done = subprocess.run(list(map(str, command)), env=environment(shared), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert ended(shared / "runs/en-de")
