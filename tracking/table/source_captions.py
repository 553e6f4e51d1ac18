"""Lines of a caption about trials from other studies, about versions of code that count as the
same, and about the study's lock."""

from collections.abc import Iterable, Iterator, Sequence

from tracking.card import Metric
from tracking.observed.record import is_observed, observed_line
from tracking.study import Study, read_study
from tracking.study_lock import LOCK_FILE, Output, lock_line
from tracking.words import grouped, listed, seeds_listed


def source_lines(study: Study, rows: Iterable[str]) -> Iterator[str]:
    """At most one line, about these rows, such as "Trained in another study, with the costs shown:
    base (seeds 1, 2 of multi30k-half)."."""
    shown_rows = set(rows)
    pairs = list[tuple[tuple[str, str], int]]()
    for trial in study.trials:
        source = study.trial_folder(trial).source() if trial.row in shown_rows else None
        if source is not None:
            pairs.append(((trial.row, source.study), trial.seed))
    parts = []
    for (row, source_study), seeds in grouped(pairs).items():
        parts.append(f"{row} ({seeds_listed(seeds)} of {source_study})")
    if parts:
        yield f"Trained in another study, with the costs shown: {listed(parts)}."


def voucher_lines(study: Study) -> Iterator[str]:
    """At most one line: which trials have shown that versions of the code train the same
    weights."""
    trials = dict.fromkeys(str(voucher["trial"]) for voucher in study.vouched)
    if trials:
        reason = f"they trained {listed([*trials])} to the same weights"
        yield f"Versions of the code count as the same because {reason}."


def lock_lines(study: Study, metrics: Sequence[Metric], reference: str) -> Iterator[str]:
    """Whether the whole study follows its lock, and so does a table of this study's trials and
    metrics. For a study that allelse did not run, where it comes from."""
    if is_observed(study.folder):
        yield observed_line(study.folder)
    if (study.folder / LOCK_FILE).exists():
        yield lock_line(read_study(study.folder), Output(study, metrics, reference))
