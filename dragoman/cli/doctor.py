"""The command that checks the machine: doctor."""

from dataclasses import asdict
from pathlib import Path

import typer

from dragoman.cli.options import Context, app, print_json
from dragoman.errors import ResourceError


@app.command(epilog="dragoman doctor\ndragoman doctor --json")
def doctor(context: Context) -> None:
    """Check this machine: each line is OK or says what to type; the exit code is 4 if something is wrong."""
    from dragoman.system.diagnostics import examine

    checks = examine(Path.cwd())
    wrong = [check for check in checks if check.fix]
    if context.as_json:
        print_json({"ok": not wrong, "checks": [asdict(check) for check in checks]})
    else:
        shown = wrong if context.quiet else checks
        width = max((len(check.name) for check in shown), default=0)
        for check in shown:
            print(f"{'--' if check.fix else 'OK'}  {check.name:<{width}}  {check.found}")
            if check.fix:
                print(f"{'':{width + 6}}fix: {check.fix}")
    if wrong:
        raise typer.Exit(ResourceError.exit_code)
