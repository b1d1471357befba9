"""How the notebooks that taught this model name its weights: one table a notebook, Dragoman's names on the left.

`{}` is the number of the layer. Where a notebook does something else than the paper, the line that undoes it says so.
"""

import re
from dataclasses import dataclass
from typing import Any

_LAYER = re.compile(r"(?<=layers\.)\d+")


@dataclass(frozen=True)
class Style:
    """One notebook's way to write the Transformer."""

    notebook: str
    """Who it is, for messages."""
    modules: dict[str, str]
    """Dragoman's modules -> the notebook's."""
    linear: dict[str, str]
    """The parameters of a linear map or table -> what the notebook appends for them."""
    norm: dict[str, str]
    """The same for a norm."""
    choices: dict[str, Any]
    """Fields of `TransformerConfig` that follow from how the notebook is written."""
    buffers: tuple[str, ...] = ()
    """Ends of names that hold no weights: tables that Dragoman computes."""
    number_from_second: bool = False
    """Of things with one name only those from the second on have a number: x, x_1, x_2."""
    unbiased_std: bool = False
    """It divides by the standard deviation with d - 1 in the denominator, where LayerNorm has d."""
    transposed: bool = False
    """Its linear maps are (in, out) matrices, PyTorch's are (out, in)."""

    def name_of(self, ours: str) -> str:
        """The notebook's name of Dragoman's parameter `ours`."""
        module, _, kind = ours.rpartition(".")
        layer = _LAYER.search(module)
        number = int(layer[0]) if layer else 0
        numbered = (f"_{number}" if number else "") if self.number_from_second else str(number)
        theirs = self.modules[_LAYER.sub("{}", module)].format(numbered)
        return theirs + (self.norm if module.endswith("norm") else self.linear)[kind]


PRENORM = Style(
    notebook="the pre-norm notebook with `build_transformer` (A; its components alone: E)",
    modules={
        "encoder.embedding.table":                    "src_embed.embedding",
        "encoder.layers.{}.self_attention.query":     "encoder.layers.{}.self_attention_block.w_q",
        "encoder.layers.{}.self_attention.key":       "encoder.layers.{}.self_attention_block.w_k",
        "encoder.layers.{}.self_attention.value":     "encoder.layers.{}.self_attention_block.w_v",
        "encoder.layers.{}.self_attention.output":    "encoder.layers.{}.self_attention_block.w_o",
        "encoder.layers.{}.feed_forward.inner":       "encoder.layers.{}.feed_forward_block.linear_1",
        "encoder.layers.{}.feed_forward.outer":       "encoder.layers.{}.feed_forward_block.linear_2",
        "encoder.layers.{}.residuals.0.norm":         "encoder.layers.{}.residual_connections.0.norm",
        "encoder.layers.{}.residuals.1.norm":         "encoder.layers.{}.residual_connections.1.norm",
        "encoder.norm":                               "encoder.norm",
        "decoder.embedding.table":                    "tgt_embed.embedding",
        "decoder.layers.{}.self_attention.query":     "decoder.layers.{}.self_attention_block.w_q",
        "decoder.layers.{}.self_attention.key":       "decoder.layers.{}.self_attention_block.w_k",
        "decoder.layers.{}.self_attention.value":     "decoder.layers.{}.self_attention_block.w_v",
        "decoder.layers.{}.self_attention.output":    "decoder.layers.{}.self_attention_block.w_o",
        "decoder.layers.{}.cross_attention.query":    "decoder.layers.{}.cross_attention_block.w_q",
        "decoder.layers.{}.cross_attention.key":      "decoder.layers.{}.cross_attention_block.w_k",
        "decoder.layers.{}.cross_attention.value":    "decoder.layers.{}.cross_attention_block.w_v",
        "decoder.layers.{}.cross_attention.output":   "decoder.layers.{}.cross_attention_block.w_o",
        "decoder.layers.{}.feed_forward.inner":       "decoder.layers.{}.feed_forward_block.linear_1",
        "decoder.layers.{}.feed_forward.outer":       "decoder.layers.{}.feed_forward_block.linear_2",
        "decoder.layers.{}.residuals.0.norm":         "decoder.layers.{}.residual_connections.0.norm",
        "decoder.layers.{}.residuals.1.norm":         "decoder.layers.{}.residual_connections.1.norm",
        "decoder.layers.{}.residuals.2.norm":         "decoder.layers.{}.residual_connections.2.norm",
        "decoder.norm":                               "decoder.norm",
        "projection":                                 "projection_layer.proj",
    },
    linear={"weight": ".weight", "bias": ".bias"},
    # One gain and one bias for all features of a norm, under the name of its formula.
    norm={"gain": ".alpha", "bias": ".bias"},
    choices={
        "norm_order":                                 "pre",
        "norm_gain":                                  "scalar",
        # It adds 1e-6 to the standard deviation, LayerNorm adds eps to the variance.
        "norm_eps": 1e-12,
        "tie_projection": False,
        "projection_bias": True,
    },
    buffers=(".pe",),
    unbiased_std=True,
)  # fmt: skip

