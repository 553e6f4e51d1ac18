"""What one may get wrong in a task of one's own: one refusal each, with the file and the line, and nothing left."""

import re
from pathlib import Path

import pytest
from allelse_in_folder import contents
from small_task import BASE, HEAD, ROW, write_task
from typed import refusal, typed

FOREIGN = re.compile(r"d_model|n_heads|beam|decode|bleu|ppl|16 heads|tiny|data=", re.IGNORECASE)
FILE = "conf/task/small/base.yaml"
CONFIG = "@dataclass(frozen=True)\nclass Config:"

# the value of task=, the place, and words of the message
REFERENCES: list[tuple[str, str, list[str]]] = [
    ("smal", "command line", ["no module smal here", "known: translation, small", "did you mean task=small?"]),
    ("small.py", "command line", ['is "small.py"', "MODULE:ATTRIBUTE", "did you mean task=small?"]),
    ("null", "command line", ["is null", "must be a string"]),
    ("small:taks", "command line", ["small has no taks", "did you mean task=small:task?"]),
    ("small:Config", "command line", ["whose Config is not an allelse.Task", "did you mean task=small:task?"]),
]

# what is replaced in the source, the place, and words of the message
SOURCES: list[tuple[dict[str, str], str, list[str]]] = [
    ({CONFIG: f"1 / 0\n{CONFIG}"}, "small.py:24", ["ZeroDivisionError: division by zero"]),
    ({"    model: Model\n": "    model: Modell\n"}, "small.py:26", ["NameError: name 'Modell' is not defined"]),
    ({", steps=lambda config: config.train.steps": ""}, "small.py:43", ["missing 1 required", "'steps'"]),
    ({"task = Task(": "task = dict(a=Task); Task("}, "command line", ["whose task is not an allelse.Task"]),
    ({CONFIG: "@dataclass\nclass Config:"}, "small.py", ["its schema Config", "frozen"]),
    ({"    train: Train\n": "    train: Train\n    size: int\n"}, "small.py", ["its group size, which is int"]),
    ({"    train: Train\n": "    train: Train\n    paths: Train\n"}, "small.py", ["paths", "belongs to the platform"]),
    ({"    steps: A": "    inner: Model\n    steps: A"}, "small.py", ["must hold keys alone, not the group inner"]),
    ({'Literal["round", "square"]': "object"}, "small.py", ["its key model.kind, which is object", "list[…]"]),
    ({'"score"),)': '"score"), Metric("score"))'}, "small.py", ["2 of its metrics have the name score"]),
    ({'(Metric("score"),)': "()"}, "small.py", ["must have a metric for the table"]),
    ({'(Metric("score"),)': '[Metric("score")]'}, "small.py", ["must be a tuple of Metric"]),
    ({'Task("small"': 'Task("translation"'}, "small.py", ["its name translation is taken"]),
    ({'Task("small"': 'Task("../small"'}, "small.py", ["must have a plain name"]),
    ({'"small", 1': '"small", 0'}, "small.py", ["its version 0 must be a whole number of at least 1"]),
    ({"work=work": "work=3"}, "small.py", ["its work must be a function"]),
    ({"config.train.steps,": "config.train.stepps,"}, "small.py:43", ["whose steps fails: AttributeError"]),
    ({"lambda config: config.train.steps": "lambda config: None"}, "", ["whose steps returns None", "whole number"]),
    ({"work=work": "work=work, costs=lambda config: 3"}, "", ["whose costs returns 3", "must return Costs"]),
    ({"work=work": "work=work, problems=lambda config: [3]"}, "", ["whose problems returns [3]", "each Problem"]),
]

