"""Translating over HTTP: the APIs of LibreTranslate, DeepL and Google, over one queue of texts.

`queue.py` gathers the texts of all clients into batches for a thread that computes; `server.py` has the models and what
every API asks of them; `libretranslate.py`, `deepl.py` and `google.py` speak to clients; `limits.py` keeps the server
alive; `app.py` puts all together.
"""
