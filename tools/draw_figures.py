"""Figures 1 and 2 of the paper drawn anew for the walk: SVG in which every box leads to its lines in transformer.py."""

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

FIGURES = Path("figures")
"""Folder of the figures, beside the pages of the walk."""
SOURCE = "transformer.py"
COLOURS = {"attention": "#fbd9b5", "norm": "#f3eeb1", "network": "#cfe3f5", "table": "#f6d3e2", "output": "#d5ecd4"}
STYLE = (
    "text { font: 14px system-ui, sans-serif; fill: #222; text-anchor: middle; dominant-baseline: central } "
    ".small { font-size: 12px; fill: #555 } path { fill: none; stroke: #444; stroke-width: 1.4 } "
    "rect { stroke: #444; rx: 5 } .frame { fill: none; stroke: #999; stroke-dasharray: 5 4 } "
    "a:hover rect { stroke-width: 2.5 }"
)
HEAD = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
WIDTH, HEIGHT = 196, 34
"""Width and height of a box."""

Boxes, Box = Iterator[str], Callable[..., str]


def figures(line_of: Callable[[str], int]) -> dict[Path, str]:
    """Each figure by its file; `line_of(name)` is the line on which transformer.py defines a name."""

    def box(x: float, y: float, text: str, name: str, kind: str, *, width: float = WIDTH) -> str:
        place = f'x="{x - width / 2:g}" y="{y - HEIGHT / 2:g}" width="{width:g}" height="{HEIGHT}"'
        rect = f'<rect {place} fill="{COLOURS[kind]}"/>'
        link = f'<a href="../{SOURCE}#L{line_of(name)}"><title>{name}</title>'
        return f'{link}{rect}<text x="{x:g}" y="{y:g}">{escape(text)}</text></a>'

    titles = "Encoder and decoder, figure 1 of the paper", "Attention and its heads, figure 2 of the paper"
    return {
        FIGURES / "transformer.svg": _svg(650, 235, 615, titles[0], _transformer(box)),
        FIGURES / "attention.svg": _svg(680, 0, 440, titles[1], _attention(box)),
    }


def _transformer(box: Box) -> Boxes:
    encoder, decoder = 170, 460
    yield from (label(encoder, 832, "source tokens"), label(decoder, 832, "target tokens so far"))
    for x in (encoder, decoder):
        yield from (arrow(x, 820, x, 797), box(x, 780, "Embedding × √d_model", "Transformer.embed", "table"))
        yield from (arrow(x, 763, x, 748), box(x, 730, "+ positions", "positions", "table"))
        yield f'<path d="M{x} 713 V700"/>'
    yield frame(60, 470, 236, 235, "6 ×")
    yield from block(box, encoder, 660, "Self-attention", "EncoderLayer")
    yield from block(box, encoder, 550, "Feed-forward", "EncoderLayer", kind="network", name="FeedForward")
    yield frame(350, 360, 236, 345, "6 ×")
    yield from block(box, decoder, 660, "Self-attention, no future", "DecoderLayer")
    yield from block(box, decoder, 550, "Attention to the memory", "DecoderLayer")
    yield from block(box, decoder, 440, "Feed-forward", "DecoderLayer", kind="network", name="FeedForward")
    # The memory leads to the second block of the decoder.
    yield f'<path d="M{encoder} 483 V440 H318 V549 H{decoder - WIDTH / 2 - 2:g}" marker-end="url(#head)"/>'
    yield label(228, 427, "memory, a vector for each source token", small=True)
    yield from (arrow(decoder, 373, decoder, 317), box(decoder, 300, "Projection", "Transformer.decode", "output"))
    yield from (arrow(decoder, 283, decoder, 260), label(decoder, 248, "logits of the next token"))


def block(box: Box, x: float, y: float, text: str, layer: str, *, kind: str = "attention", name: str = "") -> Boxes:
    """A sub-layer, and the sum and norm above it, with the residual connection around the sub-layer."""
    yield from (arrow(x, y + 43, x, y + 18), box(x, y, text, name or "MultiHeadAttention.forward", kind))
    yield from (arrow(x, y - 17, x, y - 33), box(x, y - 50, "Add & LayerNorm", f"{layer}.forward", "norm"))
    yield f'<path d="M{x} {y + 36} H{x + 114} V{y - 50} H{x + WIDTH / 2 + 2:g}" marker-end="url(#head)"/>'


def _attention(box: Box) -> Boxes:
    left, right = 150, 460
    yield from (label(left, 20, "equation 1"), label(right, 20, "several heads"))
    rows = [("Q Kᵀ", 350), ("÷ √d_k", 290), ("mask", 230), ("softmax", 170)]
    for text, y in rows:
        yield box(left - 30, y, text, "attention", "attention", width=110)
        yield arrow(left - 30, y - 17, left - 30, y - 41)
    yield box(left, 110, "weights · V", "attention", "attention", width=170)
    yield from (arrow(left, 93, left, 62), label(left, 50, "for each query, a mixture of values", small=True))
    for x, text in ((left - 60, "Q"), (left, "K"), (left + 70, "V")):
        yield label(x, 425, text)
    for x, end in ((left - 60, 369), (left, 369), (left + 70, 129)):
        yield arrow(x, 412, x, end)
    for shift in (12, 6, 0):
        for x in (right - 110, right, right + 110):
            yield box(x + shift, 350 - shift, "Linear", "MultiHeadAttention.__init__", "network", width=90)
        yield box(right + shift, 250 - shift, "attention, equation 1", "attention", "attention", width=300)
    for x, text in ((right - 110, "x"), (right, "memory"), (right + 110, "memory")):
        yield from (label(x, 425, text), arrow(x, 412, x, 369), arrow(x, 332, x, 269))
    yield from (label(right + 190, 250, "h ×", small=True), arrow(right, 226, right, 189))
    yield from (box(right, 170, "Concat", "MultiHeadAttention.forward", "norm"), arrow(right, 153, right, 129))
    yield from (box(right, 110, "Linear", "MultiHeadAttention.__init__", "network"), arrow(right, 93, right, 62))
    yield label(right, 50, "(batch, length, d_model)", small=True)


def label(x: float, y: float, text: str, *, small: bool = False) -> str:
    return f'<text x="{x:g}" y="{y:g}"{" class=" + chr(34) + "small" + chr(34) if small else ""}>{escape(text)}</text>'


def frame(x: float, y: float, width: float, height: float, text: str) -> str:
    rect = f'<rect class="frame" x="{x}" y="{y}" width="{width}" height="{height}"/>'
    return rect + label(x - 20, y + height - 12, text)


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<path d="M{x:g} {y:g} L{to_x:g} {to_y:g}" marker-end="url(#head)"/>'


def _svg(width: int, top: int, height: int, title: str, parts: Boxes) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top} {width} {height}" role="img">'
    defs = f'<defs>{HEAD}<path d="M0 0 L8 4 L0 8 z" style="fill: #444"/></marker></defs>'
    background = f'<rect y="{top}" width="{width}" height="{height}" style="fill: white; stroke: none"/>'
    return "\n".join([head, f"<title>{title}</title><style>{STYLE}</style>{defs}{background}", *parts, "</svg>\n"])
