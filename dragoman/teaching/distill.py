"""Knowledge distillation (Kim & Rush, 2016): a student learns the translations of a teacher.

With `closest` it learns the one of the teacher's n best that is most like the reference ("sequence-level
interpolation"); with soft targets also what else the teacher would have said at each place ("word-level").
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.data.batching import TokenBatches, TokenStore
from dragoman.data.encoding import SIDES, TextTools
from dragoman.data.readers.types import Pair
from dragoman.data.soft_targets import TOP, SoftTargetStore
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.decoding.ensemble import likeliest_tokens, load_ensemble
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, UsageError
from dragoman.model import Transformer
from dragoman.runs.plan import read_config
from dragoman.runs.train import Taught, text_tools
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import decoding_defaults
from dragoman.system.processes import available_workers, map_on_cores
from dragoman.teaching.back_translation import TAG
from dragoman.teaching.pairs import RealPairs, read_pairs, write_pairs
from dragoman.teaching.pieces import Pieces, batched
from dragoman.teaching.work import Made, Work

AT_ONCE = 4_096
"""Target tokens that teachers are asked for at a time."""
BLOCK = 2_000
"""Pairs that a process chooses translations for at a time."""


def distill(work: Work, real: RealPairs) -> Made:
    """The pairs of a student: translations by the teachers, and some references."""
    options, pieces = work.asked.options, Pieces(work.folder)
    first, *others = options["teachers"]
    search = teacher_search(Path(first), options["choose"])
    made, taught = work.folder / f"{real.name}.distilled.jsonl", _taught(work) if options["soft_targets"] else None
    if not made.is_file():
        pieces.write(source for source, _ in read_pairs(real.train))
        loading = {"ensemble": others, "languages": options["languages"], "precision": "auto"}
        load = partial(Translator.load, first, **loading, workers=available_workers())
        pieces.translate(load, search, work.display)
        with work.display.status("Choosing translations"):
            if not write_pairs(made, chosen(real.train, pieces)):
                raise DataError(f"{first} translates all sources as nothing; give another teacher.")
    share, name = options["references"], " and ".join(Path(each).name for each in options["teachers"])
    corpora = {made: 1.0} | ({real.train: share / (1 - share)} if share else {})
    which = f"of {search.n_best} translations the closest to the reference" if search.n_best > 1 else "the translation"
    also = f", and references for {share:.0%} of the pairs" if share else ""
    told = f"Learns from {name}: {which} of each source{also}."
    settings = real.settings(corpora)
    if taught is None:
        return Made([*settings, f"tokenizer.symbols={json.dumps(_symbols(work, Path(first)))}"], [told])
    soft = f"Of each target, {options['soft_targets']:.0%} are what {name} would have said there: {TOP} tokens."
    return Made([*settings, *_kept(taught.tools)], [told, soft], taught)


def _taught(work: Work) -> Taught:
    """The vocabulary of the teachers, and how they tell what they expect of each token in it."""
    options = work.asked.options
    loaded = load_ensemble(options["teachers"], languages=tuple(options["languages"]))
    if loaded[0].directions or loaded[0].source_tokenizer.languages:
        raise UsageError(
            f"{options['teachers'][0]} knows several languages, and a student has the two of its pairs, so they cannot "
            "share a vocabulary; leave out --soft-targets."
        )
    models = [each.model for each in loaded]

    def write(folder: Path) -> None:
        with work.display.status("Asking the teacher for each token") as tell:
            write_soft_targets(models, loaded[0].target_tokenizer, loaded[0].source_tokenizer, folder, tell)

    return Taught(text_tools(loaded[0]), write)


def _kept(tools: TextTools) -> list[str]:
    """The settings of tokenizers that are not learnt anew."""
    source, target = tools.tokenizers
    kept = {"shared": source is target, "vocab_size": max(260, target.vocab_size), "symbols": source.symbols}
    kept["placeholders"] = bool(source.placeholders)
    return [f"tokenizer.{key}={json.dumps(value)}" for key, value in kept.items()]


@torch.inference_mode()
def write_soft_targets(
    models: Sequence[Transformer], target: Tokenizer, source: Tokenizer, folder: Path, tell: Callable[[str], None]
) -> None:
    """Write what `models` together expect in the place of each target token of the pairs prepared in `folder`."""
    stores = [TokenStore(folder / f"train-{side}") for side in SIDES]
    batches = TokenBatches(*stores, max_tokens=AT_ONCE, seed=0, special=(target.special_ids, source.closing))
    soft, device, done = SoftTargetStore.create(folder, stores[1].ends), next(models[0].parameters()).device, 0
    for rows in batches.plan(0):
        batch = batches.collate(rows).to(device)
        found = likeliest_tokens(models, batch.source_ids, batch.target_ids, batch.labels, top=TOP)
        where = np.concatenate([np.arange(at.start, at.stop) for at in map(soft.positions, rows.tolist())])
        soft.ids[where], soft.probabilities[where] = (each.cpu().numpy() for each in found)
        done += len(rows)
        tell(f"{done:,} of {len(soft):,} pairs")


def _symbols(work: Work, teacher: Path) -> list[str]:
    """Those that are asked for and those of the teacher, without which a tag such as <2fr> would be copied as text."""
    own = read_config(work.asked.paths, work.asked.recipe, work.asked.settings).tokenizer.symbols
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
