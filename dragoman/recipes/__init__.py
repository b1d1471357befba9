"""Recipes: one YAML file a run, by name."""
