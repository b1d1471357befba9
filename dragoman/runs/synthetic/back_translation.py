"""Back-translation (Sennrich et al., 2016): sentences of the target language, translated by a model of the other
direction, become pairs. Their sources begin with a tag (Caswell et al., 2019), so that they are not taken for real.

They are translated by beam search: with few pairs it teaches more than samples do (Edunov et al., 2018).
"""

import math
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path

from dragoman.config.data import DataConfig
from dragoman.config.settings import Settings, merged
from dragoman.data.preparation import TOKENIZER_PAIRS
from dragoman.data.readers.types import Pair
from dragoman.data.splitting import smallest
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError
from dragoman.formats.text_files import open_input, read_lines
from dragoman.runs.synthetic.pairs import RealPairs, are_made, read_pairs, write_pairs
from dragoman.runs.synthetic.pieces import Pieces
from dragoman.runs.synthetic.work import Made, Work
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.validate import decoding_defaults, languages
from dragoman.system.processes import available_workers
from dragoman.text.characters import folded, normalised, share, text_hash
from dragoman.text.language_codes import same_language

TAG = "<bt>"
REVERSE, TRANSLATED, TRIAL = 1 / 4, 1 / 3, 1 / 12
"""Shares of the minutes: the reverse model is trained after the first, and nothing is translated after the second; each
of several ratios is tried for the third."""
TRIAL_MINUTES = 10.0
"""Minutes of a trial in a run without a limit."""
MOST_COPIES = 1_000
"""Most copies of a back-translated pair in an epoch: the largest weight that a corpus may have."""
TRIED = 50
"""Pairs that a trial is tested on, which decides nothing."""


def back_translate(work: Work, real: RealPairs) -> Made:
    """The real pairs, and tagged ones that a reverse model makes, in the ratio that is given or validates best."""
    config = work.asked.config
    minutes, ratios = config.training.max_minutes, work.asked.options["ratios"]
    made, pieces = work.folder / f"{real.name}.back-translated.jsonl", Pieces(work.folder)
    _check_reverse_model(work, real)
    if not pieces.sources.is_dir():  # before the reverse model is trained: they may be no text
        pieces.write(_sentences(work, real, config.data, most=max(ratios, default=1.0)))
    reverse = _reverse_model(work, real, minutes)
    if not are_made(made):
        languages = real.languages[::-1] if real.languages else (None, None)
        options = {"languages": languages, "precision": "auto", "workers": available_workers()}
        load = partial(Translator.load, reverse, **options)
        until = work.started + 60 * TRANSLATED * minutes if minutes else None
        search = {"split": False, "alignments": False, "sample": False, "diversity": 0.0, "n_best": 1}
        pieces.translate(load, decoding_defaults(reverse).model_copy(update=search), work.listener, until=until)
        write_pairs(made, _tagged(pieces, real))
    count = sum(1 for _ in read_pairs(made))
    if not count:
        raise DataError("No sentence of --monolingual is left that has a translation; give others.")
    vocabulary = config.tokenizer.pairs or [str(_vocabulary(real))]
    settings = partial(_settings, real, made, count, symbols=[*config.tokenizer.symbols, TAG], vocabulary=vocabulary)
    losses = {r: _trial(work, real, settings(r), r, minutes) for r in ratios} if len(ratios) > 1 else {}
    ratio = min(losses, key=losses.get) if losses else next(iter(ratios), min(1.0, count / real.count))
    told = f"{count:,} back-translated sentences by {reverse.name}, {ratio:.2g} for each real pair, tagged {TAG}."
    chosen = ", ".join(f"{loss:.3f} with {each:g}" for each, loss in losses.items())
    return Made(settings(ratio), [told] + ([f"Validation losses of trials: {chosen}."] if chosen else []))


def _vocabulary(real: RealPairs) -> Path:
    """The real pairs that all runs learn their vocabulary from, as many as a run on these alone would take."""
    if real.count <= TOKENIZER_PAIRS:
        return real.train
    file = real.folder / "vocabulary.jsonl"
    if not are_made(file):
        part = TOKENIZER_PAIRS / real.count
        write_pairs(file, (pair for pair in read_pairs(real.train) if share(pair, "vocabulary") < part))
    return file


