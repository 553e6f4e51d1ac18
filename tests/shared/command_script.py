"""A training script of plain Python, which knows nothing of allelse, and its command as a task.

Its result follows from its flags, so an undisturbed run is known without running it.
"""

from pathlib import Path
from random import Random

SCRIPT = """\
import argparse, json, random, time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--layers", type=int)
parser.add_argument("--seed", type=int)
parser.add_argument("--steps", type=int)
parser.add_argument("--out", type=Path)
parser.add_argument("--resume", type=Path)
parser.add_argument("--leave", type=Path)
args = parser.parse_args()
step, total = 0, 0.0
if args.resume:
    step, total = json.loads(args.resume.read_text())
while step < args.steps:
    step += 1
    while args.leave and args.leave.exists() and step > int(args.leave.read_text()):
        time.sleep(0.02)
    total += args.lr * random.Random(1000 * args.seed + step).random()
    if step % 2 == 0:
        print(f"step: {step} loss: {total:.9f}")
    if step % 4 == 0:
        new = args.out / ".new"
        new.write_text(json.dumps([step, total]))
        new.rename(args.out / f"checkpoint-{step}.json")
print(f"accuracy: {total / args.layers:.9f}")
"""
DEFINITION = """\
command: >-
  python train.py
  --lr {args.lr}
  --layers {args.layers}
  --steps {args.steps}
  --seed {seed}
  --out {out}
  --resume {resume}
args:
  lr: 1e-3
  layers: 4
  steps: 8
metrics:
  accuracy: {better: up, set: test}
steps: "{args.steps}"
checkpoint: checkpoint-*.json
"""


def write_script(folder: Path, definition: str = DEFINITION, script: str = SCRIPT) -> Path:
    """The script, and its command as the task ``mine``."""
    (folder / "conf" / "task").mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(script)
    (folder / "conf" / "task" / "mine.yaml").write_text(definition)
    return folder


def paced(leave: Path) -> str:
    """The definition of a command that waits for the step in this file."""
    return DEFINITION.replace("--resume", f"--leave {leave}\n  --resume")


def total_after(step: int, seed: int, lr: float = 1e-3) -> float:
    """What an undisturbed run has summed up."""
    total = 0.0
    for number in range(1, step + 1):
        total += lr * Random(1000 * seed + number).random()
    return total
