"""A trial in memory: it keeps what its work says, and can be told to stop."""

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import distributed as dist

from sweeps.task import NO_TEXTS, Costs, MissingStepError, Numbers, Saved, Texts
from transformer.config import TrialConfig


@dataclass
class ToyTrial:
    """One attempt. ``stops_alone``: this worker is told to stop as soon as it asks for itself."""

    config: TrialConfig
    data: Path = Path()
    rank: int = 0
    world: int = 1
    address: str = ""  # host:port
    saved: Saved | None = None
    scored: Mapping[str, Numbers] = field(default_factory=dict)
    stops_after: int = 10**9  # this step
    stops_alone: bool = False
    seed = 1
    threads = 1
    folder = Path()
    checkpoints: dict[int, Saved] = field(default_factory=dict)
    reports: dict[int, dict[str, float]] = field(default_factory=dict)
    # everything else that was said, in order
    calls: list[tuple[str, Any]] = field(default_factory=list)
    stop_calls: int = 0  # once per step

    @property
    def kept_steps(self) -> Collection[int]:
        return self.config.averaged_steps

    def again(self, died_after: int = 10**9, **changes: Any) -> "ToyTrial":
        """The next attempt, from the newest checkpoint of this one, which may have died after a
        step."""
        checkpoints = {
            step: saved for step, saved in self.checkpoints.items() if step <= died_after
        }
        return ToyTrial(
            self.config,
            self.data,
            saved=copy.deepcopy(checkpoints[max(checkpoints)]),
            checkpoints=checkpoints,
            **changes,
        )

    def report(self, step: int, metrics: Numbers) -> None:
        assert step not in self.reports
        self.reports[step] = dict(metrics)
        self.calls.append(("report", step))

    def checkpoint(
        self, step: int, state: Any, score: float | None = None, *, random: bool = False
    ) -> None:
        self.checkpoints[step] = Saved(step, copy.deepcopy(state))
        self.calls.append(("checkpoint", (step, score)))

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        self.calls.append(("evaluated", (on, scores, texts, list(samples))))

    def notice(self, text: str) -> None:
        self.calls.append(("notice", text))

    def about(self, entries: Mapping[str, Any]) -> None:
        self.calls.append(("about", entries))

    def spent(self, costs: Costs) -> None:
        self.calls.append(("spent", costs))

    def stopping(self, *, alone: bool = False) -> bool:
        self.stop_calls += not alone
        return (
            self.stops_alone
            if alone
            else self.stop_calls + (self.saved.step if self.saved else 0) >= self.stops_after
        )

    def states(self, steps: Sequence[int]) -> Iterator[Saved]:
        for step in steps:
            if step not in self.checkpoints:
                raise MissingStepError(f"no checkpoint of step {step}")
            yield self.checkpoints[step]

    @contextmanager
    def process_group(self, backend: str | None = None) -> Iterator[None]:
        if self.world == 1:
            return (yield)
        dist.init_process_group(
            "gloo", f"tcp://{self.address}", rank=self.rank, world_size=self.world
        )
        yield
        dist.destroy_process_group()

    def said(self, event: str) -> list[Any]:
        return [content for name, content in self.calls if name == event]
