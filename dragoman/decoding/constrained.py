"""Beam search for translations that hold given terms: lexically constrained decoding with dynamic beam allocation
(Post & Vilar, 2018).

The beam is shared out among banks: hypotheses with equally many tokens of the terms to go. The best of each bank goes
on before the second best of any, and each hypothesis may also go on with the next token of a term. So the smallest
number of tokens to go falls with every step, and every sentence ends with all its terms. The other banks leave the
model time to produce a term by itself, where it belongs.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from dragoman.decoding.search import Beams, SearchOptions, best_continuations

_ANY, _NEVER = -1, -2  # in the tables below: any token, and none


@dataclass(frozen=True)
class Term:
    """What must appear, in one of its spellings."""

    spelling: list[int]
    """Its tokens after a space."""
    joined: list[int] | None = None
    """Its tokens without a space before it, such as after an apostrophe; None if it cannot be joined."""

    def spellings(self) -> list[list[int]]:
        return [self.spelling, *([self.joined] if self.joined else [])]


class ConstrainedBeams(Beams):
    """Beams whose hypotheses may end only with all terms of their sentence in them.

    `max_lengths` must leave room for the terms. A term is joined to a token of `joints`, such as an apostrophe, or
    where the model does so by itself.
    """

    def __init__(
        self, beam_size: int, options: SearchOptions, *, terms: list[list[Term]], joints: Bool[Tensor, " vocab"]
    ):
        super().__init__(beam_size, options)
        self.table, self.joints = TermTable(terms), joints

    def candidates(self, log_probs: Float[Tensor, "live beam vocab"]) -> tuple[Tensor, Tensor]:
        _, width, vocab = log_probs.shape
        table = self.table[self.live]
        progress, found = table.progress(self.history), table.found(self.history)
        unfinished = (table.to_go(progress, found) > 0).to(log_probs.device)
        log_probs[..., self.options.eos_id].masked_fill_(unfinished, -torch.inf)
        _, natural = best_continuations(log_probs, self.totals, 2 * self.beam_size)
        rows = torch.arange(width)[:, None] * vocab
        own = rows + log_probs.argmax(-1).cpu()[:, :, None]
        joining = self.joints[self.history[:, :, -1:]].any(2)  # the last token, if there is one yet, is a joint
        forced = table.continuations(progress, found, joining)
        forced = torch.where(forced >= 0, rows + forced, own)
        flat = torch.cat([natural, own.flatten(1), forced.flatten(1)], dim=1).sort(dim=1).values
        parents = flat // vocab
        totals = log_probs.flatten(1).gather(1, flat.to(log_probs.device)).cpu() + self.totals.gather(1, parents)
        totals[:, 1:].masked_fill_(flat[:, 1:] == flat[:, :-1], -torch.inf)
        to_go = self._to_go(table, found, parents, flat % vocab)
        totals.masked_fill_((to_go > 0) & (self.limits <= self.length)[:, None], -torch.inf)
        order = _by_turns(totals, to_go)
        return totals.gather(1, order), flat.gather(1, order)

    def _to_go(self, table: "TermTable", found: Tensor, parents: Tensor, tokens: Tensor) -> Int[Tensor, "live count"]:
        tails = self.history[:, :, -table.width :]
        tails = tails.gather(1, parents[:, :, None].expand(-1, -1, tails.size(2)))
        progress = table.progress(torch.cat([tails, tokens[:, :, None]], dim=2))
        found = found.gather(1, parents[:, :, None].expand(-1, -1, found.size(2)))
        return table.to_go(progress, found)


class TermTable:
    """The terms of all sentences as tensors, and how much of them hypotheses contain.

    Each sentence has its spellings side by side, padded to the same number and length.
    """

    def __init__(self, terms: list[list[Term]]):
        groups = [[(index, ids) for index, term in enumerate(group) for ids in term.spellings()] for group in terms]
        most = max((len(group) for group in groups), default=0)
        self.width = max((len(ids) for group in groups for _, ids in group), default=1)
        kinds = max((len(group) for group in terms), default=0)
        self.lengths = torch.full((len(terms), most), _NEVER)  # tokens of each spelling
        self.owners = torch.zeros(len(terms), most, kinds, dtype=torch.bool)  # the term of each spelling
        self.sizes = torch.zeros(len(terms), kinds, dtype=torch.long)  # tokens of each term, in its first spelling
        self.begun = torch.zeros(len(terms), most, dtype=torch.bool)  # spellings that may be begun anywhere
        # The first n tokens of each spelling, aligned with the end of a hypothesis.
        self.beginnings = torch.full((len(terms), most, self.width + 1, self.width), _NEVER)
        for sentence, group in enumerate(groups):
            for spelling, (term, ids) in enumerate(group):
                self.lengths[sentence, spelling] = len(ids)
                self.begun[sentence, spelling] = not self.owners[sentence, :, term].any()
                self.owners[sentence, spelling, term] = True
                self.sizes[sentence, term] = len(terms[sentence][term].spelling)
                for count in range(len(ids) + 1):
                    row = [_ANY] * (self.width - count) + ids[:count]
                    self.beginnings[sentence, spelling, count] = torch.tensor(row)

    def __getitem__(self, sentences: Int[Tensor, " kept"]) -> "TermTable":
        """The table of these sentences."""
        part = object.__new__(TermTable)
        part.width = self.width
        for name in ("lengths", "owners", "sizes", "begun", "beginnings"):
            setattr(part, name, getattr(self, name)[sentences])
        return part

    def progress(self, history: Int[Tensor, "live count length"]) -> Int[Tensor, "live count spellings"]:
        """How many tokens of each spelling the hypotheses end with."""
        tails = pad(history, (self.width, 0), value=_NEVER - 1)[:, :, -self.width :]
        matches = _match(self.beginnings[:, None], tails[:, :, None, None])
        return (matches * torch.arange(self.width + 1)).amax(-1)

    def found(self, history: Int[Tensor, "live beam length"]) -> Bool[Tensor, "live beam terms"]:
        """Which terms the hypotheses contain."""
        windows = pad(history, (self.width, 0), value=_NEVER - 1).unfold(2, self.width, 1)
        last = self.lengths.clamp(min=0)[:, :, None, None].expand(-1, -1, 1, self.width)
        whole = self.beginnings.gather(2, last)[:, :, 0]
        matches = _match(whole[:, None, None], windows[:, :, :, None]).any(2) & (self.lengths > 0)[:, None]
        return self._by_term(matches)

    def to_go(
        self, progress: Int[Tensor, "live count spellings"], found: Bool[Tensor, "live count terms"]
    ) -> Int[Tensor, "live count"]:
        """The least number of missing tokens: those of all terms not found, less the ones just being spelled."""
        found = found | self._by_term(progress == self.lengths[:, None])
        sizes = self.sizes[:, None] * ~found
        saved = (self.owners[:, None] * sizes[:, :, None]).sum(-1) - (self.lengths[:, None] - progress)
        saved = torch.where(progress > 0, saved, 0).clamp(min=0)
        open_ = (self.owners[:, None] & ~found[:, :, None]).any(-1)
        return sizes.sum(-1) - (saved * open_).amax(-1)

    def continuations(
        self,
        progress: Int[Tensor, "live beam spellings"],
        found: Bool[Tensor, "live beam terms"],
        joining: Bool[Tensor, "live beam"],
    ) -> Int[Tensor, "live beam spellings"]:
        """The next token of each spelling, -1 where its term is found or it may not be begun."""
        open_ = (self.owners[:, None] & ~found[:, :, None]).any(-1)
        open_ &= (progress > 0) | self.begun[:, None] | joining[:, :, None]
        following = (progress + 1).clamp(max=self.width)
        last = self.beginnings[..., -1][:, None].expand(-1, progress.size(1), -1, -1)
        return torch.where(open_, last.gather(3, following[..., None])[..., 0], -1)

    def _by_term(self, spellings: Bool[Tensor, "live count spellings"]) -> Bool[Tensor, "live count terms"]:
        return (spellings[..., None] & self.owners[:, None]).any(2)


def _match(pattern: Tensor, tokens: Tensor) -> Tensor:
    return ((pattern == tokens) | (pattern == _ANY)).all(-1)


def _by_turns(totals: Float[Tensor, "live count"], banks: Int[Tensor, "live count"]) -> Int[Tensor, "live count"]:
    """The order to prefer candidates in: the best of each bank, lowest bank first, then the second best, and so on."""
    order = totals.argsort(dim=1, descending=True, stable=True)
    totals, banks = totals.gather(1, order), banks.gather(1, order)
    together, indices = banks.sort(dim=1, stable=True)
    turn = torch.arange(order.size(1)) - torch.searchsorted(together, together)
    turn = torch.empty_like(turn).scatter_(1, indices, turn)
    turn.masked_fill_(totals == -torch.inf, order.size(1))
    return order.gather(1, (turn * (banks.amax() + 1) + banks).argsort(dim=1, stable=True))
