"""Evaluations, and token statistics against the complete tensor of logits."""

import json
import math
from collections.abc import Iterator

import pytest
import torch

from dragoman.data.batching import Batch
from dragoman.engine import engine
from dragoman.errors import DataError
from dragoman.evaluation.evaluate import Evaluation
from dragoman.evaluation.likelihood import TokenStatistics, reference_batches, token_statistics
from dragoman.evaluation.scores import score
from dragoman.model import Transformer
from dragoman.text.preprocessing import Preprocessor, SourceStyle
from dragoman.text.tokenizers.placeholders import SLOTS
from dragoman.text.tokenizers.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from tests.small import small_model

SOURCE_VOCAB, TARGET_VOCAB = 31, 43
PAIRS = [
    ("the cat sleeps", "le chat dort"),
    ("a", "un chien noir et un chat"),
    ("the black dog sees the cat", "le chien"),
    ("the dog", "le chien"),
    ("a black cat and a dog", "un chat noir"),
]


def tiny_model(**choices) -> Transformer:
    sizes = {"target_vocab_size": TARGET_VOCAB, "d_model": 22, "d_ff": 17, "num_heads": 2}
    return small_model(SOURCE_VOCAB, seed=5, **(sizes | choices)).eval()


def random_batch(rows: int, source_length: int, target_length: int, *, seed: int) -> Batch:
    """Random tokens, each row of another length."""
    random = torch.Generator().manual_seed(seed)
    source = torch.randint(4, SOURCE_VOCAB, (rows, source_length), generator=random)
    target = torch.randint(4, TARGET_VOCAB, (rows, target_length + 1), generator=random)
    target[:, 0] = BOS_ID
    for row in range(rows):
        source[row, source_length - row :] = PAD_ID
        target[row, target_length - row + 1 :] = PAD_ID
    return Batch(source, target[:, :-1], target[:, 1:].clone())


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([text for pair in PAIRS for text in pair], vocab_size=307)


def test_there_is_no_perplexity_without_a_token():
    with pytest.raises(DataError, match="no token"):
        token_statistics([tiny_model()], [])


@pytest.mark.parametrize("choices", [{}, {"tie_projection": False, "projection_bias": True}])
def test_token_statistics_equal_those_of_the_complete_logits(choices):
    model = tiny_model(**choices)
    batches = [random_batch(3, 7, 11, seed=1), random_batch(2, 5, 13, seed=2)]
    losses, hits = [], []
    for batch in batches:
        with torch.no_grad():
            log_probs = model(batch.source_ids, batch.target_ids).double().log_softmax(-1)
        for row, column in (batch.labels != PAD_ID).nonzero().tolist():
            if column % 3 == 0:  # chance alone would hardly ever let the model be right
                batch.labels[row, column] = log_probs[row, column].argmax()
            label = int(batch.labels[row, column])
            losses.append(-float(log_probs[row, column, label]))
            hits.append(int(log_probs[row, column].argmax()) == label)
    statistics = token_statistics([model], batches)
    assert statistics.num_tokens == len(losses) == (11 + 10 + 9) + (13 + 12)
    assert statistics.perplexity == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)
    assert 0.3 < sum(hits) / len(hits) < 0.6
    assert statistics.token_accuracy == pytest.approx(sum(hits) / len(hits))


def test_several_models_are_judged_by_the_mean_of_their_probabilities():
    models = [tiny_model().requires_grad_(False) for _ in range(3)]
    for number, model in enumerate(models):
        torch.manual_seed(number)
        for weight in model.parameters():
            weight.normal_(std=0.5)
    batch = random_batch(3, 7, 11, seed=5)
    mean = sum(model.eval()(batch.source_ids, batch.target_ids).double().softmax(-1) for model in models) / 3
    indices = (batch.labels != PAD_ID).nonzero(as_tuple=True)
    labels = batch.labels[indices]
    expected = [float(p) for p in mean[indices].gather(1, labels[:, None])]
    found = token_statistics(models, [batch])
    assert found.perplexity == pytest.approx(math.exp(-sum(map(math.log, expected)) / len(expected)), rel=1e-5)
    assert found.token_accuracy == pytest.approx(float((mean[indices].argmax(-1) == labels).double().mean()))
    alone = [token_statistics([model], [batch]).perplexity for model in models]
    assert all(abs(found.perplexity - other) > 0.1 for other in alone)


def test_a_model_that_knows_nothing_has_the_perplexity_of_the_vocabulary():
    model = tiny_model(tie_projection=False)
    torch.nn.init.zeros_(model.projection.weight)
    statistics = token_statistics([model], [random_batch(3, 5, 7, seed=3)])
    assert statistics.perplexity == pytest.approx(TARGET_VOCAB)


