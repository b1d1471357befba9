"""An invented language with two spellings: `new` has k and w where `old` has c, qu and hu."""

import random
import re

SYLLABLES = [consonant + vowel for consonant in "ptkmnswrjb" for vowel in "aeio"]


def texts(number: int, *, seed: int = 1) -> list[str]:
    """So many sentences in the new spelling, with words that come as often as those of real languages do."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(2, 4))) for _ in range(1_500)]
    often = [1 / (rank + 5) for rank in range(len(words))]
    return [" ".join(draw.choices(words, often, k=draw.randint(4, 8))).capitalize() + "." for _ in range(number)]


def old(text: str) -> str:
    """The text in the old spelling."""
    text = re.sub("k(?=[ei])", "qu", re.sub("K(?=[ei])", "Qu", text))
    return text.replace("k", "c").replace("K", "C").replace("w", "hu").replace("W", "Hu")


def mixed(written: list[str], every: int = 3) -> list[str]:
    """Every third text in the old spelling, the others in the new one."""
    return [old(text) if number % every == 0 else text for number, text in enumerate(written)]
