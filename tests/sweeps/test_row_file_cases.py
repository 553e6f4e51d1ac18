"""What a user's own YAML files may get wrong: one refusal each, with its line, what is allowed and the fix."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from ablate_in_folder import own, own_row
from typed import refusal, typed

HEAD = "# @package _global_\n"
ABOUT = "row: {group: mine, change: mine}\n"
SWEEP = "sweep.rows=[base,mine]"
ROW = "conf/row/mine.yaml"

# what stands below the header and `row:` (lines 1 and 2); the key or name, its line, and words of the message
BODIES: list[tuple[str, str, int, list[str]]] = [
    ("model:\n\td_ff: 3\n", "mine", 4, ["has a tab", "indent with spaces"]),
    ("model: {d_ff: \n", "mine", 4, ["must be valid YAML"]),
    ("model: {d_ff: 8, d_ff: 16}\n", "model.d_ff", 3, ["is given twice, first in line 3", "keep one"]),
    ("model: {d_ff: 8}\nmodel: {d_k: 8}\n", "model", 4, ["is given twice, first in line 3"]),
    ("model: {d_ff: !!python/object/apply:os.system ['true']}\n", "mine", 3, ["has the tag !!python/object", "remove"]),
    ("model: {d_ff: !mine 8}\n", "mine", 3, ["has the tag !mine"]),
    ('model: {d_ff: !!int "8"}\n', "mine", 3, ["has the tag !!int"]),
    ("model: &m {d_ff: 8}\ntrain: *m\n", "mine", 4, ["repeats a group by *m", "write its values out"]),
    ("model: &m {d_ff: *m}\n", "mine", 3, ["repeats a group by *m"]),
    ("model: {<<: {d_ff: 8}}\n", "model", 3, ["takes keys by <<", "write the keys out"]),
    ("---\nmodel: {d_ff: 8}\n", "mine", 3, ["holds a second document", "one document per file"]),
    ("defaults: [big]\n", "defaults", 3, ["is not supported in conf/row/", "write the values"]),
    ("model.d_ff: 8\n", "model.d_ff", 3, ["has a dot", "write model: {d_ff: 8}"]),
    ("model: {8: 16}\n", "model", 3, ["has 8 as a key", "keys must be words"]),
    ("model: {? [a] : 16}\n", "model", 3, ["has a list or group as a key"]),
    ("model:\n  d_ff: ???\n", "model.d_ff", 4, ["is ???", "give a value"]),
    ("model: {d_ff: ???}\n", "mine", 3, ["has ???", "give a value"]),
    ("model: {d_ff: 010}\n", "model.d_ff", 3, ["is 010, which YAML reads as 8", "write 8"]),
    ("model: {d_ff: 1:30}\n", "model.d_ff", 3, ["is 1:30, which YAML reads as 90"]),
    ("data: {source: no}\n", "data.source", 3, ["is no, which YAML reads as false", 'write "no" in quotes']),
    ("model: {attention_bias: 1}\n", "model.attention_bias", 3, ["true or false", "did you mean true?"]),
    ("model: {d_ff: 2k}\n", "model.d_ff", 3, ['is "2k"', "did you mean 2000?"]),
    ("model: {d_ff: 2e3}\n", "model.d_ff", 3, ["is 2000.0", "did you mean 2000?"]),
    ("model: {dropout: 0.3}\n", "model.dropout", 3, ["is not a key", "did you mean model.p_drop?"]),
    ("model: {D_FF: 8}\n", "model.D_FF", 3, ["is not a key", "did you mean model.d_ff?"]),
    ("train: {lr: 0.3}\n", "train.lr", 3, ["is not a key", "did you mean train.lr_factor?"]),
    ("train: {precision: BF16}\n", "train.precision", 3, ["did you mean bf16?"]),
    ("modell: {d_ff: 8}\n", "modell", 3, ["is not a key", "did you mean model?"]),
    ("optimizer: {beta: 0.9}\n", "optimizer", 3, ["is not a key", "keys are row, scale, model"]),
    ("model: 8\n", "model", 3, ["must be a group of keys"]),
    ("model: {d_ff: '${model.nope}'}\n", "model.d_ff", 3, ["'model.nope' not found", "a key that exists"]),
    ("model: {d_ff: '${model.d_ff}'}\n", "model.d_ff", 3, ["cannot be resolved"]),
    ("model: {d_ff: '${'}\n", "model.d_ff", 3, ["cannot be resolved", "${group.key}"]),
    ("scale: {width: 2}\n", "scale.width", 3, ["is set by row mine", "scale=NAME"]),
    ("train: {seed: 1}\n", "train.seed", 3, ["is set by a row", "sweep.seeds=[1,2,3]"]),
    ("decode: {beam: 8}\n", "decode.beam", 3, ["same model as base", "ablate evaluate base-s1 decode.beam=8"]),
    ("model: {d_model: 512}\n", "mine", 1, ["same model as base: it changes nothing", "set a key"]),
    ("train: {steps: 200000}\n", "mine", 3, ["changes only train.steps", "choose another scale"]),
    ("model: {d_ff: 0x}\n", "model.d_ff", 3, ['is "0x"', "must be a whole number"]),
    (f"model: {{d_ff: 1{'0' * 5000}}}\n", "row mine", 0, ["cannot be read"]),
    ("model: {d_ff: \x07}\n", "mine", 3, ["has the character #x0007"]),
]

# the whole file
FILES: list[tuple[bytes, str, int, list[str]]] = [
    (b"", "mine", 1, ["is empty", "such as row: {group: mine"]),
    (b"# @package _global_\n", "mine", 1, ["is empty"]),
    (b"big\n", "mine", 1, ['is only "big"', "must set keys"]),
    (b"- a\n- b\n", "mine", 1, ["is a list", "must set keys"]),
    ((ABOUT + "model: {d_ff: 8}\n").encode(), "mine", 1, ['lacks "# @package _global_"', "must begin with that line"]),
    (("# @package model\n" + ABOUT).encode(), "mine", 1, ['lacks "# @package _global_"']),
    ((HEAD + "model: {d_ff: 8}\n").encode(), "row", 1, ["is missing", "row: {group: mine"]),
    ((HEAD + "row: {change: mine}\nmodel: {d_ff: 8}\n").encode(), "row.group", 2, ["is missing", "row: {group: mine"]),
    ((HEAD + "row: mine\nmodel: {d_ff: 8}\n").encode(), "row", 2, ["must be a group of keys"]),
    (
        (HEAD + "row: {group: mine, chnge: x}\nmodel: {d_ff: 8}\n").encode(),
        "row.chnge",
        2,
        ["did you mean row.change?"],
    ),
    ((HEAD + "row: {group: mine, change: 16}\nmodel: {d_ff: 8}\n").encode(), "row.change", 2, ['did you mean "16"?']),
    ((HEAD + ABOUT + "model: {d_ff: 8} # ä\n").encode("latin-1"), "mine", 3, ["is not UTF-8", "save it as UTF-8"]),
    ((HEAD + ABOUT).encode("utf-16"), "mine", 1, ["is UTF-16", "save it as UTF-8"]),
    (b"[" * 5000, "mine", 0, ["nested too deeply"]),
    (b"#" * 1_000_001, "mine", 0, ["has 1000001 bytes", "at most 1000000 bytes"]),
]


@pytest.mark.parametrize(("body", "key", "line", "words"), BODIES, ids=[repr(case[0])[:40] for case in BODIES])
def test_a_row_is_refused_with_its_line(tmp_path: Path, body: str, key: str, line: int, words: list[str]) -> None:
    own(tmp_path, "row/mine", HEAD + ABOUT + body)
    expect(refusal(tmp_path, "plan", SWEEP), key, f"{ROW}:{line}" if line else ROW, words)


@pytest.mark.parametrize(("content", "key", "line", "words"), FILES, ids=[repr(case[0])[:40] for case in FILES])
def test_a_file_is_refused_with_its_line(tmp_path: Path, content: bytes, key: str, line: int, words: list[str]) -> None:
    own(tmp_path, "row/mine", "").write_bytes(content)
    expect(refusal(tmp_path, "plan", SWEEP), key, f"{ROW}:{line}" if line else ROW, words)


def expect(message: str, key: str, place: str, words: list[str]) -> None:
    """One reason, in the form "key (place) …"."""
    assert message.startswith(f"Refused, for 1 reason: {key} ({place}) "), message
    assert [word for word in words if word not in message] == [], message
    assert message.endswith("Nothing was started.")


def as_folder(path: Path) -> None:
    path.mkdir()


def as_socket(path: Path) -> None:
    short = Path(f"/tmp/ablate-{os.getpid()}.sock")  # the path of a socket is at most 107 characters long
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(short))
    short.rename(path)


NO_FILES: list[tuple[Callable[[Path], None], str]] = [
    (as_folder, "is a folder"),
    (lambda path: os.mkfifo(path), "is a pipe"),
    (lambda path: path.symlink_to("nowhere.yaml"), "is a link to nowhere.yaml, which cannot be opened"),
    (lambda path: path.symlink_to(path.name), "is a link to mine.yaml, which cannot be opened"),
    (lambda path: path.symlink_to("/dev/zero"), "is a device or a socket"),
    (as_socket, "is a device or a socket"),
]


@pytest.mark.parametrize(("make", "found"), NO_FILES, ids=[case[1] for case in NO_FILES])
@pytest.mark.parametrize(("group", "overrides"), [("row", [SWEEP]), ("data", ["data=mine"]), ("scale", ["scale=mine"])])
def test_what_is_no_file_is_named(
    tmp_path: Path, make: Callable[[Path], None], found: str, group: str, overrides: list[str]
) -> None:
    (tmp_path / "conf" / group).mkdir(parents=True)
    make(tmp_path / "conf" / group / "mine.yaml")
    expect(refusal(tmp_path, "plan", *overrides), "mine", f"conf/{group}/mine.yaml", [found, "must be a YAML file"])
    assert typed(tmp_path, "plan", "sweep.rows=[base]").exit_code == 0, "nobody selected it"


@pytest.mark.parametrize(
    ("place", "overrides", "key"),
    [
        ("conf/row/mine.yml", [SWEEP], "sweep.rows"),
        ("conf/row/mine.YAML", [SWEEP], "sweep.rows"),
        ("conf/row/Mine.yaml", [SWEEP], "sweep.rows"),
        ("conf/rows/mine.yaml", [SWEEP], "sweep.rows"),
        ("row/mine.yaml", [SWEEP], "sweep.rows"),
        ("mine.yaml", [SWEEP], "sweep.rows"),
        ("conf/mine.yaml", [SWEEP], "sweep.rows"),
        ("conf/data/mine.yml", ["data=mine"], "data"),
        ("conf/scale/mine.yml", ["scale=mine"], "scale"),
    ],
)
def test_a_file_with_another_name_is_found(tmp_path: Path, place: str, overrides: list[str], key: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + ABOUT + "model: {d_ff: 512}\n", "utf-8")
    group = "row" if key == "sweep.rows" else key
    words = [f"its file is {place}", f"rename it to conf/{group}/mine.yaml"]
    expect(refusal(tmp_path, "plan", *overrides), key, "command line", words)


@pytest.mark.parametrize(
    ("name", "text", "override", "key", "line", "words"),
    [
        ("data/mine", "name: [\n", "data=mine", "mine", 2, ["must be valid YAML"]),
        ("data/mine", "# @package _global_\nname: files\n", "data=mine", "mine", 1, ["remove that line"]),
        ("data/mine", "name: files\nname: synthetic\n", "data=mine", "data.name", 2, ["is given twice"]),
        ("data/mine", "defaults: [files]\n", "data=mine", "defaults", 1, ["is not supported"]),
        ("cluster/mine", "gpu\n", "cluster=mine", "mine", 1, ['is only "gpu"']),
        ("sweep/mine", "", "sweep=mine", "mine", 1, ["is empty"]),
        ("train/mine", "steps: 010\n", "train=mine", "train.steps", 1, ["which YAML reads as 8"]),
        ("scale/mine", "scale: {width: 2}\n", "scale=mine", "mine", 1, ['lacks "# @package _global_"']),
    ],
)
def test_files_of_other_groups_are_checked_alike(
    tmp_path: Path, name: str, text: str, override: str, key: str, line: int, words: list[str]
) -> None:
    own(tmp_path, name, text)
    message = refusal(tmp_path, "plan", override)
    assert f"{key} (conf/{name}.yaml:{line}) " in message
    assert [word for word in words if word not in message] == [], message


GOOD: list[bytes] = [
    b"\xef\xbb\xbf" + (HEAD + ABOUT + "model: {d_ff: 512}\n").encode(),
    ("# Copyright\n# License: MIT\n\n" + HEAD + ABOUT + "model: {d_ff: 512}\n").encode(),
    (HEAD + "---\n" + ABOUT + "model: {d_ff: 512}\n").encode(),
    (HEAD + ABOUT + "model: {d_ff: &wide 512}\n").encode(),
    (HEAD + ABOUT + "model: {d_ff: 0x200}\n").encode(),
    (HEAD + ABOUT + "model: {d_ff: 5_12, attention_bias: no}\n").encode(),
    (HEAD + ABOUT + "model: {d_ff: 512}\n").replace("\n", "\r\n").encode(),
]


@pytest.mark.parametrize("content", GOOD, ids=[repr(content)[:40] for content in GOOD])
def test_a_file_whose_meaning_is_clear_is_read(tmp_path: Path, content: bytes) -> None:
    own(tmp_path, "row/mine", "").write_bytes(content)
    assert "d_ff 64" in typed(tmp_path, "plan", SWEEP).stdout


def test_files_that_nobody_selected_stop_nothing(tmp_path: Path) -> None:
    own(tmp_path, "config", "defaults: [db: mysql]\nserver: {port: [\n")
    own(tmp_path, "db/mysql", "driver: {\n")
    own(tmp_path, "data/other", "!!python/none\n")
    own_row(tmp_path, "model: {", "broken")
    own(tmp_path, "scale/half", "# another program's\n")
    done = typed(tmp_path, "plan", "sweep.rows=[base,big]")
    assert done.exit_code == 0, done.stderr
    assert "conf/config.yaml is not read" in " ".join(done.stdout.split())
    assert "scale/half.yaml (conf/scale/half.yaml) shadows" in refusal(tmp_path, "plan", "scale=half")


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    own(tmp_path, "row/mine", HEAD + "model: {d_ff: 010, d_k: 1:30, n_heads: many, dropout: 1}\ntrain: {seed: 2}\n")
    message = refusal(tmp_path, "plan", SWEEP)
    assert "for 6 reasons" in message, message
    for key in ("row", "model.d_ff", "model.d_k", "model.n_heads", "model.dropout", "train.seed"):
        assert f" {key} ({ROW}:" in message
