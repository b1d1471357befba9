"""A run as one typed tree: a section each for data, tokenizer, model, training and decoding."""
