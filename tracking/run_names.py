"""Names of runs in MLflow: the group, what a row changes, and the seed."""

from collections import Counter

from tracking.study import Study, Trial

WIDTH = 22  # characters that MLflow's list shows


def run_names(study: Study) -> dict[str, str]:
    """The name of each trial's run by its key: unique in the study, such as `base s1`, `C d_model 1024 s1`."""
    wanted = {trial.key: _shortest(trial) for trial in study.trials}
    taken = Counter(wanted.values())
    return {trial.key: _unique(trial, wanted[trial.key], taken) for trial in study.trials}


def _shortest(trial: Trial) -> str:
    """The first of these that fits: the change, its first value, the row's name, a part of the row's name."""
    if trial.group == trial.row:
        return f"{trial.row} s{trial.seed}"
    choices = (trial.change, trial.change.partition(",")[0], _row_words(trial))
    names = [f"{trial.group} {words} s{trial.seed}" for words in choices if words]
    return next((name for name in names if len(name) <= WIDTH), _cut(trial))


def _row_words(trial: Trial) -> str:
    """`e_learned_positions` of group E is `learned positions`."""
    return trial.row.removeprefix(f"{trial.group.lower()}_").replace("_", " ")


def _cut(trial: Trial) -> str:
    room = max(4, WIDTH - len(f"{trial.group}  s{trial.seed}"))
    words = _row_words(trial)
    return f"{trial.group} {words[: room - 1].rstrip()}… s{trial.seed}"


def _unique(trial: Trial, name: str, taken: Counter[str]) -> str:
    """The row's whole name where two shortened names are the same: rows differ in their names."""
    return name if taken[name] == 1 else f"{trial.row} s{trial.seed}"
