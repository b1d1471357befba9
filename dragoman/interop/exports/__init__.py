"""Model directories as models for other engines.

`exporting.py` writes a model for another engine, and lets both translate the same sentences (`proof.py`). Each engine
has a module: `ctranslate2.py`, `argos.py`, `onnx.py` with `onnx_graph.py`, `transformers.py` and `web.py`.
"""
