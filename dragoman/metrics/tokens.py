"""Metrics of the model's predictions of each token of a reference, given its true beginning.

The values depend on the tokenizer: compare them between models that share one.
"""

from dragoman.metrics.metric import Metric

LOSS = Metric(
    name="loss", label="loss", higher_is_better=False, validation_key="valid_loss", tested=False, digits=3,
    unit="nats per token",
)  # fmt: skip
PERPLEXITY = Metric(name="perplexity", label="perplexity", higher_is_better=False, digits=2, remark="per token")
TOKEN_ACCURACY = Metric(
    name="token_accuracy", label="token accuracy", unit="%", remark="next token, given the true beginning"
)
