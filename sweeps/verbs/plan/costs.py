"""Time and memory in `allelse plan`, and its option --calibrate."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rich.markup import escape

from sweeps.console import ERR, print_line
from tracking.table.text import Column, text_column
from tracking.words import listed, time

if TYPE_CHECKING:
    from sweeps.costs.estimate import Estimate
    from sweeps.planning.plan import Plan
    from sweeps.planning.planned_trial import PlannedTrial

L = TypeVar("L")
UNKNOWN = "unknown"
FIRST_FINISHED = "the first finished trial will show it."
NEAR = "~"
"""Stands before a prediction that no trial of this row has measured."""
WIDE = 100
"""Columns of a terminal with room for the memory of each row. A line below shows the most."""
SHOWN_LINES = 12
"""Lines of the traceback that are printed if calibration fails."""
SWEEP_SECONDS = 20
"""Time before the first trial and after the last one: Ray starts, and syncing ends."""
SHORT = 600.0
"""Seconds of a sweep. In a longer one, SWEEP_SECONDS don't matter."""
SOURCES = {
    "finished": "finished trials",
    "calibrated": "calibration",
    "both": "finished trials and calibration",
}


def calibrated(plan: "Plan") -> bool:
    """Prepare the plan's data and measure some of its trials. Returns False if one failed, and
    prints why.

    Raises RefusedError.
    """
    from sweeps.costs.calibration import CalibrationError, calibrate, refuse_calibration
    from sweeps.running.opening import prepare_data

    refuse_calibration(plan)
    try:
        prepare_data(plan, ERR)
        calibrate(plan, lambda text: ERR.print(escape(text), style="dim"))
    except CalibrationError as error:
        for line in error.details.strip().splitlines()[-SHOWN_LINES:]:
            print_line(ERR, line, "dim")
        ERR.print(
            f"[bold red]Failed[/] in calibration: {escape(str(error))}",
            soft_wrap=True,
            highlight=False,
        )
        return False
    return True


def cluster_nodes(plan: "Plan") -> list[Mapping[str, float]] | None:
    """The resources that Ray reports for each node of a cluster; None for this machine."""
    from sweeps.preflight.nodes import nodes_of

    cluster = plan.shared.cluster
    if cluster.address is None:
        return None
    return [node.total for node in nodes_of(cluster)]


def cost_columns(
    estimate: "Estimate", width: int, trials_of: "Callable[[L], Sequence[PlannedTrial]]"
) -> list[Column[L]]:
    """Columns for the time and the memory of each line's trials, if known. Memory needs a wide
    terminal."""
    columns = list[Column[L]]()
    if estimate.times:
        columns.append(
            text_column("time", lambda line: _time_of(estimate, trials_of(line)), "number")
        )
    if estimate.memories and width >= WIDE:
        columns.append(
            text_column("memory", lambda line: _memory_of(estimate, trials_of(line)), "number")
        )
    return columns


def cost_totals(estimate: "Estimate", width: int) -> list[str]:
    """These columns in the last line: the sum of the times."""
    totals = list[str]()
    if estimate.times:
        totals.append(_sum_words(estimate))
    if estimate.memories and width >= WIDE:
        totals.append("")
    return totals


def _size(size: float) -> str:
    """Bytes as 450 MB or 2.5 GB: a prediction has no more digits."""
    return f"{size / 1e9:.1f} GB" if size >= 995e6 else f"{round(size / 1e7) * 10} MB"


def _sum_words(estimate: "Estimate") -> str:
    if not estimate.to_run:
        return ""
    return UNKNOWN if estimate.seconds is None else time(estimate.seconds)


def _time_of(estimate: "Estimate", trials: "Sequence[PlannedTrial]") -> str:
    """The sum over the trials."""
    names = [planned.name for planned in trials]
    predictions = [estimate.times[name] for name in names if name in estimate.times]
    if len(predictions) < len(names):
        return UNKNOWN
    seconds = sum(prediction.seconds for prediction in predictions)
    is_interpolated = any(prediction.interpolated for prediction in predictions)
    return f"{NEAR}{time(seconds)}" if is_interpolated else time(seconds)


def _memory_of(estimate: "Estimate", trials: "Sequence[PlannedTrial]") -> str:
    """The largest need of the trials."""
    names = [planned.name for planned in trials]
    memories = [estimate.memories[name] for name in names if name in estimate.memories]
    if not memories:
        return UNKNOWN
    largest = max(memories, key=lambda memory: memory.bytes)
    size = _size(largest.bytes)
    return f"{NEAR}{size}" if largest.source == "computed" else size


