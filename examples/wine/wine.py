"""Which of three vineyards a wine is from, by a scikit-learn pipeline: a task that needs no torch
and no steps."""

from dataclasses import dataclass
from typing import Literal

from sklearn import datasets, ensemble, model_selection, pipeline, preprocessing, svm

from allelse import Metric, Task, Trial


@dataclass(frozen=True)
class Model:
    kind: Literal["svm", "forest"]
    standardize: bool


@dataclass(frozen=True)
class Config:
    model: Model


def work(trial: Trial[Config]) -> None:
    model, wines = trial.config.model, datasets.load_wine()
    last = (
        svm.SVC()
        if model.kind == "svm"
        else ensemble.RandomForestClassifier(random_state=trial.seed)
    )
    steps = pipeline.make_pipeline(*[preprocessing.StandardScaler()] * model.standardize, last)
    trial.evaluated(
        "folds",
        {"accuracy": model_selection.cross_val_score(steps, wines.data, wines.target).mean()},
    )


task = Task(
    "wine",
    1,
    Config,
    (Metric("accuracy", better="up", set="folds"),),
    steps=lambda config: 1,
    work=work,
)
