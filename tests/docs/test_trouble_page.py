"""docs/trouble.md tells the truth: its commands parse, its settings exist, and what it quotes is in the code."""

import ast
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from dragoman.config.run import RunConfig, load_config
from dragoman.config.settings import parse_settings
from tools import make_docs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/trouble.md").read_text(encoding="utf-8")
GAP = "..."
"""Stands for what differs in a quoted message."""
SECTIONS = [name for name in RunConfig.model_fields if name not in ("size", "seed", "chosen")]
SETTING = re.compile(rf"(?:{'|'.join(SECTIONS)})\.[a-z_.]+(?:=[^\s`'\"]+)?")
FILES = ("model.safetensors", "tokenizer.json")
"""Names of files that look like settings."""


def blocks(language: str) -> list[str]:
    """The code blocks of a language, those inside of lists without their indentation."""
    return [dedent(block) for block in re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)]


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.startswith("dragoman ")]


def settings() -> list[str]:
    """Every setting in backticks or in a command, with its value if it has one."""
    code = [*re.findall(r"`([^`\n]+)`", PAGE), *blocks("sh")]
    return sorted({found for text in code for found in SETTING.findall(text)} - {*FILES})


@pytest.fixture(scope="module")
def parsers() -> dict[str, Any]:
    return {context.command_path: command for command, context in make_docs.commands()}


def test_every_command_parses(parsers):
    assert len(commands()) >= 40
    for command in commands():
        if command == "dragoman --version":
            continue
        path = max((each for each in parsers if f"{command} ".startswith(f"{each} ")), key=len)
        parsers[path].make_context(path, shlex.split(command.removeprefix(path)))


def test_every_setting_exists_and_accepts_its_value():
    known = set(re.findall(r"^\| `([\w.]+)` \|", make_docs.settings_page(), re.MULTILINE))
    assert len(settings()) >= 20
    for text in settings():
        key, has_value, _ = text.partition("=")
        assert key in known, text
        if has_value:
            base = ["finetune.model=x"] if key.startswith("finetune.") else []
            kind = ["tokenizer.kind=word"] if key == "tokenizer.standardisation" else []
            load_config({}, parse_settings([*base, *kind, text]))


# --- messages --------------------------------------------------------------------------------------


def literals(code: str) -> Iterator[str]:
    """The texts in Python code; an f-string has a gap in place of each value."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)


def is_in(message: str, texts: Iterable[str]) -> bool:
    """Whether one of the texts has all parts of a message between its gaps, in this order."""
    parts = [part.strip() for part in re.sub("^(Error|Warning): ", "", message).split(GAP)]
    return any(has_in_order(text, parts) for text in texts)


def has_in_order(text: str, parts: list[str]) -> bool:
    end = 0
    for part in parts:
        start = text.find(part, end)
        if start < 0:
            return False
        end = start + len(part)
    return True


@pytest.fixture(scope="module")
def texts() -> list[str]:
    code = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "dragoman").rglob("*.py"))]
    return [text for file in code for text in literals(file)]


def quoted() -> list[str]:
    return [line for block in blocks("text") for line in block.splitlines()]


def test_every_quoted_message_is_in_the_code(texts):
    assert len(quoted()) >= 20
    for message in quoted():
        words = re.findall("[a-zA-Z]{2,}", message)
        assert len(words) > 4, f"too short to be found by: {message}"
        assert is_in(message, texts), message


def test_a_message_that_is_not_in_the_code_is_found_out(texts):
    assert is_in("Error: ... has ... lines but ... has ...; line N of both must be the same sentence", texts)
    assert not is_in("Error: ... has ... lines but ... has ...; line N of both should be the same sentence", texts)
    assert not is_in("Error: line N of both must be the same sentence; ... has ... lines but ... has ...", texts)


def test_every_symptom_leads_to_a_page_with_more():
    symptoms = re.split("^### ", PAGE, flags=re.MULTILINE)[1:]
    assert len(symptoms) >= 30
    for symptom in symptoms:
        assert re.search(r"\]\((?!#)[^)]+\)", symptom), symptom.split("\n")[0]
