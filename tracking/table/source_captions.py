"""Below a table: which trials were taken from other studies, so that their costs were paid there."""

from collections.abc import Iterable, Iterator

from tracking.study import Study
from tracking.words import listed

SEVERAL = "seeds"


def source_lines(study: Study, rows: Iterable[str]) -> Iterator[str]:
    """At most one line, on these rows, such as "Trained in another study, with the costs shown: base (seeds 1, 2, of
    multi30k-half)."."""
    shown = set(rows)
    seeds: dict[tuple[str, str], list[int]] = {}
    for trial in study.trials:
        source = study.trial_folder(trial).source() if trial.row in shown else None
        if source is not None:
            seeds.setdefault((trial.row, source.study), []).append(trial.seed)
    named = [f"{row} ({_seeds(of)} of {name})" for (row, name), of in seeds.items()]
    if named:
        yield f"Trained in another study, with the costs shown: {listed(named)}."


def voucher_lines(study: Study) -> Iterator[str]:
    """At most one line: which trials have shown that versions of the code train the same weights."""
    trials = dict.fromkeys(str(voucher["trial"]) for voucher in study.vouched)
    if trials:
        yield f"Versions of the code count as one, since they trained {listed([*trials])} to the same weights."


def _seeds(seeds: list[int]) -> str:
    noun = SEVERAL if len(seeds) > 1 else "seed"
    return f"{noun} {', '.join(map(str, seeds))}"
