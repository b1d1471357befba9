"""The command line: each verb is a library call. Heavy imports wait inside the verbs; errors become one sentence.

Results go to stdout, everything else to stderr. Exit codes: 0, 1 failed, 2 usage, 3 data, 4 resources, 130 and 143
for signals.

Budget: a command takes more parameters than a function may, since they are its options.
"""

import errno
import json
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from dragoman import __version__
from dragoman.errors import DragomanError, Interrupted, ResourceError, UsageError

app = typer.Typer(
    help="Train, use and understand translation models: the Transformer from scratch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Argument, Option = typer.Argument, typer.Option
# typer brings a click of its own and exports only some of its exceptions: BadParameter -> UsageError -> this one.
ClickException = typer.BadParameter.__mro__[2]
PRECISIONS = "auto|float32|bfloat16"
SIZES = ("tiny", "small", "base", "big")

Model = Annotated[Path, Argument(metavar="MODEL", help="A model directory, as `train` writes it.", show_default=False)]
BeamSize = Annotated[int, Option(min=1, max=64, help="Hypotheses kept alive; 1 is greedy search.")]
LengthPenalty = Annotated[float, Option(min=0.0, help="Exponent of the length that log-probabilities are divided by.")]
Precision = Annotated[str, Option(metavar=PRECISIONS, help="Of the products; auto: bfloat16 where there is hardware.")]
Workers = Annotated[int | None, Option(min=1, help="Processes on a CPU.", show_default="one per core")]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print results and warnings only.")]


@app.callback(invoke_without_command=True)
def options(version: Annotated[bool, Option("--version", help="Print the version.", is_eager=True)] = False) -> None:
    if version:
        print(f"dragoman {__version__}")
        raise typer.Exit()


@app.command()
def demo(
    output: Annotated[Path | None, Option("--output", "-o", help="Model directory.", show_default="runs/demo")] = None,
    quiet: Quiet = False,
) -> None:
    """Train a small English-French translator on built-in sentences, score it and try it: three minutes, offline."""
    from dragoman.demo import run_demo, unused
    from dragoman.terminal import Display

    run_demo(output or unused(Path("runs/demo")), display=Display(quiet=quiet))


@app.command()
def train(
    data: Annotated[
        list[str] | None,
        Argument(
            metavar="DATA | SOURCE TARGET [key=value ...]",
            help="A TSV file, or a source and a target file, plain or .gz; or builtin:grammar. "
            "Settings such as training.learning_rate=1e-3 may follow.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Model directory.", show_default="runs/NAME")] = None,
    valid: Annotated[
        list[str] | None, Option(help="Validation pairs: a TSV file; give it twice for two.", show_default="split off")
    ] = None,
    test: Annotated[list[str] | None, Option(help="Test pairs, likewise.", show_default="split off")] = None,
    size: Annotated[
        str | None, Option(metavar="|".join(SIZES), help="Recipe of this size.", show_default="by the amount of data")
    ] = None,
    recipe: Annotated[str | None, Option(help="A named recipe, or a YAML file with settings.")] = None,
    max_minutes: Annotated[
        float | None, Option(help="Stop training after this long.", show_default="when BLEU stops rising")
    ] = None,
    precision: Annotated[str | None, Option(metavar=PRECISIONS, help="Of the products.", show_default="auto")] = None,
    seed: Annotated[int | None, Option(help="For split, weights, order, dropout.", show_default="1")] = None,
    resume: Annotated[Path | None, Option(metavar="DIR", help="Go on with the run in this directory.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a translator on sentence pairs."""
    from dragoman import run
    from dragoman.terminal import Display

    settings = [argument for argument in data or [] if "=" in argument and not Path(argument).exists()]
    paths = [argument for argument in data or [] if argument not in settings]
    given = {"training.max_minutes": max_minutes, "training.precision": precision, "seed": seed}
    settings += [f"{key}={value}" for key, value in given.items() if value is not None]
    display = Display(quiet=quiet)
    if resume:
        if paths or output or valid or test or size or recipe:
            raise UsageError("--resume takes data, size and folder from the run; leave them out, or start a new run.")
        directory, evaluation = resume, run.resume(resume, settings, display=display)
    else:
        if size and recipe:
            raise UsageError("--size and --recipe both choose the settings; give one of them.")
        if size and size not in SIZES:
            raise UsageError(f"There is no size '{size}'; choose {', '.join(SIZES)}, or a recipe with --recipe.")
        if len(paths) not in (1, 2):
            raise UsageError(f"`train` takes a file of pairs or two aligned files, not {len(paths)} files.")
        settings += [f"data.{name}={json.dumps(files)}" for name, files in (("valid", valid), ("test", test)) if files]
        config, bitext = run.configure(paths, recipe=recipe or size, settings=settings)
        directory = output or Path("runs", bitext.name)
        evaluation = run.start(bitext, config, directory, display=display)
    _print_scores(evaluation, "On the test pairs", as_json=as_json)
    display.note(f'Try it:  dragoman translate {directory} "..."')


@app.command()
def translate(
    model: Model,
    text: Annotated[
        list[str] | None,
        Argument(metavar="[TEXT ...]", help="Sentences; else lines of --input or stdin.", show_default=False),
    ] = None,
    input_file: Annotated[Path | None, Option("--input", "-i", help="File with a sentence a line.")] = None,
    output_file: Annotated[Path | None, Option("--output", "-o", help="File to write instead of stdout.")] = None,
    beam_size: BeamSize = 5,
    length_penalty: LengthPenalty = 1.0,
    precision: Precision = "auto",
    workers: Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Translate sentences: as many lines out as lines in, in the same order."""
    if text and input_file:
        raise UsageError("Give sentences on the command line or in --input, not both.")
    from dragoman.decoding.translator import Translator
    from dragoman.decoding.workers import available_workers
    from dragoman.lines import one_line, open_input, open_output, read_lines
    from dragoman.terminal import Display

    count = 1 if text else workers or available_workers()
    # Translations that scroll by show the progress themselves.
    visible = output_file is None and sys.stdout.isatty()
    with (
        # The input is opened first: an output is never emptied for an input that is not there.
        nullcontext() if text else open_input(input_file) as stream,
        Translator.load(model, precision=precision, workers=count) as translator,
        open_output(output_file, source=input_file) as out,
        Display(quiet=quiet or visible).progress("Translating") as advance,
    ):
        lines = text or read_lines(stream, str(input_file or "stdin"))
        for translation in translator.stream(lines, beam_size=beam_size, length_penalty=length_penalty):
            print(translation.to_json() if as_json else one_line(translation.text), file=out)
            advance(1)


@app.command()
def evaluate(
    model: Model,
    data: Annotated[
        list[str],
        Argument(metavar="DATA | SOURCE REFERENCE", help="A TSV file, or two aligned files.", show_default=False),
    ],
    output_file: Annotated[Path | None, Option("--output", "-o", help="File for the translations.")] = None,
    beam_size: BeamSize = 5,
    length_penalty: LengthPenalty = 1.0,
    precision: Precision = "auto",
    workers: Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on sentence pairs: BLEU, chrF++, TER, perplexity, token accuracy, speed."""
    if len(data) > 2:
        raise UsageError(f"`evaluate` takes a file of pairs or two aligned files, not {len(data)} files.")
    from dragoman.config import DecodingConfig
    from dragoman.decoding.workers import available_workers
    from dragoman.lines import one_line, open_output
    from dragoman.scoring import evaluate_files
    from dragoman.terminal import Display

    search = DecodingConfig(beam_size=beam_size, length_penalty=length_penalty)
    options = {"search": search, "precision": precision, "workers": workers or available_workers()}
    with open_output(output_file) if output_file else nullcontext() as out:
        with Display(quiet=quiet).status("Translating and scoring"):
            evaluation = evaluate_files(model, data, **options)
        if out:
            out.writelines(one_line(text) + "\n" for text in evaluation.translations)
    _print_scores(evaluation, f"{model} on {' '.join(data)}", as_json=as_json)


@app.command()
def average(
    run: Annotated[Path, Argument(metavar="RUN", help="A model directory with its run/ folder.", show_default=False)],
    output: Annotated[Path, Option("--output", "-o", help="Model directory to write.")],
    last: Annotated[int, Option(min=2, help="How many of the last snapshots.")] = 5,
) -> None:
    """Average the weights of a run's last validations into a new model."""
    from dragoman.training.averaging import average_snapshots

    steps = average_snapshots(run, output, last=last)
    print(f"{output} holds the average of steps {', '.join(f'{step:,}' for step in steps)}.", file=sys.stderr)


def main() -> None:
    """Run the command line and exit with its code."""
    # Before torch is loaded: threads that wait for each other spin for microseconds, not milliseconds. As fast on an
    # idle machine, several times as fast on one that has other work.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        code = app(standalone_mode=False)
    except typer.Exit as exit_:
        code = exit_.exit_code
    except ClickException as error:
        error.show()
        code = UsageError.exit_code
    except Interrupted as stopped:
        print(stopped, file=sys.stderr)
        code = stopped.exit_code
    except DragomanError as error:
        code = _fail(error.exit_code, str(error))
    except (KeyboardInterrupt, typer.Abort):
        code = _fail(128 + signal.SIGINT, "Interrupted.")
    except BrokenPipeError:
        # The reader has left, `head` for one; nothing may touch stdout again, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141  # 128 + SIGPIPE, which Windows does not have
    except (MemoryError, RuntimeError) as error:
        # What torch raises when memory runs out has a class of its own on a GPU only.
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        remedy = "to train, give a smaller training.max_tokens or --size; to translate, a smaller --beam-size"
        code = _fail(ResourceError.exit_code, f"Memory does not suffice; {remedy}.")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = f"{error.strerror or error}: {error.filename or 'while writing'}."
        code = _fail(ResourceError.exit_code if full else 1, what)
    sys.exit(code or 0)


def _fail(code: int, message: str) -> int:
    print(f"Error: {message}", file=sys.stderr)
    return code


def _print_scores(evaluation, title: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(evaluation.to_dict(), ensure_ascii=False))
        return
    from rich.console import Console

    from dragoman.terminal import scores_table

    Console().print(scores_table(title, evaluation.to_dict()))
