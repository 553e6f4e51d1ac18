"""The spirals of docs/your-own.md, trained by Lightning. Its checkpoint is one file."""

from dataclasses import replace

import lightning
import spiral
import torch
from torch.nn import functional


class Sweep(lightning.Callback):
    def __init__(self, trial):
        self.trial, self.step = trial, trial.saved.step if trial.saved else 0

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.step:  # gradients are accumulated
            return
        self.step, stops = trainer.global_step, self.trial.stopping()
        if stops or self.step % 50 == 0 or self.step == trainer.max_steps:
            self.trial.report(self.step, {"train/loss": outputs["loss"]})
            trainer.save_checkpoint(self.trial.folder / "last.ckpt")
            self.trial.checkpoint(self.step, load(self.trial.folder))
        trainer.should_stop |= stops


def save(content, folder):
    (folder / "last.ckpt").write_bytes(content)


def load(folder):
    return (folder / "last.ckpt").read_bytes()


class Classifier(lightning.LightningModule):
    def __init__(self, config):
        super().__init__()
        self.config, self.net = config, spiral.network(config.model)

    def training_step(self, batch):
        points, labels = batch
        return functional.cross_entropy(self.net(points), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.config.train.lr)


def batches(trial, first):
    points, labels = spiral.spirals(1000, seed=0)
    for step in range(first, trial.config.train.steps + 1):
        torch.manual_seed(trial.seed * 1_000_003 + step)  # a resumed trial draws the same numbers
        chosen = torch.randint(len(points), (trial.config.train.batch,))
        yield points[chosen], labels[chosen]


def work(trial):
    steps, first, last = trial.config.train.steps, 1, None
    if trial.saved:
        save(trial.saved.state, trial.folder)
        first, last = trial.saved.step + 1, trial.folder / "last.ckpt"
    torch.set_num_threads(trial.threads)
    torch.manual_seed(trial.seed)
    module = Classifier(trial.config)
    off = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    trainer = lightning.Trainer(max_steps=steps, callbacks=[Sweep(trial)], **off)
    trainer.fit(module, batches(trial, first), ckpt_path=last, weights_only=True)
    if trainer.global_step < steps:  # asked to stop
        return
    points, labels = spiral.spirals(1000, seed=1)
    accuracy = (module.net(points).argmax(dim=1) == labels).float().mean()
    trial.evaluated("test", {"accuracy": accuracy})


task = replace(spiral.task, version=2, work=work, save=save, load=load)
