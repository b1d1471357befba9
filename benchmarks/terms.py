"""How well the terms of a glossary are put into translations, and in which form.

    .venv/bin/python benchmarks/terms.py MODEL [MODEL ...] --train en.txt de.txt --test en.txt de.txt [--most 400]

For each test pair, a glossary is made of one source word and the most frequent form of the target word that is aligned
to it (`dragoman.data.aligning`, which reads the training pairs too); words of one form are left out. Each model
translates without a glossary, with terms exactly as they are written, and with terms that may be inflected. Printed are
the share of translations with the term in the form of the reference and in any form, and BLEU, for the pairs whose term
has another form in the reference and for all others; and how often the model had put the term in by itself.
"""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.data.aligning import NONE, align
from dragoman.data.batching import Sentences
from dragoman.data.terms import WordForms
from dragoman.decoding.translator import Translator
from dragoman.metrics import MAIN
from dragoman.metrics.metric import Translations
from dragoman.system.processes import available_workers
from dragoman.text.scripts import WORD
from dragoman.text.word_forms import count_forms
from spelling import read

CERTAIN = 3
"""How often a source word is aligned to forms of its target word in training, at least."""


@dataclass(frozen=True)
class TermCase:
    """A test pair with a glossary of one entry."""

    source: str
    reference: str
    source_word: str
    term: str
    """The target word as the glossary has it."""
    form: str
    """The target word as the reference has it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--train", type=Path, nargs=2, required=True)
    parser.add_argument("--test", type=Path, nargs=2, required=True)
    parser.add_argument("--most", type=int, default=400)
    arguments = parser.parse_args()
    train, test = (
        [[line.strip() for line in read(path)] for path in paths] for paths in (arguments.train, arguments.test)
    )
    cases = term_cases(train, [side[: arguments.most] for side in test])
    others = [case for case in cases if case.form != case.term]
    print(f"{len(cases)} terms, {len(others)} in another form than in the reference")
    heads = ["model", "glossary"]
    for which in ("other", "same"):
        heads += [f"{which} form: as reference", "any form", "BLEU"]
    print(f"| {' | '.join([*heads, 'by itself'])} |\n| --- | --- |{' ---: |' * 7}")
    for model in arguments.models:
        with Translator.load(model, workers=available_workers()) as translator:
            for name, options in (
                ("none", None),
                ("exact", {"inflect": False}),
                ("inflected", {"inflect": True}),
            ):
                texts, by_itself = translated(translator, cases, options)
                cells = []
                for same in (False, True):
                    rows = [row for row, case in enumerate(cases) if (case.form == case.term) == same]
                    cells += scores([cases[row] for row in rows], [texts[row] for row in rows])
                found = f"{by_itself:.3f}" if options else ""
                print(f"| {model.name} | {name} | {' | '.join(cells)} | {found} |", flush=True)


def term_cases(train: list[list[str]], test: list[list[str]]) -> list[TermCase]:
    """The cases of the test pairs, at most one for each."""
    words = [[WORD.findall(text) for text in [*first, *last]] for first, last in zip(train, test, strict=True)]
    source, target = map(numbered, words)
    links: Counter[tuple[str, str]] = Counter()
    aligned: dict[int, np.ndarray] = {}
    for row, found in align(source, target, seed=1):
        positions = np.where((found >= 0) & (found < len(words[0][row])), found, NONE)
        aligned[row] = positions
        for place, position in enumerate(positions.tolist()):
            if position != NONE:
                links[words[0][row][position], words[1][row][place]] += 1
    forms = WordForms(train[1])
    cases = []
    count = len(train[0])
    for index, (text, reference) in enumerate(zip(*test, strict=True)):
        positions = aligned.get(count + index)
        if positions is None:
            continue
        choices = []
        for place, position in enumerate(positions.tolist()):
            word = words[1][count + index][place]
            if position == NONE or not forms.is_term(word) or positions.tolist().count(position) > 1:
                continue
            source_word = words[0][count + index][position]
            known = forms.known(word)
            if len(known) > 1 and links[source_word, word] >= CERTAIN and text.split().count(source_word) == 1:
                term = max(known, key=lambda form: forms.counts[form])
                choices.append((term == word, place, TermCase(text, reference, source_word, term, word)))
        if choices:
            cases.append(min(choices, key=lambda choice: choice[:2])[2])
    return cases


def numbered(sentences: list[list[str]]) -> Sentences:
    """Sentences of words as numbers."""
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(word, len(numbers) + 4) for sentence in sentences for word in sentence]
    return Sentences(np.array(ids, np.uint32), np.cumsum([len(sentence) for sentence in sentences]))


def translated(
    translator: Translator, cases: list[TermCase], options: dict[str, bool] | None
) -> tuple[list[str], float]:
    """The translation of each case, and the share that had its term before it was put in."""
    completed = 0
    work = translator._work
    complete = work._completed

    def counted(candidates: list, *others: object) -> list:
        nonlocal completed
        completed += len({candidate.index for candidate in candidates})
        return complete(candidates, *others)

    texts = []
    work._completed = counted
    translator.close()  # alone, so that what is put in can be counted
    for case in cases:
        glossary = {} if options is None else {"glossary": {case.source_word: case.term}, **options}
        texts += [translation.text for translation in translator.translate([case.source], **glossary)]
    del work._completed
    return texts, 1 - completed / len(cases)


def scores(cases: list[TermCase], texts: list[str]) -> list[str]:
    """The share of the texts with the form of the reference, that with any form, and BLEU."""
    exact = sum(case.form in WORD.findall(text) for case, text in zip(cases, texts, strict=True))
    forms = sum(count_forms(case.term, text) > 0 for case, text in zip(cases, texts, strict=True))
    bleu = MAIN.score(Translations(texts, [case.reference for case in cases])).value
    return [f"{exact / len(cases):.3f}", f"{forms / len(cases):.3f}", f"{bleu:.1f}"]


if __name__ == "__main__":
    main()
