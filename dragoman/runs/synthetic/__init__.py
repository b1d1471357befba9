"""Runs whose pairs models make: distillation and back-translation."""
