"""What is wrong with a command's definition is refused before anything starts, with its line."""

from pathlib import Path
from typing import Any

import pytest
from command_script import DEFINITION, write_script
from typed import refusal, refused_for

STEPS = 'steps: "{args.steps}"'
CASES: dict[str, tuple[Any, ...]] = {
    "an unknown placeholder": (
        ("{args.layers}", "{args.layer}"),
        [
            "command (conf/task/mine.yaml:1) holds {args.layer}, which stands for nothing … "
            "did you mean {args.layers}?",
        ],
    ),
    "a placeholder of a shell": (
        ("--seed {seed}", "--seed {seed} --home ${HOME}"),
        ["command (conf/task/mine.yaml:1) holds {HOME}, which stands for nothing"],
    ),
    "a key without a placeholder": (
        ("  layers: 4\n", "  layers: 4\n  laers: 3\n"),
        [
            "args.laers (conf/task/mine.yaml:12) is used by no placeholder … "
            "did you mean args.layers?"
        ],
    ),
    "an unknown key": (
        (STEPS, f"timout: 3\n{STEPS}"),
        ["timout (conf/task/mine.yaml:15) is not a key … did you mean timeout?"],
    ),
    "a key twice": (
        ("  layers: 4\n", "  layers: 4\n  layers: 5\n"),
        ["args.layers (conf/task/mine.yaml:12) stands there twice"],
    ),
    "the seed as a key": (
        ("  layers: 4\n", "  layers: 4\n  seed: 5\n"),
        ["args.seed (conf/task/mine.yaml:12) is the seed remove it, and write {seed}"],
    ),
    "a key that is no name": (
        ("  layers: 4\n", "  layers: 4\n  a-b: 5\n"),
        ["args.a-b (conf/task/mine.yaml:12) is no name must consist of letters, digits and _"],
    ),
    "a program that is not there": (
        ("python train.py", "pythn train.py"),
        ['command (conf/task/mine.yaml:1) starts with "pythn" … did you mean python'],
    ),
    "a script that is not there": (
        ("python train.py", "python trian.py"),
        ["command (conf/task/mine.yaml:1) names trian.py, which is not there … train.py?"],
    ),
    "a metric without direction": (
        ("{better: up, set: test}", "{set: test}"),
        ["metrics.accuracy (conf/task/mine.yaml:14) has no direction write better: up or"],
    ),
    "a direction that is none": (
        ("{better: up, set: test}", "higher"),
        ['metrics.accuracy (conf/task/mine.yaml:14) is better "higher"'],
    ),
    "an unknown field of a metric": (
        ("set: test", "sett: test"),
        ["metrics.accuracy.sett (conf/task/mine.yaml:14) is not a key … did you mean set?"],
    ),
    "a misspelled direction": (
        ("better: up", "beter: up"),
        ["metrics.accuracy.beter (conf/task/mine.yaml:14) is not a key … did you mean better?"],
    ),
    "no metrics": (
        ("  accuracy: {better: up, set: test}\n", ""),
        ["metrics (conf/task/mine.yaml:13) is missing name one"],
    ),
    "no command": (
        (DEFINITION[: DEFINITION.index("args:")], ""),
        ["command (conf/task/mine.yaml:1) is missing write the command"],
    ),
    "a misspelled command": (
        ("command:", "comand:"),
        ["comand (conf/task/mine.yaml:1) is not a key … did you mean command?"],
    ),
    "data that is not there": (
        (STEPS, f"data: [train.pi]\n{STEPS}"),
        [
            "data (conf/task/mine.yaml:15) names train.pi, which is not there … did you mean train.py"
        ],
    ),
    "data of a key": (
        ("  layers: 4\n", "  layers: 4\n  text: words.txt\n"),
        ["args.text (conf/task/mine.yaml:12) is used by no placeholder"],
    ),
    "observing what is no key": (
        (STEPS, f"observes: [layer]\n{STEPS}"),
        ["observes (conf/task/mine.yaml:15) names layer … did you mean layers?"],
    ),
    "a duration that is none": (
        (STEPS, f"timeout: 2 hors\n{STEPS}"),
        ["timeout (conf/task/mine.yaml:15) is '2 hors' must be a duration above 0"],
    ),
    "{resume} without checkpoint": (
        ("checkpoint: checkpoint-*.json\n", ""),
        ["checkpoint (conf/task/mine.yaml:1) is missing, but the command takes {resume}"],
    ),
    "steps of a key that is not there": (
        ('steps: "{args.steps}"', 'steps: "{args.step}"'),
        ["steps (conf/task/mine.yaml:15) holds {args.step} … did you mean {args.steps}?"],
    ),
    "no steps": (
        ("  steps: 8", "  steps: 0"),
        ["steps (conf/task/mine.yaml:15) gives 0 steps"],
    ),
    "a quote that is not closed": (
        ("--seed {seed}", "--seed '{seed}"),
        ["command (conf/task/mine.yaml:1) … No closing quotation"],
    ),
    "variables that are no texts": (
        (STEPS, f"env: [A]\n{STEPS}"),
        ["env (conf/task/mine.yaml:15) … must be a group of keys"],
    ),
    "a placeholder without quotes": (
        (DEFINITION[: DEFINITION.index("args:")], "command: [python, train.py, {seed}]\n"),
        ["command (conf/task/mine.yaml:1) … put placeholders in quotes, as '{seed}'"],
    ),
    "a tag that YAML does not have": (
        ("  layers: 4", "  layers: !number 4"),
        ["mine (conf/task/mine.yaml:11) cannot be read: could not determine a constructor"],
    ),
    "a date that is none": (
        ("  layers: 4", "  layers: 2024-13-45"),
        ["mine (conf/task/mine.yaml) cannot be read: month must be in 1..12"],
    ),
    "a key with a group as its value": (
        ("  lr: 1e-3", "  lr: {start: 1e-3}"),
        ["args.lr (conf/task/mine.yaml:10) is {'start': 0.001} must be a plain value"],
    ),
    "two faults of keys, and steps of one of them": (
        ("  steps: 8", "  steps: {first: 8}\n  a-b: 5"),
        ["args.steps (conf/task/mine.yaml:12) … plain", "args.a-b (conf/task/mine.yaml:13) … name"],
    ),
    "keys that are no group": (
        ("  lr: 1e-3\n  layers: 4\n  steps: 8\n", "  - lr\n"),
        ["args (conf/task/mine.yaml:9) is ['lr'] must be a group of keys"],
    ),
    "a refused key that is observed": (
        ("  lr: 1e-3", "  lr: {start: 1e-3}"),
        (STEPS, f"observes: lr\n{STEPS}"),
        ["args.lr (conf/task/mine.yaml:10) … must be a plain value"],
    ),
    "keys under a misspelled name": (
        ("args:\n", "arg:\n"),
        ["arg (conf/task/mine.yaml:9) is not a key … did you mean args?"],
    ),
    "a misspelled name, and a fault below it": (
        ("args:\n  lr: 1e-3", "arg:\n  lr: {}"),
        ["arg (conf/task/mine.yaml:9) is not a key", "args.lr (conf/task/mine.yaml:10) is {}"],
    ),
    "steps in brackets": (
        ("  --steps {args.steps}", "  --steps 8"),
        (STEPS, 'steps: ["{args.steps}"]'),
        ["steps (conf/task/mine.yaml:15) is ['{args.steps}'] must be a whole number of at least 1"],
    ),
    "a checkpoint that is no text": (
        ("checkpoint: checkpoint-*.json", "checkpoint: 5"),
        ["checkpoint (conf/task/mine.yaml:16) is 5 must be a text"],
    ),
    "variables that are no group, of which one is observed": (
        (STEPS, f"env: [A]\nobserves: env.A\n{STEPS}"),
        ["env (conf/task/mine.yaml:15) is ['A'] must be a group of keys"],
    ),
    "four faults, none of which follows from another": (
        ("  lr: 1e-3", "  lr: [1, a]"),
        ("{args.layers}", "{args.layer}"),
        ("checkpoint: checkpoint-*.json\n", "observes: stps\n"),
        [
            "command (conf/task/mine.yaml:1) holds {args.layer}",
            "checkpoint (conf/task/mine.yaml:1) is missing",
            "args.lr (conf/task/mine.yaml:10) is [1, 'a']",
            "observes (conf/task/mine.yaml:16) names stps … did you mean steps?",
        ],
    ),
    "a file that the command can't write for the trial": (
        ("  --out {out}\n", ""),
        ("{better: up, set: test}", "{better: up, set: test, source: metrics.csv}"),
        [
            "metrics.accuracy.source (conf/task/mine.yaml:13) is metrics.csv, but the command has no "
            "{out} write {out} where the command names its output folder"
        ],
    ),
    "no YAML": (
        ("args:\n", "args: [\n"),
        ["mine (conf/task/mine.yaml:11) cannot be read"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    *changes, reasons = CASES[case]
    definition = DEFINITION
    for old, new in changes:
        assert old in definition
        definition = definition.replace(old, new)
    folder = write_script(tmp_path, definition)
    refused_for(folder, reasons, "plan", "task=mine")
    assert not (folder / "runs").exists()


def test_all_faults_are_refused_at_once(tmp_path: Path) -> None:
    text = DEFINITION.replace("{args.lr}", "{args.rl}").replace("up", "upp")
    reasons = ["command … {args.rl}", 'metrics.accuracy … "upp"']
    refused_for(write_script(tmp_path, text), reasons, "sweep")


def test_a_value_of_another_type_is_refused(tmp_path: Path) -> None:
    text = refusal(write_script(tmp_path), "plan", "layers=many")
    assert "args.layers (command line)" in text
    assert "must be a whole number" in text
