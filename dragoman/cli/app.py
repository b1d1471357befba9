"""Plain help that reads the same on a screen and in a file; did-you-mean; options that follow from the config.

typer's own help draws boxes and colours with `rich`, which costs half as much time again and, at 80 columns, half of
their width.
"""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dragoman.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from dragoman.terminal import Display

# typer brings a click of its own and exports only some of its exceptions.
_, ClickUsageError, ClickException, *_ = typer.BadParameter.__mro__


def describe(parameter: Any) -> tuple[str, str]:
    """An argument or option as help shows it: how it is typed, and its meaning with its default."""
    if parameter.param_type_name == "argument":
        typed = parameter.metavar
    else:
        names = [*sorted(parameter.opts, key=len), *parameter.secondary_opts]
        typed = ", ".join(names) + ("" if parameter.is_flag else f" {parameter.metavar}")
    # A default that is determined when the command runs is part of the help text.
    shown = f"Default: {parameter.default}." if type(parameter.default) in (str, int, float) else None
    return typed, " ".join(filter(None, (parameter.help, shown)))


def options_of(function: Callable) -> list[Any]:
    """The options that typer makes of the parameters of a function."""
    probe = typer.Typer(add_completion=False)
    probe.command()(function)
    return typer.main.get_command(probe).params


def _common(
    as_json: Annotated[bool, typer.Option("--json", help="Print the result, errors and warnings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results and warnings only.")] = False,
) -> None: ...


COMMON_OPTIONS = options_of(_common)


class Context(typer.Context):
    """What the function of a command receives besides its arguments."""

    started = time.monotonic()
    """When the program began, from which limits in minutes count."""
    as_json: bool
    quiet: bool
    settings: dict[str, Any]
    """The options that were given of those in `App.command: settings`."""

    def display(self, *, hidden: bool = False) -> "Display":
        """Notes, warnings and progress on stderr; `hidden` leaves warnings only, as --quiet does."""
        from dragoman.terminal import Display

        return Display(quiet=self.quiet or hidden, as_json=self.as_json)


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
    """A command that has more options than its function has parameters: those that are given are in the `Context`."""

    context_class = Context

    def get_params(self, context: Any) -> list[Any]:
        *own, help_option = super().get_params(context)
        return [*own, *self.context_settings["obj"](), *COMMON_OPTIONS, help_option]

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
        context.as_json, context.quiet = (context.params.pop(each.name, False) for each in COMMON_OPTIONS)
        values = {each.name: context.params.pop(each.name, None) for each in context.obj()}
        # A flag that was not given is False, or None, as it happens.
        context.settings = {k: v for k, v in values.items() if context.get_parameter_source(k).name == "COMMANDLINE"}
        return rest

    def collect_usage_pieces(self, context: Any) -> list[str]:
        return ["[OPTIONS]", *(each.metavar for each in self.params if each.param_type_name == "argument")]


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
        self, name: str | None = None, *, settings: Callable[[], list[Any]] = list, **options: Any
    ) -> Callable[[Callable], Callable]:
        """As typer's. `settings` makes more options, when they are needed: those of the config, which loads slowly."""
        more = {"allow_extra_args": True, "obj": settings}
        return super().command(name, cls=Command, context_settings=more, **options)
