"""The paper's model in one file of the walk is the model of the package: the same logits, the same gradients."""

import sys

import pytest
import torch
import torch.nn.functional as F

from dragoman import Transformer, TransformerConfig
from tools.pages import DOCS

SIZES = {"d_model": 32, "d_ff": 48, "num_heads": 4, "dropout": 0.0}


def paper_name(name: str) -> str:
    """What the one file calls a weight of the package."""
    name = name.removesuffix(".gain") + ".weight" if name.endswith(".gain") else name
    name = name.replace("coder.layers.", "coder.").replace("residuals.", "norms.").replace(".norm.", ".")
    return "table.weight" if "table" in name or name == "projection.weight" else name


def test_one_file_has_the_papers_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS / "walk"))
    import transformer

    monkeypatch.delitem(sys.modules, "transformer")
    torch.manual_seed(1)
    config = TransformerConfig(
        source_vocab_size=60, target_vocab_size=60, share_embeddings=True, norm_order="post",
        num_encoder_layers=3, num_decoder_layers=3, **SIZES,
    )  # fmt: skip
    ours, paper = Transformer(config).double(), transformer.Transformer(60, num_layers=3, **SIZES).double()
    # The package adds biases to the projections of attention; they begin at 0.
    biases = {name for name, _ in ours.named_parameters() if "attention" in name and name.endswith("bias")}
    weights = {paper_name(name): weight for name, weight in ours.state_dict().items() if name not in biases}
    paper.load_state_dict(weights)
    source, target = torch.randint(4, 60, (3, 9)), torch.randint(4, 60, (3, 7))
    source[1, 5:] = target[2, 4:] = config.pad_id
    logits = [model(source, target[:, :-1]) for model in (ours, paper)]
    torch.testing.assert_close(*logits, rtol=1e-6, atol=1e-6)
    for each in logits:
        F.cross_entropy(each.flatten(0, 1), target[:, 1:].flatten(), ignore_index=config.pad_id).backward()
    found = {paper_name(name): weight.grad for name, weight in ours.named_parameters() if name not in biases}
    assert found.keys() == dict(paper.named_parameters()).keys()
    for name, weight in paper.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-5, atol=1e-8, msg=name)
