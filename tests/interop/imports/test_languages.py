"""Models of many languages: which one a text is in, and which one is asked for, by codes, tags and tokens."""

import json
import math
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.errors import UsageError
from dragoman.evaluation.evaluate import evaluate_pairs
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.report.inspection import inspect_translation
from dragoman.report.words import word_probabilities
from dragoman.storage.model_directory import ModelDirectory
from tests.interop import pretrained_models as models
from tests.interop.pretrained_models import SENTENCES


def test_tags_and_codes_of_any_style_choose_the_language(tmp_path):
    folder = models.marian(tmp_path / "theirs", tags=(">>fra<<", ">>deu<<"))
    import_pretrained(folder, tmp_path / "ours")
    ours = ModelDirectory.load(tmp_path / "ours")
    plain, tagged = (ours.source_tokenizer.encode(text) for text in ("A cat.", ">>deu<< A cat."))
    for code in ("de", "deu", "deu_Latn"):
        assert ours.speaking(None, code).source_tokenizer.encode("A cat.") == tagged
    assert ours.speaking(None, "fr").source_tokenizer.encode(">>deu<< A cat.") == tagged
    assert plain == tagged[1:]
    translator = Translator(ours)
    texts = ["A cat sleeps. A dog runs. Two men sing.", ">>deu<< A cat sleeps. A dog runs. Two men sing."]
    german = [
        translation.log_prob for translation in Translator(ours.speaking(None, "de")).translate(texts, beam_size=1)
    ]
    plain, tagged = (translation.log_prob for translation in translator.translate(texts, beam_size=1))
    assert tagged == pytest.approx(german[0]) == german[1]
    assert tagged != pytest.approx(plain)
    with pytest.raises(UsageError, match="does not know the language 'ja', but fra, deu"):
        ours.speaking(None, "ja")


def test_only_a_known_tag_is_no_text(tmp_path):
    folder = models.marian(tmp_path / "theirs", tags=(">>fr_BE<<", ">>fr<<"))
    ours = ModelDirectory.load(import_pretrained(folder, tmp_path / "ours") and tmp_path / "ours")
    assert ours.speaking(None, "fr").source_tokenizer.encode("A cat.")[0] == ours.source_tokenizer.encode(">>fr<< x")[0]
    unknown = ours.source_tokenizer.special_ids.unk
    assert ours.source_tokenizer.encode(">> a << A cat.")[-3:] == ours.source_tokenizer.encode("A cat.")[-3:]
    assert len(ours.source_tokenizer.encode(">> a << A cat.")) > len(ours.source_tokenizer.encode("A cat.")) + 1
    assert unknown != ours.source_tokenizer.encode(">>fr<< x")[0]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "codes"), [(models.m2m, ("eng_Latn", "deu")), (models.nllb, ("en", "de"))])
def test_a_model_of_many_languages_asks_for_them(make, codes, tmp_path):
    import_pretrained(make(tmp_path / "theirs"), tmp_path / "ours")
    with pytest.raises(UsageError, match="say the target language"):
        Translator.load(tmp_path / "ours")
    translator = Translator.load(tmp_path / "ours", languages=codes)
    (translation,) = translator.translate(["A cat."])
    assert translation.tokens[0] in ("__de__", "deu_Latn")
    assert translation.tokens[0] not in translation.text
    reopened = ModelDirectory.load(tmp_path / "ours").speaking("en-US", codes[1])
    reopened.save(tmp_path / "german")
    assert Translator.load(tmp_path / "german").translate(["A cat."]) == [translation]