# base.yaml, the key, the place, and words of the message
BASES: list[tuple[str | None, str, str, list[str]]] = [
    (None, "base", "", ["is missing: there is no conf/task/small/base.yaml", "the keys of model, train"]),
    ("model: {size: 8\n", "base", f"{FILE}:2", ["is not plain YAML"]),
    (BASE.replace("  every: 2\n", ""), "train.every", f"{FILE}:2", ["is missing", "must be given"]),
    (BASE + "  epochs: 3\n", "train.epochs", f"{FILE}:7", ["did you mean train.steps?"]),
    (BASE + "  alpha: 3\n", "train.alpha", f"{FILE}:7", ["keys under train are steps, rate, every, cut"]),
    (BASE + "data: {name: x}\n", "data", f"{FILE}:7", ["is not a key"]),
    (BASE + "sweep: {seeds: [1]}\n", "sweep", f"{FILE}:7", ["base sets only model, train"]),
    (BASE + "scale: {size: 1}\n", "scale", f"{FILE}:7", ["base sets only model, train"]),
    (BASE.replace("round", "rond"), "model.kind", f"{FILE}:1", ["did you mean round?"]),
    (BASE.replace("0.5", "010", 1), "train.rate", f"{FILE}:4", ["which YAML reads as 8"]),
]

# base.yaml, and words of the two reasons that one mistake has
TWO_REASONS: list[tuple[str, list[str]]] = [
    (
        BASE.replace("  every: 2\n", "  evry: 2\n"),
        [f"train.evry ({FILE}:5) is not a key", "did you mean train.every?", f"train.every ({FILE}:2) is missing"],
    ),
    (
        BASE.replace("train:", "trian:"),
        [f"trian ({FILE}:2) is not a key", "did you mean train?", f"train ({FILE}:1) is missing"],
    ),
    (BASE.replace("model: {size: 8, kind: round}", "model: 3"), [f"model ({FILE}:1) is 3 must be a group of keys"]),
]

# overrides
TYPED: list[tuple[list[str], str, list[str]]] = [
    (["model.sise=8"], "model.sise", ["keys under model are size, kind", "did you mean model.size?"]),
    (["scale=tiny"], "scale", ["must be one of full"]),
    (["scale.size=3"], "scale.size", ["must divide model.size, which is 8"]),
    (["seed=3"], "seed", ["did you mean sweep.seeds?"]),
]

# the file of a row
ROWS: list[tuple[str, str, int | None, list[str]]] = [
    (ROW + "train: {rat: 3}\n", "train.rat", 3, ["did you mean train.rate?"]),
    (ROW + "paths: {runs: x}\n", "paths", 3, ["a row sets only row, model, train"]),
    ("row: {group: A}\nmodel: {kind: round}\n", "sweep.rows", None, ["lists square and base", "what decides training"]),
    ("row: {group: A}\ntrain: {cut: 0.7}\n", "sweep.rows", None, ["square and base, which would train the same model"]),
    ("model: {kind: square}\n", "row", 0, ["is missing", "must be given"]),
    ("row: {group: A, published: {bleu: 3}}\nmodel: {size: 2}\n", "row.published.bleu", 1, ["are score, params_m"]),
]


def refused(folder: Path, *words: str) -> str:
    """The one reason of a refused plan, which leaves nothing and offers no key of another task."""
    before = [path for path in contents(folder) if "__pycache__" not in path]
    message = refusal(folder, *words)
    assert message.startswith("Refused, for 1 reason: "), message
    assert message.endswith("Nothing was started."), message
    assert [path for path in contents(folder) if "__pycache__" not in path] == before
    said = message.removeprefix("Refused, for 1 reason: ").partition(" ")[2]
    assert not FOREIGN.search(re.sub(r'is "[^"]*"', "", said)), message
    return message


def expect(message: str, key: str, place: str, words: list[str]) -> None:
    head = f"Refused, for 1 reason: {key} ({place}) " if place else f"Refused, for 1 reason: {key} "
    assert message.startswith(head), message
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize(("name", "place", "words"), REFERENCES, ids=[repr(case[0]) for case in REFERENCES])
def test_a_wrong_reference(tmp_path: Path, name: str, place: str, words: list[str]) -> None:
    expect(refused(write_task(tmp_path), "plan", f"task={name}"), "task", place, words)