def _check_reverse_model(work: Work, real: RealPairs) -> None:
    """Raise `UsageError` for a model that is given, but translates other languages than from target to source."""
    given = work.asked.options["reverse"]
    known = given and languages(Path(given))
    if known and real.languages and not all(map(same_language, known, real.languages[::-1])):
        wanted, found = (" to ".join(pair) for pair in (real.languages[::-1], known))
        raise UsageError(f"{given} translates from {found}; --reverse needs a model from {wanted}.")


def _reverse_model(work: Work, real: RealPairs, minutes: float | None) -> Path:
    """The model that is given, or one that is trained on the real pairs, from target to source."""
    if given := work.asked.options["reverse"]:
        return Path(given)
    # Files that the user names for a vocabulary have the sides of the run itself.
    settings = merged(real.settings({real.train: 1.0}, reverse=True), {"tokenizer": {"pairs": []}})
    if minutes:
        settings = merged(settings, {"training": {"max_minutes": REVERSE * minutes}})
    return work.train("reverse", settings, started=work.started).path


def _sentences(work: Work, real: RealPairs, data: DataConfig, *, most: float) -> Iterator[str]:
    """Different sentences of the target language, `most` for each real pair, drawn by their text.

    Those that are the target of a held-out pair are left out: their translations would tell what is asked.
    """
    held_out = {folded(target) for _, target in real.held_out()}
    left_out = 0

    def usable() -> Iterator[tuple[str, str]]:
        nonlocal left_out
        lines = (_lines(name, data.replace_bad_bytes) for name in work.asked.options["monolingual"])
        for text in map(normalised, chain.from_iterable(lines)):
            if folded(text) in held_out:
                left_out += 1
            elif text and len(text) <= (data.cleaning.max_characters or math.inf):
                yield text_hash(text).hex(), text

    drawn = smallest(usable(), math.ceil(most * real.count))
    if left_out:
        what = "sentence is the target" if left_out == 1 else "sentences are targets"
        work.listener.note(f"Left out: {left_out:,} {what} of held-out pairs.")
    if not drawn:
        raise DataError("No sentence of --monolingual can be learnt from; give others.")
    return (text for text, *_ in drawn.values())


def _lines(name: str, replace: bool) -> Iterator[str]:
    with open_input(Path(name)) as stream:
        yield from read_lines(stream, name, replace=replace)


def _tagged(pieces: Pieces, real: RealPairs) -> Iterator[Pair]:
    """A pair for each sentence that has a translation, unless that is a held-out source."""
    held_out = {folded(source) for source, _ in real.held_out()}
    for sentence, (translation, *_) in pieces.read():
        if translation.strip() and folded(translation) not in held_out:
            yield f"{TAG} {translation}", sentence


def _settings(
    real: RealPairs, made: Path, count: int, ratio: float, *, symbols: list[str], vocabulary: list[str]
) -> Settings:
    """The settings of a run with so many made pairs for each real one."""
    corpora = {real.train: 1.0, made: min(MOST_COPIES, ratio * real.count / count)}
    return merged(real.settings(corpora), {"tokenizer": {"symbols": symbols, "pairs": vocabulary}})


def _trial(work: Work, real: RealPairs, settings: Settings, ratio: float, minutes: float | None) -> float:
    """The lowest validation loss of a short run with this ratio; all of them have the vocabulary of the real pairs."""
    few = work.folder / "few.jsonl"
    if not are_made(few):
        write_pairs(few, islice(real.held_out(), TRIED))
    limit = TRIAL * minutes if minutes else TRIAL_MINUTES
    settings = merged(settings, {"data": {"test": [str(few)]}, "training": {"max_minutes": limit}})
    directory = work.train(f"trial-{ratio:g}", settings, started=time.monotonic())
    events = read_metrics(directory.metrics)
    return min(event["valid_loss"] for event in events if event["event"] == "validation")
