"""Names that other libraries have for settings and calls of Dragoman: a wrong one is answered with the right one.

From Transformers, CTranslate2, fairseq, OpenNMT-py, Sockeye, Joey NMT and scikit-learn.
"""

from collections.abc import Collection, Iterable

from dragoman.errors import did_you_mean

SETTINGS = {
    "beam": "decoding.beam_size",
    "beams": "decoding.beam_size",
    "beam_width": "decoding.beam_size",
    "num_beams": "decoding.beam_size",
    "best_of": "decoding.n_best",
    "nbest": "decoding.n_best",
    "nbest_size": "decoding.n_best",
    "num_hypotheses": "decoding.n_best",
    "num_return_sequences": "decoding.n_best",
    "diverse_beam_strength": "decoding.diversity",
    "diversity_penalty": "decoding.diversity",
    "num_beam_groups": "decoding.diversity",
    "do_sample": "decoding.sample",
    "sampling": "decoding.sample",
    "sampling_temperature": "decoding.temperature",
    "sampling_topk": "decoding.top_k",
    "random_sampling_topk": "decoding.top_k",
    "topk": "decoding.top_k",
    "sampling_topp": "decoding.top_p",
    "random_sampling_topp": "decoding.top_p",
    "topp": "decoding.top_p",
    "lenpen": "decoding.length_penalty",
    "length_penalty_alpha": "decoding.length_penalty",
    "no_repeat_ngram_size": "decoding.max_copies",
    "repetition_penalty": "decoding.max_copies",
    "return_alignments": "decoding.alignments",
    "return_attention": "decoding.alignments",
    "max_input_length": "decoding.max_source_length",
    "max_batch_size": "decoding.max_tokens",
    "lr": "training.learning_rate",
    "n_epochs": "training.max_epochs",
    "epochs": "training.max_epochs",
    "max_epoch": "training.max_epochs",
    "num_epochs": "training.max_epochs",
    "num_train_epochs": "training.max_epochs",
    "max_iter": "training.max_steps",
    "max_update": "training.max_steps",
    "max_updates": "training.max_steps",
    "num_train_steps": "training.max_steps",
    "steps": "training.max_steps",
    "train_steps": "training.max_steps",
    "per_device_train_batch_size": "training.max_tokens",
    "accum_count": "training.accumulate",
    "gradient_accumulation_steps": "training.accumulate",
    "update_freq": "training.accumulate",
    "warmup_steps": "training.warmup",
    "warmup_updates": "training.warmup",
    "label_smoothing_factor": "training.label_smoothing",
    "max_grad_norm": "training.clip_norm",
    "bf16": "training.precision",
    "fp16": "training.precision",
    "eval_steps": "training.validate_every",
    "valid_steps": "training.validate_every",
    "optim": "training.optimizer",
    "random_state": "seed",
    "random_seed": "seed",
    "d_ffn": "model.d_ff",
    "embed_dim": "model.d_model",
    "ffn_dim": "model.d_ff",
    "ffn_embed_dim": "model.d_ff",
    "hidden_size": "model.d_model",
    "n_heads": "model.num_heads",
    "nhead": "model.num_heads",
    "num_attention_heads": "model.num_heads",
    "vocab_size": "tokenizer.vocab_size",
}
"""The setting of ours for a name that others have, as `section.key`."""
_LENGTH = "a translation has at most twice the tokens of its source and 20 more"
_LANGUAGES = "`languages=(SOURCE, TARGET)` of `Translator.load` chooses them"
EXPLAINED = {
    "batch_size": "batches are counted in tokens: `max_tokens` when translating, `training.max_tokens` when training",
    "early_stopping": "a search ends by itself; a training stops early by `training.patience`",
    "max_decoding_length": _LENGTH,
    "max_length": f"{_LENGTH}; `max_source_length` is the number of tokens at which a sentence is cut",
    "max_new_tokens": _LENGTH,
    "target_prefix": "`prefixes` has the beginning of each translation as text",
    "src_lang": _LANGUAGES,
    "source_lang": _LANGUAGES,
    "tgt_lang": _LANGUAGES,
    "target_lang": _LANGUAGES,
}
"""What to say of a name that no single setting corresponds to."""
CALLS = {
    "from_pretrained": "Translator.load(path)",
    "load": "Translator.load(path)",
    "load_model": "Translator.load(path)",
    "pipeline": "Translator.load(path)",
    "generate": "Translator.load(path).translate(texts)",
    "predict": "Translator.load(path).translate(texts)",
    "transform": "Translator.load(path).translate(texts)",
    "translate": "Translator.load(path).translate(texts)",
    "translate_batch": "Translator.load(path).translate(texts)",
    "translate_iterable": "Translator.load(path).stream(texts)",
    "score_batch": "Translator.load(path).score(pairs)",
    "translate_document": "dragoman.translate_document(translator, path)",
    "translate_file": "dragoman.translate_file(translator, path, output)",
    "translate_documents": "dragoman.translate_document(translator, path)",
    "to": 'Translator.load(path, device="cuda")',
    "cuda": 'Translator.load(path, device="cuda")',
    "fit": "dragoman.train(pairs, output)",
    "Trainer": "dragoman.train(pairs, output)",
}
"""The call of ours for a name that others have."""


def setting_for(key: str, known: Collection[str]) -> str:
    """What to add to the message that there is no setting `key`: the name of ours among `known`, or nothing."""
    name = key.rpartition(".")[2]
    if name in EXPLAINED:
        return f"; {EXPLAINED[name]}"
    ours = SETTINGS.get(name, "")
    section, _, field = ours.rpartition(".")
    if ours in known or (section == "model" and section in known):
        return f"; its name here is `{ours}`"
    if field and field in known:
        return f"; its name here is `{field}`"
    return ""


def no_attribute(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for an attribute that `owner` does not have, with the call of ours or the nearest of the `known`."""
    if name in CALLS:
        return AttributeError(f"{owner} has no `{name}`; write {CALLS[name]}.")
    return AttributeError(f"{owner} has no attribute '{name}'{did_you_mean(name, known)}")
