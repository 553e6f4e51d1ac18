"""Which of three vineyards a wine is from, by a scikit-learn pipeline: a task that needs no torch
and no steps."""

from typing import Literal

from sklearn import datasets, ensemble, model_selection, pipeline, preprocessing, svm

from allelse import Metric, task


@task(Metric("accuracy", better="up", set="folds"))
def wine(trial, *, kind: Literal["svm", "forest"] = "svm", standardize: bool = True):
    wines = datasets.load_wine()
    model = svm.SVC()
    if kind == "forest":
        model = ensemble.RandomForestClassifier(random_state=trial.seed)
    if standardize:
        model = pipeline.make_pipeline(preprocessing.StandardScaler(), model)
    return model_selection.cross_val_score(model, wines.data, wines.target).mean()
