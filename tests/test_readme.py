"""The documents are true: every command composes, every module says what it is, every link leads
somewhere."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer.main
from composed_rows import composed_row
from faulty_task import undisturbed
from reference_page import reference_page
from sacrebleu.dataset import DATASETS
from written_files import GUIDE, write_files

from sweeps.cli import app
from sweeps.config.tasks import TaskSource, source_of
from sweeps.planning.continuation import plan_row, plan_sweep
from sweeps.planning.study_rows.compose import compose_settings
from sweeps.planning.study_rows.task_choice import library_of
from sweeps.verbs.command import names_and_overrides
from sweeps.verbs.setup import create
from sweeps.verbs.trained.commands import commands as task_verbs
from sweeps.verbs.trained.request import read_request

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
PACKAGES = ("transformer", "sweeps", "tracking", "benchmarks")
PARTS = re.DOTALL | re.MULTILINE
LANGUAGES = ("en", "de")
TEXT_FILES = [
    f"{name}.{language}"
    for name in ("train", "dev", "test", "text/train")
    for language in LANGUAGES
]


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def text(document: str) -> str:
    return (ROOT / document).read_text("utf-8")


def heading_anchors(document: Path) -> list[str]:
    """The anchors that GitHub gives to a document's headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text("utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def commands(document: Path) -> list[str]:
    """Every `allelse …` of a document: in code blocks, also after a pipe, and within sentences and
    tables."""
    content = document.read_text("utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", content, re.DOTALL | re.MULTILINE)
    lines = [
        part.strip()
        for block in blocks
        for line in block.splitlines()
        for part in re.split(r" [|#] ", line)
    ]
    prose = re.sub(r"^```.*?^```", "", content, flags=re.DOTALL | re.MULTILINE)
    return [
        line for line in [*lines, *re.findall(r"`([^`]+)`", prose)] if re.match(r"allelse\s", line)
    ]


GROUP: Any = typer.main.get_command(app)
COMMANDS = sorted({command for document in DOCUMENTS for command in commands(document)})


SACREBLEU_FILES = ("sacrebleu/wmt13.en-de.src", "sacrebleu/wmt13.en-de.ref")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the documents speak of: text files, the user's own files, the
    examples, new tasks."""
    folder = tmp_path_factory.mktemp("reader")
    for example in filter(Path.is_dir, (ROOT / "examples").iterdir()):
        shutil.copytree(
            example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in [*TEXT_FILES, *SACREBLEU_FILES]:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("a line\n" * 20, "utf-8")
    for document in DOCUMENTS:
        write_files(document, folder)
    (folder / "train.py").touch()  # the script of the guide's command
    spiral = folder / "spiral.py"
    with_verb = (
        f'{own_verb()}\n\n@task(Metric("accuracy", better="up", set="test"), verbs=(predict,))'
    )
    decorator = '@task(Metric("accuracy", better="up", set="test"))'
    spiral.write_text(spiral.read_text("utf-8").replace(decorator, with_verb))
    for task in {
        command.split()[2] for command in COMMANDS if re.match(r"allelse init \w+$", command)
    }:
        if not (folder / f"{task}.py").exists():
            create(task, folder)
    return folder


def own_verb() -> str:
    """The code of the guide's verb."""
    (verb,) = re.findall(
        r"^```python\n(from allelse import Trained\n.*?)^```", GUIDE.read_text("utf-8"), PARTS
    )
    return str(verb)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_documents_composes(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(DATASETS["wmt13"], "_outdir", str(folder / "sacrebleu"))
    _, verb, *arguments = shlex.split(re.sub(r"<\w+>", "base-s1", command.split(" < ")[0]))
    if verb.startswith("--"):
        assert verb in {option for param in GROUP.params for option in param.opts}
        return
    task = source_of(
        next((word[5:] for word in arguments if word.startswith("task=")), "translation"),
        Path.cwd(),
    )
    verb_command = GROUP.get_command(typer.Context(GROUP), verb) or task_verbs(task)[verb]
    if arguments:  # a verb alone is mentioned rather than typed
        compose(verb, verb_command.make_context(verb, arguments).params, task)


def compose(verb: str, parsed: dict[str, Any], task: TaskSource) -> None:
    """What the verb does with its arguments before it reads a study or starts anything."""
    typed = parsed.get("overrides") or []
    names_task = any(word.startswith("task=") for word in typed)
    overrides = [*typed, *([] if names_task else [f"task={task.name}"])]  # this folder has several
    if verb in ("plan", "sweep"):
        selects = any(
            word.startswith(("sweep.rows", "sweep.vary", "sweep=", "row=")) for word in typed
        )
        assert plan_sweep(
            [*overrides, *([] if selects else ["sweep.rows=[base]"])], parsed["add"]
        ).trials
    elif verb == "train":
        assert plan_row(overrides, parsed["add"]).trials
    elif verb == "config":
        assert composed_row(overrides).rows
    elif verb == "compare":
        assert len([argument for argument in parsed["arguments"] if "=" not in argument]) == 2
    elif verb == "init":
        suffix = "yaml" if parsed["command_words"] else "py"
        folder = "conf/task/" if parsed["command_words"] else ""
        assert Path(f"{folder}{parsed['name']}.{suffix}").exists()
    elif verb in task_verbs(task):
        texts = ["SENTENCE"] if verb == "attention" else []
        assert read_request(verb, parsed["arguments"], task, texts=texts).names
    else:
        _, typed = names_and_overrides(parsed.get("arguments") or overrides)
        library = library_of(typed, Path.cwd(), trains=False)
        compose_settings(typed, library)  # refuses what is no setting


def test_the_task_of_the_guide_trains_and_resumes(folder: Path, tmp_path: Path) -> None:
    first, again = (
        undisturbed(folder, ["task=spiral", "steps=100"], "base", tmp_path) for _ in range(2)
    )
    assert first.scores["test"]["accuracy"] > 0.6
    assert again.scores == first.scores, "its second attempt starts from the last checkpoint"


def test_the_commands_of_all_blocks_are_found() -> None:
    assert len(commands(ROOT / "README.md")) > 20
    assert "allelse translate base-s1 scale=half data=multi30k" in COMMANDS


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_make_target_exists(document: Path) -> None:
    targets = re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE)
    assert set(
        re.findall(r"(?:`|^)make ([\w-]+)", document.read_text("utf-8"), re.MULTILINE)
    ) <= set(targets)


