"""Documents: what people read in them is translated, and all else stays as it is, byte for byte.

A format finds the segments of a document: where its texts stand, and how a translation is written there. `inline.py`
takes the codes out of a text, such as tags, and puts them into its translation. `translate.py` does the rest;
`formats.py` knows which file has which format.
"""
