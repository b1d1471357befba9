"""References that make scores say something else than they seem to: too few, or not as people write them."""

import re
from collections.abc import Sequence

FEWEST = 100
"""Sentences below which a score is hardly more than chance: with 100 of them, one of BLEU 30 moves by 5 or so."""
OFTEN, SELDOM = 0.2, 0.05
"""Shares of the references and of the translations with traces of tokenization, above and below which these differ."""
# French has spaces before other marks, but not before these.
_TOKENIZED = re.compile(r"\w [.,](?: |$)|\w ['’](?:s|re|ve|ll|d|m|t)\b|\bn 't\b|&(?:apos|quot|amp);")
_PIECES = re.compile(r"@@(?: |$)|\u2581")


def reference_warnings(references: Sequence[str], translations: Sequence[str]) -> list[str]:
    """What a person should know about the references before believing a score, each a sentence."""
    warnings = []
    if len(references) < FEWEST:
        sentences = f"{len(references):,} sentence" + "s are" * (len(references) != 1) + " is" * (len(references) == 1)
        warnings.append(
            f"{sentences} too few to score: chance alone moves such a BLEU by many points; give {FEWEST} or, better, "
            "1,000 and more."
        )
    traces = (
        (_PIECES, "are cut into subwords", "join the pieces"),
        (_TOKENIZED, "have spaces before full stops and commas, as tokenized text has", "detokenize them"),
    )
    for pattern, what, remedy in traces:
        found = sum(map(bool, map(pattern.search, references)))
        if found > OFTEN * len(references) and _share(pattern, translations) < SELDOM:
            warnings.append(
                f"{found:,} of {len(references):,} references {what}, and the translations are text: BLEU takes each "
                f"such place for an error; {remedy}, or score with the original references."
            )
            break
    return warnings


def _share(pattern: re.Pattern[str], texts: Sequence[str]) -> float:
    return sum(map(bool, map(pattern.search, texts))) / max(1, len(texts))
