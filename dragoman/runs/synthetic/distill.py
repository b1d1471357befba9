"""Sequence-level knowledge distillation (Kim & Rush, 2016): a student learns the translations of its teachers.

With `closest` it learns, of the teachers' n best translations, the one that is most like the reference
("sequence-level interpolation").
"""

from collections.abc import Iterator
from pathlib import Path

from dragoman.config.decoding import DecodingConfig
from dragoman.config.settings import merged
from dragoman.data.readers.types import Pair
from dragoman.data.soft_targets import TOP
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError
from dragoman.runs.synthetic.back_translation import TAG
from dragoman.runs.synthetic.context import SyntheticPairs, SyntheticRunContext
from dragoman.runs.synthetic.pairs import RealPairs, are_made, read_pairs, write_pairs
from dragoman.runs.synthetic.pieces import Pieces, batched
from dragoman.runs.synthetic.soft_targets import Teachers
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import decoding_defaults
from dragoman.system.processes import available_workers, map_on_cores

BLOCK = 2_000
"""Pairs that a process chooses translations for at a time."""


def distill(context: SyntheticRunContext, real: RealPairs) -> SyntheticPairs:
    """Make the pairs of a student: sources with translations by the teachers, and some real pairs."""
    options = context.request.options
    first_teacher = Path(options["teachers"][0])
    search = teacher_search(first_teacher, options["choose"])
    teachers = Teachers(context) if options.get("soft_targets") else None
    distilled = context.folder / f"{real.name}.distilled.jsonl"
    if not are_made(distilled):
        _translate(context, real, search, distilled)
    corpora = {distilled: 1.0}
    share = options["references"]
    if share:
        corpora[real.train] = share / (1 - share)
    settings = real.settings(corpora)
    notes = [_describe(context, search)]
    if teachers is None:
        symbols = _symbols(context, first_teacher)
        return SyntheticPairs(merged(settings, {"tokenizer": {"symbols": symbols}}), notes)
    names = _teacher_names(context)
    notes.append(
        f"{options['soft_targets']:.0%} of each target are the {TOP} tokens that {names} finds the likeliest there."
    )
    return SyntheticPairs(merged(settings, teachers.settings), notes, teachers.prepare)


def _translate(context: SyntheticRunContext, real: RealPairs, search: DecodingConfig, distilled: Path) -> None:
    """Translate the sources of the real pairs by the teachers, and write the pairs to learn into `distilled`."""
    options = context.request.options
    first, *others = options["teachers"]
    pieces = Pieces(context.folder)
    pieces.write(source for source, _ in read_pairs(real.train))

    def load() -> Translator:
        return Translator.load(
            first, ensemble=others, languages=options["languages"], precision="auto", workers=available_workers()
        )

    pieces.translate(load, search, context.listener)
    with context.listener.status("Choosing translations"):
        if not write_pairs(distilled, student_pairs(real.train, pieces)):
            raise DataError(f"{first} translates all sources as nothing; give another teacher.")


def _describe(context: SyntheticRunContext, search: DecodingConfig) -> str:
    """A sentence that says what the student learns from."""
    share = context.request.options["references"]
    which = f"of {search.n_best} translations the closest to the reference" if search.n_best > 1 else "the translation"
    references = f", and references for {share:.0%} of the pairs" if share else ""
    return f"Learns from {_teacher_names(context)}: {which} of each source{references}."


def _teacher_names(context: SyntheticRunContext) -> str:
    return " and ".join(Path(path).name for path in context.request.options["teachers"])


def _symbols(context: SyntheticRunContext, teacher: Path) -> list[str]:
    """The symbols of the settings and of the teacher, without which a tag such as <2fr> would be copied as text."""
    requested = context.request.load_config().tokenizer.symbols
    known = ModelDirectory.load(teacher).source_tokenizer.symbols
    return list(dict.fromkeys([*requested, *(symbol for symbol in known if symbol != TAG)]))


def teacher_search(teacher: Path, choose: str) -> DecodingConfig:
    """The search that the teacher was scored with, on whole texts, with as many translations as `choose` needs."""
    defaults = decoding_defaults(teacher)
    n_best = defaults.beam_size if choose == "closest" else 1
    return defaults.by_beams(n_best)


def student_pairs(references: Path, pieces: Pieces) -> Iterator[Pair]:
    """Each source with the translation that the student learns; sources without a translation are left out."""
    pairs = zip(read_pairs(references), (translations for _, translations in pieces.read()), strict=True)
    blocks = ((block,) for block in batched(pairs, BLOCK))
    for chosen_pairs in map_on_cores(_choose_translations, blocks):
        for source, translation in chosen_pairs:
            if translation:
                yield source, translation


def _choose_translations(block: list[tuple[Pair, list[str]]]) -> list[Pair]:
    """The source of each real pair with the translation that is most like the reference."""
    from sacrebleu.metrics import CHRF

    metric = CHRF(word_order=2)

    def closest(reference: str, translations: list[str]) -> str:
        if reference in translations:
            return reference
        if len(translations) == 1:
            return translations[0]
        return max(translations, key=lambda text: metric.sentence_score(text, [reference]).score)

    return [(source, closest(reference, translations)) for (source, reference), translations in block]