def legacy_nllb(folder: Path) -> Path:
    return models.nllb(folder, legacy=True)


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("make", "token"), [(models.m2m, "__de__"), (models.nllb, "deu_Latn"), (legacy_nllb, "deu_Latn")]
)
def test_the_forced_language_is_no_prediction_in_scores_and_pictures(make, token, tmp_path):
    import_pretrained(make(tmp_path / "theirs"), tmp_path / "ours", languages=("en", "de"))
    ours = ModelDirectory.load(tmp_path / "ours")
    ((source, target),) = pairs = [("A cat.", "Le chat")]
    (scored,) = Translator(ours).score(pairs)
    assert scored.tokens[0] == token
    assert scored.token_log_probs[0] == 0
    statistics = evaluate_pairs([ours], pairs, search=ours.decoding, precision="float32", workers=1).tokens
    assert statistics.num_tokens == len(scored.tokens)  # without the language, with the end
    assert statistics.perplexity == pytest.approx(math.exp(-scored.log_prob / statistics.num_tokens), rel=1e-4)
    inspection = inspect_translation(ours, source, target=target)
    assert inspection.log_probs == pytest.approx(scored.token_log_probs, abs=1e-4)
    assert inspection.alternatives[0] == [(token, 1.0)]
    assert [removal.word for removal in inspection.removals] == ["A", "cat."]
    assert len(inspection.alternatives[1]) == 5
    assert {node.token for node in inspection.search.nodes if node.parent == 0} == set(ours.target_tokenizer.encode(""))
    own_inspection = inspect_translation(ours, source, beam_size=1)
    (translation,) = Translator(ours).translate([source], beam_size=1)
    assert (own_inspection.target_text, own_inspection.score) == (
        translation.text,
        pytest.approx(translation.score, abs=1e-4),
    )
    words = word_probabilities(ours, source, target)
    assert [word.text for word in words] == ["Le", "chat"]
    assert math.prod(word.probability for word in words) == pytest.approx(math.exp(sum(scored.token_log_probs[:-1])))


@pytest.mark.slow
def test_nllb_with_sentencepiece_alone_has_the_ids_of_fairseq(tmp_path):
    folder = models.nllb_pieces(tmp_path / "theirs")
    import_pretrained(folder, tmp_path / "numbered", languages=("en", "de"))
    numbered = ModelDirectory.load(tmp_path / "numbered")
    assert numbered.source_tokenizer.language == "eng_Latn"
    # Without numbers, the languages have the order of fairseq, and one that somebody added stands behind the mask.
    settings = {"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": ["eng_Latn", "tyv_Cyrl"]}))
    import_pretrained(folder, tmp_path / "plain", languages=("en", "de"))
    plain = ModelDirectory.load(tmp_path / "plain")
    pieces, others = (directory.source_tokenizer.content.pieces for directory in (plain, numbered))
    added = pieces.index("<mask>") + 1
    assert pieces[:added] == others[:added]
    assert pieces[added] == "tyv_Cyrl"
    assert len(plain.source_tokenizer.languages) == 203
    assert Translator(plain).translate(SENTENCES) == Translator(numbered).translate(SENTENCES)


def test_a_region_does_not_choose_between_scripts(tmp_path):
    import_pretrained(models.nllb(tmp_path / "theirs"), tmp_path / "ours")
    ours = ModelDirectory.load(tmp_path / "ours")
    with pytest.raises(UsageError, match="does not know the language 'zh-TW', but zho_Hans, zho_Hant"):
        ours.speaking("en-US", "zh-TW")
    assert ours.speaking("en", "zho_Hant").target_tokenizer.language == "zho_Hant"


def test_the_command_takes_codes_with_regions_and_scripts(tmp_path, dragoman):
    models.nllb(tmp_path / "theirs")
    code, _, err = dragoman("import", tmp_path / "theirs", tmp_path / "ours", "--from", "en-US", "--to", "zh_Hant")
    assert code == 0, err
    tokenizers = ModelDirectory.load(tmp_path / "ours").tokenizers
    assert [tokenizer.language for tokenizer in tokenizers] == ["eng_Latn", "zho_Hant"]
    code, out, err = dragoman("translate", tmp_path / "ours", "A cat.", "--to", "zho_Hans", "--json")
    assert (code, json.loads(out)["tokens"][0]) == (0, "zho_Hans"), err
    code, _, err = dragoman("translate", tmp_path / "ours", "A cat.", "--to", "zh-TW")
    assert (code, "does not know the language 'zh-TW', but zho_Hans, zho_Hant." in err) == (2, True), err
