"""CTranslate2 with the weights of a MarianMTModel."""

from pathlib import Path

import ctranslate2
from ctranslate2.converters.converter import Converter
from ctranslate2.converters.transformers import BartLoader
from ctranslate2.specs import ModelSpec
from transformers import MarianMTModel

from dragoman.text.tokenizers.algorithms import SPECIAL_TOKENS


class FromMarian(Converter):
    """CTranslate2's own reading of Marian's weights.

    Its loader for Bart, whose decoder begins with a token like ours, not the one for OPUS-MT models, which begin with a
    vector of zeros and have no row for padding.
    """

    def __init__(self, model: MarianMTModel):
        self.model = model

    def _load(self) -> ModelSpec:
        config = self.model.config
        config.normalize_before = config.normalize_embedding = False
        spec = BartLoader().get_model_spec(self.model)
        tokens = [token(id_) for id_ in range(config.vocab_size)]
        spec.register_source_vocabulary(tokens)
        spec.register_target_vocabulary(tokens)
        spec.config.bos_token = spec.config.decoder_start_token = token(config.decoder_start_token_id)
        spec.config.eos_token, spec.config.unk_token = token(config.eos_token_id), SPECIAL_TOKENS[1]
        spec.config.add_source_eos = True
        return spec


def token(id_: int) -> str:
    """Name of a token in CTranslate2: special ones have their names, others their numbers."""
    return SPECIAL_TOKENS[id_] if id_ < len(SPECIAL_TOKENS) else str(id_)


def number(name: str) -> int:
    """The inverse of `token`."""
    return SPECIAL_TOKENS.index(name) if name in SPECIAL_TOKENS else int(name)


def save(model: MarianMTModel, folder: Path) -> None:
    """Write the weights as CTranslate2 reads them."""
    FromMarian(model).convert(str(folder), force=True)


def translator(folder: Path, precision: str, inter: int, intra: int, device: str) -> ctranslate2.Translator:
    """`inter` translators of `intra` threads each."""
    options = {"compute_type": precision, "inter_threads": inter, "intra_threads": intra}
    return ctranslate2.Translator(str(folder), device=device, **options)
