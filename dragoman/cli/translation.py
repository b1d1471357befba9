"""Commands that use models: translate, score, evaluate.

Budget: a command takes more parameters than a function may, since they are its options.
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dragoman.cli.checks import check_model, check_translation, open_pairs
from dragoman.cli.options import (
    Argument,
    BeamSize,
    Ensemble,
    Json,
    LengthPenalty,
    Model,
    Option,
    Precision,
    Quiet,
    Workers,
    app,
    pairs,
    print_scores,
)

if TYPE_CHECKING:
    from dragoman.decoding.translation import Translation


@app.command(
    epilog='dragoman translate runs/en-fr "The red house is old."\n'
    "dragoman translate runs/en-fr --input test.en --output test.out.fr\n"
    "cat test.en | dragoman translate runs/en-fr --beam-size 1 > test.greedy.fr"
)
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
    n_best: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Print so many translations: line number, score, text.", show_default=False),
    ] = None,
    diversity: Annotated[
        float, Option(metavar="X", min=0.0, help="With --n-best: how hard alternatives avoid each other.")
    ] = 0.0,
    sample: Annotated[bool, Option("--sample", help="Draw translations at random.")] = False,
    temperature: Annotated[float, Option(metavar="X", help="With --sample: below 1 favours probable tokens.")] = 1.0,
    top_k: Annotated[
        int | None,
        Option(metavar="K", min=1, help="With --sample: only the K most probable tokens.", show_default=False),
    ] = None,
    top_p: Annotated[
        float, Option(metavar="P", help="With --sample: only the most probable tokens, up to P together.")
    ] = 1.0,
    seed: Annotated[int, Option(metavar="N", min=0, help="With --sample: same seed, same samples.")] = 1,
    prefix: Annotated[str, Option(metavar="TEXT", help="What each translation begins with.", show_default=False)] = "",
    glossary: Annotated[
        Path | None, Option(metavar="FILE", help="File of source terms, tab, target terms that must appear.")
    ] = None,
    forbid: Annotated[
        Path | None, Option(metavar="FILE", help="File of target terms that must not appear, one a line.")
    ] = None,
    max_copies: Annotated[
        int, Option(metavar="N", min=0, max=1_000_000, help="How often a phrase may stand in a row; 0: any number.")
    ] = 3,
    alignments: Annotated[bool, Option("--alignments", help="Add word alignments: source-target pairs.")] = False,
    ensemble: Ensemble = None,
    precision: Precision = "auto",
    workers: Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Translate sentences: as many lines out as lines in, in the same order."""
    check_model(model, text or (), ensemble=ensemble)
    check_translation(text, input_file, output_file, terms=(glossary, forbid))
    from dragoman.config import DecodingConfig

    wanted = {
        **{"beam_size": beam_size, "length_penalty": length_penalty, "n_best": n_best or 1, "diversity": diversity},
        **{"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed},
        **{"prefix": prefix, "max_copies": max_copies, "alignments": alignments},
    }
    DecodingConfig.validate(wanted)
    from dragoman.cli.live import live_lines
    from dragoman.data.readers.text_io import open_input, open_output, read_lines
    from dragoman.decoding.glossary import read_glossary, read_terms
    from dragoman.decoding.translator import Translator
    from dragoman.system.processes import available_workers
    from dragoman.terminal import Display

    wanted["glossary"] = read_glossary(glossary) if glossary else {}
    wanted["forbid"] = read_terms(forbid) if forbid else []
    config = DecodingConfig.validate(wanted)
    count = 1 if text else workers or available_workers()
    # Translations that scroll by show the progress themselves.
    visible = output_file is None and sys.stdout.isatty()
    with (
        # The input is opened first: an output is never emptied for an input that is not there.
        nullcontext() if text else open_input(input_file) as stream,
        Translator.load(model, precision=precision, workers=count, ensemble=ensemble or ()) as translator,
        open_output(output_file) as out,
        Display(quiet=quiet or visible).progress("Translating") as advance,
    ):
        lines = text or (read_lines(stream, str(input_file)) if input_file else live_lines(stream, "stdin"))
        for number, translation in enumerate(translator.stream(lines, config), start=1):
            rows = [translation.to_json()] if as_json else text_rows(translation, number if n_best else None)
            # Flushed: whoever waits for this line may write the next one only after it.
            print("\n".join(rows), file=out, flush=True)
            advance(1)


def text_rows(translation: "Translation", number: int | None) -> list[str]:
    """The line of a translation, or with `number` (of its input line) one for each alternative, tab-separated."""
    from dragoman.data.text import one_line
    from dragoman.decoding.alignment import pharaoh

    rows = []
    for each in [translation, *(translation.alternatives or [])]:
        before = [] if number is None else [str(number), f"{each.score:.4f}"]
        after = [] if each.alignment is None else [pharaoh(each.alignment)]
        text = one_line(each.text)
        rows.append("\t".join([*before, text.replace("\t", " ") if before or after else text, *after]))
    return rows


@app.command()
def score(
    model: Model,
    data: Annotated[list[str], pairs()],
    output_file: Annotated[Path | None, Option("--output", "-o", help="File to write instead of stdout.")] = None,
    length_penalty: LengthPenalty = 1.0,
    ensemble: Ensemble = None,
    precision: Precision = "float32",
    workers: Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say how probable a model finds given translations: a line for each pair with score, log-probability, tokens."""
    bitext = open_pairs("score", model, data, ensemble=ensemble, output=output_file)
    from dragoman.data.readers.text_io import open_output
    from dragoman.decoding.translator import Translator
    from dragoman.evaluation.scoring import score_pairs
    from dragoman.system.processes import available_workers
    from dragoman.terminal import Display

    options = {"precision": precision, "workers": workers or available_workers(), "ensemble": ensemble or ()}
    with (
        Translator.load(model, **options) as translator,
        open_output(output_file) as out,
        Display(quiet=quiet or (output_file is None and sys.stdout.isatty())).progress("Scoring") as advance,
    ):
        for scored in score_pairs(translator, bitext, length_penalty=length_penalty):
            print(scored.to_json() if as_json else scored.to_row(), file=out)
            advance(1)


@app.command(epilog="dragoman evaluate runs/en-fr test.en test.fr\ndragoman evaluate runs/en-fr test.tsv --json")
def evaluate(
    model: Model,
    data: Annotated[list[str], pairs("SOURCE REFERENCE")],
    output_file: Annotated[Path | None, Option("--output", "-o", help="File for the translations.")] = None,
    beam_size: BeamSize = 5,
    length_penalty: LengthPenalty = 1.0,
    ensemble: Ensemble = None,
    precision: Precision = "auto",
    workers: Workers = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on sentence pairs: BLEU, chrF++, TER, perplexity, token accuracy, speed."""
    bitext = open_pairs("evaluate", model, data, ensemble=ensemble, output=output_file)
    from dragoman.config import DecodingConfig
    from dragoman.data.readers.text_io import open_output
    from dragoman.data.text import one_line
    from dragoman.evaluation.scoring import evaluate_pairs
    from dragoman.system.processes import available_workers
    from dragoman.terminal import Display

    search = DecodingConfig(beam_size=beam_size, length_penalty=length_penalty)
    options = {"precision": precision, "workers": workers or available_workers(), "ensemble": ensemble or ()}
    with open_output(output_file) if output_file else nullcontext() as out:
        with Display(quiet=quiet).status("Translating and scoring"):
            evaluation = evaluate_pairs(model, list(bitext), search=search, **options)
        if out:
            out.writelines(one_line(text) + "\n" for text in evaluation.translations)
    print_scores(evaluation, f"{model} on {' '.join(data)}", as_json=as_json)
