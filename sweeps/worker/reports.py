"""The reports of an attempt on their way to the sweep."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sweeps.processes.events import Event, Noticed, Report
from sweeps.task import Numbers
from sweeps.worker.calls import finite, next_step, numbers
from sweeps.worker.system_metrics import SystemMetrics

JOINED = "step {step} was reported more than once; later values replace earlier ones"
NOT_FINITE = "{name} is {value} at step {step}; the journal omits non-finite values"
SYNCED_EVERY = 100
"""After how many reports the journal must be on disk: a checkpoint holds the ones since."""


class Reports:
    """The reports of rank zero. The newest one is held until ``send``, since a checkpoint of its
    step may follow.

    ``last_step``: the last one that was reported, or that the attempt starts from. ``again``:
    whether the first report may be of that step, as an evaluation's is.
    """

    def __init__(
        self, unsynced: "Unsynced", tell: Callable[[Event], None], last_step: int, again: bool
    ) -> None:
        self.last_step = last_step
        self._unsynced = unsynced
        self._tell = tell
        self._newest = Report(last_step, {}) if again else None  # later reports of its step join it
        self._held: Report | None = None
        self._joins = False
        self._noticed_joined_reports = False
        self._not_finite: set[str] = set()
        self._system = SystemMetrics()

    @property
    def is_holding(self) -> bool:
        return self._held is not None

    def next_step(self, step: int) -> int:
        """The step of the next report. Raises WrongCallError."""
        return next_step(step, self.last_step, "report", again=self._newest is not None)

    def finite_values(self, step: int, metrics: Numbers) -> dict[str, float]:
        """The values that the journal takes. The first one of a metric that is not finite is
        noticed. Raises WrongCallError."""
        values = numbers(metrics, f"the report of step {step}")
        finite_values = finite(values)
        for name in sorted(values.keys() - finite_values.keys() - self._not_finite):
            self._not_finite.add(name)
            self._tell(Noticed(NOT_FINITE.format(name=name, value=values[name], step=step)))
        return finite_values

    def hold(self, step: int, values: Mapping[str, float]) -> None:
        """Hold the report until it is sent. It joins an earlier one of the same step, such as an
        evaluation's."""
        report = Report(step, self._system.with_metrics(dict(values)))
        self._joins = self._newest is not None and self._newest.step == step
        if self._joins and self._newest is not None:
            report = replace(report, metrics=self._newest.metrics | report.metrics)
        if self._joins and not self._noticed_joined_reports:
            self._noticed_joined_reports = True
            self._tell(Noticed(JOINED.format(step=step), quiet=True))
        self.last_step = step
        self._newest = self._held = report

    def send(self, checkpoint: int | None, is_last: bool) -> None:
        """Send the held report, with the step of the checkpoint that was written since the last
        one."""
        assert self._held is not None
        report = self._unsynced.remember(self._held, checkpoint, self._joins)
        self._held = None
        self._tell(replace(report, synced=report.synced or is_last))

    def up_to(self, step: int) -> Iterable[Report]:
        """The reports that a checkpoint of this step must hold, one of each step."""
        reports = {report.step: report for report in self._unsynced.up_to(step)}
        if self._held is not None and self._held.step <= step:
            reports[self._held.step] = self._held
        return reports.values()


class Unsynced:
    """The reports that the journal may lack on disk: a checkpoint holds them."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.recorded = 0  # the sweep has written the reports up to this step
        self._since = 0  # how many came after the last one that the journal must have on disk

    def remember(self, report: Report, checkpoint: int | None, again: bool = False) -> Report:
        """Remember the report, and return it with ``checkpoint``, the step written since the last
        report, and ``synced``.

        ``again``: the last report was of the same step. The journal replaces that line, which puts
        the new one on disk.
        """
        if again:
            self.reports = [earlier for earlier in self.reports if earlier.step < report.step]
        is_synced = again or checkpoint is not None or self._since + 1 == SYNCED_EVERY
        self._since = 0 if is_synced else self._since + 1
        self.reports.append(replace(report, checkpoint=checkpoint, synced=is_synced))
        return self.reports[-1]

    def up_to(self, step: int) -> list[Report]:
        """The reports that a checkpoint of this step must hold. Forgets those that are on disk by
        now: only a later report proves it, since one of the same step may have joined."""
        first_unsynced = 0
        for number, report in enumerate(self.reports, start=1):
            if report.synced and report.step < self.recorded:
                first_unsynced = number
        del self.reports[:first_unsynced]
        return [report for report in self.reports if report.step <= step]
