"""Whatever the description of the API allows, and much that it does not, is answered as it says."""

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

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("number", [1_000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_requests_of_all_kinds(running, mode, number):
    schema = schemathesis.openapi.from_url(f"{running.url}/spec")
    operations = [found.ok() for found in schema.get_all_operations() if found.ok().method == "post"]
    options = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}
    statuses = Counter[int]()
    for operation in operations:

        @given(operation.as_strategy(generation_mode=mode))
        @settings(max_examples=number // len(operations), **options)
        def ask(case):
            answer = case.call(session=session)
            statuses[answer.status_code] += 1
            case.validate_response(answer, checks=CHECKS)

        with requests.Session() as session, suppress(Unsatisfiable):  # for some there is nothing wrong to send
            ask()
    assert max(statuses) < 500
    assert sum(statuses.values()) > number / 2
    assert statuses[200] > (number / 20 if mode == GenerationMode.POSITIVE else -1)
