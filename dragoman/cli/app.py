"""The application class of the command line: plain help, did-you-mean, options that follow from a config.

typer's own help draws boxes and colours with `rich`, which costs half as much time again and, at 80 columns, half of
their width.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dragoman.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from dragoman.terminal import Display

CommandLineError: type[Any] = typer.BadParameter.__base__
"""Error of typer for a command line that it cannot parse. All such errors derive from it; typer exports only one."""


def describe(parameter: Any) -> tuple[str, str]:
    """How an argument or option is typed, and its meaning with its default: the two columns of the help."""
    if parameter.param_type_name == "argument":
        typed = parameter.metavar
    else:
        names = [*sorted(parameter.opts, key=len), *parameter.secondary_opts]
        typed = ", ".join(names) + ("" if parameter.is_flag else f" {parameter.metavar}")
    meaning = parameter.help or ""
    # A default that is determined when the command runs is part of the help text.
    if type(parameter.default) in (str, int, float):
        meaning = f"{meaning} Default: {parameter.default}.".lstrip()
    return typed, meaning


def options_of(function: Callable) -> list[Any]:
    """Options that typer makes from the parameters of a function."""
    probe = typer.Typer(add_completion=False)
    probe.command()(function)
    return typer.main.get_command(probe).params


def _common(
    as_json: Annotated[bool, typer.Option("--json", help="Print the result, errors and warnings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results and warnings only.")] = False,
) -> None: ...


COMMON_OPTIONS = options_of(_common)


class Context(typer.Context):
    """Context of a command: the options that all commands share, and those that follow from a config."""

    started = time.monotonic()
    """When the program began. Limits in minutes count from here."""
    as_json: bool
    quiet: bool
    settings: dict[str, Any]
    """Values of the config options (see `App.command`) that the user gave, by field name."""

    def display(self, *, hidden: bool = False) -> "Display":
        """Returns the display that writes notes, warnings and progress to stderr; warnings only if it is `hidden`."""
        from dragoman.terminal import Display

        return Display(quiet=self.quiet or hidden, as_json=self.as_json)


class _PlainHelp:
    """Help that lists arguments, options and commands by `describe`, and the epilog as examples to copy."""

    def format_options(self, context: Any, formatter: Any) -> None:
        shown = [parameter for parameter in self.get_params(context) if not getattr(parameter, "hidden", False)]
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = [describe(parameter) for parameter in shown if parameter.param_type_name == kind]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, context: Any, formatter: Any) -> None:
        if self.epilog:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in self.epilog.split("\n")))


class Command(_PlainHelp, TyperCommand):
    """A command with more options than its function has parameters. The function finds them in its `Context`."""

    context_class = Context

    def get_params(self, context: Any) -> list[Any]:
        *parameters, help_option = super().get_params(context)
        return [*parameters, *self._config_options(), *COMMON_OPTIONS, help_option]

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        wants_help = context.resilient_parsing or not {"--help", "-h"}.isdisjoint(arguments)
        if self.context_settings["obj"].needs_torch and not wants_help:
            from dragoman.system.optional import require

            require("torch", extra="train", purpose=f"`{context.command_path}`")
        try:
            rest = super().parse_args(context, arguments)
        except CommandLineError as error:
            # The error of an option without its value does not know yet which command it belongs to.
            error.ctx = error.ctx or context
            raise
        if rest and not context.resilient_parsing:
            see = f"put quotes around a text, or see `{context.command_path} --help`"
            raise UsageError(f"`{context.command_path}` takes no argument '{rest[0]}'; {see}.")
        self._move_options(context)
        return rest

    def collect_usage_pieces(self, context: Any) -> list[str]:
        metavars = [parameter.metavar for parameter in self.params if parameter.param_type_name == "argument"]
        return ["[OPTIONS]", *metavars]

    def _config_options(self) -> list[Any]:
        """The options that `settings` of `App.command` returns."""
        return self.context_settings["obj"].settings()

    def _move_options(self, context: Any) -> None:
        """Move the options that the function does not take from its arguments to attributes of the context."""
        context.as_json = context.params.pop("as_json", False)
        context.quiet = context.params.pop("quiet", False)
        context.settings = {}
        for option in self._config_options():
            value = context.params.pop(option.name, None)
            # A flag that was not given may be False or None, so the value does not tell.
            if context.get_parameter_source(option.name).name == "COMMANDLINE":
                context.settings[option.name] = value


class Group(_PlainHelp, TyperGroup):
    """A group of commands. Its help lists each with the first line of its own, and is shown if no command is given."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        if not arguments and not context.resilient_parsing:
            print(context.get_help(), file=sys.stderr)
            raise typer.Exit(UsageError.exit_code)
        return super().parse_args(context, arguments)

    def format_options(self, context: Any, formatter: Any) -> None:
        super().format_options(context, formatter)
        rows = []
        for name in self.list_commands(context):
            command = self.get_command(context, name)
            if not command.hidden:
                rows.append((name, command.help.split("\n")[0]))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        name = arguments[0]
        if not name.startswith("-") and self.get_command(context, name) is None:
            known = self.list_commands(context)
            raise UsageError(f"There is no command '{name}'{did_you_mean(name, known)}; there are {', '.join(known)}.")
        return super().resolve_command(context, arguments)


@dataclass(frozen=True)
class _Registered:
    """What `App.command` says of a command; it is kept in its `context_settings`."""

    settings: Callable[[], list[Any]]
    needs_torch: bool


class App(typer.Typer):
    """A `typer.Typer` with plain help. The `epilog` of a command holds examples, one command on each line."""

    def __init__(self, **options: Any):
        options |= {"rich_markup_mode": None, "pretty_exceptions_enable": False}
        super().__init__(cls=Group, context_settings={"help_option_names": ["-h", "--help"]}, **options)

    def command(
        self,
        name: str | None = None,
        *,
        settings: Callable[[], list[Any]] = list,
        needs_torch: bool = False,
        **options: Any,
    ) -> Callable[[Callable], Callable]:
        """Register a command, as `typer.Typer.command` does.

        `settings` is a function that returns further options, made from the fields of a config. It is called when they
        are needed, since the config loads slowly. Those that the user gave are in `Context.settings`. A command that
        `needs_torch` says so, where it is not installed, before it does anything else.
        """
        context_settings = {"allow_extra_args": True, "obj": _Registered(settings, needs_torch)}
        return super().command(name, cls=Command, context_settings=context_settings, **options)
