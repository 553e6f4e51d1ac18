"""`allelse.callbacks` with the real Trainer and the real Lightning: killed within an epoch of an
ordinary loader, a trial ends with the weights of one that was not."""

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from killed_trial import KILLED, KILLED_AT_THE_END, total, trained
from studies import lines

from allelse.callbacks import resumable

LIGHTNING = """\
import lightning
import torch
from torch.nn import functional

from allelse import Metric, task
from allelse.callbacks import for_lightning, restored, resumable

QUIET = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")


class Classifier(lightning.LightningModule):
    def __init__(self, width):
        super().__init__()
        hidden = torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.ReLU())
        self.net = torch.nn.Sequential(hidden, torch.nn.Dropout(0.1), torch.nn.Linear(width, 2))

    def training_step(self, batch):
        points, labels = batch
        loss = functional.cross_entropy(self.net(points), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


@task(Metric("total", better="up", set="test", decimals=12))
def run(trial, *, width: int = 8, steps: int = 40):
    torch.manual_seed(trial.seed)
    points = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(points, (points[:, 0] > 0).long())
    loader = torch.utils.data.DataLoader(data, batch_size=10, shuffle=True)
    module = Classifier(width)
    callback = for_lightning(trial, every=6)
    trainer = lightning.Trainer(max_steps=steps, callbacks=[callback], **dict.fromkeys(QUIET, False))
    checkpoint = restored(trial, trial.folder)
    trainer.fit(module, LOADER(loader), ckpt_path=checkpoint, weights_only=True)
    if trainer.global_step == steps:
        return sum(values.double().abs().sum().item() for values in module.parameters())
"""
TRAINER = """\
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from allelse import Metric, task
from allelse.callbacks import for_trainer, restored

OFTEN = {"logging_steps": 6, "save_steps": 6, "eval_strategy": "steps", "eval_steps": 6}
QUIET = {"save_total_limit": 1, "report_to": "none", "disable_tqdm": True}


def sentences(number, seed):
    tokens = torch.randint(20, (number, 8), generator=torch.Generator().manual_seed(seed))
    return [{"input_ids": row, "labels": int(row[0] < 10)} for row in tokens]


@task(Metric("total", better="up", set="test", decimals=12))
def run(trial, *, width: int = 8, steps: int = 40):
    torch.manual_seed(trial.seed)
    sizes = {"hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(vocab_size=20, intermediate_size=16, **sizes))
    home = trial.folder / "trainer"
    settings = TrainingArguments(str(home), seed=trial.seed, max_steps=steps, **OFTEN, **QUIET)
    data = {"train_dataset": sentences(100, seed=0), "eval_dataset": sentences(10, seed=2)}
    trainer = Trainer(model, settings, callbacks=[for_trainer(trial)], **data)
    trainer.train(resume_from_checkpoint=restored(trial, home))
    if trainer.state.global_step == steps:
        return sum(values.double().abs().sum().item() for values in model.parameters())
"""
SOURCES = {"Lightning": LIGHTNING.replace("LOADER", "resumable"), "Trainer": TRAINER}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], float]:
    """The total of a framework's training that nothing interrupts."""

    @cache
    def total_of(framework: str) -> float:
        folder = tmp_path_factory.mktemp("undisturbed")
        (folder / "run.py").write_text(SOURCES[framework])
        assert trained(folder, "run", "whole") == 0
        return total(folder, "whole")

    return total_of


