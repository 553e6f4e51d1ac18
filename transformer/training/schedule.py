"""The learning rate (section 5.3)."""

from transformer.config import TrainConfig


def learning_rate(train: TrainConfig, d_model: int, step: int) -> float:
    """lr_factor · d_model^−0.5 · min(step^−0.5, step · warmup_steps^−1.5), with steps counted from 1."""
    return float(train.lr_factor * d_model**-0.5 * min(step**-0.5, step * train.warmup_steps**-1.5))
