"""A small network that tells two half moons apart, by Lightning.

    python moons.py --width 16 --seed 1

Lightning's ``CSVLogger`` writes the metrics, and ``--resume`` takes one of its checkpoints.
"""

import argparse
from itertools import pairwise
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Sampler, TensorDataset


def moons(number, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(number) % 2
    angle = torch.pi * torch.rand(number, generator=generator)
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    points[labels == 1] = torch.tensor([1.0, 0.5]) - points[labels == 1]
    noise = 0.2 * torch.randn(number, 2, generator=generator)
    return TensorDataset(points + noise, labels)


class Order(Sampler):
    """Another order each epoch, which follows from seed and epoch: also after a resume."""

    def __init__(self, size, seed):
        self.size = size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch):  # Lightning calls it
        self.epoch = epoch

    def __iter__(self):
        generator = torch.Generator().manual_seed(1000 * self.seed + self.epoch)
        return iter(torch.randperm(self.size, generator=generator).tolist())

    def __len__(self):
        return self.size


class Classifier(lightning.LightningModule):
    def __init__(self, width, layers, lr):
        super().__init__()
        self.lr = lr
        pairs = pairwise([2, *[width] * layers])
        hidden = [nn.Sequential(nn.Linear(before, after), nn.ReLU()) for before, after in pairs]
        self.net = nn.Sequential(*hidden, nn.Linear(width, 2))

    def training_step(self, batch):
        points, labels = batch
        loss = functional.cross_entropy(self.net(points), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch):
        points, labels = batch
        right = self.net(points).argmax(dim=1) == labels
        self.log("accuracy", right.float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--resume", help="a checkpoint")
    options = parser.parse_args()

    lightning.seed_everything(options.seed, verbose=False)
    module = Classifier(options.width, options.layers, options.lr)
    training = moons(400, seed=0)
    loader = DataLoader(training, batch_size=20, sampler=Order(len(training), options.seed))
    dev = DataLoader(moons(400, seed=1), batch_size=400)
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        log_every_n_steps=5,
        logger=CSVLogger(options.out, name="", version="", flush_logs_every_n_steps=5),
        callbacks=[ModelCheckpoint(options.out, filename="{epoch}", save_top_k=-1)],
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader, dev, ckpt_path=options.resume, weights_only=True)


if __name__ == "__main__":
    main()
