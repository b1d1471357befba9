"""COMET (Rei et al., 2020): a language model that was trained to judge translations as people do; about 0 to 1.

The package unbabel-comet computes it, from a model in a folder of this machine. It asks for older libraries than
Dragoman, so it may have a Python of its own. `evaluation.comet` calls it.
"""

from dragoman.metrics.metric import Metric

METRIC = Metric(name="comet", label="COMET", tested=False, digits=3)
