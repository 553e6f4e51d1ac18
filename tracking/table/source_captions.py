"""Below a table: trials that were taken from other studies, which paid for them; and the study's
lock."""

from collections.abc import Iterable, Iterator, Sequence

from tracking.card import Metric
from tracking.observed.record import is_observed, observed_line
from tracking.study import Study, read_study
from tracking.study_lock import LOCK_FILE, Output, lock_line
from tracking.words import listed

SEVERAL = "seeds"


def source_lines(study: Study, rows: Iterable[str]) -> Iterator[str]:
    """At most one line, on these rows, such as "Trained in another study, with the costs shown:
    base (seeds 1, 2, of multi30k-half)."."""
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
    """At most one line: which trials have shown that versions of the code train the same
    weights."""
    trials = dict.fromkeys(str(voucher["trial"]) for voucher in study.vouched)
    if trials:
        yield f"Versions of the code count as one, since they trained {listed([*trials])} to the same weights."


def lock_lines(shown: Study, metrics: Sequence[Metric], reference: str) -> Iterator[str]:
    """At most one line: whether the study, and a table of these trials and metrics, follow the
    study's lock. Of a study that allelse did not run, where it comes from instead."""
    if is_observed(shown.folder):
        yield observed_line(shown.folder)
    if (shown.folder / LOCK_FILE).exists():
        yield lock_line(read_study(shown.folder), Output(shown, metrics, reference))


def _seeds(seeds: list[int]) -> str:
    noun = SEVERAL if len(seeds) > 1 else "seed"
    return f"{noun} {', '.join(map(str, seeds))}"
