"""What one may get wrong in a task of one's own: refused with the file and the line, and nothing is
left."""

import os
import re
from pathlib import Path

import pytest
from allelse_in_folder import ALLELSE, contents, run_in
from small_task import BASE, HEAD, ROW, write_task
from typed import refusal, refused_for, typed

FOREIGN = re.compile(r"d_model|n_heads|beam|decode|bleu|ppl|16 heads|tiny|data=", re.IGNORECASE)
FILE = "conf/task/small/base.yaml"
SQUARE = "conf/task/small/row/square.yaml"
CONFIG = "@dataclass(frozen=True)\nclass Config:"
ENDS = ("GeneratorExit", "SystemExit")
"""What a file may raise that is no Exception."""
KNOWN = "known: translation, small did you mean task=small?"

# what is typed, and the reason
TYPED: list[tuple[str, str]] = [
    ("plan task=smal", f"task (command line) … no module smal here … {KNOWN}"),
    (
        "plan task=small.py",
        'task (command line) is "small.py" … MODULE:ATTRIBUTE … did you mean task=small?',
    ),
    ("plan small", "small (command line) is not key=value … did you mean task=small?"),
    ("plan task=null", "task (command line) is null must be a string"),
    (
        "plan task=small:taks",
        "task (command line) … small has no taks … did you mean task=small:task?",
    ),
    (
        "plan task=small:Config",
        "task (command line) … whose Config is not an allelse.Task … did you mean task=small:task?",
    ),
    (
        "plan task=small model.sise=8",
        "model.sise (command line) … keys under model are size, kind did you mean model.size?",
    ),
    ("plan task=small scale=tiny", "scale (command line) … must be one of full"),
    (
        "plan task=small scale.size=3",
        "scale.size (command line) … must divide model.size, which is 8",
    ),
    ("plan task=small seed=3", "seed (command line) … did you mean sweep.seeds?"),
    (
        "train task=small sweep.seeds=[1,2]",
        "sweep.seeds (command line) … use row=NAME and sweep.seeds=[N]",
    ),
]

# what is replaced in the source, and the reason
SOURCES: list[tuple[dict[str, str], str]] = [
    ({CONFIG: f"1 / 0\n{CONFIG}"}, "task (small.py:24) … ZeroDivisionError: division by zero"),
    (
        {"    model: Model\n": "    model: Modell\n"},
        "task (small.py:26) … NameError: name 'Modell' is not defined",
    ),
    (
        {", steps=lambda config: config.train.steps": ""},
        "task (small.py:43) … missing 1 required … 'steps'",
    ),
    (
        {"task = Task(": "task = dict(a=Task); Task("},
        "task (command line) … whose task is not an allelse.Task",
    ),
    ({CONFIG: "@dataclass\nclass Config:"}, "task (small.py) … its schema Config … frozen"),
    (
        {"    train: Train\n": "    train: Train\n    size: int\n"},
        "task (small.py) … its group size, which is int",
    ),
    (
        {"    train: Train\n": "    train: Train\n    paths: Train\n"},
        "task (small.py) … paths … belongs to the platform",
    ),
    (
        {"    steps: A": "    inner: Model\n    steps: A"},
        "task (small.py) … must hold only keys, not the group inner",
    ),
    (
        {'Literal["round", "square"]': "object"},
        "task (small.py) … its key model.kind, which is object … list[…]",
    ),
    (
        {'"score"),)': '"score"), Metric("score"))'},
        "task (small.py) … 2 of its metrics have the name score",
    ),
    ({'(Metric("score"),)': "()"}, "task (small.py) … must have a metric for the table"),
    ({'(Metric("score"),)': '[Metric("score")]'}, "task (small.py) … must be a tuple of Metric"),
    ({'Task("small"': 'Task("translation"'}, "task (small.py) … its name translation is taken"),
    ({'Task("small"': 'Task("../small"'}, "task (small.py) … must have a plain name"),
    (
        {'"small", 1': '"small", 0'},
        "task (small.py) … its version 0 must be a whole number of at least 1",
    ),
    ({"work=work": "work=3"}, "task (small.py) … its work must be a function"),
    (
        {"config.train.steps,": "config.train.stepps,"},
        "task (small.py:43) … whose steps fails: AttributeError",
    ),
    (
        {"lambda config: config.train.steps": "lambda config: None"},
        "task (small.py:43) is … whose steps returns None … whole number",
    ),
    (
        {"work=work": "work=work, costs=lambda config: 3"},
        "task (small.py:43) is … whose costs returns 3 must return Costs",
    ),
    (
        {"work=work": "work=work, problems=lambda config: [3]"},
        "task (small.py:43) is … whose problems returns [3] … each Problem",
    ),
    (
        {"work=work": "work=work, resolved=lambda *_: None"},
        "task (small.py:43) … resolved returns None … return Config",
    ),
    (
        {"work=work": "work=work, resolved=lambda *_: 'x'"},
        "task (small.py:43) … resolved returns 'x' … return Config",
    ),
    *[({CONFIG: f"raise {error}\n{CONFIG}"}, f"task (small.py:24) … {error}") for error in ENDS],
    (
        {CONFIG: f"import asyncio; raise asyncio.CancelledError\n{CONFIG}"},
        "task (small.py:24) … CancelledError",
    ),
    ({CONFIG: f"import sys; sys.exit(3)\n{CONFIG}"}, "task (small.py:24) … SystemExit: 3"),
    (
        {
            CONFIG: f"def ends(config):\n    raise GeneratorExit\n\n\n{CONFIG}",
            "work=work": "work=work, costs=ends",
        },
        "task (small.py:25) … whose costs fails: GeneratorExit",
    ),
]

