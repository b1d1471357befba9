"""The page of an `Inspection`: one HTML file that holds its data, its style and its script, and loads nothing.

The browser is told to run this script and no other, so a text cannot bring one.
"""

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from string import Template

import numpy as np
from jaxtyping import UInt8

from dragoman import __version__
from dragoman.report.attention import Maps
from dragoman.report.inspection import AXES, Inspection, words_dict

SCRIPTS = ("data.js", "words.js", "maps.js", "attention.js", "search.js")


def render_inspection(inspection: Inspection) -> str:
    """The page as HTML."""
    style, script = _static("inspection.css"), "\n".join(_static(name) for name in SCRIPTS)
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    # In JSON a "<" stands inside strings only; without it nothing can end or open an element.
    data = json.dumps(_data(inspection)).replace("<", "\\u003c")
    return Template(_static("inspection.html")).substitute(
        policy=policy,
        title=escape(f"Inspection: {inspection.source_text}"),
        style=style,
        script=script,
        data=data,
        version=__version__,
    )


def _data(inspection: Inspection) -> dict:
    return inspection.to_dict() | {
        "axes": {name: words_dict(getattr(inspection, name)) for name in ("source", "inputs", "target")},
        "clearest_layer": inspection.clearest_layer(),
        "attention": {
            kind: {
                "rows": rows,
                "columns": columns,
                "layers": len(inspection.attention[kind]),
                "heads": inspection.attention[kind].shape[1],
                "weights": base64.b64encode(in_bytes(inspection.attention[kind]).tobytes()).decode("ascii"),
            }
            for kind, (rows, columns) in AXES.items()
        },
    }


def in_bytes(maps: Maps) -> UInt8[np.ndarray, "layers heads queries keys"]:
    """Weights as 255 times their square root: so small ones keep their differences, to half a percent at most."""
    return (255 * np.sqrt(maps.clip(0, 1))).round().astype(np.uint8)


def _static(name: str) -> str:
    return files("dragoman.report").joinpath("static", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
