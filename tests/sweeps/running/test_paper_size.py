"""docs/paper-size.md: its own commands with smaller sizes, and the text of WMT 2014 from a server
on this machine."""

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS
from served_commands import AS_MODULE, run_command
from studies import lines

from examples import copied
from sweeps.planning.continuation import plan_sweep
from sweeps.planning.planned_trial import PlannedTrial

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "paper-size.md"
NUMBERS = ("one", "two", "three", "four", "five", "six")
PLAIN = [
    (f"the {first} dog sees {second} cats", f"der {first} Hund sieht {second} Katzen")
    for first in NUMBERS
    for second in NUMBERS
]
REMOVED = {
    "empty side": ("", "nichts"),
    "unreadable letter": ("a \x07 bell", "eine Glocke"),
    "side without a letter": ("12:30", "halb eins"),
    "identical sides": ("Berlin 1990", "Berlin 1990"),
    "too long": ("so " * 251, "so " * 200 + "nein"),
    "length ratio": ("yes", "ja das ist so"),
}
"""A pair for each rule of the script."""
EUROPARL = ("wmt13/training-parallel-europarl-v7.tgz", "training/europarl-v7.de-en")
CRAWL = ("wmt13/training-parallel-commoncrawl.tgz", "commoncrawl.de-en")
NEWS = ("wmt14/training-parallel-nc-v9.tgz", "training/news-commentary-v9.de-en")
Members = list[tuple[tarfile.TarInfo, bytes]]


