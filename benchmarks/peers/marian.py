"""MarianMTModel of `transformers`, made to compute what a Transformer of ours computes, and its search."""

import copy

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import MarianConfig, MarianMTModel

from dragoman.model import Transformer, TransformerConfig
from dragoman.text.tokenizers.tokenizer import BOS_ID, EOS_ID, PAD_ID

ENCODER = {
    "self_attention.query": "self_attn.q_proj", "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj", "self_attention.output": "self_attn.out_proj",
    "feed_forward.inner": "fc1", "feed_forward.outer": "fc2",
    "residuals.0.norm": "self_attn_layer_norm", "residuals.1.norm": "final_layer_norm",
}  # fmt: skip
DECODER = ENCODER | {
    "cross_attention.query": "encoder_attn.q_proj", "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj", "cross_attention.output": "encoder_attn.out_proj",
    "residuals.1.norm": "encoder_attn_layer_norm", "residuals.2.norm": "final_layer_norm",
}  # fmt: skip


def marian_like(config: TransformerConfig) -> MarianMTModel:
    """A MarianMTModel of the same sizes and special ids, with fresh weights."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=config.target_vocab_size,
            d_model=config.d_model,
            encoder_layers=config.num_encoder_layers,
            decoder_layers=config.num_decoder_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function=config.activation,
            dropout=config.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            scale_embedding=config.scale_embeddings,
            pad_token_id=config.pad_id,
            eos_token_id=config.eos_id,
            decoder_start_token_id=config.bos_id,
            forced_eos_token_id=None,
        )
    )


def with_weights_of(model: Transformer) -> MarianMTModel:
    """A MarianMTModel that computes the same as `model`, which must have Marian's architecture."""
    config = model.config
    assert (config.norm_order, config.positions) == ("post", "sinusoidal-concatenated"), "not Marian's architecture"
    marian, ours = marian_like(config), model.state_dict()
    named = {"model.shared.weight": ours["decoder.embedding.table.weight"]}
    if config.projection_bias:
        named["final_logits_bias"] = ours["projection.bias"][None]
    for stack, table in (("encoder", ENCODER), ("decoder", DECODER)):
        for layer in range(len(getattr(model, stack).layers)):
            for name, theirs in table.items():
                for part, their_part in (
                    ("weight", "weight"),
                    ("gain", "weight"),
                    ("bias", "bias"),
                ):
                    if (value := ours.get(f"{stack}.layers.{layer}.{name}.{part}")) is not None:
                        named[f"model.{stack}.layers.{layer}.{theirs}.{their_part}"] = value
    missing, unexpected = marian.load_state_dict(named, strict=False)
    assert not unexpected, unexpected
    assert not [n for n in missing if "embed" not in n and n not in ("lm_head.weight", "final_logits_bias")], missing
    marian.tie_weights()
    return marian.eval()


@torch.no_grad()
def with_frequencies_of_marian(model: MarianMTModel) -> MarianMTModel:
    """A copy whose sines and cosines of positions have the frequencies of Marian itself, which `transformers` changed.

    They fall from 1 to 1 / 10000, in `transformers` to a little more.
    """
    copied, half = copy.deepcopy(model), model.config.d_model // 2
    frequencies = 10_000 ** (-torch.arange(half, dtype=torch.float64) / (half - 1))
    for stack in (copied.model.encoder, copied.model.decoder):
        table = stack.embed_positions.weight
        angles = torch.outer(torch.arange(len(table), dtype=torch.float64), frequencies)
        table.copy_(torch.cat([angles.sin(), angles.cos()], dim=1))
    return copied


@torch.inference_mode()
def generate(model: MarianMTModel, sources: list[list[int]], *, beam_size: int, batch: int) -> list[list[int]]:
    """The best hypothesis of each source, in batches of so many of similar length; each begins with the start token."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    results: list[list[int]] = [[] for _ in sources]
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        longest = len(sources[rows[0]])
        ends = [torch.tensor([*sources[i], model.config.eos_token_id]) for i in rows]
        ids = pad_sequence(ends, batch_first=True, padding_value=model.config.pad_token_id)
        out = model.generate(
            input_ids=ids, attention_mask=ids != model.config.pad_token_id, num_beams=beam_size, do_sample=False,
            max_new_tokens=2 * longest + 20,
        )  # fmt: skip
        for index, tokens in zip(rows, out.tolist(), strict=True):
            results[index] = tokens
    return results


def without_special(ids: list[int]) -> list[int]:
    """The tokens of a sentence, without those that begin, end and fill it."""
    return [id_ for id_ in ids if id_ not in (PAD_ID, BOS_ID, EOS_ID)]