POSTNORM = Style(
    notebook="the post-norm notebook with `encoder_layers` and `fc` (B)",
    modules={
        "encoder.embedding.table":                    "encoder_embedding",
        "encoder.layers.{}.self_attention.query":     "encoder_layers.{}.self_attn.W_q",
        "encoder.layers.{}.self_attention.key":       "encoder_layers.{}.self_attn.W_k",
        "encoder.layers.{}.self_attention.value":     "encoder_layers.{}.self_attn.W_v",
        "encoder.layers.{}.self_attention.output":    "encoder_layers.{}.self_attn.W_o",
        "encoder.layers.{}.feed_forward.inner":       "encoder_layers.{}.feed_forward.fc1",
        "encoder.layers.{}.feed_forward.outer":       "encoder_layers.{}.feed_forward.fc2",
        "encoder.layers.{}.residuals.0.norm":         "encoder_layers.{}.norm1",
        "encoder.layers.{}.residuals.1.norm":         "encoder_layers.{}.norm2",
        "decoder.embedding.table":                    "decoder_embedding",
        "decoder.layers.{}.self_attention.query":     "decoder_layers.{}.self_attn.W_q",
        "decoder.layers.{}.self_attention.key":       "decoder_layers.{}.self_attn.W_k",
        "decoder.layers.{}.self_attention.value":     "decoder_layers.{}.self_attn.W_v",
        "decoder.layers.{}.self_attention.output":    "decoder_layers.{}.self_attn.W_o",
        "decoder.layers.{}.cross_attention.query":    "decoder_layers.{}.cross_attn.W_q",
        "decoder.layers.{}.cross_attention.key":      "decoder_layers.{}.cross_attn.W_k",
        "decoder.layers.{}.cross_attention.value":    "decoder_layers.{}.cross_attn.W_v",
        "decoder.layers.{}.cross_attention.output":   "decoder_layers.{}.cross_attn.W_o",
        "decoder.layers.{}.feed_forward.inner":       "decoder_layers.{}.feed_forward.fc1",
        "decoder.layers.{}.feed_forward.outer":       "decoder_layers.{}.feed_forward.fc2",
        "decoder.layers.{}.residuals.0.norm":         "decoder_layers.{}.norm1",
        "decoder.layers.{}.residuals.1.norm":         "decoder_layers.{}.norm2",
        "decoder.layers.{}.residuals.2.norm":         "decoder_layers.{}.norm3",
        "projection":                                 "fc",
    },
    linear={"weight": ".weight", "bias": ".bias"},
    norm={"gain": ".weight", "bias": ".bias"},
    choices={
        "norm_order":                                 "post",
        "norm_eps": 1e-5,
        # It forgets the sqrt(d_model) of section 3.4.
        "scale_embeddings": False,
        "tie_projection": False,
        "projection_bias": True,
    },
    buffers=(".pe",),
)  # fmt: skip

ANNOTATED = Style(
    notebook="the Annotated Transformer with `clones` and `SublayerConnection` (C)",
    modules={
        # An nn.Sequential of table and positions: the table is its entry 0.
        "encoder.embedding.table":                    "src_embed.0.lut",
        # Four clones of one linear map: query, key, value, output.
        "encoder.layers.{}.self_attention.query":     "encoder.layers.{}.self_attn.linears.0",
        "encoder.layers.{}.self_attention.key":       "encoder.layers.{}.self_attn.linears.1",
        "encoder.layers.{}.self_attention.value":     "encoder.layers.{}.self_attn.linears.2",
        "encoder.layers.{}.self_attention.output":    "encoder.layers.{}.self_attn.linears.3",
        "encoder.layers.{}.feed_forward.inner":       "encoder.layers.{}.feed_forward.w_1",
        "encoder.layers.{}.feed_forward.outer":       "encoder.layers.{}.feed_forward.w_2",
        "encoder.layers.{}.residuals.0.norm":         "encoder.layers.{}.sublayer.0.norm",
        "encoder.layers.{}.residuals.1.norm":         "encoder.layers.{}.sublayer.1.norm",
        "encoder.norm":                               "encoder.norm",
        "decoder.embedding.table":                    "tgt_embed.0.lut",
        "decoder.layers.{}.self_attention.query":     "decoder.layers.{}.self_attn.linears.0",
        "decoder.layers.{}.self_attention.key":       "decoder.layers.{}.self_attn.linears.1",
        "decoder.layers.{}.self_attention.value":     "decoder.layers.{}.self_attn.linears.2",
        "decoder.layers.{}.self_attention.output":    "decoder.layers.{}.self_attn.linears.3",
        "decoder.layers.{}.cross_attention.query":    "decoder.layers.{}.src_attn.linears.0",
        "decoder.layers.{}.cross_attention.key":      "decoder.layers.{}.src_attn.linears.1",
        "decoder.layers.{}.cross_attention.value":    "decoder.layers.{}.src_attn.linears.2",
        "decoder.layers.{}.cross_attention.output":   "decoder.layers.{}.src_attn.linears.3",
        "decoder.layers.{}.feed_forward.inner":       "decoder.layers.{}.feed_forward.w_1",
        "decoder.layers.{}.feed_forward.outer":       "decoder.layers.{}.feed_forward.w_2",
        "decoder.layers.{}.residuals.0.norm":         "decoder.layers.{}.sublayer.0.norm",
        "decoder.layers.{}.residuals.1.norm":         "decoder.layers.{}.sublayer.1.norm",
        "decoder.layers.{}.residuals.2.norm":         "decoder.layers.{}.sublayer.2.norm",
        "decoder.norm":                               "decoder.norm",
        "projection":                                 "generator.proj",
    },
    linear={"weight": ".weight", "bias": ".bias"},
    norm={"gain": ".a_2", "bias": ".b_2"},
    # As in PRENORM, but with a gain for each feature.
    choices={"norm_order": "pre", "norm_eps": 1e-12, "tie_projection": False, "projection_bias": True},
    buffers=(".pe",),
    unbiased_std=True,
)  # fmt: skip


