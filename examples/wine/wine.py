"""Which of three vineyards a wine is from, by a scikit-learn pipeline: a task that needs no torch and no steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sweeps.task import Evaluation, Metric, Task, Trial


@dataclass(frozen=True)
class Model:
    kind: Literal["svm", "forest"]
    standardize: bool


@dataclass(frozen=True)
class Config:
    model: Model


def work(trial: Trial[Config]) -> Iterator[Evaluation]:
    model, wines = trial.config.model, load_wine()
    last = SVC() if model.kind == "svm" else RandomForestClassifier(random_state=trial.seed)
    pipeline = make_pipeline(*[StandardScaler()] * model.standardize, last)
    yield Evaluation("folds", {"accuracy": cross_val_score(pipeline, wines.data, wines.target).mean()})


task = Task("wine", 1, Config, (Metric("accuracy", better="up", set="folds"),), steps=lambda config: 1, work=work)
