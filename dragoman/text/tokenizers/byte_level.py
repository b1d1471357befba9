"""The spelling of tokens: a visible letter for each of the 256 bytes, so that letters can spell any text."""


def _bytes_of_letters() -> dict[str, int]:
    """The byte that each letter stands for.

    This is the alphabet of GPT-2: visible Latin-1 characters stand for their own code, the other bytes in order take
    the code points from 256 on. A space is then "Ġ".
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    letters = {chr(256 + index): byte for index, byte in enumerate(hidden)}
    return letters | {chr(byte): byte for byte in visible}


BYTES = _bytes_of_letters()
"""The byte that each letter stands for."""
_LETTERS = {byte: letter for letter, byte in BYTES.items()}
CONTINUATIONS = frozenset(letter for letter, byte in BYTES.items() if 0x80 <= byte < 0xC0)
"""Letters of the bytes that continue a character in UTF-8."""


def byte_level_encode(text: str) -> str:
    """A text as tokens spell it, a letter for each of its bytes."""
    return "".join(_LETTERS[byte] for byte in text.encode())


def byte_level_decode(token: str) -> bytes:
    """The bytes that a token spells."""
    return bytes(BYTES[letter] for letter in token)


def readable(content: bytes) -> str:
    """Bytes as visible text: a space is "▁", a byte of a broken character "<C3>", an invisible character "<U+000A>"."""
    return "".join(map(_visible, content.decode("utf-8", "surrogateescape")))


def _visible(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a stray byte, after surrogateescape
        return f"<{ord(character) - 0xDC00:02X}>"
    if character == " ":
        return "▁"
    return character if character.isprintable() else f"<U+{ord(character):04X}>"