# base.yaml, and each reason
BASES: list[tuple[str, list[str]]] = [
    ("model: {size: 8\n", [f"base ({FILE}:2) is not plain YAML"]),
    (BASE.replace("  every: 2\n", ""), [f"train.every ({FILE}:2) is missing must be given"]),
    (BASE + "  epochs: 3\n", [f"train.epochs ({FILE}:7) is not a key … did you mean train.steps?"]),
    (
        BASE + "  alpha: 3\n",
        [f"train.alpha ({FILE}:7) is not a key keys under train are steps, rate, every, cut"],
    ),
    (BASE + "data: {name: x}\n", [f"data ({FILE}:7) is not a key"]),
    (
        BASE + "sweep: {seeds: [1]}\n",
        [f"sweep ({FILE}:7) is set by base base sets only model, train"],
    ),
    (BASE + "scale: {size: 1}\n", [f"scale ({FILE}:7) is set by base base sets only model, train"]),
    (BASE.replace("round", "rond"), [f"model.kind ({FILE}:1) … did you mean round?"]),
    (BASE.replace("0.5", "010", 1), [f"train.rate ({FILE}:4) is 010, which YAML reads as 8"]),
    (
        BASE.replace("  every: 2\n", "  evry: 2\n"),
        [
            f"train.evry ({FILE}:5) is not a key … did you mean train.every?",
            f"train.every ({FILE}:2) is missing",
        ],
    ),
    (
        BASE.replace("train:", "trian:"),
        [f"trian ({FILE}:2) is not a key … did you mean train?", f"train ({FILE}:1) is missing"],
    ),
    (
        BASE.replace("model: {size: 8, kind: round}", "model: 3"),
        [f"model ({FILE}:1) is 3 must be a group of keys"],
    ),
]

# the file of a row, and the reason
ROWS: list[tuple[str, str]] = [
    (ROW + "train: {rat: 3}\n", f"train.rat ({SQUARE}:4) … did you mean train.rate?"),
    (ROW + "paths: {runs: x}\n", f"paths ({SQUARE}:4) … a row sets only row, model, train"),
    (
        f"{HEAD}row: {{group: A}}\nmodel: {{kind: round}}\n",
        f"sweep.rows ({SQUARE}) lists square and base, which would",
    ),
    (
        ROW + "model.size: 4\n",
        f"model.size ({SQUARE}:4) is not a key a row sets only row, model, train",
    ),
    (
        ROW + "sizes:\n  - 4\n  - 8\n",
        f"sizes ({SQUARE}:4) is not a key a row sets only row, model, train",
    ),
    (f"{HEAD}model: {{kind: square}}\n", f"row ({SQUARE}:1) is missing must be given"),
    (
        f"{HEAD}row: {{group: A, published: {{loss: 3}}}}\nmodel: {{size: 2}}\n",
        f"row.published.loss ({SQUARE}:2) … are score, params_m",
    ),
]

