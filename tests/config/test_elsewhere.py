"""Names that other libraries have: each leads to a setting or a call that there is."""

from dataclasses import fields

import pytest

import dragoman
from dragoman.config.decoding import DecodingConfig
from dragoman.config.elsewhere import CALLS, EXPLAINED, SETTINGS
from dragoman.config.run import RunConfig
from dragoman.decoding.translator import Translator
from dragoman.errors import UsageError
from dragoman.model.config import TransformerConfig

KEYS = {*RunConfig._all_keys(), *(f"model.{field.name}" for field in fields(TransformerConfig))}


def test_names_of_others_lead_to_settings_that_there_are() -> None:
    assert set(SETTINGS.values()) <= KEYS
    ours = {key.rpartition(".")[2] for key in KEYS if key.startswith("decoding.")}
    assert not ours & {*SETTINGS, *EXPLAINED}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("num_beams", "its name here is `beam_size`"),
        ("num_return_sequences", "its name here is `n_best`"),
        ("max_length", "twice the tokens of its source and 20 more"),
        ("batch_size", "`max_tokens` when translating"),
        ("beem_size", "did you mean 'beam_size'"),
    ],
)
def test_an_option_of_others_is_answered_with_ours(name: str, answer: str) -> None:
    with pytest.raises(UsageError, match=answer):
        DecodingConfig.validate({name: 4})


def test_a_setting_of_others_is_answered_with_its_section() -> None:
    for settings, answer in (
        ({"training": {"lr": 1e-3}}, "`training.lr`; its name here is `training.learning_rate`"),
        ({"decoding": {"num_beams": 4}}, "`decoding.num_beams`; its name here is `decoding.beam_size`"),
        ({"hidden_size": 4}, "its name here is `model.d_model`"),
    ):
        with pytest.raises(UsageError, match=answer):
            RunConfig.validate(settings)


def test_calls_of_others_are_answered_with_ours_and_are_no_attributes() -> None:
    for name in CALLS:
        assert not hasattr(dragoman, name) or name in dragoman.__all__
        assert not hasattr(Translator, name) or name in ("load", "translate")
    with pytest.raises(AttributeError, match=r"write Translator\.load\(path\)"):
        Translator.from_pretrained("runs/en-fr")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"write Translator\.load\(path\)"):
        dragoman.pipeline  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'translate'"):
        Translator.tranlate  # type: ignore[attr-defined] # noqa: B018
    assert "from_pretrained" not in dir(Translator)
