"""Handwritten digits (8×8 pixels) by a small network. Base and rows of the task lie in
``conf/task/digits``."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from sklearn.datasets import load_digits
from torch import nn

from allelse import Costs, Divided, Metric, Observes, Range, Scores, Symbol, Task, Trial


@dataclass(frozen=True)
class Model:
    width: Annotated[int, Range(1), Symbol("w"), Divided("width")]
    normalize: bool  # between the layers

    def network(self) -> nn.Module:
        norm = nn.LayerNorm(self.width) if self.normalize else nn.Identity()
        return nn.Sequential(nn.Linear(64, self.width), norm, nn.ReLU(), nn.Linear(self.width, 10))


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]
    batch: Annotated[int, Range(1)]
    lr: Annotated[float, Range(0, above=True), Symbol("η")]
    loss: Literal["cross_entropy", "squared"]
    report_every: Annotated[int, Range(1), Observes()]


@dataclass(frozen=True)
class Test:
    shift: Annotated[int, Range(0, 7), Scores()]  # pixels to the right, of each test image


@dataclass(frozen=True)
class Config:
    model: Model
    train: Train
    test: Test

    def costs(self) -> Costs:
        return Costs(params=sum(weights.numel() for weights in self.model.network().parameters()))


def work(trial: Trial[Config]) -> None:
    torch.set_num_threads(trial.threads)
    torch.manual_seed(trial.seed)
    train, net, data = trial.config.train, trial.config.model.network(), load_digits()
    pixels, labels, split = (
        torch.tensor(data.data).float() / 16,
        torch.tensor(data.target),
        int(0.8 * len(data.target)),
    )
    loss_of = nn.functional.mse_loss if train.loss == "squared" else nn.functional.cross_entropy
    optimizer = torch.optim.Adam(net.parameters(), lr=train.lr)
    if trial.saved:
        net.load_state_dict(trial.saved.state["net"])
        optimizer.load_state_dict(trial.saved.state["optimizer"])
    with trial.process_group():
        shared = nn.parallel.DistributedDataParallel(net) if trial.world > 1 else net
        for step in range(trial.saved.step + 1 if trial.saved else 1, train.steps + 1):
            # so that a resume draws the same
            chance = torch.Generator().manual_seed(trial.seed * 1_000_003 + step)
            chosen = torch.randint(split, (train.batch,), generator=chance)[
                trial.rank :: trial.world
            ]
            loss = loss_of(
                shared(pixels[chosen]), nn.functional.one_hot(labels[chosen], 10).float()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if (stops := trial.stopping()) or step % train.report_every == 0 or step == train.steps:
                trial.report(step, {"train/loss": loss.item()})
                trial.checkpoint(
                    step, {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
                )
            if stops:
                return
    images = pixels[split:].reshape(-1, 8, 8).roll(trial.config.test.shift, dims=2)
    right = net(images.flatten(1)).argmax(dim=1) == labels[split:]
    trial.evaluated(
        "test",
        {"accuracy": right.float().mean()},
        samples=[{"right": hit} for hit in right.tolist()],
    )


accuracy = Metric(
    "accuracy", "", "share of digits that are right", "up", 3, "test", from_counts=("mean", "right")
)
task = Task(
    "digits",
    1,
    Config,
    (accuracy,),
    steps=lambda config: config.train.steps,
    work=work,
    costs=Config.costs,
)
