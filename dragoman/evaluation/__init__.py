"""Models scored on pairs, and pairs scored by models."""
