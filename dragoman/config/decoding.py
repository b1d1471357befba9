"""The section `decoding`: how translations are searched for."""

from pydantic import Field

from dragoman.config.section import Section


class DecodingConfig(Section):
    """How the held-out sentences are translated for the scores."""

    beam_size: int = Field(5, ge=1, le=64)
    """Hypotheses kept alive; 1 is greedy search."""
    length_penalty: float = Field(1.0, ge=0)
    """Exponent of the length by which log-probabilities are divided; 0 favours short translations."""
