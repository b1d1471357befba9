"""Write the pages of docs/ that follow from the code: commands, settings, recipes; excerpts and links in others; the
picture of the rooms.

    python -m tools.make_docs

A test compares them with what this would write, so they cannot drift.
"""

import ast
import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_origin

import typer.main
from pydantic.fields import FieldInfo

from dragoman.cli import app
from dragoman.cli.app import describe
from dragoman.config.recipes import recipe_names
from dragoman.config.run import RunConfig
from dragoman.config.section import Section, section_in
from dragoman.errors import accepted
from dragoman.model.config import PRESETS, TransformerConfig
from tools import draw_house
from tools.pages import DOCS, up_to_date

NOTICE = "<!-- Written by tools/make_docs.py from the code: change it there, then `make docs`. -->\n"
DERIVED = ("source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id", "guided_head", "aligned_token")
"""Fields of the architecture that follow from the tokenizer or the training and are no settings."""
CHOSEN = {
    "size", "tokenizer.vocab_size", "model.positions", "model.dropout", "training.learning_rate", "training.warmup",
    "training.max_tokens", "training.weight_decay", "training.r_drop", "training.label_smoothing",
    "training.guided_alignment", "training.typos",
}  # fmt: skip
"""Keys that `train` fills in if they are left open."""


def pages() -> dict[Path, str]:
    """Each page's file and text."""
    texts = {"commands.md": commands_page(), "settings.md": settings_page(), "recipes.md": recipes_page()}
    written = {DOCS / name: NOTICE + "\n" + text for name, text in texts.items()}
    return written | {DOCS / draw_house.PICTURE: draw_house.picture(DOCS.parent / "dragoman")}


# --- commands --------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments, options and examples, as `--help` shows them."""
    parts = [
        "# Commands\n",
        "Results go to stdout, everything else to stderr. `--quiet` leaves results and warnings. Without a terminal, "
        "or with `NO_COLOR` set, nothing is coloured, and progress is a line every ten seconds. A mistake is answered "
        "by one sentence that says what to type.\n",
        "With `--json`, the result is JSON. So are errors and warnings on stderr, one on each line (notes about the "
        "progress stay text; `--quiet` leaves them out):\n",
        '```json\n{"error": {"message": "nowhere does not exist; give the folder that `dragoman train` wrote.", '
        '"exit_code": 3, "kind": "data"}}\n{"warning": "..."}\n```\n',
        "| exit code | kind | meaning |\n| --- | --- | --- |\n"
        "| 0 | | done; or the reader of a pipe has read enough, as `head` does |\n"
        "| 1 | `failure` | failed for another reason |\n"
        "| 2 | `usage` | the command line or a setting does not make sense |\n"
        "| 3 | `data` | a file cannot be used |\n"
        "| 4 | `resource` | memory, disk, a library or another resource is missing |\n"
        "| 130, 138, 143 | `interrupted` | stopped by Ctrl-C, SIGUSR1 or SIGTERM |\n",
        "`dragoman --install-completion` teaches the shell (bash, zsh, fish, PowerShell) to complete commands, "
        "options, sizes, recipes and precisions with the Tab key; `dragoman --show-completion` prints what it would "
        "install.\n",
        *(_command(command, context) for command, context in commands()),
    ]
    return "\n".join(parts)


def commands(context: Any = None) -> Iterator[tuple[Any, Any]]:
    """Every command, those of groups such as `data` too, with its context."""
    context = context or typer.Context(typer.main.get_command(app), info_name="dragoman")
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        inner = typer.Context(command, info_name=name, parent=context)
        if hasattr(command, "list_commands"):
            yield from commands(inner)
        elif not command.hidden:
            yield command, inner


def _command(command: Any, context: Any) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parameters = [parameter for parameter in command.get_params(context) if "--help" not in parameter.opts]
    rows = [describe(parameter) for parameter in parameters if not getattr(parameter, "hidden", False)]
    lines = [f"## {context.command_path}\n", f"{inspect.cleandoc(command.help)}\n", f"```\n{usage}\n```\n"]
    lines += [_table(("argument or option", "meaning"), [(f"`{typed}`", meaning) for typed, meaning in rows])]
    if command.epilog:
        lines.append(f"```sh\n{command.epilog}\n```\n")
    return "\n".join(lines)


# --- settings --------------------------------------------------------------------------------------