def batches(pairs: list[tuple[str, str]], tokenizer: Tokenizer, **options) -> Iterator[Batch]:
    preprocessor = Preprocessor(SourceStyle(), tokenizer, (None, None))
    return reference_batches(pairs, preprocessor, tokenizer, tokenizer, **options)


def test_a_model_that_is_sure_and_right_has_perplexity_one(tokenizer):
    model = tiny_model(
        source_vocab_size=tokenizer.vocab_size,
        target_vocab_size=tokenizer.vocab_size,
        projection_bias=True,
    )
    torch.nn.init.zeros_(model.projection.bias)
    model.projection.bias.data[EOS_ID] = 1000
    statistics = token_statistics([model], batches([("a", "")] * 3, tokenizer))
    assert (statistics.perplexity, statistics.token_accuracy) == pytest.approx((1, 1))
    assert statistics.num_tokens == 3


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_slices_bound_the_logits_and_change_no_result(monkeypatch, rows):
    model, batch = tiny_model(), random_batch(3, 7, 11, seed=4)
    complete = token_statistics([model], [batch])
    sizes = []
    model.projection.register_forward_hook(lambda module, given, out: sizes.append(len(out)))
    monkeypatch.setattr(engine, "SLICE_ELEMENTS", rows * TARGET_VOCAB)
    sliced = token_statistics([model], [batch])
    assert sum(sizes) == complete.num_tokens
    assert max(sizes) <= rows
    assert sliced.perplexity == pytest.approx(complete.perplexity, rel=1e-6)
    assert sliced.token_accuracy == complete.token_accuracy


def test_dropout_is_off_in_statistics_and_on_again_after_them():
    model, batch = tiny_model(dropout=0.5), random_batch(3, 7, 11, seed=6)
    expected = token_statistics([model], [batch])
    model.train()
    assert token_statistics([model], [batch]) == expected
    assert model.training

    def broken():
        yield batch
        raise RuntimeError

    with pytest.raises(RuntimeError):
        token_statistics([model], broken())
    assert model.training


def test_every_pair_is_in_one_batch_with_its_ends(tokenizer):
    def tokens(ids: torch.Tensor) -> list[int]:
        return [id_ for id_ in ids.tolist() if id_ != PAD_ID]

    found = []
    for batch in batches(PAIRS, tokenizer, max_tokens=13):
        assert len(batch.labels) == 1 or max(batch.labels.numel(), batch.source_ids.numel()) <= 13
        for source, given, label in zip(batch.source_ids, batch.target_ids, batch.labels, strict=True):
            assert tokens(given)[: len(tokens(label))] == [BOS_ID, *tokens(label)[:-1]]
            assert tokens(source)[-1] == tokens(label)[-1] == EOS_ID
            found.append((tokenizer.decode(tokens(source)), tokenizer.decode(tokens(label))))
    assert sorted(found) == sorted(PAIRS)


def test_placeholders_of_references_are_slots_as_in_training():
    slotted = Tokenizer.train(["%s of {n}"], vocab_size=307, symbols=SLOTS)
    (batch,) = batches([("%s of {n}", "{n} : %s %d")], slotted)
    first, second = (slotted.encode(slot) for slot in SLOTS[:2])
    assert batch.source_ids.tolist() == [[*first, *slotted.encode("of"), *second, EOS_ID]]
    assert batch.labels.tolist() == [[*second, *slotted.encode(" :"), *first, *slotted.encode(" %d"), EOS_ID]]


def test_statistics_do_not_depend_on_how_pairs_are_batched(tokenizer):
    size = tokenizer.vocab_size
    model = tiny_model(source_vocab_size=size, target_vocab_size=size)
    together, apart = (token_statistics([model], batches(PAIRS, tokenizer, max_tokens=tokens)) for tokens in (1009, 1))
    assert together.perplexity == pytest.approx(apart.perplexity, rel=1e-5)
    assert together.num_tokens == apart.num_tokens
    assert together.num_tokens == sum(len(tokenizer.encode(text)) + 1 for _, text in PAIRS)


def test_an_evaluation_is_an_object_of_json_with_all_numbers():
    texts = [target for _, target in PAIRS]
    evaluation = Evaluation(score(texts, texts), TokenStatistics(3.5, 0.75, 17), texts, 2.5)
    values = json.loads(json.dumps(evaluation.to_dict()))
    names = ["bleu", "chrf", "ter", "intervals", "signatures", "perplexity", "token_accuracy", "num_tokens"]
    assert list(values) == [*names, "sentences", "seconds", "sentences_per_second"]
    assert (values["bleu"], values["perplexity"], values["sentences_per_second"]) == (pytest.approx(100), 3.5, 2)
    assert values["signatures"]["ter"] == evaluation.scores["ter"].signature