# what is typed, replaced in the source, and written, and each reason
PLAN = "plan task=small sweep.rows=[base,square]"
CASES: list[tuple[str, dict[str, str], dict[str, str], list[str]]] = [
    *[(words, {}, {}, [reason]) for words, reason in TYPED],
    *[("plan task=small", replaced, {}, [reason]) for replaced, reason in SOURCES],
    *[("plan task=small", {}, {FILE: text}, reasons) for text, reasons in BASES],
    *[(PLAN, {}, {SQUARE: text}, [reason]) for text, reason in ROWS],
    (
        "plan task=small",
        {},
        {"conf/task/small/row/twin.yaml": ROW},
        ["sweep.rows … lists twin and square"],
    ),
    (
        "plan task=small",
        {'"small", 1': '"small", 0', '(Metric("score"),)': "()", "work=work": "work=3"},
        {},
        ["its version 0", "its work must be", "a metric for the table"],
    ),
    (
        "plan task=small train.rat=1",
        {},
        {FILE: BASE.replace("  every: 2\n", "").replace("size: 8", "size: 0")},
        ["train.rat (command line)", f"train.every ({FILE}", f"model.size ({FILE}"],
    ),
]


@pytest.mark.parametrize(
    ("words", "replaced", "files", "reasons"), CASES, ids=[f"{case[3]}"[:90] for case in CASES]
)
def test_what_is_wrong_is_refused_with_each_reason(
    tmp_path: Path, words: str, replaced: dict[str, str], files: dict[str, str], reasons: list[str]
) -> None:
    """No key of another task is offered."""
    write_task(tmp_path, replaced, files)
    files_before = [path for path in contents(tmp_path) if "__pycache__" not in path]
    message = refused_for(tmp_path, reasons, *words.split())
    assert message.endswith("Nothing was started."), message
    assert not FOREIGN.search(re.sub(r'is "[^"]*"', "", message)), message
    assert [path for path in contents(tmp_path) if "__pycache__" not in path] == files_before


def test_a_task_without_base_is_refused(tmp_path: Path) -> None:
    (write_task(tmp_path) / FILE).unlink()
    refused_for(
        tmp_path,
        [f"base is missing: there is no {FILE} … the keys of model, train"],
        "plan",
        "task=small",
    )


def test_the_help_of_a_broken_task_is_its_refusal(tmp_path: Path) -> None:
    write_task(tmp_path, {CONFIG: f"1 / 0\n{CONFIG}"})
    assert "task (small.py:24) is" in refusal(tmp_path, "--help", "task=small")


@pytest.mark.parametrize(
    ("costs", "note"),
    [
        ("", ""),
        ("params=3", "params are computed"),
        ("params=3, flops=4.0", "params and FLOPs are computed"),
    ],
)
def test_the_task_that_is_right_is_planned(tmp_path: Path, costs: str, note: str) -> None:
    replaced = {"work=work": f"work=work, costs=lambda config: Costs({costs})"}
    outcome = typed(write_task(tmp_path, replaced), "plan", "task=small")
    assert outcome.exit_code == 0, outcome.output
    cost_lines = [
        line for line in outcome.stdout.splitlines() if not line.startswith("Time: unknown")
    ]
    assert ("unknown" in "\n".join(cost_lines)) == ("flops" not in costs)
    notes = re.findall(r"^.*are computed", outcome.stdout, re.MULTILINE)
    assert notes == ([note] if note else [])
    assert outcome.stdout.rstrip().endswith("Next: allelse sweep task=small")


def test_ctrl_c_at_import_stays_ctrl_c(tmp_path: Path) -> None:
    interrupted = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)"
    write_task(tmp_path, {CONFIG: f"{interrupted}\n{CONFIG}"})
    outcome = typed(tmp_path, "plan", "task=small")
    assert outcome.exit_code == 130, outcome.output
    assert "To continue, run again" in outcome.stderr


def test_a_file_that_parses_arguments_sees_none_of_ours(tmp_path: Path) -> None:
    write_task(
        tmp_path, {CONFIG: f"import argparse; argparse.ArgumentParser().parse_args()\n{CONFIG}"}
    )
    process = run_in(
        tmp_path, dict(os.environ), str(ALLELSE), "plan", "task=small", "train.steps=3"
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("option", ["-m", "--multirun"])
def test_multirun_is_taken_as_hydra_s_users_type_it(tmp_path: Path, option: str) -> None:
    write_task(tmp_path)
    words = ["task=small", "model.size=8,4"]
    multirun_plan, plain_plan = (
        typed(tmp_path, "plan", *multirun, *words) for multirun in ([option], [])
    )
    assert multirun_plan.exit_code == 0
    assert multirun_plan.stdout == plain_plan.stdout
    for verb in ("train", "table", "config"):
        outcome = typed(tmp_path, verb, option, *words)
        assert outcome.exit_code == 2
        assert "only `plan` and `sweep` take several values" in " ".join(
            outcome.stderr.replace("│", "").split()
        )
    outcome = typed(tmp_path, "sweep", option, "task=small", "model.size=none")
    assert "model.size (command line)" in outcome.stderr
