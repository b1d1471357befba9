"""The page of an `Inspection`: one HTML file with its data, its style and its script, which loads nothing.

The browser is told to run this script and no other, so a text cannot bring one.
"""

import base64
import hashlib
from typing import Any

import numpy as np
from jaxtyping import UInt8

from dragoman.report.attention import Maps, Vectors
from dragoman.report.inspection import AXES, Inspection
from dragoman.system.templates import read_static, render

SCRIPTS = tuple(
    f"report/static/{name}.js"
    for name in ("data", "words", "removals", "maps", "head", "attention", "search", "export")
)
MOST_POSITIONS = 64
"""Longest sentence, in tokens, whose queries, keys and values the page holds too: those of a base model take 5 MB."""


def render_inspection(inspection: Inspection) -> str:
    """The page as HTML."""
    return page_of(_data(inspection))


def page_of(data: dict[str, Any]) -> str:
    """The page that shows the data of an inspection, which it holds as JSON in the element `data`."""
    style, script = read_static("report/static/inspection.css"), "\n".join(map(read_static, SCRIPTS))
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    return render("report/static/inspection.html", policy=policy, style=style, script=script, data=data)


def _data(inspection: Inspection) -> dict[str, Any]:
    """The content of the element `data`, which the scripts of the page read."""
    return inspection.to_dict() | {
        "axes": {name: getattr(inspection, name).to_list() for name in ("source", "inputs", "target")},
        "clearest_layer": inspection.clearest_layer(),
        "attention": {
            kind: {
                "rows": rows,
                "columns": columns,
                "layers": len(inspection.attention[kind].weights),
                "heads": inspection.attention[kind].weights.shape[1],
                "weights": _base64(_in_bytes(inspection.attention[kind].weights).tobytes()),
            }
            for kind, (rows, columns) in AXES.items()
        },
        "vectors": _vectors(inspection),
    }


def _vectors(inspection: Inspection) -> dict[str, Any] | None:
    """Queries, keys and values of each attention; None for a sentence that is too long."""
    if max(len(inspection.source.ids), len(inspection.target.ids)) > MOST_POSITIONS:
        return None
    return {
        kind: {
            "width": heads.query.shape[-1],
            "query": _in_two_bytes(heads.query),
            "key": _in_two_bytes(heads.key),
            "value": _in_two_bytes(heads.value),
        }
        for kind, heads in inspection.attention.items()
    }


def _in_two_bytes(vectors: Vectors) -> dict[str, Any]:
    """Vectors as 16-bit integers: 32,767 stands for the largest absolute value, which is stored beside them."""
    largest = float(np.abs(vectors).max()) or 1.0
    numbers = (vectors / largest * 32767).round().astype("<i2")
    return {"largest": largest, "numbers": _base64(numbers.tobytes())}


def _in_bytes(maps: Maps) -> UInt8[np.ndarray, "layers heads queries keys"]:
    """Weights as bytes: 255 times the square root, which keeps small weights apart. The error is half a percent."""
    return (255 * np.sqrt(maps.clip(0, 1))).round().astype(np.uint8)


def _hash(text: str) -> str:
    """The SHA-256 of a style or script, as a content security policy names it."""
    return f"'sha256-{_base64(hashlib.sha256(text.encode()).digest())}'"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