def settings_page() -> str:
    """Every key of a run's config: default, values, meaning."""
    parts = [
        "# Settings\n",
        "Each is a key of a recipe, a YAML file, and can be given after the data as `key=value`; what is not given "
        "has its default, or is [chosen](training.md#what-is-chosen-for-you) by `train`. `run/config.yaml` in a model "
        "directory holds all of them as a run used them.\n",
        "```sh\ndragoman train pairs.tsv training.learning_rate=1e-3 model.norm=rms data.valid='[dev.tsv]'\n```\n",
        *_section(RunConfig, ""),
    ]
    return "\n".join(parts)


def _section(section: type[Section], prefix: str) -> Iterator[str]:
    """A table of the plain keys of a section, then the sections inside it."""
    plain, inside = [], []
    for name, field in section.model_fields.items():
        if inner := section_in(field.annotation):
            inside += _section(inner, _key(prefix, name, field.annotation))
        elif prefix + name == "model":
            inside.append(_architecture())
        else:
            values = _values(field.annotation, field.metadata)
            default = "chosen" if f"{prefix}{name}" in CHOSEN else _default(field)
            plain.append((f"`{prefix}{name}`", default, values, section.descriptions()[name]))
    title = f"## {prefix.rstrip('.')}\n\n{_first_paragraph(section)}\n" if prefix else "## A run\n"
    yield f"{title}\n{_table(('key', 'default', 'values', 'meaning'), plain)}"
    yield from inside


def _key(prefix: str, name: str, annotation: Any) -> str:
    # An entry of a list of sections has its keys, not the list.
    many = any(get_origin(part) is list for part in (annotation, *get_args(annotation)))
    return f"{prefix}{name}[]." if many else f"{prefix}{name}."


def _architecture() -> str:
    """The section `model`, whose keys are the fields of a dataclass, and the sizes that preset them."""
    meanings, defaults = _docstrings(TransformerConfig), RunConfig().transformer(1000, 1000)
    rows = []
    for field in dataclasses.fields(TransformerConfig):
        if field.name not in DERIVED:
            of_size = all(field.name in preset for preset in PRESETS.values())
            default = "by size" if of_size else _shown(getattr(defaults, field.name))
            default = "chosen" if f"model.{field.name}" in CHOSEN else default
            rows.append((f"`model.{field.name}`", default, _values(field.type), meanings.get(field.name, "")))
    sizes = [(f"`{name}`", *map(str, preset.values())) for name, preset in PRESETS.items()]
    keys = next(iter(PRESETS.values()))
    return (
        f"## model\n\n{_first_paragraph(TransformerConfig)}\n\n"
        f"{_table(('key', 'default', 'values', 'meaning'), rows)}\n"
        f"{_table(('size', *(f'`{key}`' for key in keys)), sizes)}"
    )


def _docstrings(dataclass: type) -> dict[str, str]:
    """The docstring under each field of a class, in one line."""
    body = ast.parse(inspect.cleandoc(inspect.getsource(dataclass))).body[0].body
    docstrings = {}
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            docstrings[field.target.id] = " ".join(str(after.value.value).split())
    return docstrings


def _values(kind: Any, limits: Iterable[Any] = ()) -> str:
    return accepted(kind, limits).removeprefix("a ")


def _default(field: FieldInfo) -> str:
    return "required" if field.is_required() else _shown(field.get_default(call_default_factory=True))


def _shown(value: Any) -> str:
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


# --- recipes ---------------------------------------------------------------------------------------


def recipes_page() -> str:
    """Every recipe of the package, whole: its comments say what it is for."""
    parts = [
        "# Recipes\n",
        "A recipe is a YAML file with [settings](settings.md). `dragoman train DATA --recipe NAME` takes one of these, "
        "or a file of yours; `--size` takes those that are sizes; without either, the amount of data chooses. A "
        "setting that is given as `key=value` wins over the recipe.\n",
    ]
    for name in recipe_names():
        text = files("dragoman.recipes").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
        comments = [
            line.removeprefix("#").strip() for line in text.split("\n\n")[0].split("\n") if line.startswith("#")
        ]
        parts.append(f"## {name}\n\n{' '.join(comments)}\n\n```yaml\n{_without_head(text)}\n```\n")
    return "\n".join(parts)


def _without_head(text: str) -> str:
    lines = text.strip().split("\n")
    while lines[0].startswith("#"):
        lines.pop(0)
    return "\n".join(lines)


# --- Markdown --------------------------------------------------------------------------------------


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _first_paragraph(documented: type) -> str:
    return (inspect.getdoc(documented) or "").partition("\n\n")[0].replace("\n", " ")


def main() -> None:
    for path, text in (pages() | up_to_date()).items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
