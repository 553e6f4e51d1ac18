"""Verbs of a user's task: found by its name, they get trained trials, and keep scores."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_task import write_task
from typed import printed, refusal, typed

VERBS = '''
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sweeps.task import Trained, Typed


def reveal(trained: Trained[Config] | Path, typed: Typed, as_code: bool = False) -> int:
    """Reveal what a trial has learned."""
    if isinstance(trained, Path):
        print(trained.name, dict(typed))
        return 0
    (saved,) = trained.states()
    print(trained.name, trained.step, saved.step, saved.state, trained.config.train.cut, dict(typed))
    return 3 if as_code else 0


def rescore(trials: Sequence[Trained[Config]], steps: str = "2,4") -> str:
    """Score trials by the sum of their states."""
    for trained in trials:
        total = sum(saved.state for saved in trained.states([int(step) for step in steps.split(",")]))
        score = total * trained.config.train.cut
        trained.evaluated("dev", {"score": score}, {"texts/dev.txt": "kept\\n"}, [{"part": total}])
        print(json.dumps([trained.name, dict(trained.scored), str(trained.kept("texts/dev.txt"))]))
    return "allelse table sweep.name=s"


def label(trained: Trained[Config], text: Annotated[str, typer.Argument()]) -> None:
    """Print a text beside a trial's name."""
    print(trained.name, trained.config.train.cut, repr(text))


task = replace(task, verbs=(reveal, rescore, label))
'''
SOURCE = {
    "from dataclasses import dataclass\n": (
        "import json\nfrom dataclasses import dataclass, replace\n"
    )
}
BASE = ["task=small", "sweep.name=s"]


@pytest.fixture(scope="module")
def folder(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished trial, whose states are 1 and 2 after steps 2 and 4, and a copy of its study."""
    folder = write_task(furnish(tmp_path_factory.mktemp("verbs").resolve()), SOURCE)
    with (folder / "small.py").open("a") as file:
        file.write(VERBS)
    printed(folder, "train", *BASE)
    shutil.copytree(folder / "runs/s", folder / "runs/copy")
    return folder


def said_by(folder: Path, *words: str) -> list[str]:
    return printed(folder, *words).splitlines()


def test_they_are_listed_with_the_name_of_their_task_alone(folder: Path) -> None:
    for words in (["--help", "task=small"], ["reveal", "--help", "task=small"]):
        assert "Reveal what a trial has learned" in printed(folder, *words)
    assert "reveal" not in typed(folder, "--help").stdout
    outcome = typed(folder, "reveal", "base-s1", "sweep.name=s")
    assert outcome.exit_code == 2
    assert "For a verb of your own task, add task=small." in " ".join(
        re.sub("[│\n]", " ", outcome.stderr).split()
    )
    assert typed(folder, "translate", "base-s1", *BASE).exit_code == 2


def test_every_name_gives_the_trial_with_what_was_typed(folder: Path) -> None:
    (checkpoint,) = (folder / "runs/s/base-s1/checkpoints").glob("*/a1/step-2")
    description = "s/base-s1 4 4 2.0 0.5 {}"
    assert said_by(folder, "reveal", "base-s1", *BASE) == [description]
    assert said_by(folder, "reveal", "s/base-s1", "task=small") == [description]
    assert said_by(folder, "reveal", "runs/s/base-s1", "task=small") == [description]
    assert said_by(folder, "reveal", str(checkpoint), "task=small") == [
        "s/base-s1 at step 2 2 2 1.0 0.5 {}"
    ]
    typed_cut = "s/base-s1 4 4 2.0 0.75 {'train.cut': 0.75}"
    assert said_by(folder, "reveal", "base-s1", *BASE, "train.cut=0.75") == [typed_cut]
    assert typed(folder, "reveal", "base-s1", *BASE, "--as-code").exit_code == 3
    (folder / "elsewhere").mkdir()
    assert said_by(folder, "reveal", "elsewhere", "task=small", "train.cut=1") == [
        "elsewhere {'train.cut': 1}"
    ]


def test_a_verb_takes_a_text_after_the_trial_even_with_an_equals_sign(folder: Path) -> None:
    words = ["label", "base-s1", "c = a + b", *BASE, "train.cut=0.75"]
    assert said_by(folder, *words) == ["s/base-s1 0.75 'c = a + b'"]
    assert "TRIAL TEXT [KEY=VALUE …]" in printed(folder, "label", "--help", "task=small")
    assert "TEXT is missing must follow the trial" in refusal(folder, "label", "base-s1", *BASE)
    assert "TRIAL names 2: base-s1, more" in refusal(folder, "label", "base-s1", "a", "more", *BASE)


def result(folder: Path, trial: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "runs/s" / trial / "result.json").read_text())
    return content


def test_scores_are_kept_and_other_settings_apart(folder: Path) -> None:
    trial = folder / "runs/s/base-s1"
    result_before = result(folder, "base-s1")
    line, advice = said_by(folder, "rescore", "base-s1", *BASE, "train.cut=0.75")
    name, scored, path = json.loads(line)
    assert (name, scored["dev"]["score"], path) == (
        "s/base-s1",
        2.25,
        str(trial / "texts/dev@cut0.75.txt"),
    )
    assert Path(path).read_text() == "kept\n"
    head, sample = map(
        json.loads, (trial / "statistics/dev@cut0.75.jsonl").read_text().splitlines()
    )
    assert (head["scores"], sample) == (scored["dev"], {"part": 3.0})
    assert advice == "Next: allelse table sweep.name=s"
    assert result(folder, "base-s1") == result_before
    *lines, _ = said_by(folder, "rescore", "base-s1", "copy/base-s1", "base-s1", *BASE)
    rescored = [json.loads(line)[:2] for line in lines]
    assert [(name, scored["dev"]["score"]) for name, scored in rescored] == [
        ("s/base-s1", 1.5),
        ("copy/base-s1", 1.5),
    ]
    assert result(folder, "base-s1")["scores"]["dev"]["score"] == 1.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["rescore", "base-s1", "--steps", "3,4"],
            "no complete checkpoint of step 3; other steps: 2, 4",
        ),
        (
            ["rescore", "base-s1", "train.rate=1"],
            "train.rate (command line) cannot be changed once a model is trained",
        ),
        (
            ["rescore", "base-s1", "train.rate=1"],
            "`allelse rescore` takes train.cut; and settings that name a study",
        ),
        (["rescore", "bse-s1"], "did you mean base-s1?"),
        (["reveal", "base-s1", "base-s2"], "must name one trial or folder"),
        (["reveal"], "TRIAL is missing"),
        (["reveal", "runs/s"], "runs/s is a study must be one of its trials, such as"),
    ],
)
def test_what_is_wrong_is_refused(folder: Path, words: list[str], said: str) -> None:
    verb, *names = words
    text = refusal(folder, verb, *names, *BASE)
    assert said in text
    assert text.endswith("Nothing was done.")


def test_verbs_of_another_task_refuse_it(folder: Path) -> None:
    message = refusal(folder, "translate", "base-s1", "sweep.name=s")
    assert "base-s1 is a trial of the task small add task=small;" in message


def test_a_verb_without_a_trained_first_is_refused(tmp_path: Path) -> None:
    write_task(tmp_path)
    with (tmp_path / "small.py").open("a") as file:
        file.write(
            "\n\ndef reveal(name: str) -> None: ...\n\n\ntask = Task(**vars(task) | {'verbs': "
            "(reveal,)})\n"
        )
    message = refusal(tmp_path, "reveal", "base-s1", "task=small")
    assert (
        "whose verb reveal cannot be called its first parameter must be annotated with Trained"
        in message
    )
