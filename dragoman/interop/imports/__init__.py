"""Models of others as model directories.

`notebook_models.py` writes the model directory of a "Transformer from scratch" notebook, `pretrained.py` that of a
Marian, M2M-100 or NLLB-200 model; `hub.py` downloads the latter. `notebooks.toml` and `pretrained.toml`, read by
`styles.py`, have the names of parameters. `weights.py` reads files of tensors and runs nothing in them; `notebooks.py`,
`huggingface.py` and `marian.py` put the tensors into a `Transformer`; `vocabulary.py` and `pretrained_vocabulary.py`
read tokenizers.
"""
