"""What a running sweep shows of its trials' files: a live table in a terminal, elsewhere lines."""

from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console, RenderableType
from rich.live import Live

from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.processes.times import LOOK_AT_TRIALS_S
from sweeps.running.trial_states import TrialStates
from sweeps.status.live import below_live_view, summary
from sweeps.status.standings import progress_of
from sweeps.status.sweep_looks import SweepLooks
from sweeps.status.time_left import sweep_seconds_left
from tracking.files import DamagedFileError


class SweepView:
    """The trials of a running sweep, as their files show them.

    In a terminal, a thread looks at the files and draws: storage that hangs holds up no trial.
    """

    def __init__(self, plan: Plan, console: Console, trials: TrialStates) -> None:
        self.below = below_live_view(plan)  # the lines below the table
        self.stopping = False
        self._console = console
        self._looks = SweepLooks(plan.folder, trials.copied)
        self._drawn: RenderableType = ""  # the last view that could be drawn
        self._live = Live(
            get_renderable=self.draw,
            console=console,
            refresh_per_second=1 / LOOK_AT_TRIALS_S,
            transient=True,
        )

    def open(self) -> None:
        """Show the live table, from a thread of its own."""
        self._live.start()

    def close(self) -> None:
        """Remove the live table, so that what follows stays."""
        self._live.stop()

    def draw(self) -> RenderableType:
        """What `status --watch` shows of these trials. While the study's folder cannot be read, the
        last view stays."""
        self._looks.look()
        watched = self._looks.watched
        with suppress(OSError, DamagedFileError):  # as in a look
            if watched is not None:
                self._drawn = watched.view(self._console, self.below, self._suffix)
        return self._drawn

    def line(self) -> str:
        """How far the trials are, as of the last look; "" if there was none that could read them."""
        self._looks.look()
        watched = self._looks.watched
        with suppress(OSError, DamagedFileError):  # as in a look
            if watched is not None:
                running = ", ".join(self._running()) or "starting"
                return f"{summary(watched.study, watched.lines)}{self._suffix}: {running}"
        return ""

    def seconds_left(self, pending: Sequence[PlannedTrial]) -> float | None:
        """Seconds until the last of these trials ends, extrapolated from the trials' files; None if
        unknown."""
        if not self._console.is_terminal:  # in one, the thread that draws looks
            self._looks.look()
        return sweep_seconds_left(pending, self._looks.lines())

    def _running(self) -> list[str]:
        """How far each running trial is that has reported, such as "base-s1 300/600"."""
        progress = {
            name: progress_of(line)
            for name, line in self._looks.lines().items()
            if line["state"] == "running"
        }
        return [f"{name} {words}" for name, words in progress.items() if words != "starting"]

    @property
    def _suffix(self) -> str:
        return "; stopping" if self.stopping else ""
