"""What computes translations, without torch: the weights of a model as arrays, and the Transformer over them."""