@pytest.mark.slow
@pytest.mark.parametrize("framework", SOURCES)
def test_a_killed_training_ends_with_the_same_weights(
    tmp_path: Path, framework: str, undisturbed: Callable[[str], float]
) -> None:
    (tmp_path / "run.py").write_text(SOURCES[framework])
    (tmp_path / "killed_once.py").write_text(KILLED)
    assert trained(tmp_path, "killed_once", "killed") == -signal.SIGKILL
    assert trained(tmp_path, "killed_once", "killed") == 0
    assert total(tmp_path, "killed") == undisturbed(framework)
    journal = lines(tmp_path / "runs" / "killed" / "base-s1" / "journal.jsonl")
    assert [line["step"] for line in journal] == [6, 12, 18, 24, 30, 36, 40]
    evaluated = "eval/loss" if framework == "Trainer" else "loss"
    assert all({"train/loss", evaluated} <= line["metrics"].keys() for line in journal[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("framework", SOURCES)
def test_a_training_stopped_by_ctrl_c_ends_with_the_same_weights(
    tmp_path: Path, framework: str, undisturbed: Callable[[str], float]
) -> None:
    (tmp_path / "run.py").write_text(SOURCES[framework])
    (tmp_path / "stopped_once.py").write_text(KILLED.replace("SIGKILL", "SIGINT"))
    assert trained(tmp_path, "stopped_once", "stopped") == 130
    assert trained(tmp_path, "stopped_once", "stopped") == 0
    assert total(tmp_path, "stopped") == undisturbed(framework)
    journal = lines(tmp_path / "runs" / "stopped" / "base-s1" / "journal.jsonl")
    assert [line["step"] for line in journal] == [6, 12, 17, 18, 24, 30, 36, 40]


@pytest.mark.slow
@pytest.mark.parametrize("framework", SOURCES)
def test_a_training_killed_after_its_last_step_trains_no_further(
    tmp_path: Path, framework: str, undisturbed: Callable[[str], float]
) -> None:
    (tmp_path / "run.py").write_text(SOURCES[framework])
    (tmp_path / "killed_last.py").write_text(KILLED_AT_THE_END)
    assert trained(tmp_path, "killed_last", "killed") == -signal.SIGKILL
    assert trained(tmp_path, "killed_last", "killed") == 0
    assert total(tmp_path, "killed") == undisturbed(framework)
    journal = lines(tmp_path / "runs" / "killed" / "base-s1" / "journal.jsonl")
    assert max(line["step"] for line in journal) == 40


@pytest.mark.slow
def test_without_the_loader_that_resumes_lightning_begins_the_epoch_again(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(LIGHTNING.replace("LOADER", ""))
    (tmp_path / "killed_once.py").write_text(KILLED)
    assert trained(tmp_path, "run", "whole") == 0
    trained(tmp_path, "killed_once", "killed")
    assert trained(tmp_path, "killed_once", "killed") == 0
    assert total(tmp_path, "killed") != total(tmp_path, "whole")


EPOCHS = """
    def validation_step(self, batch):
        self.log("val/loss", self.current_epoch + 1.0)
"""


@pytest.mark.slow
def test_epochs_of_lightning_end_with_a_checkpoint_and_validations_stand_at_their_steps(
    tmp_path: Path,
) -> None:
    source = LIGHTNING.replace("LOADER", "resumable").replace("max_steps=steps", "max_epochs=2")
    source = source.replace("resumable(loader), ckpt", "resumable(loader), loader, ckpt")
    source = source.replace("global_step == steps", "global_step == 20")
    source = source.replace("\n    def configure", f"{EPOCHS}\n    def configure")
    (tmp_path / "run.py").write_text(source.replace("steps: int = 40", "steps: int = 20"))
    assert trained(tmp_path, "run", "whole") == 0
    trial = tmp_path / "runs" / "whole" / "base-s1"
    journal = lines(trial / "journal.jsonl")
    validated = {line["step"]: line["metrics"].get("val/loss") for line in journal}
    assert validated == {6: None, 10: 1.0, 12: None, 18: None, 20: 2.0}
    steps = {path.name for path in trial.glob("checkpoints/*/a*/step-*")}
    assert "step-20" in steps


@pytest.mark.slow
def test_the_loss_of_lightning_is_the_mean_of_the_batches_of_a_step(tmp_path: Path) -> None:
    """Lightning divides the loss of each batch whose gradients it accumulates. Here the losses of
    a step are 1, 2, 3 and 0."""
    counted = "self.n = getattr(self, 'n', 0) + 1\n        return 0 * loss + self.n % 4"
    source = LIGHTNING.replace("LOADER", "resumable").replace("return loss", counted)
    source = source.replace("max_steps=steps", "max_steps=steps, accumulate_grad_batches=4")
    source = source.replace("batch_size=10", "batch_size=25")  # four batches an epoch
    (tmp_path / "run.py").write_text(source)
    assert trained(tmp_path, "run", "whole") == 0
    journal = lines(tmp_path / "runs" / "whole" / "base-s1" / "journal.jsonl")
    losses = [line["metrics"]["train/loss"] for line in journal]
    assert losses == pytest.approx([1.5] * len(losses))
    assert losses


def test_after_a_checkpoint_of_the_last_batch_the_next_epoch_begins() -> None:
    class Shuffled(list[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(random.sample([*range(len(self))], len(self)))

    random.seed(7)
    loader = resumable(Shuffled(range(20)))
    first = list(loader)
    state = loader.state_dict()
    second = list(loader)
    random.seed(8)
    resumed = resumable(Shuffled(range(20)))
    resumed.load_state_dict(state)
    assert list(resumed) == second != first


def test_a_loader_without_a_length_is_refused() -> None:
    with pytest.raises(TypeError, match="needs a loader with a length"):
        resumable(iter([1, 2]))


def test_the_callbacks_import_no_framework() -> None:
    program = (
        "import sys, allelse.callbacks; print({'torch', 'transformers', "
        "'lightning'} & {*sys.modules})"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "set()"