@pytest.mark.parametrize(("replaced", "place", "words"), SOURCES, ids=[repr(case[0])[:60] for case in SOURCES])
def test_a_wrong_file(tmp_path: Path, replaced: dict[str, str], place: str, words: list[str]) -> None:
    expect(refused(write_task(tmp_path, replaced), "plan", "task=small"), "task", place, words)


@pytest.mark.parametrize(("text", "key", "place", "words"), BASES, ids=[repr(case[0])[-50:] for case in BASES])
def test_a_wrong_base(tmp_path: Path, text: str | None, key: str, place: str, words: list[str]) -> None:
    write_task(tmp_path, files={FILE: text or ""})
    if text is None:
        (tmp_path / FILE).unlink()
    expect(refused(tmp_path, "plan", "task=small"), key, place, words)


@pytest.mark.parametrize(("text", "words"), TWO_REASONS, ids=[repr(case[0])[-50:] for case in TWO_REASONS])
def test_a_wrong_base_with_two_reasons(tmp_path: Path, text: str, words: list[str]) -> None:
    message = refusal(write_task(tmp_path, files={FILE: text}), "plan", "task=small")
    assert message.startswith("Refused, for 2 reasons: "), message
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize(("words", "key", "said"), TYPED, ids=[repr(case[0]) for case in TYPED])
def test_a_wrong_override(tmp_path: Path, words: list[str], key: str, said: list[str]) -> None:
    expect(refused(write_task(tmp_path), "plan", "task=small", *words), key, "command line", said)


@pytest.mark.parametrize(("text", "key", "line", "words"), ROWS, ids=[repr(case[0])[-50:] for case in ROWS])
def test_a_wrong_row(tmp_path: Path, text: str, key: str, line: int | None, words: list[str]) -> None:
    row = "conf/task/small/row/square.yaml"
    write_task(tmp_path, files={row: HEAD + text.removeprefix(HEAD)})
    expect(
        refused(tmp_path, "plan", "task=small", "sweep.rows=[base,square]"),
        key,
        row if line is None else f"{row}:{line + 1}",
        words,
    )


def test_the_help_of_a_broken_task_is_its_refusal(tmp_path: Path) -> None:
    write_task(tmp_path, {CONFIG: f"1 / 0\n{CONFIG}"})
    expect(refusal(tmp_path, "--help", "task=small"), "task", "small.py:24", ["ZeroDivisionError: division by zero"])


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    write_task(tmp_path, {'"small", 1': '"small", 0', '(Metric("score"),)': "()", "work=work": "work=3"})
    assert "for 3 reasons" in refusal(tmp_path, "plan", "task=small")
    write_task(tmp_path, files={FILE: BASE.replace("  every: 2\n", "").replace("size: 8", "size: 0")})
    message = refusal(tmp_path, "plan", "task=small:task", "train.rat=1")
    assert "for 3 reasons" in message, message


def test_a_trial_takes_one_seed(tmp_path: Path) -> None:
    message = refused(write_task(tmp_path), "train", "task=small", "sweep.seeds=[1,2]")
    expect(message, "sweep.seeds", "command line", ["use row=NAME and sweep.seeds=[N]"])


def test_two_rows_with_one_key_are_refused(tmp_path: Path) -> None:
    write_task(tmp_path, files={"conf/task/small/row/twin.yaml": ROW})
    expect(refused(tmp_path, "plan", "task=small"), "sweep.rows", "", ["lists twin and square", "the same model"])


@pytest.mark.parametrize(
    ("costs", "note"),
    [("", ""), ("params=3", "params are computed"), ("params=3, flops=4.0", "params and FLOPs are computed")],
)
def test_the_task_that_is_right_is_planned(tmp_path: Path, costs: str, note: str) -> None:
    replaced = {"work=work": f"work=work, costs=lambda config: Costs({costs})"}
    done = typed(write_task(tmp_path, replaced), "plan", "task=small")
    assert done.exit_code == 0, done.output
    assert ("unknown" in done.stdout) == ("flops" not in costs)
    assert re.findall(r"^.*are computed", done.stdout, re.MULTILINE) == [note] * bool(note)
    assert done.stdout.rstrip().endswith("Next: allelse sweep task=small")
