"""How well models tell which words belong together, and where tags of a document land.

    .venv/bin/python benchmarks/alignments.py MODEL [MODEL ...] --train en.txt fr.txt --test en.txt fr.txt
        [--aligner eflomal-align] [--most 300]

Links between the words of the test pairs, whose targets the models are made to translate, are compared with those of
eflomal (PyPI), which has read the training pairs too: what both of its directions say is sure, what one says possible.
Printed are the alignment error rate 1 - (|A and S| + |A and P|) / (|A| + |S|), precision and recall (Och and Ney 2003),
and the share of words and of stretches of two to four words in bold print, one at a time, whose translation, and no
other word, is bold in the translated document; only words that are surely linked to a whole stretch count.
"""

import argparse
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.alignment import Alignment, word_spans
from dragoman.decoding.translation import Translation
from dragoman.decoding.translator import Translator
from dragoman.documents.document import UNKNOWN
from dragoman.documents.registry import translate_document
from dragoman.documents.translate import Engine
from dragoman.system.processes import available_workers
from spelling import read

LONGEST = 4
"""Most words of a stretch in bold print."""
_PART = re.compile(r"\w+['’]?|[^\w\s]")

Links = set[tuple[int, int]]


@dataclass(frozen=True)
class Reference:
    """The links of a pair by another aligner."""

    sure: Links
    possible: Links


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--train", type=Path, nargs=2, required=True)
    parser.add_argument("--test", type=Path, nargs=2, required=True)
    parser.add_argument("--aligner", default="eflomal-align")
    parser.add_argument("--most", type=int, default=300)
    arguments = parser.parse_args()
    tests = [[line.strip() for line in read(path)[: arguments.most]] for path in arguments.test]
    texts = [[line.strip() for line in read(path)] + test for path, test in zip(arguments.train, tests, strict=True)]
    references = aligned(*texts, aligner=arguments.aligner)[-len(tests[0]) :]
    print("| | AER | precision | recall | words in bold | stretches in bold |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for model in arguments.models:
        found = links_of(model, *tests)
        rates = error_rate(found, references)
        single = bold(*tests, found, references, lengths=range(1, 2))
        several = bold(*tests, found, references, lengths=range(2, LONGEST + 1))
        print(f"| {model.name} | {' | '.join(f'{rate:.3f}' for rate in (*rates, single, several))} |", flush=True)


def aligned(sources: list[str], targets: list[str], *, aligner: str) -> list[Reference]:
    """The links between the words of all pairs, as spaces separate them; marks are aligned on their own."""
    with tempfile.TemporaryDirectory() as folder:
        names = {name: str(Path(folder) / name) for name in ("source", "target", "forward", "reverse")}
        owners = []
        for name, texts in (("source", sources), ("target", targets)):
            parts = [
                [(part, word) for word, text in enumerate(line.split()) for part in _PART.findall(text)]
                for line in texts
            ]
            lines = (" ".join(part.lower() for part, _ in line) for line in parts)
            Path(names[name]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            owners.append([[word for _, word in line] for line in parts])
        files = ["-s", names["source"], "-t", names["target"], "-f", names["forward"], "-r", names["reverse"]]
        subprocess.run([aligner, *files], check=True)
        directions = [
            [
                {(of_source[int(i)], of_target[int(j)]) for i, j in (link.split("-") for link in line.split())}
                for line, of_source, of_target in zip(read(Path(names[name])), *owners, strict=True)
            ]
            for name in ("forward", "reverse")
        ]
    return [Reference(forward & reverse, forward | reverse) for forward, reverse in zip(*directions, strict=True)]


def links_of(model: Path, sources: list[str], targets: list[str]) -> list[Alignment]:
    """The links of a model, which begins its translations with the whole target."""
    search = DecodingConfig.validate({"beam_size": 1, "max_copies": 0}).alone(alignments=True)
    with Translator.load(model, workers=available_workers()) as translator:
        translations = translator.translate(sources, search, prefixes=targets)
    links = []
    for translation, target in zip(translations, targets, strict=True):
        words = len(target.split())
        links.append([(source, word) for source, word in translation.alignment or [] if word < words])
    return links


def error_rate(found: Sequence[Alignment], references: Sequence[Reference]) -> tuple[float, float, float]:
    """Alignment error rate, precision and recall."""
    links, sure, right, right_and_sure = 0, 0, 0, 0
    for alignment, reference in zip(found, references, strict=True):
        links += len(alignment)
        sure += len(reference.sure)
        right += len(reference.possible.intersection(alignment))
        right_and_sure += len(reference.sure.intersection(alignment))
    return 1 - (right + right_and_sure) / (links + sure), right / links, right_and_sure / sure


def bold(
    sources: list[str], targets: list[str], found: list[Alignment], references: list[Reference], *, lengths: range
) -> float:
    """The share of stretches in bold print whose translations are the only bold words."""
    right, count = 0, 0
    for source, target, alignment, reference in zip(sources, targets, found, references, strict=True):
        translation = Translation(target, 0.0, 0.0, [], alignment)
        words = source.split()
        for length in lengths:
            for start in range(len(words) - length + 1):
                expected = whole_stretch(range(start, start + length), reference)
                if expected is None or length == len(words):
                    continue
                count += 1
                right += bold_words(document(in_bold(words, start, start + length), translation), target) == expected
    return right / max(1, count)


def in_bold(words: list[str], start: int, stop: int) -> str:
    """A sentence with some of its words in bold print."""
    return " ".join([*words[:start], f"<b>{' '.join(words[start:stop])}</b>", *words[stop:]])


def document(source: str, translation: Translation) -> str:
    """A page with this paragraph in the other language, whose tags are put by the alignment."""
    engine = Engine(lambda _: [translation], copies=True)
    return translate_document(f"<p>{source}</p>".encode(), "page.html", UNKNOWN, engine).content.decode()


def whole_stretch(sources: range, reference: Reference) -> range | None:
    """The target words of these source words, if all are surely linked, to one stretch and to nothing else."""
    linked = {target for source, target in reference.sure if source in sources}
    if {source for source, _ in reference.sure if source in sources} != {*sources}:
        return None
    stretch = range(min(linked), max(linked) + 1)
    others = {source for source, target in reference.possible if target in stretch}
    elsewhere = {target for source, target in reference.possible if source in sources}
    return stretch if others <= {*sources} and elsewhere <= {*stretch} else None


def bold_words(content: str, target: str) -> range | None:
    """The words of a target that are bold in the document; None if the document has other words."""
    before, _, rest = content.removeprefix("<p>").removesuffix("</p>").partition("<b>")
    inside, _, after = rest.partition("</b>")
    if (before + inside + after).split() != target.split():
        return None
    start, stop = len(before), len(before) + len(inside)
    # Marks at the ends of a word may be outside.
    words = [
        index
        for index, (left, right) in enumerate(word_spans(before + inside + after))
        if left < stop and right > start
    ]
    return range(words[0], words[-1] + 1) if words else None


if __name__ == "__main__":
    main()
