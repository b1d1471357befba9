"""An invented language with two spellings, k and w or c, qu and hu, and one with two scripts."""

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


LATIN_LETTERS = {"j": "c", "s": "š", "w": "nj"}
CYRILLIC_LETTERS = dict(zip("ptkmnrbaeio", "пткмнрбаеио", strict=True)) | {"š": "ш", "nj": "њ", "c": "ц"}


def replaced(text: str, letters: dict[str, str]) -> str:
    """The text with other letters, in the same case."""
    for letter in sorted(letters, key=len, reverse=True):
        text = text.replace(letter, letters[letter]).replace(letter.capitalize(), letters[letter].capitalize())
    return text


def in_latin(number: int, *, seed: int = 1) -> list[str]:
    """So many sentences in Latin letters, as Serbian has them."""
    return [replaced(text, LATIN_LETTERS) for text in texts(number, seed=seed)]


def in_cyrillic(number: int, *, seed: int = 1) -> list[str]:
    """The same sentences in Cyrillic letters."""
    return [replaced(text, CYRILLIC_LETTERS) for text in in_latin(number, seed=seed)]


def in_two_scripts(number: int, every: int = 3) -> list[str]:
    """Every third text in Cyrillic letters, the others in Latin ones."""
    pairs = enumerate(zip(in_latin(number), in_cyrillic(number), strict=True))
    return [cyrillic if index % every == 0 else latin for index, (latin, cyrillic) in pairs]
