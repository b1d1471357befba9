"""Other people's weights and formats, in and out, as model directories.

In: `importing.py` writes the model directory of a "Transformer from scratch" notebook, `pretrained.py` that of a
Marian, M2M-100 or NLLB-200 model; `hub.py` downloads the latter. `notebooks.toml` and `pretrained.toml`, read by
`styles.py`, have the names of parameters. `weights.py` reads files of tensors and runs nothing in them; `notebooks.py`,
`huggingface.py` and `marian.py` put the tensors into a `Transformer`; `vocabulary.py` and `pretrained_vocabulary.py`
read tokenizers.

Out: `exporting.py` writes a model for another engine, and lets both translate the same sentences (`proof.py`). Each
engine has a module: `ctranslate2.py`, `argos.py`, `onnx.py` with `onnx_graph.py`, `transformers.py` and `web.py`.
"""
