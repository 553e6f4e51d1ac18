"""A small GPT that learns to write made-up sentences, letter by letter.

    python small_gpt.py --layers 2 --seed 1

It writes its losses to ``metrics.jsonl`` in the folder ``--out``, and resumes from a checkpoint.
"""

import argparse
import json
import random
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

NOUNS = ("cat", "dog", "bird", "fox", "child", "painter", "river", "stone")
VERBS = ("sees", "follows", "paints", "hears", "likes", "moves")
ADJECTIVES = ("small", "old", "red", "quiet", "clever", "cold")
CONTEXT = 32  # letters


def text(sentences, seed):
    chance = random.Random(seed)
    nouns = [f"the {chance.choice(ADJECTIVES)} {chance.choice(NOUNS)}" for _ in range(sentences)]
    pairs = zip(nouns, reversed(nouns), strict=True)
    return "".join(f"{who} {chance.choice(VERBS)} {whom}.\n" for who, whom in pairs)


LETTERS = sorted(set(text(1000, seed=0)))


def encoded(letters):
    return torch.tensor([LETTERS.index(letter) for letter in letters])


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = nn.MultiheadAttention(width, heads, dropout, batch_first=True)
        hidden = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU())
        self.feed_forward = nn.Sequential(*hidden, nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x):
        future = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, attn_mask=future, need_weights=False)[0]
        return x + self.feed_forward(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, dropout):
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.output = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, len(LETTERS)))

    def forward(self, letters):
        x = self.letters(letters) + self.positions.weight[: letters.shape[1]]
        return self.output(self.blocks(x))

    def loss(self, letters):
        logits = self(letters[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), letters[:, 1:].flatten())


def batch(letters, size):
    starts = torch.randint(len(letters) - CONTEXT, (size,))
    return torch.stack([letters[start : start + CONTEXT + 1] for start in starts])


@torch.no_grad()
def evaluated(net, letters):
    net.eval()
    windows = letters.unfold(0, CONTEXT + 1, CONTEXT)
    loss = net.loss(windows).item()
    net.train()
    return loss


def save(net, optimizer, step, path):
    states = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
    part = path.with_suffix(".part")
    torch.save({**states, "step": step, "random": torch.get_rng_state()}, part)
    part.replace(path)  # a checkpoint that exists is whole


def resumed(net, optimizer, path):
    saved = torch.load(path)
    net.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["random"])
    return saved["step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--resume", default="", help="a checkpoint")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    training, dev = encoded(text(2000, seed=0)), encoded(text(50, seed=1))
    net = GPT(options.layers, options.width, options.heads, options.dropout)
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.lr)
    done = resumed(net, optimizer, options.resume) if options.resume else 0
    with (options.out / "metrics.jsonl").open("a") as metrics:
        for step in range(done + 1, options.steps + 1):
            loss = net.loss(batch(training, options.batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % options.save_every == 0 or step == options.steps:
                losses = {"train_loss": loss.item(), "dev_loss": evaluated(net, dev)}
                print(json.dumps({"step": step, **losses}), file=metrics, flush=True)
                # afterwards, so that what resumes from it lacks no loss
                save(net, optimizer, step, options.out / f"checkpoint-{step}.pt")


if __name__ == "__main__":
    main()
