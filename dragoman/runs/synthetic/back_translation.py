"""Back-translation (Sennrich et al., 2016): sentences of the target language are translated by a reverse model.

Each sentence becomes a pair with its translation as the source. These sources begin with a tag (Caswell et al., 2019),
so that the model can tell them from real ones. They come from beam search: with few pairs it teaches more than samples
do (Edunov et al., 2018).
"""

import math
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dragoman.config.data import DataConfig
from dragoman.config.settings import Settings, merged
from dragoman.data.bitext import Bitext
from dragoman.data.preparation import TOKENIZER_PAIRS
from dragoman.data.readers.types import Pair
from dragoman.data.splitting import smallest, without_twins
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError
from dragoman.formats.text_files import open_input, read_lines
from dragoman.runs.synthetic.context import SyntheticPairs, SyntheticRunContext
from dragoman.runs.synthetic.pairs import RealPairs, are_made, read_pairs, write_pairs
from dragoman.runs.synthetic.pieces import Pieces
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.validate import decoding_defaults, languages
from dragoman.system.processes import available_workers
from dragoman.text.characters import folded, normalised, share, text_hash
from dragoman.text.language_codes import same_language

TAG = "<bt>"
REVERSE_SHARE = 1 / 4
"""Share of the minutes of the run in which the reverse model is trained."""
TRANSLATED_AT = 1 / 3
"""Share of the minutes of the run after which no further piece is translated."""
TRIAL_SHARE = 1 / 12
"""Share of the minutes of the run that the trial of a ratio takes, if there are several ratios."""
TRIAL_MINUTES = 10.0
"""Minutes of a trial in a run without a limit."""
MOST_COPIES = 1_000
"""Most copies of a back-translated pair in an epoch: the largest weight that a corpus may have."""
TRIAL_TEST_PAIRS = 50
"""Pairs that a trial is scored on at its end. The scores are not used."""


def back_translate(context: SyntheticRunContext, real: RealPairs) -> SyntheticPairs:
    """Make tagged pairs by a reverse model, and mix them with the real pairs.

    The ratio is the one that the request gives, or the best of several by their validation loss.
    """
    config = context.request.load_config()
    minutes: float | None = config.training.max_minutes
    ratios: list[float] = context.request.options["ratios"]
    tagged = context.folder / f"{real.name}.back-translated.jsonl"
    pieces = Pieces(context.folder)
    _check_reverse_model(context, real)
    if not pieces.sources.is_dir():  # before the reverse model is trained: the files may be no text
        pieces.write(_monolingual_sentences(context, real, config.data, per_pair=max(ratios, default=1.0)))
    reverse = _reverse_model(context, real, minutes)
    if not are_made(tagged):
        _translate(context, real, pieces, reverse, minutes)
        made = Bitext(lambda: _tagged_pairs(pieces, real), name=tagged.name)
        if config.data.split == "groups":
            made = without_twins(made, list(real.held_out()))
        write_pairs(tagged, made)
    count = sum(1 for _ in read_pairs(tagged))
    if not count:
        raise DataError("No sentence of --monolingual is left that has a translation; give others.")
    symbols = [*config.tokenizer.symbols, TAG]
    vocabulary = config.tokenizer.pairs or [str(_vocabulary_pairs(real))]

    def settings_with(ratio: float) -> Settings:
        weight = min(MOST_COPIES, ratio * real.count / count)
        mixture = real.settings({real.train: 1.0, tagged: weight})
        return merged(mixture, {"tokenizer": {"symbols": symbols, "pairs": vocabulary}})

    losses: dict[float, float] = {}
    if len(ratios) > 1:
        for ratio in ratios:
            losses[ratio] = _trial(context, real, settings_with(ratio), ratio, minutes)
        best_ratio = min(losses, key=losses.__getitem__)
    else:
        best_ratio = ratios[0] if ratios else min(1.0, count / real.count)
    notes = [
        f"{count:,} back-translated sentences by {reverse.name}, {best_ratio:.2g} for each real pair, tagged {TAG}."
    ]
    if losses:
        validated = ", ".join(f"{loss:.3f} with {ratio:g}" for ratio, loss in losses.items())
        notes.append(f"Validation losses of trials: {validated}.")
    return SyntheticPairs(settings_with(best_ratio), notes)


def _check_reverse_model(context: SyntheticRunContext, real: RealPairs) -> None:
    """Raise `UsageError` if the user gives a reverse model that does not translate from target to source."""
    given = context.request.options["reverse"]
    known = languages(Path(given)) if given else None
    if not known or not real.languages:
        return
    wanted = real.languages[::-1]
    if not all(map(same_language, known, wanted)):
        raise UsageError(
            f"{given} translates from {' to '.join(known)}; --reverse needs a model from {' to '.join(wanted)}."
        )


