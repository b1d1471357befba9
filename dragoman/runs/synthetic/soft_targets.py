"""Word-level knowledge distillation (Kim & Rush, 2016): a student learns the teachers' probabilities of each token.

The student has the vocabulary of the teachers.
"""

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
from dragoman.decoding.torch_engine import distributions
from dragoman.errors import UsageError
from dragoman.evaluation.evaluate import load_models
from dragoman.runs.synthetic.context import SyntheticRunContext
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.validate import check_files
from dragoman.system.atomic import check_space, new_folder
from dragoman.system.seals import seal

AT_ONCE = 4_096
"""Target tokens in a batch that the teachers score."""


class Teachers:
    """Models whose mean probabilities are the soft targets of a student with their vocabulary.

    Raises `UsageError` if the student cannot have that vocabulary.
    """

    def __init__(self, context: SyntheticRunContext) -> None:
        self.context = context
        self.paths: list[str] = context.request.options["teachers"]
        first = ModelDirectory.load(Path(self.paths[0]))
        if first.directions or any(tokenizer.languages for tokenizer in first.tokenizers):
            raise UsageError(
                f"{self.paths[0]} has the vocabulary of several languages, which a student of two cannot share; leave "
                "out --soft-targets."
            )
        self.tools = TextTools(*first.tokenizers, first.style, first.source_language)
        positions = [check_files(Path(path))[1].max_length for path in self.paths]
        # Sides that are kept have fewer tokens than this, so that there is a position for the end.
        self.max_length = min([context.request.load_config().data.max_length, *filter(None, positions)])

    @property
    def settings(self) -> Settings:
        """Settings of a run with soft targets, and with the vocabulary of the teachers."""
        source, target = self.tools.tokenizers
        tokenizer = {
            "shared": source is target,
            "symbols": source.symbols,
            "placeholders": source.placeholders,
            "vocab_size": max(260, target.vocab_size),  # the smallest that a config may have
        }
        return {
            "training": {"soft_targets": self.context.request.options["soft_targets"]},
            "data": {"max_length": self.max_length},
            "tokenizer": tokenizer,
        }

    def prepare(self, pairs: PairFile, config: RunConfig, path: Path) -> PreparedFolder:
        """Prepare pairs with the teachers' vocabulary and soft targets in the folder `path`, unless that is done."""
        if not path.is_dir():
            with new_folder(path) as folder:
                status = "Writing token ids, and what the teacher expects in the place of each"
                with self.context.listener.status(status) as tell:
                    prepare(pairs, config, folder, kept=self.tools)
                    self.write_soft_targets(folder, tell)
                seal(folder)
        pairs.close()
        return PreparedFolder(path)

    @torch.inference_mode()
    def write_soft_targets(self, folder: Path, tell: Callable[[str], None]) -> None:
        """Write the soft targets of the pairs that are prepared in a folder; `tell` is called with the progress."""
        sources, targets = (TokenStore(folder / f"train-{side}") for side in SIDES)
        special = self.tools.target_tokenizer.special_ids, self.tools.source_tokenizer.closing
        batches = TokenBatches(sources, targets, max_tokens=AT_ONCE, seed=0, special=special)
        check_space(folder, (int(targets.ends[-1]) + len(targets)) * TOP * BYTES)
        store = SoftTargetStore.create(folder, targets.ends)
        models = [directory.model for directory in load_models(self.paths)]
        device = next(models[0].parameters()).device
        scored = 0
        for rows in batches.plan(0):
            batch = batches.collate(rows).to(device)
            slices = distributions(models, batch.source_ids, batch.target_ids, batch.labels)
            top = [log_probs.topk(TOP) for log_probs, _ in slices]
            scored += len(rows)
            tell(f"{scored:,} of {len(sources):,} pairs")
            positions = store.positions(rows)
            store.ids[positions] = torch.cat([likeliest.indices for likeliest in top]).cpu().numpy()
            store.probabilities[positions] = (
                torch.cat([likeliest.values for likeliest in top]).softmax(-1).cpu().numpy()
            )
