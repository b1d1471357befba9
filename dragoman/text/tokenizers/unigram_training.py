"""Training of the unigram language model (Kudo 2018) with the library SentencePiece, on words that are split already.

It runs in one thread, so the same words give the same pieces on any number of cores. The pieces are spelled in byte
letters (`dragoman.text.tokenizers.byte_level`), none of which means anything to SentencePiece: a tab is `ĉ`, a space
`Ġ`, and its own sign for a space, U+2581, is `âĸģ`.
"""

import io
import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from dragoman.errors import DataError, reason_of
from dragoman.system.optional import load
from dragoman.text.tokenizers.byte_level import BYTES, CONTINUATIONS

MAX_WORDS = 100_000
"""Most distinct words that are learned from, the most frequent ones: more would take memory and change little."""
MAX_WORD_LENGTH = 96
"""Longer words, in bytes, are split up between characters, as in scripts without spaces."""
MAX_LETTERS = 1 << 24
"""Most bytes of all occurrences of the words, about: SentencePiece writes out each, and indexes all that it wrote."""
MAX_PIECE_LENGTH = 48
"""Longest piece in bytes: 16 characters, SentencePiece's own limit, of three bytes each."""
SEEDS_PER_PIECE = 10
"""Number of pieces to start from, for each piece that is kept in the end."""
_CUT = re.compile(rf"[\s\S]{{1,{MAX_WORD_LENGTH}}}(?![{re.escape(''.join(sorted(CONTINUATIONS)))}])")


def train_unigram(words: Mapping[str, int], *, size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log-probabilities, likeliest first; the 256 byte letters are among them.

    `words` are spelled in byte letters, each with the number of its occurrences. Few words give fewer pieces.
    Raises `ResourceError` if SentencePiece is not installed.
    """
    library = load("sentencepiece", extra="train", purpose="Training a unigram tokenizer")
    rows = [f"{word}\t{count}" for word, count in _counts(words).items()]
    model = io.BytesIO()

    def learn() -> None:
        library.SentencePieceTrainer.train(
            sentence_iterator=iter(rows),
            model_writer=model,
            input_format="tsv",
            model_type="unigram",
            vocab_size=size + 1,  # with an unknown token, which it insists on
            hard_vocab_limit=False,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            character_coverage=1.0,
            seed_sentencepiece_size=SEEDS_PER_PIECE * size,
            max_sentencepiece_length=MAX_PIECE_LENGTH,
            num_threads=1,
            # Words stay as they are.
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_by_whitespace=False,
            split_by_number=False,
            split_by_unicode_script=False,
            minloglevel=2,  # prints nothing but errors
        )

    try:
        _interruptible(learn)
        processor = library.SentencePieceProcessor(model_proto=model.getvalue())
    except (RuntimeError, OSError, ValueError) as error:  # with a line of C++ as its message
        raise DataError(
            f"SentencePiece could not learn pieces from these texts ({reason_of(error)}); set `tokenizer.kind=bpe`."
        ) from None
    # Six decimals, which JSON readers give back as they were.
    learned = [
        (processor.id_to_piece(id_), round(processor.get_score(id_), 6)) for id_ in range(1, processor.vocab_size())
    ]
    return sorted(learned, key=lambda entry: (-entry[1], entry[0]))


def _counts(words: Mapping[str, int]) -> dict[str, int]:
    """The most frequent words, none too long, with their counts, whatever the order of `words`."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        for part in _CUT.findall(word):
            parts[part] += count
    # Of equally frequent ones any, and not those that come first in the alphabet.
    ranked = sorted(parts.items(), key=lambda entry: (-entry[1], zlib.crc32(entry[0].encode()), entry[0]))[:MAX_WORDS]
    letters = sum(len(word) * count for word, count in ranked)
    if letters > MAX_LETTERS:
        ranked = [(word, max(1, count * MAX_LETTERS // letters)) for word, count in ranked]
    counts = dict(ranked)
    # SentencePiece drops letters that it never saw, and fails where it has no piece left. A letter that is a word once
    # is always kept.
    for letter in BYTES:
        counts[letter] = counts.get(letter, 0) + 1
    return counts


def _interruptible(work: Callable[[], None]) -> None:
    """Call `work` in a thread, so that Ctrl-C ends the wait for it at once: C++ heeds no signals until it is done."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="SentencePiece", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(1)  # without an end to the wait, Windows would not heed Ctrl-C
    future.result()