def _monolingual_sentences(
    context: SyntheticRunContext, real: RealPairs, data: DataConfig, *, per_pair: float
) -> Iterator[str]:
    """Different sentences of the target language, `per_pair` for each real pair, drawn by their hash.

    Targets of held-out pairs are left out: their back-translations would reveal the references.
    """
    held_out = {folded(target) for _, target in real.held_out()}
    left_out = 0

    def hashed_sentences() -> Iterator[tuple[str, str]]:
        nonlocal left_out
        most_characters = data.cleaning.max_characters or math.inf
        for name in context.request.options["monolingual"]:
            with open_input(Path(name)) as stream:
                for line in read_lines(stream, name, replace=data.replace_bad_bytes):
                    text = normalised(line)
                    if folded(text) in held_out:
                        left_out += 1
                    elif text and len(text) <= most_characters:
                        yield text_hash(text).hex(), text

    drawn = smallest(hashed_sentences(), math.ceil(per_pair * real.count))
    if left_out:
        what = "sentence is the target" if left_out == 1 else "sentences are targets"
        context.listener.note(f"Left out: {left_out:,} {what} of held-out pairs.")
    if not drawn:
        raise DataError("No sentence of --monolingual can be learned from; give others.")
    return (copies[0] for copies in drawn.values())


def _reverse_model(context: SyntheticRunContext, real: RealPairs, minutes: float | None) -> Path:
    """Path of the reverse model: the one that is given, or one trained on the real pairs, from target to source."""
    if given := context.request.options["reverse"]:
        return Path(given)
    # Files that the user names for a vocabulary have the sides of the run itself; so have searches and hints.
    of_run: Settings = {"tokenizer": {"pairs": []}, "training": {"fuzzy": 0, "terms": 0}}
    settings = merged(real.settings({real.train: 1.0}, reverse=True), of_run)
    if minutes:
        settings = merged(settings, {"training": {"max_minutes": REVERSE_SHARE * minutes}})
    return context.train("reverse", settings, started=context.started, without=("decoding",)).path


def _translate(
    context: SyntheticRunContext, real: RealPairs, pieces: Pieces, reverse: Path, minutes: float | None
) -> None:
    """Translate the monolingual sentences by the reverse model, as many as there is time for."""

    def load() -> Translator:
        directions = real.languages[::-1] if real.languages else (None, None)
        return Translator.load(reverse, languages=directions, precision="auto", workers=available_workers())

    search = decoding_defaults(reverse).by_beams()
    until = context.started + 60 * TRANSLATED_AT * minutes if minutes else None
    pieces.translate(load, search, context.listener, until=until)


def _tagged_pairs(pieces: Pieces, real: RealPairs) -> Iterator[Pair]:
    """A pair for each sentence that has a translation, unless the translation is the source of a held-out pair."""
    held_out = {folded(source) for source, _ in real.held_out()}
    for sentence, translations in pieces.read():
        translation = translations[0]
        if translation.strip() and folded(translation) not in held_out:
            yield f"{TAG} {translation}", sentence


def _vocabulary_pairs(real: RealPairs) -> Path:
    """File of real pairs that the vocabulary is learned from: as many as a run on the real pairs alone would take.

    All trials and the run itself have this vocabulary.
    """
    if real.count <= TOKENIZER_PAIRS:
        return real.train
    file = real.folder / "vocabulary.jsonl"
    if not are_made(file):
        part = TOKENIZER_PAIRS / real.count
        write_pairs(file, (pair for pair in read_pairs(real.train) if share(pair, "vocabulary") < part))
    return file


def _trial(
    context: SyntheticRunContext, real: RealPairs, settings: Settings, ratio: float, minutes: float | None
) -> float:
    """The lowest validation loss of a short run with this ratio."""
    test = context.folder / "few.jsonl"
    if not are_made(test):
        write_pairs(test, islice(real.held_out(), TRIAL_TEST_PAIRS))
    limit = TRIAL_SHARE * minutes if minutes else TRIAL_MINUTES
    settings = merged(settings, {"data": {"test": [str(test)]}, "training": {"max_minutes": limit}})
    directory = context.train(f"trial-{ratio:g}", settings, started=time.monotonic())
    events = read_metrics(directory.metrics)
    return min(event["valid_loss"] for event in events if event["event"] == "validation")
