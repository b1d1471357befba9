"""The architecture of a model: a documented field for each choice.

Each field is read in exactly one place, which its docstring names.
"""

import dataclasses
import sys
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args, get_origin

Size = Literal["tiny", "small", "base", "big"]
PRESETS: dict[Size, dict[str, int]] = {
    "tiny": {"d_model": 128, "d_ff": 256, "num_heads": 4, "num_encoder_layers": 4, "num_decoder_layers": 4},
    "small": {"d_model": 256, "d_ff": 1024, "num_heads": 4, "num_encoder_layers": 3, "num_decoder_layers": 3},
    "base": {"d_model": 512, "d_ff": 2048, "num_heads": 8, "num_encoder_layers": 6, "num_decoder_layers": 6},
    "big": {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "num_encoder_layers": 6, "num_decoder_layers": 6},
}  # fmt: skip
"""The sizes: `base` and `big` are the paper's (table 3), `tiny` and `small` fit small corpora."""

# A config.json may come from a stranger: these bounds keep it from asking for a terabyte.
_LARGEST = {
    "source_vocab_size": 4_000_000, "target_vocab_size": 4_000_000, "d_model": 16_384, "d_ff": 131_072,
    "num_heads": 256, "num_encoder_layers": 100, "num_decoder_layers": 100, "max_positions": 1_000_000,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The architecture of one encoder-decoder Transformer.

    Raises `ValueError`, naming the field, the value and the remedy, for a choice that cannot be built.
    """

    source_vocab_size: int
    """Rows of the source embedding table (`Transformer`)."""
    target_vocab_size: int
    """Rows of the target embedding table, and the width of the logits (`Transformer`)."""

    d_model: int = 512
    """Width of the residual stream; a multiple of `num_heads`."""
    d_ff: int = 2048
    """Inner width of the feed-forward networks (`FeedForward`)."""
    num_heads: int = 8
    """Attention heads; each is `d_model / num_heads` wide (`MultiHeadAttention`)."""
    num_encoder_layers: int = 6
    """Layers of the encoder (`Encoder`)."""
    num_decoder_layers: int = 6
    """Layers of the decoder (`Decoder`)."""

    norm_order: Literal["pre", "post"] = "pre"
    """x + f(norm(x)), or the paper's norm(x + f(x)) (`ResidualConnection`)."""
    norm: Literal["layer", "rms"] = "layer"
    """LayerNorm, or RMSNorm without mean and bias (`Norm`)."""
    norm_gain: Literal["feature", "scalar"] = "feature"
    """One gain (and bias) per feature, or a single one for all (`Norm`)."""
    norm_eps: float = 1e-5
    """Added to the variance before the square root (`Norm`)."""

    positions: Literal["sinusoidal", "sinusoidal-concatenated", "sinusoidal-fairseq", "learned", "rotary"] = (
        "sinusoidal"
    )
    """Sines and cosines interleaved (the paper) or all sines first (Marian; fairseq, with other frequencies), a learned
    table, or rotated queries and keys (`build_positions`)."""
    max_positions: int = 1024
    """Longest sequence of a learned table; the other kinds grow on demand (`build_positions`)."""
    activation: Literal["relu", "gelu", "silu", "swiglu"] = "relu"
    """Activation between the two linear maps of the feed-forward network; `swiglu` adds a gate (`FeedForward`)."""

    decoder_feed_forward: Literal["network", "positions"] = "network"
    """Last part of a decoder layer: a feed-forward network, or the sinusoidal positions added once more, x + positions.
    The latter is a mistake of a notebook whose weights can be imported (`DecoderLayer`)."""

    scale_embeddings: bool = True
    """Multiply embeddings by sqrt(d_model), section 3.4 of the paper (`Embedding`)."""
    share_embeddings: bool = False
    """One table for source and target, which then need one vocabulary (`Transformer`)."""
    tie_projection: bool = True
    """The output projection is the target embedding table (`Transformer`)."""
    projection_bias: bool = False
    """Add a learned bias to the logits (`Transformer`)."""

    initialisation: Literal["xavier", "xavier-tables", "pytorch", "keras"] = "xavier"
    """`xavier`: matrices Xavier-uniform, biases 0, embeddings of length 1 on average; `xavier-tables`: tables
    Xavier-uniform too, biases as PyTorch draws them; `pytorch`: all as PyTorch; `keras`: matrices Xavier-uniform,
    biases 0, tables within 0.05 (`initialise`)."""

    dropout: float = 0.1
    """Rate of dropout after every sub-layer and on the embeddings (`ResidualConnection`, `Embedding`)."""
    attention_dropout: float = 0.0
    """Rate of dropout on the attention weights (`MultiHeadAttention`)."""
    activation_dropout: float = 0.0
    """Rate of dropout after the activation (`FeedForward`)."""
    projection_dropout: float = 0.0
    """Rate of dropout before the output projection (`Transformer`)."""

    guided_head: bool = False
    """Whether the first head of the last decoder layer but one was taught word alignments, and so tells them
    (`aligning_layers`)."""
    aligned_token: Literal["predicted", "read"] = "predicted"
    """Target token whose source words cross-attention tells: the one that a step predicts, or the one that it has read.
    A guided head that has read the token knows what to look for."""

    pad_id: int = 0
    """Token that fills up short rows; hidden from attention wherever no mask is given (`Transformer`)."""
    bos_id: int = 2
    """First input token of the decoder."""
    eos_id: int = 3
    """Token that ends every sentence, source and target."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_field(field, getattr(self, field.name))
        if self.d_model % self.num_heads:
            raise ValueError(
                f"`d_model` is {self.d_model}, not a multiple of `num_heads` {self.num_heads}; change one."
            )
        if self.positions == "rotary" and self.d_model // self.num_heads % 2:
            raise ValueError(
                f"`positions` is 'rotary', which needs an even head width, not {self.d_model // self.num_heads}."
            )
        if self.decoder_feed_forward == "positions" and not self.positions.startswith("sinusoidal"):
            raise ValueError(
                "`decoder_feed_forward` is 'positions', which adds sinusoidal positions, but `positions` is "
                f"'{self.positions}'; change one."
            )
        smallest = min(self.source_vocab_size, self.target_vocab_size)
        for name in ("pad_id", "bos_id", "eos_id"):
            value = getattr(self, name)
            if not 0 <= value < smallest:
                raise ValueError(
                    f"`{name}` is {value}; token ids start at 0, and the smaller vocabulary has {smallest} tokens."
                )
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                f"`share_embeddings` needs one vocabulary, but `source_vocab_size` is {self.source_vocab_size} "
                f"and `target_vocab_size` {self.target_vocab_size}; set it to false or train a shared tokenizer."
            )

    @classmethod
    def preset(cls, name: str, **choices: Any) -> Self:
        """A config with the sizes of `tiny`, `small`, `base` or `big`; `choices` are all other fields."""
        if name not in PRESETS:
            raise ValueError(f"There is no preset '{name}'; choose one of {', '.join(PRESETS)}.")
        return cls(**(PRESETS[name] | choices))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`. Raises `ValueError` for an unknown or missing field."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(values.keys() - known)
        if unknown:
            raise ValueError(
                f"The model's config has the unknown key '{unknown[0]}'; it was written by another version."
            )
        for name in ("source_vocab_size", "target_vocab_size"):
            if name not in values:
                raise ValueError(f"The model's config lacks '{name}'; the file is incomplete.")
        return cls(**values)

    @property
    def starts_with_padding(self) -> bool:
        """Whether the decoder starts with padding, as Marian's does; such a model never predicts padding."""
        return self.bos_id == self.pad_id

    @property
    def is_pretrained(self) -> bool:
        """Whether only imported models have this architecture: those of Marian and fairseq."""
        return self.starts_with_padding or self.positions == "sinusoidal-fairseq"

    @property
    def never_pads(self) -> bool:
        """Whether padding is forbidden in translations, where it says nothing.

        Marian's decoders start with it, and models that have hardly learned predict it. Those of fairseq may, as in
        transformers.
        """
        return self.starts_with_padding or not self.is_pretrained

    @property
    def aligning_layers(self) -> range:
        """Decoder layers whose cross-attention tells which source words a token comes from.

        Without a guided head these are the middle ones: the first knows little of the next word yet, and the last says
        less about words than the others.
        """
        last = self.num_decoder_layers - 1
        if self.guided_head:
            return range(max(0, last - 1), max(1, last))
        return range(1, last) if last > 1 else range(last + 1)

    @property
    def aligning_heads(self) -> int:
        """Number of heads of each of the `aligning_layers` that tell it, the first ones."""
        return 1 if self.guided_head else self.num_heads

    @property
    def max_length(self) -> int | None:
        """Most tokens that a sequence may have; None: any number."""
        return self.max_positions if self.positions == "learned" else None

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _check_field(field: dataclasses.Field, value: Any) -> None:
    name, kind = field.name, field.type
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError(f"`{name}` is {value!r}; choose one of {', '.join(map(repr, get_args(kind)))}.")
    elif kind is bool:
        if not isinstance(value, bool):
            raise ValueError(f"`{name}` is {value!r}; it must be true or false.")
    elif isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
        raise ValueError(f"`{name}` is {value!r}; it must be {'a number' if kind is float else 'a whole number'}.")
    elif "dropout" in name:
        if not 0 <= value < 1:
            raise ValueError(f"`{name}` is {value}; it must be at least 0 and below 1.")
    elif not name.endswith("_id") and not 0 < value <= _LARGEST.get(name, sys.float_info.max):
        most = f" and at most {_LARGEST[name]}" if name in _LARGEST else ""
        raise ValueError(f"`{name}` is {value}; it must be above 0{most}.")