def cost_lines(estimate: "Estimate") -> Iterator[tuple[str, bool]]:
    """The lines below the plan, and whether each is a warning."""
    if not estimate.to_run:
        return
    line = f"{_time_line(estimate)} {_sources(estimate)}"
    yield line.rstrip(), False
    yield from _memory_lines(estimate)


def _time_line(estimate: "Estimate") -> str:
    missing = len(estimate.unknown)
    total = len(estimate.to_run)
    if missing:
        unknown = "unknown" if missing == total else f"unknown for {missing} of {total} trials"
        return f"Time: {unknown}; {_source_to_come(estimate)}"
    sum_text = f"Time: {time(estimate.seconds)} in sum"
    wall_seconds = estimate.wall_seconds
    if wall_seconds is None:
        return f"{sum_text}; --check asks the cluster how many trials fit side by side."
    machine = "this machine" if estimate.here else "this cluster"
    count = estimate.side_by_side
    trials = "1 trial" if count == 1 else f"{count} trials"
    line = f"{sum_text}, {time(wall_seconds)} on {machine}, {trials} at a time"
    if wall_seconds < SHORT:
        line += f", plus about {SWEEP_SECONDS} s for the sweep itself"
    return f"{line}."


def _source_to_come(estimate: "Estimate") -> str:
    """What will measure the time of the trials."""
    if not estimate.here or estimate.plan.shared.cluster.workers > 1:
        return FIRST_FINISHED
    if estimate.plan.running:
        return "the running trials will show it."
    if estimate.plan.trials[0].stated_steps is None:
        return FIRST_FINISHED
    return "--calibrate measures it."


def _sources(estimate: "Estimate") -> str:
    """Where the times come from."""
    names = [planned.name for planned in estimate.to_run]
    predictions = [estimate.times[name] for name in names if name in estimate.times]
    if not predictions:
        return ""
    counts = Counter(SOURCES[prediction.source] for prediction in predictions)
    sources = list(counts)
    if len(counts) > 1:
        sources = [f"{source} ({count})" for source, count in counts.items()]
    notes = [f"Times are from {listed(sources)}"]
    if any(prediction.interpolated for prediction in predictions):
        notes.append(f"{NEAR} is interpolated between rows")
    if any(prediction.scoring_seconds is None for prediction in predictions):
        notes.append("scoring is unknown and not included")
    return "; ".join(notes) + "."


def _memory_lines(estimate: "Estimate") -> Iterator[tuple[str, bool]]:
    """The memory of a worker, and whether the trials fit into this machine side by side."""
    memory = estimate.worker_bytes
    if memory is None:
        return
    source = "measured" if memory.source == "measured" else "by formula"
    worker = f"{_size(memory.bytes)} per worker at most ({source})"
    if memory.place == "cuda":
        yield f"GPU memory: {worker}.", False
        return
    workers = estimate.side_by_side * estimate.plan.shared.cluster.workers
    if estimate.machine_bytes is None or not workers:
        yield f"Memory: {worker}.", False
        return
    needed = workers * memory.bytes
    fits = needed <= estimate.machine_bytes
    verdict = "fits"
    if not fits:
        fix = "set cluster.cpus_per_worker higher, so that fewer trials run at a time"
        verdict = f"does not fit; {fix}"
    share = f"{_size(needed)} of {_size(estimate.machine_bytes)}"
    yield f"Memory: {worker}; {share} with {workers} at a time: {verdict}.", not fits


def precision_lines(plan: "Plan") -> Iterator[str]:
    """A line if another precision is faster on this machine. Only for a study that has not
    begun."""
    from sweeps.costs.faster_precision import faster_precision

    begun = plan.before is not None and plan.before.begun
    if not plan.pending or begun:
        return
    faster = faster_precision(plan.composition.base)
    if faster is not None:
        yield f"{faster}; {faster.advice}."


def cost_fields(estimate: "Estimate") -> Callable[[str], dict[str, Any]]:
    """A function from a trial's name to its costs, for JSON."""
    ends = estimate.ends

    def fields_of(name: str) -> dict[str, Any]:
        prediction = estimate.times.get(name)
        memory = estimate.memories.get(name)
        return {
            "seconds": prediction and prediction.seconds,
            "scoring_seconds": prediction and prediction.scoring_seconds,
            "seconds_source": prediction and prediction.source,
            "interpolated": prediction and prediction.interpolated,
            "ends_after_seconds": ends.get(name),
            "memory_bytes": memory and round(memory.bytes),
            "memory_source": memory and memory.source,
        }

    return fields_of
