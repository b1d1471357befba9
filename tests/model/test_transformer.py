"""The whole model in every variant: who sees whom, the cache, torch's own model, first weights."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.model import Transformer
from dragoman.model.attention import causal_mask
from tests.model import twins
from tests.model.variants import VARIANTS, build, sentences, small_config

every_variant = pytest.mark.parametrize("choices", VARIANTS.values(), ids=VARIANTS)
every_position_kind = pytest.mark.parametrize(
    "positions", ["sinusoidal", "sinusoidal-concatenated", "learned", "rotary"]
)
TOLERANCE = {"rtol": 0, "atol": 1e-5}


@pytest.mark.first_is_quick
@every_variant
@torch.no_grad()
def test_logits_are_rows_by_target_positions_by_target_vocabulary(choices: dict[str, Any]):
    model = build(**choices)
    logits = model(*sentences(model, rows=5, src_len=13, tgt_len=7))
    assert logits.shape == (5, 7, 47)
    assert logits.isfinite().all()


@pytest.mark.first_is_quick
@every_variant
@torch.no_grad()
def test_no_later_target_token_changes_a_bit_of_earlier_logits(choices: dict[str, Any]):
    model = build(**choices)
    source, target = sentences(model, rows=5, src_len=13, tgt_len=19)
    logits = model(source, target)
    for position in (1, 11, 18):
        changed = target.clone()
        changed[:, position:] = 4 + (changed[:, position:] + 5) % 43
        other = model(source, changed)
        assert torch.equal(other[:, :position], logits[:, :position])
        assert (other[:, position:] != logits[:, position:]).any(-1).all()


@pytest.mark.first_is_quick
@every_variant
@torch.no_grad()
def test_what_is_under_source_padding_changes_no_bit(choices: dict[str, Any]):
    model = build(**choices)
    source, target = sentences(model, rows=5, src_len=17, tgt_len=7)
    visible = torch.arange(17) < torch.tensor([17, 13, 11, 2, 1])[:, None]
    other = source.where(visible, torch.randint_like(source, 4, 47))
    logits = model(source, target, visible)
    assert torch.equal(model(other, target, visible), logits)
    everything = model(other, target, torch.ones_like(visible))
    assert not torch.allclose(everything[1:], logits[1:], atol=1e-3)
    padded = source.where(visible, model.config.pad_id)
    assert torch.equal(model(padded, target), logits)


@pytest.mark.first_is_quick
@every_variant
@torch.no_grad()
def test_a_sentence_has_the_same_logits_alone_and_in_a_batch_of_longer_ones(
    choices: dict[str, Any],
):
    model = build(**choices)
    pad = model.config.pad_id
    source, target = sentences(model, rows=5, src_len=29, tgt_len=31)
    lengths = [(29, 31), (17, 5), (16, 16), (3, 23), (1, 1)]
    for row, (src_len, tgt_len) in enumerate(lengths):
        source[row, src_len:], target[row, tgt_len:] = pad, pad
    together = model(source, target)
    for row, (src_len, tgt_len) in enumerate(lengths):
        alone = model(source[row : row + 1, :src_len], target[row : row + 1, :tgt_len])
        torch.testing.assert_close(together[row, :tgt_len], alone[0], **TOLERANCE)


@pytest.mark.first_is_quick
@every_variant
def test_the_gradient_reaches_every_parameter(choices: dict[str, Any]):
    model = build(**choices).train()
    source, target = sentences(model, rows=5, src_len=13, tgt_len=7)
    model(source, target).sin().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # Softmax does not notice what is added to all keys alike, unless rotation tells them apart.
        rotated = choices.get("positions") == "rotary" and "self_attention" in name
        if rotated or not name.endswith("key.bias"):
            assert parameter.grad.abs().max() > 1e-4, name


@torch.no_grad()
def step_by_step(model: Transformer, source: Tensor, target: Tensor, parts: list[int]) -> Tensor:
    """Logits of the target, decoded in parts of these lengths; rows may share a memory row."""
    visible = source != model.config.pad_id
    memory, cache = model.encode(source), model.new_cache()
    logits, start = [], 0
    for part in parts:
        assert cache.length == start
        logits.append(model.decode(target[:, start : start + part], memory, visible, cache))
        start += part
    return torch.cat(logits, dim=1)


@pytest.mark.first_is_quick
@every_variant
@torch.no_grad()
@pytest.mark.usefixtures("annotations_unchecked")
def test_cached_steps_equal_the_whole_target_at_once(choices: dict[str, Any]):
    model = build(**choices)
    source, target = sentences(model, rows=5, src_len=13, tgt_len=19)
    source[2, 7:] = model.config.pad_id
    expected = model(source, target)
    for parts in ([1] * 19, [1, 3, 13, 2], [17, 1, 1]):
        torch.testing.assert_close(step_by_step(model, source, target, parts), expected, **TOLERANCE)


@pytest.mark.first_is_quick
@every_position_kind
@torch.no_grad()
def test_rows_that_share_a_memory_row_equal_rows_with_one_each(positions: str):
    model = build(positions=positions)
    source, _ = sentences(model, rows=2, src_len=13, tgt_len=1)
    _, target = sentences(model, rows=6, src_len=1, tgt_len=19)
    source[1, 7:] = model.config.pad_id
    expected = model(source.repeat_interleave(3, 0), target)
    for parts in ([1] * 19, [2, 17]):
        torch.testing.assert_close(step_by_step(model, source, target, parts), expected, **TOLERANCE)


@pytest.mark.first_is_quick
@every_position_kind
@pytest.mark.parametrize("turn", [3, 16])
@torch.no_grad()
@pytest.mark.usefixtures("annotations_unchecked")
def test_reordering_in_the_middle_goes_on_with_the_kept_rows(positions: str, turn: int):
    """Three sentences of two rows: the second is finished, the others repeat or swap theirs."""
    model = build(positions=positions)
    source, _ = sentences(model, rows=3, src_len=13, tgt_len=1)
    _, target = sentences(model, rows=6, src_len=1, tgt_len=turn)
    _, future = sentences(model, rows=4, src_len=1, tgt_len=37 - turn)
    source[2, 5:] = model.config.pad_id
    rows, groups = torch.tensor([1, 1, 5, 4]), torch.tensor([0, 2])
    memory, visible, cache = model.encode(source), source != model.config.pad_id, model.new_cache()
    for i in range(turn):
        model.decode(target[:, i : i + 1], memory, visible, cache)
    cache.reorder(rows, groups)
    memory, visible = memory[groups], visible[groups]
    steps = [model.decode(token[:, None], memory, visible, cache) for token in future.unbind(1)]
    whole = torch.cat([target[rows], future], dim=1)
    expected = model(source[groups].repeat_interleave(2, 0), whole)
    torch.testing.assert_close(torch.cat(steps, dim=1), expected[:, turn:], **TOLERANCE)


@every_position_kind
@torch.no_grad()
def test_reordering_without_memory_rows_leaves_the_memory(positions: str):
    model = build(positions=positions)
    source, target = sentences(model, rows=2, src_len=7, tgt_len=5)
    memory, visible, cache = model.encode(source), source != 0, model.new_cache()
    target = target.repeat_interleave(2, 0)
    target[[1, 3]] = 4 + (target[[1, 3]] + 5) % 43
    model.decode(target[:, :3], memory, visible, cache)
    rows = torch.tensor([1, 0, 3, 3])
    cache.reorder(rows)
    logits = model.decode(target[rows][:, 3:], memory, visible, cache)
    expected = model(source.repeat_interleave(2, 0), target[rows])
    torch.testing.assert_close(logits, expected[:, 3:], **TOLERANCE)


def torch_transformer(model: Transformer) -> nn.Transformer:
    """Torch's stacks with our weights, without the final norm that they add to post-norm too."""
    pre = model.config.norm_order == "pre"
    theirs = nn.Transformer(30, 3, 2, 3, 41, 0.0, batch_first=True, norm_first=pre, dtype=torch.float64)
    theirs.encoder.enable_nested_tensor = False
    if not pre:
        theirs.encoder.norm = theirs.decoder.norm = None
    theirs.load_state_dict(twins.transformer(model, twins.weights))
    return theirs.train()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True:UserWarning")
