"""Sequence-level knowledge distillation (Kim & Rush, 2016): a student learns the translations of a teacher.

With `closest` it learns the one of the teacher's n best that is most like the reference ("sequence-level
interpolation").
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from dragoman.config.decoding import DecodingConfig
from dragoman.config.settings import merged
from dragoman.data.readers.types import Pair
from dragoman.data.soft_targets import TOP
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError
from dragoman.runs.synthetic.back_translation import TAG
from dragoman.runs.synthetic.pairs import RealPairs, are_made, read_pairs, write_pairs
from dragoman.runs.synthetic.pieces import Pieces, batched
from dragoman.runs.synthetic.soft_targets import Teachers
from dragoman.runs.synthetic.work import Made, Work
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import decoding_defaults
from dragoman.system.processes import available_workers, map_on_cores

BLOCK = 2_000
"""Pairs that a process chooses translations for at a time."""


def distill(work: Work, real: RealPairs) -> Made:
    """The pairs of a student: translations by the teachers, and some references."""
    options, pieces = work.asked.options, Pieces(work.folder)
    first, *others = options["teachers"]
    search = teacher_search(Path(first), options["choose"])
    teachers = Teachers(work) if options.get("soft_targets") else None
    made = work.folder / f"{real.name}.distilled.jsonl"
    if not are_made(made):
        pieces.write(source for source, _ in read_pairs(real.train))
        loading = {"ensemble": others, "languages": options["languages"], "precision": "auto"}
        load = partial(Translator.load, first, **loading, workers=available_workers())
        pieces.translate(load, search, work.listener)
        with work.listener.status("Choosing translations"):
            if not write_pairs(made, chosen(real.train, pieces)):
                raise DataError(f"{first} translates all sources as nothing; give another teacher.")
    share, name = options["references"], " and ".join(Path(each).name for each in options["teachers"])
    corpora = {made: 1.0} | ({real.train: share / (1 - share)} if share else {})
    which = f"of {search.n_best} translations the closest to the reference" if search.n_best > 1 else "the translation"
    also = f", and references for {share:.0%} of the pairs" if share else ""
    told = f"Learns from {name}: {which} of each source{also}."
    settings = real.settings(corpora)
    if teachers is None:
        return Made(merged(settings, {"tokenizer": {"symbols": _symbols(work, Path(first))}}), [told])
    soft = f"{options['soft_targets']:.0%} of each target are the {TOP} tokens that {name} finds the likeliest there."
    return Made(merged(settings, teachers.settings), [told, soft], teachers.prepare)


def _symbols(work: Work, teacher: Path) -> list[str]:
    """The symbols of the settings and of the teacher, without which a tag such as <2fr> would be copied as text."""
    own = work.asked.config.tokenizer.symbols
    known = ModelDirectory.load(teacher).source_tokenizer.symbols
    return list(dict.fromkeys([*own, *(symbol for symbol in known if symbol != TAG)]))


def teacher_search(teacher: Path, choose: str) -> DecodingConfig:
    """The search that the teacher was scored with, whole texts as in scores, and as many translations as it keeps."""
    own = decoding_defaults(teacher)
    changes = {"split": False, "alignments": False, "sample": False, "diversity": 0.0}
    return own.model_copy(update=changes | {"n_best": own.beam_size if choose == "closest" else 1})


def chosen(references: Path, pieces: Pieces) -> Iterator[Pair]:
    """Each source with the translation that is learnt; those that have none are left out."""
    pairs = zip(read_pairs(references), (found for _, found in pieces.read()), strict=True)
    blocks = ((block,) for block in batched(pairs, BLOCK))
    return (pair for block in map_on_cores(_closest, blocks) for pair in block if pair[1])


def _closest(block: list[tuple[Pair, list[str]]]) -> list[Pair]:
    from sacrebleu.metrics import CHRF

    metric = CHRF(word_order=2)

    def closest(reference: str, found: list[str]) -> str:
        if len(found) == 1 or reference in found:
            return reference if reference in found else found[0]
        return max(found, key=lambda text: metric.sentence_score(text, [reference]).score)

    return [(source, closest(reference, found)) for (source, reference), found in block]