def member(name: str, content: bytes = b"", link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    if link:
        info.type = tarfile.SYMTYPE
        info.linkname = link
    return info, content


def text_members(stem: str, pairs: list[tuple[str, str]]) -> Members:
    """The two files of a corpus, German first as at statmt.org."""
    english = "".join(f"{source}\n" for source, _ in pairs)
    german = "".join(f"{target}\n" for _, target in pairs)
    return [member(f"{stem}.de", german.encode()), member(f"{stem}.en", english.encode())]


def write_archive(path: Path, members: Members) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """The folder that the server shows: three archives, with pairs to remove and with files of
    other languages."""
    folder = tmp_path / "served"
    other_files = [
        member("training/europarl-v7.fr-en.en", b"another\n"),
        member("training/README", b"text\n"),
    ]
    write_archive(
        folder / EUROPARL[0],
        [*other_files, *text_members(EUROPARL[1], [*PLAIN, *REMOVED.values()])],
    )
    spaced_pairs = [("  a  big\u00a0dog\r", "ein\tgroßer Hund \u2028 heute")]
    write_archive(folder / CRAWL[0], text_members(CRAWL[1], spaced_pairs * 2))
    write_archive(folder / NEWS[0], text_members(NEWS[1], [REMOVED["empty side"], *PLAIN[:3]]))
    return folder


@pytest.fixture
def url(served: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *words: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The example's folder, as a clone has it."""
    return copied("wmt14", tmp_path / "clone")


def script(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "wmt14.py", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_script_is_a_page() -> None:
    lines = (ROOT / "examples/wmt14/wmt14.py").read_text("utf-8").splitlines()
    assert len(lines) <= 120


def test_the_text_is_downloaded_cleaned_by_counted_rules_and_written_side_by_side(
    place: Path, url: str
) -> None:
    process = script(place, "--url", url)
    assert process.returncode == 0, process.stderr
    english, german = (
        (place / "text" / f"train.{language}").read_text("utf-8") for language in ("en", "de")
    )
    pairs = [
        *PLAIN,
        ("a big dog", "ein großer Hund heute"),
        ("a big dog", "ein großer Hund heute"),
        *PLAIN[:3],
    ]
    assert list(zip(english.split("\n"), german.split("\n"), strict=True)) == [*pairs, ("", "")]
    europarl, crawl, news = re.split(r"^(?=\w)", process.stdout, flags=re.MULTILINE)[1:]
    assert europarl.startswith("europarl-v7: 42 pairs, 36 kept, SHA-256 ")
    assert re.findall(r"^  1 (.+)$", europarl, re.MULTILINE) == list(REMOVED)
    assert crawl.startswith("commoncrawl: 2 pairs, 2 kept, ")
    assert news.startswith("news-commentary-v9: 4 pairs, 3 kept, ")
    assert "  1 empty side\n" in news
    assert {name for name in files_of(place / "text") if not name.startswith("raw/")} == {
        "train.en",
        "train.de",
    }


def test_no_path_of_an_archive_is_written_to(
    place: Path, served: Path, url: str, tmp_path: Path
) -> None:
    escapes = [
        member(name, b"evil\n")
        for name in ("../evil", "training/../../../evil", f"{tmp_path}/evil", "text/train.en")
    ]
    write_archive(served / NEWS[0], [*escapes, *text_members(NEWS[1], PLAIN)])
    files_before = files_of(tmp_path) - files_of(served)
    assert script(place, "--url", url).returncode == 0
    new_files = {
        name for name in files_of(tmp_path) - files_before if not name.startswith("served/")
    }
    raw = {f"clone/text/raw/{Path(archive).name}" for archive, _ in (EUROPARL, CRAWL, NEWS)}
    assert new_files == {"clone/text/train.en", "clone/text/train.de", *raw}
    assert "evil" not in (place / "text/train.en").read_text("utf-8")


def _link(stem: str, folder: Path) -> Members:
    (folder / "secret").write_text("secret\n" * 3)
    return [member(f"{stem}.en", link=str(folder / "secret")), text_members(stem, PLAIN)[0]]


def _uneven(stem: str, folder: Path) -> Members:
    return [text_members(stem, PLAIN)[0], text_members(stem, PLAIN[1:])[1]]


def _not_utf8(stem: str, folder: Path) -> Members:
    return [member(f"{stem}.de", b"gut\n\xe4\n"), member(f"{stem}.en", b"good\na\n")]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (_link, "lacks commoncrawl.de-en.en as a regular file"),
        (_uneven, "differ in length: one ends before line 36"),
        (_not_utf8, "is not UTF-8"),
    ],
)
def test_text_that_is_not_whole_gets_no_name(
    members: Callable[[str, Path], Members], words: str, place: Path, served: Path, url: str
) -> None:
    write_archive(served / CRAWL[0], members(CRAWL[1], place))
    process = script(place, "--url", url)
    assert (process.returncode, process.stdout.count("\ncommoncrawl")) == (1, 0)
    assert words in process.stderr
    assert not {"text/train.en", "text/train.de"} & files_of(place)


@pytest.mark.parametrize("archive", ["cut", "missing"])
def test_an_archive_that_cannot_be_read_is_named(
    archive: str, place: Path, served: Path, url: str
) -> None:
    path = served / EUROPARL[0]
    content = path.read_bytes()
    path.unlink()
    if archive == "cut":
        path.write_bytes(content[: len(content) // 2])
    process = script(place, "--url", url)
    assert process.returncode == 1
    assert "Traceback" not in process.stderr
    if archive == "missing":
        assert "could not be fetched: " in process.stderr
        return
    name = Path(EUROPARL[0]).name
    assert f"{name} cannot be read; delete it to download it again" in process.stderr


SMALLER = {
    "scale=paper": "scale=tiny",
    "cluster=gpu": "cluster=local",
    "sweep.seeds=[1,2,3]": "sweep.seeds=[1]",
    "sweep.base_seeds=[1,2,3,4,5,6,7,8,9]": "sweep.base_seeds=[1,2]",
}
"""By the page's words: what the test types. Nothing else of its commands changes."""
SIZES = [
    *(
        "train.steps=20",
        "train.warmup_steps=10",
        "train.evaluate_every=20",
        "train.checkpoint_every=20",
    ),
    *("data.vocab_size=300", "decode.average_every=20", "sweep.rows=[base,a_heads_1]"),
]


def page_blocks() -> list[list[str]]:
    """The lines of each block of commands on the page."""
    content = DOCUMENT.read_text("utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", content, re.DOTALL | re.MULTILINE)
    return [block.splitlines() for block in blocks]


def page_commands() -> list[str]:
    """The lines of the page's first block."""
    return page_blocks()[0]


def test_the_page_has_five_commands_and_the_test_knows_their_sizes() -> None:
    install, text, plan, sweep, table = page_commands()
    assert install == "make install && . .venv/bin/activate && cd examples/wmt14"
    assert text == "python wmt14.py"
    assert set(SMALLER) <= {word for line in (plan, sweep) for word in shlex.split(line)}
    assert [line.split()[:2] for line in (plan, sweep, table)] == [
        ["allelse", verb] for verb in ("plan", "sweep", "table")
    ]


def smaller(line: str) -> list[str]:
    """The words of a command after ``allelse``, with the sizes of the test."""
    words = [SMALLER.get(word, word) for word in shlex.split(line)[1:]]
    return [*words, *SIZES] if words[0] in ("plan", "sweep") else words


STEP_SECONDS = 0.07422  # of base on the page's H200
STEPS = 100_000
CHECKPOINT_BYTES = 12  # per parameter: the weight and Adam's two moments


@pytest.fixture
def text_of_any_kind(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's folder with a text and a dev set, which a plan needs."""
    monkeypatch.setattr(DATASETS["wmt13"], "_outdir", str(tmp_path))
    (place / "text").mkdir()
    for file in (
        "clone/text/train.en",
        "clone/text/train.de",
        "wmt13.en-de.src",
        "wmt13.en-de.ref",
    ):
        (tmp_path / file).write_text("a line\n" * 20, "utf-8")
    monkeypatch.chdir(place)
    return place


def planned_by(line: str) -> list[PlannedTrial]:
    """The trials of a command on the page."""
    return list(plan_sweep([word for word in shlex.split(line)[2:] if "=" in word]).trials)


def hours_on_the_page(content: str) -> dict[str, str]:
    """By a trial's FLOPs, its hours in the page's table. A line may have several rows."""
    hours: dict[str, str] = {}
    lines = content[content.index("| row | parameters") :].splitlines()[2:]
    for line in lines[: lines.index("")]:
        *_, flops, hours_of_line, _ = line.split("|")
        figures = flops.strip().split("; ")
        hours |= dict(zip(figures, hours_of_line.strip().split("; "), strict=True))
    return hours


@pytest.mark.usefixtures("text_of_any_kind")
def test_the_plan_says_the_numbers_of_the_page() -> None:
    trials = planned_by(page_commands()[3])
    content = DOCUMENT.read_text("utf-8")
    sentences = " ".join(content.split())

    def say(words: str) -> None:
        assert words.replace("e+", "e") in sentences

    flops = {planned.trial.row: planned.costs.flops or 0 for planned in trials}
    assert len(trials) == 66
    flops_of_all = sum(planned.costs.flops or 0 for planned in trials)
    say(f"one seed of all 20 rows takes {sum(flops.values()):.2e} FLOPs")
    say(f"three of every other row, take {flops_of_all:.2e}")
    assert trials[0].trial.row == "base"
    say(f"Base has {(trials[0].costs.params or 0) / 1e6:.3f}M parameters")

    say(f"A step of base takes {STEP_SECONDS * 1000:.1f} ms on one H200")
    hours_per_flop = STEP_SECONDS * STEPS / 3600 / flops["base"]
    hours = hours_on_the_page(content)
    for row, number in flops.items():
        figure = f"{number:.2e}".replace("e+", "e")
        assert hours[figure] == f"{number * hours_per_flop:.1f}", row
    say(f"| 20 rows, one seed | | 2.83e19 | {sum(flops.values()) * hours_per_flop:.0f} |")
    say(f"| 66 trials | | 9.06e19 | {flops_of_all * hours_per_flop:.0f} |")

    gigabytes = {
        planned.trial.row: (planned.task.memory(planned.config, "cuda") or 0) / 1e9
        for planned in trials
    }
    say(f"base needs {gigabytes['base']:.1f} GB")
    say(f"the row with d_model 1024 needs {gigabytes['c_width_1024']:.1f} GB")
    say(f"and big needs {gigabytes['big']:.1f} GB")
    checkpoint = sum(planned.costs.params or 0 for planned in trials) * CHECKPOINT_BYTES / 1e9
    say(f"all trials together take {5 * checkpoint:.0f} GB (computed)")
    say(f"they take {checkpoint:.0f} GB")


@pytest.mark.usefixtures("text_of_any_kind")
def test_two_machines_train_the_trials_of_one() -> None:
    _, _, plan, sweep, table = page_commands()
    nodes = page_blocks()[1]
    address = "cluster=nodes cluster.workers=1 cluster.address=10.77.0.1:6379"
    assert [line.replace(address, "cluster=gpu") for line in nodes] == [plan, sweep, table]
    assert len(planned_by(nodes[1])) == 66


@pytest.mark.ray
@pytest.mark.slow
def test_the_commands_of_the_page_lead_to_the_table(
    place: Path, url: str, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = tmp_path / "sacrebleu" / "wmt13"
    sets.mkdir(parents=True)
    for side, number in (("src", 0), ("ref", 1)):
        (sets / f"wmt13.en-de.{side}").write_text(
            "".join(f"{pair[number]}\n" for pair in PLAIN[:5]), "utf-8"
        )
    monkeypatch.setenv("SACREBLEU", str(sets.parent))
    (place / "runs").mkdir()
    shutil.copy(database, place / "runs")
    _, text, plan, sweep, table = page_commands()
    assert script(place, *shlex.split(text)[2:], "--url", url).returncode == 0
    printed = {}
    for line in (plan, sweep, table):
        process = run_command([*AS_MODULE, *smaller(line)], place)
        assert process.returncode == 0, process.stderr
        printed[shlex.split(line)[1]] = " ".join(process.stdout.split())
    assert "Locked 3 trials of 2 rows; ppl, bleu_paper on dev: " in printed["plan"]
    assert "Follows its lock of " in printed["table"]
    assert "BLEU paper" in printed["table"]
    (study,) = (place / "runs").glob("files-*")
    scores = json.loads((study / "base-s1" / "result.json").read_text("utf-8"))["scores"]
    assert list(scores) == ["dev"]
    assert (study / "base-s1/hypotheses/dev.txt").read_text("utf-8").count("\n") == 5
    assert lines(study / "base-s2" / "journal.jsonl")