@pytest.mark.parametrize("order", ["pre", "post"])
def test_the_model_equals_that_of_torch_with_every_gradient(order: str):
    model = build(norm_order=order).double().train()
    theirs = torch_transformer(model)
    source, target = sentences(model, rows=5, src_len=13, tgt_len=7)
    source[1, 11:], source[3, 2:] = 0, 0
    tables = [side.embedding.table.weight.detach().clone().requires_grad_() for side in (model.encoder, model.decoder)]
    embedded = [
        F.embedding(ids, table) * math.sqrt(30) + side.embedding.positions(0, ids.size(1))
        for ids, table, side in zip((source, target), tables, (model.encoder, model.decoder), strict=True)
    ]
    padding = source == 0
    states = theirs(
        *embedded,
        tgt_mask=~causal_mask(7),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    expected, logits = states @ tables[1].T, model(source, target)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-11)
    logits.sin().sum().backward()
    expected.sin().sum().backward()
    twins.assert_same_gradients(theirs, twins.transformer(model, twins.gradients))
    for table, side in zip(tables, (model.encoder, model.decoder), strict=True):
        torch.testing.assert_close(side.embedding.table.weight.grad, table.grad, rtol=0, atol=1e-9)


@torch.no_grad()
def test_forward_is_encode_then_decode_and_states_then_project():
    model = build(projection_bias=True)
    source, target = sentences(model, rows=5, src_len=13, tgt_len=7)
    logits = model(source, target)
    memory = model.encode(source)
    assert torch.equal(model.decode(target, memory, source != 0), logits)
    assert torch.equal(model.project(model.states(source, target)), logits)
    visible = torch.arange(13) < torch.tensor([13, 11, 7, 2, 1])[:, None]
    expected = model(source, target, visible)
    assert torch.equal(model.decode(target, model.encode(source, visible), visible), expected)