KERAS = Style(
    notebook="the Keras notebook on English-French (D)",
    modules={
        "encoder.embedding.table":                  "layers/positional_embedding/token_embeddings",
        "encoder.embedding.positions":              "layers/positional_embedding/position_embeddings",
        "encoder.layers.{}.self_attention.query":   "layers/transformer_encoder{}/global_self_attention/q_linear",
        "encoder.layers.{}.self_attention.key":     "layers/transformer_encoder{}/global_self_attention/k_linear",
        "encoder.layers.{}.self_attention.value":   "layers/transformer_encoder{}/global_self_attention/v_linear",
        "encoder.layers.{}.self_attention.output":  "layers/transformer_encoder{}/global_self_attention/concat_linear",
        "encoder.layers.{}.feed_forward.inner":     "layers/transformer_encoder{}/feed_forward/layers/dense",
        "encoder.layers.{}.feed_forward.outer":     "layers/transformer_encoder{}/feed_forward/layers/dense_1",
        "encoder.layers.{}.residuals.0.norm":       "layers/transformer_encoder{}/layer_norm_1",
        "encoder.layers.{}.residuals.1.norm":       "layers/transformer_encoder{}/layer_norm_2",
        "decoder.embedding.table":                  "layers/positional_embedding_1/token_embeddings",
        "decoder.embedding.positions":              "layers/positional_embedding_1/position_embeddings",
        "decoder.layers.{}.self_attention.query":   "layers/transformer_decoder{}/causal_self_attention/q_linear",
        "decoder.layers.{}.self_attention.key":     "layers/transformer_decoder{}/causal_self_attention/k_linear",
        "decoder.layers.{}.self_attention.value":   "layers/transformer_decoder{}/causal_self_attention/v_linear",
        "decoder.layers.{}.self_attention.output":  "layers/transformer_decoder{}/causal_self_attention/concat_linear",
        "decoder.layers.{}.cross_attention.query":  "layers/transformer_decoder{}/cross_attention/q_linear",
        "decoder.layers.{}.cross_attention.key":    "layers/transformer_decoder{}/cross_attention/k_linear",
        "decoder.layers.{}.cross_attention.value":  "layers/transformer_decoder{}/cross_attention/v_linear",
        "decoder.layers.{}.cross_attention.output": "layers/transformer_decoder{}/cross_attention/concat_linear",
        "decoder.layers.{}.feed_forward.inner":     "layers/transformer_decoder{}/feed_forward/layers/dense",
        "decoder.layers.{}.feed_forward.outer":     "layers/transformer_decoder{}/feed_forward/layers/dense_1",
        "decoder.layers.{}.residuals.0.norm":       "layers/transformer_decoder{}/layer_norm_1",
        "decoder.layers.{}.residuals.1.norm":       "layers/transformer_decoder{}/layer_norm_2",
        "decoder.layers.{}.residuals.2.norm":       "layers/transformer_decoder{}/layer_norm_3",
        "projection":                               "layers/dense",
    },
    linear={"weight": "/vars/0", "bias": "/vars/1", "table": "/vars/0"},
    norm={"gain": "/vars/0", "bias": "/vars/1"},
    choices={
        "norm_order":                                 "post",
        # Keras adds a hundred times as much as PyTorch.
        "norm_eps": 1e-3,
        "positions":                                  "learned",
        "scale_embeddings": False,
        "tie_projection": False,
        "projection_bias": True,
        "projection_dropout": 0.5,
        "dropout": 0.0,
    },
    number_from_second=True,
    transposed=True,
)  # fmt: skip

STYLES = {"prenorm": PRENORM, "postnorm": POSTNORM, "annotated": ANNOTATED, "keras": KERAS}
