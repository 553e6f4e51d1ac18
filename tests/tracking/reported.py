"""A whole study for the report: three rows with three seeds, curves, translations, provenance, and
hostile names."""

import json
from dataclasses import replace
from pathlib import Path

import yaml
from studies_on_disk import begin, finish, make_study

from tracking.study import Study, write_study

HOSTILE = "<script>alert('row')</script> & $x_1$"
SPOKEN = '<script>alert("line")</script> $\\frac{1}{2}$'
NLL = {
    "base": (0.50, 0.51, 0.52),
    "a_heads_1": (0.70, 0.71, 0.72),
    "c_layers_2": (0.51, 0.50, 0.53),
}
SCORE = {
    "base": (30.0, 30.4, 30.8),
    "a_heads_1": (25.0, 25.2, 25.4),
    "c_layers_2": (30.1, 30.5, 30.3),
}
TEXTS = {
    "source": ["<b>a cat</b>", "a dog", "one"],
    "reference": ["eine <i>Katze</i>", "ein Hund", "eins"],
}


def reported(folder: Path, seeds: int = 3, steps: range = range(10, 60, 10)) -> Study:
    """The second row's change, and what it says, are HTML that a page must not run."""
    draft = make_study(folder, {row: list(range(1, seeds + 1)) for row in NLL})
    trials = tuple(
        replace(t, change=HOSTILE if t.row == "a_heads_1" else t.change) for t in draft.trials
    )
    study = replace(draft, trials=trials)
    write_study(study)
    for index, _ in enumerate(trials):
        _train(study, index, steps)
    return study


def _train(study: Study, index: int, steps: range) -> None:
    """The curve falls to the trial's own end."""
    trial = study.trials[index]
    folder = study.trial_folder(trial)
    nll = NLL[trial.row][trial.seed - 1]
    attempt = begin(folder)
    for step in steps:
        reported = {"dev/nll": nll + 10 / step, "train/loss": nll + 20 / step}
        assert folder.report(attempt, step, reported, ts=1_900_000_000.0 + step)
    config = {
        "key": trial.key,
        "data_fingerprint": "f",
        "model": {},
        "train": {},
        "decode": {},
        "data": {},
    }
    paths = {"runs": "/r", "data": "/d", "checkpoints": None}
    folder.config_path.write_text(yaml.safe_dump(config | {"paths": paths}), "utf-8")
    folder.provenance_path.write_text(
        json.dumps({"commit": "c0ffee", "host": "node", "device": "cpu"}), "utf-8"
    )
    hypothesis = "eine Katze" if trial.row == "base" else SPOKEN
    folder.write_artifact("hypotheses/dev.txt", f"{hypothesis}\nein\u2028Hund\neins\n")
    finish(
        study,
        trial,
        attempt,
        max(steps),
        nll=nll,
        ppl=2.7182818**nll,
        bleu=SCORE[trial.row][trial.seed - 1],
    )
