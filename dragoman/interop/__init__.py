"""Models of "Transformer from scratch" notebooks, imported as model directories.

`notebooks.toml`, read by `styles.py`, has the names and formulas of four styles of notebooks. `weights.py` reads files
of tensors and runs nothing in them, `notebooks.py` puts the tensors into a `Transformer`, `vocabulary.py` reads
tokenizers, and `importing.py` writes the model directory.
"""
