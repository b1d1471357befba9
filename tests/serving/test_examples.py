"""The examples do what they say."""

import subprocess
import sys
from pathlib import Path

from tests.serving.conftest import Words

EXAMPLES = Path(__file__).parents[2] / "examples" / "serving"


def test_the_client_translates_lines(running):
    command = [sys.executable, EXAMPLES / "client.py", running.url, "en", "fr"]
    result = subprocess.run(command, input="a cat\n\nthe dog\n", capture_output=True, text=True, timeout=30)
    assert (result.stdout, result.stderr) == ("A CAT\n\nTHE DOG\n", "")


def test_pages_of_other_hosts_may_ask_only_if_they_are_named(serve, running):
    headers = {"Origin": "http://localhost:8000", "Access_Control_Request_Method": "POST"}
    allowing = serve(Words(), origins=["http://localhost:8000"])
    assert allowing.ask("OPTIONS", "/translate", **headers)[2]["access-control-allow-origin"] == "http://localhost:8000"
    assert allowing.ask("OPTIONS", "/translate", **headers | {"Origin": "http://evil.example"})[0] == 400
    assert "access-control-allow-origin" not in running.ask("OPTIONS", "/translate", **headers)[2]
    assert "--allow-origin http://localhost:8000" in (EXAMPLES / "embed.html").read_text(encoding="utf-8")
