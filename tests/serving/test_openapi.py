"""Whatever the description of the API allows, and much that it does not, is answered as it says."""

import subprocess
import sys
from collections import Counter
from contextlib import suppress

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.report.models import small_model

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SERVE = """
import socket
import sys
from pathlib import Path

from dragoman.storage.memory import Memory
from dragoman.serving.app import run
from dragoman.serving.hosts import Hosts
from dragoman.serving.inspection import InspectedModel, InspectionWorker
from dragoman.serving.server import Server
from tests.serving.conftest import Words

inspector = InspectionWorker({("en", "fr"): InspectedModel(Path(sys.argv[1]))})
inspector.start()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(128)
print(listener.getsockname()[1], flush=True)
server = Server([Words("en", "fr"), Words("fr", "en")], memory=Memory(Path(sys.argv[2])), inspector=inspector)
run(server, listener, Hosts())
"""
"""A server with a memory, and with a process that looks into a model; it is forked while there are no threads."""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    small_model().save(folder / "model")
    command = [sys.executable, "-c", SERVE, folder / "model", folder / "memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("number", [60, pytest.param(20_000, marks=pytest.mark.slow)])
def test_requests_of_all_kinds(url, mode, number):
    schema = schemathesis.openapi.from_url(f"{url}/spec")
    operations = [operation.ok() for operation in schema.get_all_operations()]
    # Of those without fields there is only one request, so others may have more.
    operations.sort(key=lambda operation: operation.method == "post")
    options = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}
    statuses, requested = Counter[int](), set[str]()
    for number_done, operation in enumerate(operations):

        @given(operation.as_strategy(generation_mode=mode))
        @settings(max_examples=(number - statuses.total()) // (len(operations) - number_done), **options)
        def ask(case):
            answer = case.call(session=session)
            statuses[answer.status_code] += 1
            requested.add(case.operation.label)
            case.validate_response(answer, checks=CHECKS)

        with requests.Session() as session, suppress(Unsatisfiable):  # for some there is nothing wrong to send
            ask()
    assert max(statuses) < 500
    assert statuses.total() > 0.9 * number
    if mode == GenerationMode.POSITIVE:
        assert len(requested) == len(operations) > 15
        assert statuses[200] > number / 10
