"""Translating over HTTP: the APIs of LibreTranslate, DeepL and Google, over one queue of texts.

`queue.py` gathers the texts of all clients into batches, which a thread translates; `server.py` has the models and what
all APIs need of them; `libretranslate.py`, `deepl.py` and `google.py` are the APIs; `limits.py` keeps the server alive;
`app.py` joins all of them.
"""
