"""Write docs/walk/cache/index.html: greedy decoding with its cache, step by step, with play and keyboard.

    python -m tools.make_cache_page

The numbers are computed here, by our numpy engine with the weights of docs/walk/live/index.html, so nothing is trained.
The page only shows them: one file that loads nothing. Its parts beside it are `page.html` and `page.js`.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from dragoman.engine.parameters import with_shared
from dragoman.engine.transformer import DecoderCache, Linear, NumpyTransformer, attention, rotate
from dragoman.model.config import TransformerConfig
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tools import make_live
from tools.pages import DOCS

FOLDER = DOCS / "walk/cache"
PAGE = FOLDER / "index.html"
SENTENCE = "The red house is old."
CANDIDATES = 5
LONGEST = 20
Array = np.ndarray


class CountingTransformer:
    """Our numpy engine, which also counts the positions that each linear map computes, and keeps its last output."""

    def __init__(self, config: TransformerConfig, weights: dict[str, Array]):
        self.positions: Counter[str] = Counter()
        self.last: dict[str, Array] = {}
        whole = with_shared(config, weights)

        def linear(name: str) -> Callable[[Array], Array]:
            exact = Linear(whole[f"{name}.weight"], whole.get(f"{name}.bias"))

            def count(x: Array) -> Array:
                self.positions[name] += x.shape[0] * x.shape[1]
                self.last[name] = exact(x)
                return self.last[name]

            return count

        self.network = NumpyTransformer(config, weights, linear)

    def computed(self) -> dict[str, int]:
        """Positions of target and source whose keys each decoder layer has computed since the last call."""
        counts = {}
        for side, kind in (("target", "self"), ("source", "cross")):
            layers = range(self.network.config.num_decoder_layers)
            (counts[side],) = {self.positions[f"decoder.layers.{layer}.{kind}_attention.key"] for layer in layers}
        self.positions.clear()
        return counts


def recorded() -> dict[str, Any]:
    """All that the page shows: pieces, queries, keys, values and weights of each head, candidates, and counts.

    Queries, keys and values are in hundredths, weights and probabilities in thousandths.
    """
    model = make_live.model_in(make_live.PAGE.read_text(encoding="utf-8"))
    config, weights = make_live.architecture_of(model), make_live.weights_of(model)
    tokenizers = [Tokenizer.from_json(json.dumps(tokenizer), make_live.PAGE) for tokenizer in model["tokenizers"]]
    reader, writer = tokenizers[0], tokenizers[-1]
    source = [*reader.encode(SENTENCE), config.eos_id]
    source_ids = np.array([source])
    mask = np.ones_like(source_ids, bool)
    cached, uncached = CountingTransformer(config, weights), CountingTransformer(config, weights)
    memory = cached.network.encode(source_ids, mask)
    cache = DecoderCache(config.num_decoder_layers)
    heads: list[list[dict[str, Any]]] = [
        [{kind: {"query": [], "weights": []} for kind in ("self", "cross")} for _ in range(config.num_heads)]
        for _ in range(config.num_decoder_layers)
    ]
    tokens, candidates, counts = [config.bos_id], [], []
    while tokens[-1] != config.eos_id and len(tokens) < LONGEST:
        past = cache.length
        cross_maps: list[Array] = []
        states = cached.network.decode(np.array([tokens[-1:]]), memory, mask, cache, cross_maps)
        for layer, cross_weights in enumerate(cross_maps):
            name = f"decoder.layers.{layer}"
            own_query = rotate(_heads(cached.last[f"{name}.self_attention.query"], config.num_heads), past)
            own_weights = attention(own_query, *cache.own[layer].contents)[1]
            cross_query = _heads(cached.last[f"{name}.cross_attention.query"], config.num_heads)
            for head in range(config.num_heads):
                for kind, query, map_ in (("self", own_query, own_weights), ("cross", cross_query, cross_weights)):
                    heads[layer][head][kind]["query"].append(_whole(query[0, head, 0], 100))
                    heads[layer][head][kind]["weights"].append(_whole(map_[0, head, 0], 1000))
        probabilities = np.exp(cached.network.log_probs(states)[0, -1])
        # The same step from the beginning, only to count.
        again = uncached.network.decode(np.array([tokens]), memory, mask)
        assert np.allclose(np.exp(uncached.network.log_probs(again)[0, -1]), probabilities, atol=1e-5)
        counts.append({"with": cached.computed(), "without": uncached.computed()})
        best = np.argsort(-probabilities)[:CANDIDATES]
        candidates.append([[_shown(writer, config, int(id_)), round(1000 * float(probabilities[id_]))] for id_ in best])
        tokens.append(int(best[0]))
    for layer, of_layer in enumerate(heads):
        for head, of_head in enumerate(of_layer):
            for kind, kept in (("self", cache.own[layer]), ("cross", cache.memory[layer])):
                key, value = kept.contents
                of_head[kind] |= {"key": _whole(key[0, head], 100), "value": _whole(value[0, head], 100)}
    return {
        "sentence": SENTENCE,
        "translation": writer.decode(tokens[1:-1]),
        "source": [_shown(reader, config, id_) for id_ in source],
        "target": [_shown(writer, config, id_) for id_ in tokens],
        "width": config.d_model // config.num_heads,
        "heads": heads,
        "candidates": candidates,
        "counts": counts,
    }


def _heads(x: Array, num_heads: int) -> Array:
    """(rows, length, d_model) as (rows, heads, length, width)."""
    return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


def _whole(numbers: Array, unit: int) -> list[Any]:
    """Numbers as whole multiples of 1 / unit."""
    return np.rint(numbers * unit).astype(int).tolist()


def _shown(tokenizer: Tokenizer, config: TransformerConfig, id_: int) -> str:
    names = {config.bos_id: "begin", config.eos_id: "end"}
    return names.get(id_) or tokenizer.pieces([id_])[0]


def page(data: dict[str, Any]) -> str:
    """The page with its numbers."""
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", r"\u003c")
    script = (FOLDER / "page.js").read_text(encoding="utf-8")
    values = {
        "sentence": data["sentence"],
        "translation": data["translation"],
        "width": str(data["width"]),
        "script": f"const DATA = {content};\n{script}",
    }
    text = (FOLDER / "page.html").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"{{{{ {name} }}}}", value)
    return text


def data_in(text: str) -> dict[str, Any]:
    """The numbers of a page."""
    (line,) = (line for line in text.split("\n") if line.startswith("const DATA = "))
    return json.loads(line.removeprefix("const DATA = ").removesuffix(";"))


def main() -> None:
    """Compute the numbers and write the page."""
    PAGE.write_text(page(recorded()), encoding="utf-8")
    print(f"{PAGE.relative_to(DOCS)}: {PAGE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
