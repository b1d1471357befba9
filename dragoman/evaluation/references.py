"""Warns of references that make scores misleading: too few, or not written as people write."""

import re
from collections.abc import Sequence

FEWEST = 100
"""Fewest sentences of a meaningful score: with 100 of them, chance alone moves a BLEU of 30 by 5 or so."""
OFTEN, SELDOM = 0.2, 0.05
"""References are said to be tokenized, unlike the translations, if traces of tokenization are in more than this share
of the references and in less than this share of the translations."""
# French has spaces before other marks, but not before these.
_TOKENIZED = re.compile(r"\w [.,](?: |$)|\w ['’](?:s|re|ve|ll|d|m|t)\b|\bn 't\b|&(?:apos|quot|amp);")
_PIECES = re.compile(r"@@(?: |$)|\u2581")


def reference_warnings(references: Sequence[str], translations: Sequence[str]) -> list[str]:
    """What a person should know about the references before believing a score, each a sentence."""
    warnings = []
    if len(references) < FEWEST:
        sentences = "1 sentence is" if len(references) == 1 else f"{len(references):,} sentences are"
        warnings.append(
            f"{sentences} too few to score: chance alone moves such a BLEU by many points; give {FEWEST} or, better, "
            "1,000 and more."
        )
    traces = (
        (_PIECES, "are cut into subwords", "join the pieces"),
        (_TOKENIZED, "have spaces before full stops and commas, as tokenized text has", "detokenize them"),
    )
    for pattern, description, remedy in traces:
        tokenized = _count(pattern, references)
        is_often = tokenized > OFTEN * len(references)
        if is_often and _count(pattern, translations) / max(1, len(translations)) < SELDOM:
            warnings.append(
                f"{tokenized:,} of {len(references):,} references {description}, and the translations are text: BLEU "
                f"takes each such place for an error; {remedy}, or score with the original references."
            )
            break
    return warnings


def _count(pattern: re.Pattern[str], texts: Sequence[str]) -> int:
    """Number of texts with the pattern."""
    return sum(pattern.search(text) is not None for text in texts)
