"""Tags that models were taught, beside tags that are put into translations by the alignment of their words.

    .venv/bin/python benchmarks/tags.py --train en.txt fr.txt --write tagged.en tagged.fr [--share 0.1]
    .venv/bin/python benchmarks/tags.py --train en.txt fr.txt --test en.txt fr.txt --models MODEL [MODEL ...]
        [--aligner eflomal-align] [--most 300]

The first command writes the training pairs with `<b>` and `</b>` around a stretch of one to four words, on both sides,
in a share of them: around words that are linked to each other and to no others (`dragoman.data.aligning`). The second
has each model translate the test sentences without tags, and once more for each stretch that eflomal surely links to
one stretch of the translation, with tags around it. Printed are the share of stretches whose translation, and no other
word, is bold: by the alignment, as a document is translated, and as the model itself puts the tags into its translation
(eflomal links that one too); how often nothing but the tags differs from the translation without; and BLEU without
tags, and of the sentences with theirs once these are left out.
"""

import argparse
import random
import re
from collections.abc import Iterator
from pathlib import Path

from alignments import LONGEST, aligned, bold_words, document, in_bold, whole_stretch
from dragoman.data.aligning import align
from dragoman.decoding.translator import Translator
from dragoman.metrics import MAIN
from dragoman.metrics.metric import Translations
from dragoman.system.processes import available_workers
from spelling import read
from terms import numbered

_TAGS = re.compile(r"\s*</?b>\s*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, nargs=2, required=True)
    parser.add_argument("--write", type=Path, nargs=2)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--test", type=Path, nargs=2)
    parser.add_argument("--models", type=Path, nargs="*", default=[])
    parser.add_argument("--aligner", default="eflomal-align")
    parser.add_argument("--most", type=int, default=300)
    arguments = parser.parse_args()
    train = [[line.strip() for line in read(path)] for path in arguments.train]
    if arguments.write:
        pairs = list(tagged_pairs(*train, share=arguments.share))
        for path, texts in zip(arguments.write, zip(*pairs, strict=True), strict=True):
            path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return
    test = [[line.strip() for line in read(path)[: arguments.most]] for path in arguments.test]
    print("| | BLEU | BLEU with tags | stretches | by alignment | by the model | same but for the tags |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for model in arguments.models:
        print(f"| {model.name} | {' | '.join(measured(model, train, test, arguments.aligner))} |", flush=True)


def tagged_pairs(sources: list[str], targets: list[str], *, share: float) -> Iterator[tuple[str, str]]:
    """The pairs, a share of them with a stretch in bold print on both sides."""
    rng = random.Random(1)
    words = [[text.split() for text in side] for side in (sources, targets)]
    links = dict(align(*map(numbered, words), seed=1))
    for row, pair in enumerate(zip(sources, targets, strict=True)):
        if row not in links or rng.random() >= share:
            yield pair
            continue
        source, target = words[0][row], words[1][row]
        positions = links[row].tolist()
        stretches = []
        for start in range(len(target)):
            for stop in range(start + 1, min(start + LONGEST, len(target)) + 1):
                inside = {*positions[start:stop]}
                first, last = min(inside), max(inside)
                outside = {*positions[:start], *positions[stop:]}
                is_whole = last < len(source) and not outside & {*range(first, last + 1)}
                if is_whole and last - first < LONGEST and (stop - start < len(target)):
                    stretches.append((start, stop, first, last + 1))
        if not stretches:
            yield pair
            continue
        start, stop, first, last = rng.choice(stretches)
        yield in_bold(source, first, last), in_bold(target, start, stop)


def measured(model: Path, train: list[list[str]], test: list[list[str]], aligner: str) -> list[str]:
    """The cells of a model's row."""
    sources, references = test
    with Translator.load(model, workers=available_workers()) as translator:
        plain = list(translator.translate(sources, alignments=True))
        texts = [translation.text for translation in plain]
        links = aligned([*train[0], *sources], [*train[1], *texts], aligner=aligner)[-len(sources) :]
        cases = []
        for index, (source, reference) in enumerate(zip(sources, links, strict=True)):
            words = source.split()
            for length in range(1, LONGEST + 1):
                for start in range(len(words) - length + 1):
                    expected = whole_stretch(range(start, start + length), reference)
                    if expected is not None and length < len(words):
                        cases.append((index, in_bold(words, start, start + length), expected))
        by_alignment = sum(
            bold_words(document(source, plain[index]), texts[index]) == expected for index, source, expected in cases
        )
        tagged = [translation.text for translation in translator.translate([source for _, source, _ in cases])]
    joined = [_joined(text) for text in tagged]
    bare = [" ".join(_TAGS.sub(" ", text).split()) for text in joined]
    same = sum(text.split() == texts[index].split() for (index, _, _), text in zip(cases, bare, strict=True))
    pairs = [[*train[0], *(sources[index] for index, _, _ in cases)], [*train[1], *bare]]
    links = aligned(*pairs, aligner=aligner)[-len(cases) :]
    by_model, judged = 0, 0
    for (_, source, _), text, without, reference in zip(cases, joined, bare, links, strict=True):
        before, _, rest = source.partition("<b>")
        start = len(before.split())
        expected = whole_stretch(range(start, start + len(rest.partition("</b>")[0].split())), reference)
        if expected is not None:
            judged += 1
            by_model += bold_words(f"<p>{text}</p>", without) == expected
    return [
        f"{MAIN.score(Translations(texts, references)).value:.1f}",
        f"{MAIN.score(Translations(bare, [references[index] for index, _, _ in cases])).value:.1f}",
        str(len(cases)),
        f"{by_alignment / len(cases):.3f}",
        f"{by_model / judged:.3f} of {judged}",
        f"{same / len(cases):.3f}",
    ]


def _joined(text: str) -> str:
    """A translation with its tags at its words."""
    return re.sub(r"</b>\s*([.,!?]?)", r"</b>\1 ", re.sub(r"\s+</b>", "</b>", re.sub(r"<b>\s+", "<b>", text))).strip()


if __name__ == "__main__":
    main()
