"""`allelse init NAME -- COMMAND`: a first definition of a command as it was typed."""

from pathlib import Path

import pytest
import yaml
from allelse_in_folder import contents
from command_script import SCRIPT
from typed import printed, refusal

TYPED = {
    "--lr 1e-3": ("--lr {args.lr}", {"lr": "1e-3"}),
    "--lr=0.1": ("--lr={args.lr}", {"lr": "0.1"}),
    "optim.lr=0.1": ("optim.lr={args.optim_lr}", {"optim_lr": "0.1"}),
    "+extra=a": ("+extra={args.extra}", {"extra": "a"}),
    "--weight-decay -0.5": ("--weight-decay {args.weight_decay}", {"weight_decay": "-0.5"}),
    "--amp True": ("--amp {args.amp}", {"amp": "True"}),
    "--name 'a b'": ("--name {args.name}", {"name": "a b"}),
    "--version 007": ("--version {args.version}", {"version": "'007'"}),
    "--seed 1": ("--seed {seed}", {}),
    "--random-seed=1": ("--random-seed={seed}", {}),
    "--output_dir runs/1": ("--output_dir {out}", {}),
    "--output-directory=a": ("--output-directory={out}", {}),
    "hydra.run.dir=x": ("hydra.run.dir={out}", {}),
    "--resume last.pt": ("--resume last.pt", {}),
    "--save_path a.pt": ("--save_path {out}/a.pt", {}),
    "--log-file=logs/a.txt": ("--log-file={out}/a.txt", {}),
    "--output-file /dev/null": ("--output-file /dev/null", {}),
    "-v": ("-v", {}),
    "-b 8": ("-b 8", {}),
    "--compile": ("--compile", {}),
    "--sizes 1 2 3": ("--sizes 1 2 3", {}),
    "--set a=1 --set b=2": ("--set a={args.a} --set b={args.b}", {"a": "1", "b": "2"}),
    "--x 1 --x 2": ("--x 1 --x 2", {}),
    "here.txt": ("here.txt", {}),
    "--json '{lr}'": ("--json {args.json}", {"json": "'{lr}'"}),
    "'{lr}'": ("{{lr}}", {}),
    "--class 3": ("--class 3", {}),
}


@pytest.mark.parametrize("words", TYPED)
def test_what_becomes_of_a_word(tmp_path: Path, words: str) -> None:
    template, values = TYPED[words]
    (tmp_path / "train.py").write_text(SCRIPT)
    printed(tmp_path, "init", "mine", "--", f"python train.py {words}")
    text = (tmp_path / "conf" / "task" / "mine.yaml").read_text()
    assert yaml.safe_load(text)["command"] == f"python train.py {template}"
    lines = [f"  {key}: {value}" for key, value in values.items()]
    assert all(line in text.splitlines() for line in lines), text
    assert ("args:" in text) == bool(values)


def test_the_draft_is_all_that_is_written_and_runs_once_a_metric_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = "python train.py --lr 0.001 --layers 4 --seed 1 --steps 4 --out runs/x"
    text = printed(tmp_path, "init", "mine", "--", *words.split())
    assert set(contents(tmp_path)) == {"conf", "conf/task", "conf/task/mine.yaml", "train.py"}
    for shown in ("--lr 0.001", "args.lr, a number", "{seed}", "{out}", "stays as it is"):
        assert shown in text
    assert text.splitlines()[-1] == f"Next: allelse probe -- {words}"

    path = tmp_path / "conf" / "task" / "mine.yaml"
    assert "metrics (conf/task/mine.yaml:" in refusal(tmp_path, "plan")
    path.write_text(path.read_text().replace("  # accuracy", "  accuracy"))
    printed(tmp_path, "train", "tracking=off")
    assert "Next: allelse" in printed(tmp_path, "plan")


def test_variables_files_and_launchers(tmp_path: Path) -> None:
    for name in ("train.py", "words.txt"):
        (tmp_path / name).write_text(SCRIPT)
    launched = "A=1 torchrun --nproc_per_node 2 train.py --text words.txt --max_steps 9"
    text = printed(tmp_path, "init", "mine", "--", *launched.split())
    assert text.splitlines()[-1] == f"Next: allelse probe -- {launched}"
    content = yaml.safe_load((tmp_path / "conf" / "task" / "mine.yaml").read_text())
    assert content["env"] == {"A": "1"}
    assert content["data"] == ["{args.text}"]
    assert content["steps"] == "{args.max_steps}"
    assert content["command"].startswith("torchrun --nproc_per_node 2 train.py --text {args.text}")


@pytest.mark.parametrize(
    ("name", "words", "reason"),
    [
        ("a/b", "python train.py", "must be a letter, then letters, digits and _"),
        ("translation", "python train.py", "an installed task"),
        ("python", "train.py --lr 3", "type `allelse init NAME -- python train.py --lr 3`"),
        ("mine", "python train.py --api_key x", "--api_key looks like a secret"),
        ("mine", "python train.py --api-key x", "--api-key looks like a secret"),
        ("mine", "WANDB_API_KEY=x python train.py", "WANDB_API_KEY looks like a secret"),
        ("mine", "python train.py wandb.api_key=x", "wandb.api_key looks like a secret"),
    ],
)
def test_a_draft_is_refused(tmp_path: Path, name: str, words: str, reason: str) -> None:
    assert reason in refusal(tmp_path, "init", name, "--", *words.split())
    assert contents(tmp_path) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "conf" / "task" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    text = refusal(tmp_path, "init", "mine", "--", "python", "train.py")
    assert "conf/task/mine.yaml exists" in text
    assert path.read_text() == "mine"