@pytest.mark.first_is_quick
@every_variant
@torch.no_grad()
def test_without_dropout_training_and_evaluation_have_the_same_bits(choices: dict[str, Any]):
    model = build(**choices)
    source, target = sentences(model, rows=5, src_len=13, tgt_len=7)
    assert torch.equal(model.train()(source, target), model.eval()(source, target))


@pytest.mark.first_is_quick
@every_variant
@torch.no_grad()
def test_training_begins_near_the_loss_of_a_guess(choices: dict[str, Any]):
    """ln(vocabulary), and about half the variance of the logits more, which is near 1."""
    torch.manual_seed(31)
    model = Transformer(small_config(**choices)).eval()
    source, target = sentences(model, rows=31, src_len=13, tgt_len=7)
    labels = torch.randint_like(target, 4, 47)
    loss = F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten())
    assert math.log(47) - 0.3 < loss < math.log(47) + 1.5


@pytest.mark.parametrize("again", [False, True])
def test_embeddings_begin_with_length_one_and_biases_with_zero(again: bool):
    torch.manual_seed(37)
    sizes = {"source_vocab_size": 997, "target_vocab_size": 1009}
    model = Transformer(small_config(projection_bias=True, **sizes))
    if again:
        model.initialise()
    for side in (model.encoder, model.decoder):
        lengths = side.embedding.table.weight.square().sum(-1)
        assert abs(lengths.mean() - 1) < 0.05
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    assert all((bias == 0).all() for bias in biases)
    query = model.encoder.layers[0].self_attention.query.weight
    bound = math.sqrt(6 / (30 + 30))  # Glorot and Bengio 2010, equation 16
    assert 0.95 * bound < query.abs().max() <= bound


@pytest.mark.parametrize("again", [False, True])
def test_weights_may_begin_as_pytorch_makes_them(again: bool):
    torch.manual_seed(37)
    options = {"initialisation": "pytorch", "projection_bias": True, "tie_projection": False}
    model = Transformer(small_config(source_vocab_size=997, **options))
    if again:
        model.initialise()
    assert abs(model.encoder.embedding.table.weight.std() - 1) < 0.05
    query, outer = model.encoder.layers[0].self_attention.query, model.encoder.layers[0].feed_forward.outer
    for linear, inputs in ((query, 30), (outer, 41), (model.projection, 30)):
        bound = inputs**-0.5
        assert 0.95 * bound < linear.weight.abs().max() <= bound
        assert 0.5 * bound < linear.bias.abs().max() <= bound


def test_weights_may_begin_as_those_of_the_notebooks():
    torch.manual_seed(37)
    model = Transformer(small_config(initialisation="xavier-tables", source_vocab_size=997, tie_projection=False))
    table = model.encoder.embedding.table.weight
    bound = math.sqrt(6 / (997 + 30))
    assert 0.95 * bound < table.abs().max() <= bound
    query = model.encoder.layers[0].self_attention.query
    assert 0.95 * math.sqrt(6 / 60) < query.weight.abs().max() <= math.sqrt(6 / 60)
    assert 0.5 * 30**-0.5 < query.bias.abs().max() <= 30**-0.5

    keras = Transformer(small_config(initialisation="keras", positions="learned", tie_projection=False))
    layer = keras.decoder.layers[0]
    for linear, fans in ((layer.cross_attention.key, 60), (layer.feed_forward.inner, 71), (keras.projection, 77)):
        bound = math.sqrt(6 / fans)
        assert 0.95 * bound < linear.weight.abs().max() <= bound
    assert all((p == 0).all() for name, p in keras.named_parameters() if name.endswith("bias") and "norm" not in name)
    for table in (keras.decoder.embedding.table.weight, keras.decoder.embedding.positions.table):
        assert 0.045 < table.abs().max() <= 0.05


@pytest.mark.parametrize("initialisation", ["xavier", "pytorch"])
def test_a_tied_projection_begins_as_the_embeddings_do(initialisation: str):
    torch.manual_seed(41)
    model = Transformer(small_config(initialisation=initialisation, target_vocab_size=1009)).initialise()
    deviation = {"xavier": 30**-0.5, "pytorch": 1}[initialisation]
    assert abs(model.projection.weight.std() / deviation - 1) < 0.05


def test_the_same_seed_gives_the_same_first_weights():
    first, second, other = (
        (torch.manual_seed(seed), Transformer(small_config()))[1].state_dict() for seed in (41, 41, 43)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    name = "decoder.layers.2.cross_attention.value.weight"
    assert not torch.equal(first[name], other[name])


def test_a_model_is_copied_and_pickled_with_its_formulas():
    model = build()
    for again in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[4, 5]])
        torch.testing.assert_close(again.eval()(source, target), model.eval()(source, target))
        assert again.encoder.layers[0].self_attention.project is model.encoder.layers[0].self_attention.project