def test_every_module_says_in_its_first_line_what_it_is() -> None:
    modules = [
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    ]
    silent = [name(path) for path in modules if not re.match(r'r?"""\S', path.read_text("utf-8"))]
    assert silent == []


def test_no_module_has_a_name_for_everything() -> None:
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    nouns = {path.stem.split("_")[-1] for path in modules}
    assert nouns & {"base", "common", "core", "helpers", "misc", "tools", "util", "utils"} == set()


def test_the_reference_follows_from_the_docstrings() -> None:
    assert text("docs/reference.md") == reference_page(), (
        "write it again: python tests/shared/reference_page.py"
    )


def test_the_glossary_is_short() -> None:
    assert 30 < len(re.findall(r"^- \*\*", text("docs/glossary.md"), re.MULTILINE)) <= 60


def test_every_room_stands_in_the_design_and_says_what_it_is() -> None:
    rooms = [
        path.parent for package in PACKAGES[:3] for path in (ROOT / package).rglob("__init__.py")
    ]
    listed_rooms = re.findall(r"^\| `((?:\w+/)+)` +\|", text("docs/design.md"), re.MULTILINE)
    assert sorted(listed_rooms) == sorted(f"{name(room)}/" for room in rooms)
    assert [
        name(room) for room in rooms if not re.match(r'"""\S', (room / "__init__.py").read_text())
    ] == []


def test_every_verb_stands_in_the_table() -> None:
    assert set(GROUP.list_commands(typer.Context(GROUP))) == set(
        re.findall(r"^\| `allelse (\w+)", text("README.md"), re.MULTILINE)
    )


def test_the_index_lists_every_document() -> None:
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\): ", text("docs/index.md"), re.MULTILINE)
    unlisted = {ROOT / "docs/index.md"}
    assert {(ROOT / "docs" / link).resolve() for link in links} == set(DOCUMENTS) - unlisted


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    for file, _, anchor in re.findall(r"\]\(([^)#:]*)(#([^)]+))?\)", document.read_text("utf-8")):
        target = document.parent / file if file else document
        assert target.exists(), file
        assert not anchor or anchor in heading_anchors(target), f"{file}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_lines_are_short_except_in_tables_and_code(document: Path) -> None:
    prose = re.sub(
        r"^\s*```.*?^\s*```", "", document.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    assert [
        line for line in prose.splitlines() if len(line) > 120 and not line.lstrip().startswith("|")
    ] == []
