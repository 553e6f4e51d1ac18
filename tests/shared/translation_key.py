"""The trial key of a translation."""

from sweeps.config.schema import Schema
from transformer.config import TrialConfig
from transformer.task import TRANSLATION


def trial_key(trial: TrialConfig, data_fingerprint: str) -> str:
    return Schema.of(TRANSLATION).trial_key(trial, trial.train.seed, data_fingerprint)
