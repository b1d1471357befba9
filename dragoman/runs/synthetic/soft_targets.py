"""Word-level knowledge distillation (Kim & Rush, 2016): what teachers expect of each token, in their own vocabulary."""

from collections.abc import Callable
from pathlib import Path

import torch

from dragoman.config.run import RunConfig
from dragoman.config.settings import Settings
from dragoman.data.batching import TokenBatches, TokenStore
from dragoman.data.encoding import SIDES, TextTools
from dragoman.data.pair_file import PairFile
from dragoman.data.preparation import prepare
from dragoman.data.prepared_folder import PreparedFolder
from dragoman.data.soft_targets import BYTES, TOP, SoftTargetStore
from dragoman.decoding.ensemble import distributions, load_ensemble
from dragoman.errors import UsageError
from dragoman.runs.synthetic.work import Work
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import check_files
from dragoman.system.atomic import check_space, new_folder
from dragoman.system.seals import seal

AT_ONCE = 4_096
"""Target tokens that teachers are asked for at a time."""


class Teachers:
    """Models that together tell a student what they expect. Raises `UsageError` if it cannot have their vocabulary."""

    def __init__(self, work: Work) -> None:
        paths = work.asked.options["teachers"]
        first, self.paths, self.work = ModelDirectory.load(Path(paths[0])), paths, work
        if first.directions or any(each.languages for each in first.tokenizers):
            raise UsageError(
                f"{paths[0]} has the vocabulary of several languages, which a student of two cannot share; leave out "
                "--soft-targets."
            )
        self.tools = TextTools(*first.tokenizers, first.style, first.source_language)
        positions = [check_files(Path(each))[1].max_length for each in paths]
        # Sides that are kept have fewer tokens than this, so that there is a position for the end.
        self.longest = min([work.asked.config.data.max_length, *filter(None, positions)])

    @property
    def settings(self) -> Settings:
        """Settings of a run with soft targets, and with the vocabulary of the teachers."""
        source, target = self.tools.tokenizers
        kept = {"shared": source is target, "symbols": source.symbols, "placeholders": source.placeholders}
        kept["vocab_size"] = max(260, target.vocab_size)  # the least that a config may ask for
        share = self.work.asked.options["soft_targets"]
        return {"training": {"soft_targets": share}, "data": {"max_length": self.longest}, "tokenizer": kept}

    def prepare(self, pairs: PairFile, config: RunConfig, path: Path) -> PreparedFolder:
        """Prepare pairs in their vocabulary, with what they expect of each target token, unless that is done."""
        if not path.is_dir():
            with new_folder(path) as folder:
                what = "Writing token ids, and what the teacher expects in the place of each"
                with self.work.listener.status(what) as tell:
                    prepare(pairs, config, folder, kept=self.tools)
                    self.expect(folder, tell)
                seal(folder)
        pairs.close()
        return PreparedFolder(path)

    @torch.inference_mode()
    def expect(self, folder: Path, tell: Callable[[str], None]) -> None:
        """Write the soft targets of the pairs that are prepared in a folder; `tell` is told how many have them."""
        stores = [TokenStore(folder / f"train-{side}") for side in SIDES]
        special = self.tools.target_tokenizer.special_ids, self.tools.source_tokenizer.closing
        batches = TokenBatches(*stores, max_tokens=AT_ONCE, seed=0, special=special)
        check_space(folder, (int(stores[1].ends[-1]) + len(stores[1])) * TOP * BYTES)
        soft, asked = SoftTargetStore.create(folder, stores[1].ends), 0
        models = [each.model for each in load_ensemble(self.paths)]
        device = next(models[0].parameters()).device
        for rows in batches.plan(0):
            batch = batches.collate(rows).to(device)
            every = distributions(models, batch.source_ids, batch.target_ids, batch.labels)
            found = [log_probs.topk(TOP) for log_probs, _ in every]
            where = soft.positions(rows)
            asked += len(rows)
            tell(f"{asked:,} of {len(stores[0]):,} pairs")
            soft.ids[where] = torch.cat([each.indices for each in found]).cpu().numpy()
            soft.probabilities[where] = torch.cat([each.values for each in found]).softmax(-1).cpu().numpy()
