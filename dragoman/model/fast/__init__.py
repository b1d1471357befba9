"""Faster ways to compute the formulas of the model. Importing this package makes the formulas use them.

Beside each way stands a function that says which arguments it takes; what no way takes, the formula computes. The
kernels in C are one library (library.py); where it was not compiled, its ways take nothing.
"""

from dragoman.model.attention import attend, project
from dragoman.model.dropout import drop
from dragoman.model.fast import attention, bfloat16, dropout, logits, loss, norms, projection, rotation
from dragoman.model.formula import Way
from dragoman.model.layers import normalise, rotate
from dragoman.model.loss import cross_entropy
from dragoman.model.transformer import log_softmax

attend.ways = (
    Way(bfloat16.can_attend, bfloat16.attend),
    Way(attention.can_attend, attention.single_pass_attention),
    Way(attention.can_fuse, attention.fused_attention),
    Way(attention.can_compile, attention.compiled_attention),
)
project.ways = (Way(projection.is_worth_joining, projection.project_together),)
drop.ways = (Way(dropout.can_drop, dropout.drop),)
normalise.ways = (Way(norms.can_normalise, norms.normalise),)
rotate.ways = (Way(rotation.can_rotate, rotation.rotate),)
log_softmax.ways = (Way(logits.can_log_softmax, logits.log_softmax),)
cross_entropy.ways = (Way(lambda *_, **__: True, loss.cross_entropy),)
