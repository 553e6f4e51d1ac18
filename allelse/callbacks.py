"""Callbacks for Hugging Face Trainer and for Lightning. They report, save, and stop when asked.

    trainer = Trainer(model, settings, callbacks=[for_trainer(trial)], ...)
    trainer.train(resume_from_checkpoint=restored(trial, home))

    trainer = lightning.Trainer(callbacks=[for_lightning(trial, every=50)], ...)
    trainer.fit(module, resumable(loader), ckpt_path=restored(trial, home))

Resumed training ends with the same weights as undisturbed training. A framework is imported
when its callback is made.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from sweeps.random_states import random_states, set_random_states
from sweeps.task import Trial

LAST = "last.ckpt"
"""Lightning's checkpoint, in the trial's folder."""
EVALUATION = "eval_"
"""How Trainer's names begin for what an evaluation measures."""
SPEEDS = ("_runtime", "_per_second")
"""How names end for the speed of the evaluation itself."""


def restored(trial: Trial[Any], folder: Path) -> Path | None:
    """Write the files of the trial's newest checkpoint into ``folder``.

    Returns the path from which the framework resumes; None at the start of a trial.
    """
    if trial.saved is None:
        return None
    state: dict[str, Any] = trial.saved.state
    for name, content in state["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.tobytes())
    return folder / str(state["resume"])


def for_trainer(trial: Trial[Any]) -> Any:
    """A callback for Hugging Face Trainer, which decides itself when to log, save and evaluate.

    The loss is reported as ``train/loss``, and what an evaluation measures as ``eval/…``. Trainer's
    own checkpoint holds its random numbers. Its last step becomes no checkpoint of the trial, because
    Trainer trains one step too many if it resumes there.
    """
    from transformers import TrainerCallback

    class TrialCallback(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if trial.stopping():
                control.should_log = True
                control.should_save = True
                control.should_training_stop = True

        def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
            metrics = _logged(logs)
            if metrics:
                trial.report(state.global_step, metrics)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step >= state.max_steps:
                return
            name = f"checkpoint-{state.global_step}"
            trial.checkpoint(state.global_step, _files(Path(args.output_dir), name))

    return TrialCallback()


def for_lightning(trial: Trial[Any], every: int) -> Any:
    """A callback for Lightning, which reports the loss and saves after every ``every`` steps.

    It also reports what the module logs with ``self.log``. Pass the loader through `resumable`.
    """
    import lightning

    class TrialCallback(lightning.Callback):
        def __init__(self) -> None:
            self.step = trial.saved.step if trial.saved else 0
            self.saved_step = self.step
            self.losses: list[float] = []  # of the batches since the last step
            self.loss: dict[str, float] = {}
            self.before: dict[str, float] = {}  # what was logged before a validation
            self.validated: set[str] = set()  # the names of what validations measure

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            # Lightning divides the loss of each of the batches whose gradients it accumulates
            self.losses += [loss * trainer.accumulate_grad_batches for loss in _loss(outputs)]
            if trainer.global_step == self.step:
                return
            self.step = trainer.global_step
            self.loss = {"train/loss": fmean(self.losses)} if self.losses else {}
            self.losses = []
            stops = trial.stopping()
            if stops or self.step % every == 0:
                self.save(trainer)
            trainer.should_stop |= stops

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if self.saved_step != self.step:
                self.save(trainer)

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            self.before = _logged_values(trainer)

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            if self.step and not trainer.sanity_checking:
                values = _logged_values(trainer)
                self.validated |= dict(values.items() - self.before.items()).keys()
                trial.report(self.step, {name: values[name] for name in self.validated})

        def save(self, trainer: Any) -> None:
            """Report and save this step. Validation metrics are reported at their own step."""
            values = _logged_values(trainer)
            names = values.keys() - self.validated
            trial.report(self.step, {name: values[name] for name in names} | self.loss)
            trainer.save_checkpoint(trial.folder / LAST)
            trial.checkpoint(self.step, _files(trial.folder, LAST))
            self.saved_step = self.step

    return TrialCallback()


class resumable:  # noqa: N801 - it reads like a function
    """A loader that resumes at the next batch of an epoch, with the same random numbers.

    It works for a loader that draws its order when it is iterated, such as a ``DataLoader`` with
    ``shuffle=True``. Lightning calls its ``state_dict``. Raises TypeError for a
    loader without a length: Lightning fetches its batches ahead of training.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        try:
            len(loader)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(
                "resumable() needs a loader with a length; give a streaming data set its own "
                "state_dict() and load_state_dict()"
            ) from None
        self.loader = loader
        self._begun: dict[str, Any] = {}  # the random states before the order was drawn
        self._batches = 0  # of this epoch, so far
        self._resumed: Mapping[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        resumed = self._resumed
        self._resumed = None
        if resumed is None:
            return self._epoch()
        if resumed["batches"] >= len(self):  # the epoch had ended, and the next one begins
            set_random_states(resumed["now"])
            return self._epoch()
        set_random_states(resumed["begun"])
        batches = self._epoch()
        for _ in islice(batches, resumed["batches"]):
            pass
        set_random_states(resumed["now"])
        return batches

    def _epoch(self) -> Iterator[Any]:
        """The batches of an epoch that begins now."""
        self._begun = random_states()
        self._batches = 0
        return self._counted(iter(self.loader))

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._batches += 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        return {"begun": self._begun, "batches": self._batches, "now": random_states()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._resumed = state


def _logged(logs: Mapping[str, Any]) -> dict[str, Any]:
    """What Trainer has logged, without its own speed."""
    metrics = {"train/loss": logs["loss"]} if "loss" in logs else {}
    for name, value in logs.items():
        if name.startswith(EVALUATION) and not name.endswith(SPEEDS):
            metrics[f"eval/{name.removeprefix(EVALUATION)}"] = value
    return metrics


def _loss(outputs: Any) -> list[float]:
    """The loss that a training step has returned; [] if it returned none."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    return [] if loss is None else [float(loss)]


def _logged_values(trainer: Any) -> dict[str, float]:
    """What the module has logged so far, by ``self.log``."""
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


def _files(folder: Path, resume: str) -> dict[str, Any]:
    """A plain state with the file or the folder ``resume`` of this folder, as bytes by path."""
    root = folder / resume
    paths = [path for path in root.rglob("*") if path.is_file()] if root.is_dir() else [root]
    files = {
        path.relative_to(folder).as_posix(): np.frombuffer(path.read_bytes(), dtype=np.uint8)
        for path in sorted(paths)
    }
    return {"resume": resume, "files": files}
