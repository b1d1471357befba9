"""Translates the lines of stdin with CTranslate2 in eight bits: FOLDER SOURCE_TOKENIZER TARGET_TOKENIZER BEAM WORKERS.

FOLDER is as `ctranslate.save` writes it: tokens are named by their numbers. Nothing else of this project is needed.
"""

import sys

import ctranslate2
import tokenizers

folder, source, target, beam, workers = sys.argv[1:]
source, target = map(tokenizers.Tokenizer.from_file, (source, target))
translator = ctranslate2.Translator(folder, compute_type="int8", inter_threads=int(workers), intra_threads=1)
sources = [list(map(str, line.ids)) for line in source.encode_batch(sys.stdin.read().removesuffix("\n").split("\n"))]
options = {"max_batch_size": 512, "batch_type": "tokens", "max_decoding_length": 2 * max(map(len, sources)) + 20}
results = translator.translate_batch(sources, beam_size=int(beam), **options)
for result in results:
    text = target.decode([int(token) for token in result.hypotheses[0] if token.isdigit()])
    print(text.replace("\n", " "))
