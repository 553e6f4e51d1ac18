"""A really trained model, uncertain enough that different searches find different outputs."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from small_trials import SMALL, copy_data, prepared_text, small_trial

from transformer.config import TrialConfig
from transformer.data.batches import TrainingBatches
from transformer.data.prepared import Prepared
from transformer.model.encoder_decoder import Transformer
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker


@dataclass(frozen=True)
class Trained:
    """A model in evaluation mode, its trial, and its corpus."""

    model: Transformer
    trial: TrialConfig
    prepared: Prepared

    @property
    def vocabulary(self) -> Path:
        return self.prepared.folder / "vocabulary.model"


def train_letters(folder: Path) -> Trained:
    """Copies about half of the sentences of letters right: beams and greedy find different outputs."""
    torch.set_num_threads(1)
    data = copy_data(folder, (2000, 40, 200), "abcdefghij", longest=8, vocab_size=281)
    model = replace(SMALL, n_layers=1, d_model=64, d_ff=128, n_heads=4, d_k=16, d_v=16, max_positions=60)
    trial = small_trial(data, model, warmup_steps=100, lr_factor=0.5, tokens_per_batch=1000)
    prepared, worker = prepared_text(data, folder), Worker()
    state = start(trial, len(prepared.vocabulary), worker.device)
    batches = TrainingBatches(prepared.pairs("train"), 1000, model.max_positions, trial.train.seed)
    for step in range(1, 121):
        train_step(
            state, batches.micro_batches(step, 0, 1, 1000), trial, worker, make_forward_backward(state.model, trial)
        )
    return Trained(state.model.eval(), trial, prepared)
