"""The looks of the command line: plain help that reads the same on a screen and in a file, and did-you-mean.

typer's own help draws boxes and colours with `rich`, which costs half as much time again and, at 80 columns, half of
their width.
"""

import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dragoman.errors import UsageError, did_you_mean

# typer brings a click of its own and exports only some of its exceptions.
_, ClickUsageError, ClickException, *_ = typer.BadParameter.__mro__


def describe(parameter: Any) -> tuple[str, str]:
    """An argument or option as help shows it: what is typed, and what it means, with its default."""
    value = parameter.metavar or parameter.name.upper().replace("_", "-")
    if parameter.param_type_name == "argument":
        typed = value
    else:
        typed = ", ".join(sorted(parameter.opts, key=len)) + ("" if parameter.is_flag else f" {value}")
    # A default in words stands for one that is found when the command runs.
    words = isinstance(parameter.show_default, str)
    default = parameter.show_default if words else parameter.default if parameter.show_default else None
    shown = f"Default: {default}." if type(default) in (str, int, float) and default != "" else ""
    return typed, " ".join(filter(None, (parameter.help, shown)))


class Command(TyperCommand):
    """A command whose help lists its parameters by `describe`, and its epilog as examples to copy."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        try:
            return super().parse_args(context, arguments)
        except ClickUsageError as error:
            # Of an option without its value nobody says yet of which command.
            error.ctx = error.ctx or context
            raise

    def collect_usage_pieces(self, context: Any) -> list[str]:
        arguments = (each for each in self.get_params(context) if each.param_type_name == "argument")
        return ["[OPTIONS]", *(describe(each)[0] for each in arguments)]

    def format_options(self, context: Any, formatter: Any) -> None:
        _write_parameters(self, context, formatter)

    def format_epilog(self, context: Any, formatter: Any) -> None:
        if self.epilog:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.epilog.split("\n")))


def _write_parameters(command: Any, context: Any, formatter: Any) -> None:
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        parameters = (each for each in command.get_params(context) if each.param_type_name == kind)
        if rows := [describe(each) for each in parameters if not getattr(each, "hidden", False)]:
            with formatter.section(title):
                formatter.write_dl(rows)


class Group(TyperGroup):
    """Commands, each listed with the whole first line of its help, which is also shown where none is given."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        if not arguments and not context.resilient_parsing:
            print(context.get_help(), file=sys.stderr)
            raise typer.Exit(UsageError.exit_code)
        return super().parse_args(context, arguments)

    def format_options(self, context: Any, formatter: Any) -> None:
        _write_parameters(self, context, formatter)
        commands = ((name, self.get_command(context, name)) for name in self.list_commands(context))
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.help.split("\n")[0]) for name, each in commands if not each.hidden])

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        name = arguments[0]
        if not name.startswith("-") and self.get_command(context, name) is None:
            known = self.list_commands(context)
            raise UsageError(f"There is no command '{name}'{did_you_mean(name, known)}; there are {', '.join(known)}.")
        return super().resolve_command(context, arguments)


class App(typer.Typer):
    """typer with these looks; give `epilog` a command line or several, a line each, as examples."""

    def __init__(self, **options: Any):
        super().__init__(
            cls=Group,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
            **options,
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[Callable], Callable]:
        """As typer's."""
        return super().command(name, cls=Command, **options)
