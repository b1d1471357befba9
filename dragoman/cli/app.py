"""Plain help that reads the same on a screen and in a file; did-you-mean; options that follow from the config.

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
    """An argument or option as help shows it: how it is typed, and its meaning with its default."""
    value = parameter.metavar or parameter.name.upper().replace("_", "-")
    if parameter.param_type_name == "argument":
        typed = value
    else:
        typed = ", ".join(sorted(parameter.opts, key=len)) + ("" if parameter.is_flag else f" {value}")
    # A default that is determined when the command runs is part of the help text.
    shown = f"Default: {parameter.default}." if type(parameter.default) in (str, int, float) else None
    return typed, " ".join(filter(None, (parameter.help, shown)))


class _PlainHelp:
    """Help that lists arguments, options and commands by `describe`, and the epilog as examples to copy."""

    def format_options(self, context: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            parameters = (each for each in self.get_params(context) if each.param_type_name == kind)
            if rows := [describe(each) for each in parameters if not getattr(each, "hidden", False)]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, context: Any, formatter: Any) -> None:
        if self.epilog:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.epilog.split("\n")))


class Command(_PlainHelp, TyperCommand):
    """A command that may have more options than its function has parameters."""

    @staticmethod
    def settings() -> list[Any]:
        """Options that follow from a section of the config; its function finds those that are given in `context.obj`.

        They are made when they are needed, since the config takes long to load.
        """
        return []

    def get_params(self, context: Any) -> list[Any]:
        parameters = super().get_params(context)
        after = next((i for i, each in enumerate(parameters, start=1) if "--output" in each.opts), 0)
        return [*parameters[:after], *self.settings(), *parameters[after:]]

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        try:
            rest = super().parse_args(context, arguments)
        except ClickUsageError as error:
            # An option without its value does not know yet which command it belongs to.
            error.ctx = error.ctx or context
            raise
        if rest and not context.resilient_parsing:
            see = f"put quotes around a text, or see `{context.command_path} --help`"
            raise UsageError(f"`{context.command_path}` takes no argument '{rest[0]}'; {see}.")
        values = {each.name: context.params.pop(each.name, None) for each in self.settings()}
        context.obj = {name: value for name, value in values.items() if value not in (None, False)}
        return rest

    def collect_usage_pieces(self, context: Any) -> list[str]:
        arguments = (each for each in self.get_params(context) if each.param_type_name == "argument")
        return ["[OPTIONS]", *(describe(each)[0] for each in arguments)]


class Group(_PlainHelp, TyperGroup):
    """Commands, each listed with the first line of its help, which is also shown if no command is given."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        if not arguments and not context.resilient_parsing:
            print(context.get_help(), file=sys.stderr)
            raise typer.Exit(UsageError.exit_code)
        return super().parse_args(context, arguments)

    def format_options(self, context: Any, formatter: Any) -> None:
        super().format_options(context, formatter)
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
    """typer with this help; `epilog` holds one or more command lines, a line each, as examples."""

    def __init__(self, **options: Any):
        options |= {"rich_markup_mode": None, "pretty_exceptions_enable": False}
        super().__init__(cls=Group, context_settings={"help_option_names": ["-h", "--help"]}, **options)

    def command(
        self, name: str | None = None, *, settings: Callable[[], list[Any]] = Command.settings, **options: Any
    ) -> Callable[[Callable], Callable]:
        """As typer's, with the options of `Command.settings`."""
        kind = type("Command", (Command,), {"settings": staticmethod(settings)})
        return super().command(name, cls=kind, context_settings={"allow_extra_args": True}, **options)
