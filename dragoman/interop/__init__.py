"""Models of other programs, imported as model directories: one adapter for each format.

An adapter is a table of names (`notebooks.toml`, read by `styles.py`) and a module that reads the format's files into a
`ForeignModel` (`notebooks.py`). All adapters share the rest: `names.py` translates names of parameters, `weights.py`
reads files of tensors and runs nothing in them, `foreign.py` puts tensors into a `Transformer`, `vocabulary.py` reads
tokenizers, and `importing.py` writes the model directory.
"""
