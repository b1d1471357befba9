"""Documents: texts that people read are translated, and everything else stays as it is, byte for byte.

The reader of a format finds the segments of a document: the positions of its texts, and how a translation is written
there. `inline.py` takes the codes out of a text, such as tags, and puts them into its translation. `translate.py` has
the texts translated, and `registry.py` knows which file has which format.
"""
