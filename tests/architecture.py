"""Checks of the rules that keep the package legible, on its syntax trees; each lists its problems.

Imports point one way, and nothing reads a pickle or runs text as code. test_architecture.py applies them, and shows
that each sees a violation.
"""

import ast
import graphlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

# From the ground up; a room is a file or folder directly under dragoman/.
FLOORS = (
    {"errors", "native", "metrics", "recipes"},
    {"model"},
    {"system"},
    {"config", "text", "terminal", "engine"},
    {"formats"},
    {"storage"},
    {"data"},
    {"data_check", "decoding", "training"},
    {"documents", "bulk", "evaluation"},
    {"report"},
    {"serving", "runs"},
    {"interop"},
    {"cli", "__init__", "__main__"},
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
STRANGERS = {("training", "decoding"), ("runs", "terminal"), ("training", "terminal"), ("evaluation", "terminal")}
# Translating needs nothing of what prepares pairs to learn from them.
TRANSLATING = {"text", "formats", "engine", "decoding", "documents", "bulk", "serving"}
# The only files for translating that import torch: for GPUs, half precision, and models that are being trained.
WITH_TORCH = {"dragoman.decoding.torch_engine", "dragoman.decoding.precision"}
LEARNING = {"data", "data_check", "training", "runs"}
# What a part that others read on its own may import, besides the standard library.
SELF_CONTAINED = {
    "dragoman.native": ("dragoman.native",),
    "dragoman.model": ("torch", "jaxtyping", "dragoman.model"),
    "dragoman.model.fast": ("torch", "jaxtyping", "dragoman.model", "dragoman.native"),
    "dragoman.engine": (
        "numpy",
        "jaxtyping",
        "dragoman.engine",
        "dragoman.errors",
        "dragoman.model.config",
        "dragoman.native",
    ),
    "dragoman.decoding.search": (
        "numpy",
        "dragoman.engine.engine",
        "dragoman.engine.log_probs",
        "dragoman.engine.shapes",
    ),
}

# Faster ways to compute the formulas of `dragoman.model`, which has them used in its `__init__.py` alone.
FAST = "dragoman.model.fast"

# Who parses JSON or YAML in the rooms that keep files of our own: files of others, or after a seal was checked. All
# else is read by `dragoman.system.seals`.
KEEPERS = {"data", "data_check", "storage", "runs", "report", "training"}
PARSERS = {"json.load", "json.loads", "loads", "parse_yaml", "read_recipe", "yaml.load", "yaml.safe_load"}
PARSES = {
    "dragoman.data_check.result": "tables of the package",
    "dragoman.runs.plan": "recipes of users",
    "dragoman.data.subword_regularization": "a tokenizer of ours, taken apart",
    "dragoman.data.pair_file": "lines of a file whose digest the journal has checked",
    "dragoman.data.readers.jsonl": "pairs of users",
    "dragoman.text.tokenizers": "tokenizers, whose bytes come from a verified file or from strangers",
    "dragoman.data.preparation": "the folder of a run, after `check_seal`",
    "dragoman.data.prepared_folder": "the states of files in the folder of a run, after `check_seal`",
    "dragoman.report.comparison": "the evaluation, after `RunDirectory.read`",
    "dragoman.storage.checkpoints": "its manifest, and what that vouches for",
    "dragoman.storage.metrics_log": "events; what is none is left out",
    "dragoman.storage.mirror": "lists whose names are their hashes",
    "dragoman.storage.validate": "config.json, whose checksum is in the weights",
    "dragoman.storage.weights_file": "the header of weights, checked at once",
    "dragoman.runs.prepared": "what it has written itself a line before",
    "dragoman.runs.synthetic.pairs": "lines of a file whose mark was checked",
}

# Words that point at the name above a docstring.
OPENERS = re.compile(r"(?:Of|In which|Which|Whose|Those|That of)\b")

PICKLE_READERS = {"pickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
FORBIDDEN_ARGUMENTS = {("weights_only", False), ("allow_pickle", True)}


class Module(NamedTuple):
    """One file of the package: its dotted name, its text and its syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "__init__"


def modules(root: Path) -> list[Module]:
    """Every module of the package `dragoman` in `root`."""
    found = []
    for path in sorted((root / "dragoman").rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        found.append(Module(name, path, text, tree_of(text)))
    return found


@cache
def tree_of(text: str) -> ast.Module:
    """The syntax tree of a file, which several checks look at."""
    return ast.parse(text)


def imports(module: Module, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and dotted name of all that a module imports, at its top or inside a function.

    `from dragoman.data import bitext` names a module; of `from dragoman.errors import DataError`
    the part that is one counts.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.name.split(".")
                drop = node.level - (module.path.name == "__init__.py")
                base = ".".join([*package[: len(package) - drop], *([base] if base else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                room = base == "dragoman" and alias.name in LEVEL
                if full != "dragoman.__version__":
                    yield node.lineno, full if room or full in known else base


def import_problems(root: Path) -> list[str]:
    """Imports, at the top or inside of functions, that point up, go to a stranger, leave a self-contained part, or
    close a circle of files."""
    found, problems = modules(root), []
    known = {module.name for module in found}
    graph: dict[str, set[str]] = {}
    for module in found:
        if module.room not in LEVEL:
            problems.append(f"{module.name} has no place in FLOORS of {Path(__file__).name}")
            continue
        for line, name in imports(module, known):
            problems += [f"{module.name}:{line} {problem}" for problem in judge(module, name)]
            if name in known and name != module.name:
                graph.setdefault(module.name, set()).add(name)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        problems.append(f"imports in a circle: {' -> '.join(error.args[1])}")
    return problems


def judge(module: Module, name: str) -> Iterator[str]:
    """What is wrong with this module importing that name."""
    target = target_room(name)
    if target in LEVEL and LEVEL[target] > LEVEL[module.room]:
        yield f"imports upward: {module.room} -> {target}"
    if (module.room, target) in STRANGERS:
        yield f"{module.room} must not know {target}"
    if module.room in TRANSLATING and target in LEARNING:
        yield f"{module.room} translates, and must not know {target}"
    is_formula = module.name.startswith("dragoman.model.") and not within(module.name, FAST)
    if is_formula and within(name, FAST):
        yield f"{module.name} is a formula, and must not know {name}"
    if module.room in TRANSLATING and within(name, "torch") and module.name not in WITH_TORCH:
        yield f"{module.name} translates, and must not import torch"
    part = max((part for part in SELF_CONTAINED if within(module.name, part)), key=len, default=None)
    is_standard = name.split(".")[0] in sys.stdlib_module_names
    if part and not is_standard and not any(within(name, root) for root in SELF_CONTAINED[part]):
        yield f"{part} must not import {name}"


def target_room(name: str) -> str | None:
    """The room a dotted name belongs to, or None if it is none of ours."""
    parts = name.split(".")
    if parts[0] != "dragoman":
        return None
    return parts[1] if len(parts) > 1 else "__init__"


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def danger_problems(root: Path) -> list[str]:
    """Pickles, text run as code, and lines split where a text has none."""
    return [
        f"{module.name}:{line} {what}"
        for module in modules(root)
        for node in ast.walk(module.tree)
        for line, what in dangers(node, in_interop=module.room == "interop")
    ]


def unsealed_problems(root: Path) -> list[str]:
    """Files of our own that are parsed before they are verified: JSON or YAML read anywhere else than `PARSES` says."""
    return [
        f"{module.name}:{node.lineno} parses JSON or YAML; read our own files by dragoman.system.seals"
        for module in modules(root)
        if module.room in KEEPERS and not any(f"{module.name}.".startswith(f"{name}.") for name in PARSES)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PARSERS
    ]


def wording_problems(root: Path) -> list[str]:
    """Docstrings that begin with a word that points at the name above them; each has to make sense by itself."""
    return [
        f"{module.name}:{node.lineno} a docstring that begins with '{match[0]}'"
        for module in modules(root)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if (match := OPENERS.match(node.value.value))
    ]


def dangers(node: ast.AST, *, in_interop: bool) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names]
        sources = names if isinstance(node, ast.Import) else [node.module or ""]
        for name in sources:
            if name.split(".")[0] in PICKLE_READERS:
                yield node.lineno, f"imports {name}"
        if sources == ["torch"] and {"load", "save"} & set(names):
            yield node.lineno, "imports load or save from torch; call them as torch.load"
    elif isinstance(node, ast.Attribute) and node.attr == "splitlines":
        yield node.lineno, "uses splitlines, which also splits at characters inside a sentence"
    elif isinstance(node, ast.Call):
        yield from ((node.lineno, what) for what in call_dangers(node, in_interop=in_interop))


def call_dangers(call: ast.Call, *, in_interop: bool) -> Iterator[str]:
    constants = (each for each in call.keywords if isinstance(each.value, ast.Constant))
    given = {(each.arg, each.value.value) for each in constants}
    yield from (f"passes {name}={value}" for name, value in given & FORBIDDEN_ARGUMENTS)
    called = ast.unparse(call.func)
    if called in ("eval", "exec", "torch.save"):
        yield f"calls {called}"
    if called == "torch.load" and not in_interop:
        yield "calls torch.load outside interop"
    if called == "torch.load" and ("weights_only", True) not in given:
        yield "calls torch.load without weights_only=True"
