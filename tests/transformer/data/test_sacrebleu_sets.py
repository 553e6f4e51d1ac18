"""Dev and test sets by sacreBLEU's names, in the place of files."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS, base
from small_trials import SMALL, files_data, prepared_text, small_trial

from sweeps.task import RefusedError
from transformer.config import DataConfig, PositionKind
from transformer.decoding.evaluation import EvaluationSet
from transformer.faults import Fault, FaultyError
from transformer.task import TRANSLATION, fingerprint

ENGLISH = [
    f"the {size} dog sees a man and number {n}" for n in range(10) for size in ("small", "big")
]
GERMAN = [
    f"der {size} Hund sieht einen Mann und Nummer {n}"
    for n in range(10)
    for size in ("kleine", "große")
]
DEV_SOURCE = "A dog sees a man.\nTwo\u2028dogs.\n"
DEV_TARGET = "Ein Hund sieht einen Mann.\nZwei Hunde.\n"


@pytest.fixture(autouse=True)
def sacrebleu_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sacreBLEU's own folder, which holds wmt13; no other set can be downloaded."""
    folder = tmp_path / "sacrebleu"
    for name in ("wmt13", "wmt14/full"):
        monkeypatch.setattr(DATASETS[name], "_outdir", str(folder / name))
        monkeypatch.setattr(DATASETS[name], "_rawdir", str(folder / name / "raw"))

    def unreachable(url: str, *_: object, **__: object) -> None:
        raise OSError(f"no way to {url}")

    monkeypatch.setattr(base, "download_file", unreachable)
    (folder / "wmt13").mkdir(parents=True)
    (folder / "wmt13/wmt13.en-de.src").write_text(DEV_SOURCE, "utf-8")
    (folder / "wmt13/wmt13.en-de.ref").write_text(DEV_TARGET, "utf-8")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> DataConfig:
    """Files to train on, sacreBLEU's wmt13 as dev, and no test set."""
    files = files_data(tmp_path, 310, train=(ENGLISH, GERMAN), dev=([], []), test=([], []))
    return replace(files, dev=["sacrebleu:wmt13"], test=None)


def test_dev_is_read_from_sacrebleu_and_test_may_be_missing(
    data: DataConfig, tmp_path: Path
) -> None:
    config = small_trial(data)
    assert list(config.problems()) == []
    prepared = prepared_text(config.data, tmp_path)
    assert prepared.evaluation_sets == ["dev"]
    assert prepared.sources("dev") == DEV_SOURCE.split("\n")[:-1]
    assert prepared.references("dev") == DEV_TARGET.split("\n")[:-1]
    assert len(prepared.pairs("train")) == len(ENGLISH)


def test_a_set_by_name_has_the_fingerprint_of_its_files(
    data: DataConfig, sacrebleu_folder: Path
) -> None:
    files = [str(sacrebleu_folder / f"wmt13/wmt13.en-de.{side}") for side in ("src", "ref")]
    assert fingerprint(data) == fingerprint(replace(data, dev=files))
    assert fingerprint(data) != fingerprint(replace(data, test=["sacrebleu:wmt13"]))
    old_fingerprint = fingerprint(data)
    Path(files[1]).write_text(DEV_TARGET.replace("Hund", "Wolf"), "utf-8")
    assert fingerprint(data) != old_fingerprint


def test_a_name_is_no_path(data: DataConfig, tmp_path: Path) -> None:
    assert TRANSLATION.resolved(small_trial(data), tmp_path).data.dev == ["sacrebleu:wmt13"]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (
            {"dev": ["sacrebleu:wtm13"]},
            'data.dev sacreBLEU has no set "wtm13" must be a test set of sacreBLEU, '
            "such as wmt13 or wmt14/full "
            "did you mean data.dev=[sacrebleu:wmt13]?",
        ),
        (
            {"test": ["sacrebleu:WMT14/ful"]},
            (
                'data.test sacreBLEU has no set "WMT14/ful" … did you mean '
                "data.test=[sacrebleu:wmt14/full]?"
            ),
        ),
        (
            {"target": "letters"},
            "data.dev wmt13 has no en-letters wmt13 has … en-de, … data.source and data.target",
        ),
        (
            {"test": ["sacrebleu:wmt14/full"]},
            "data.test wmt14/full cannot be fetched: no way to … or be in … as wmt14",
        ),
    ],
)
def test_a_set_that_is_not_there_is_refused_when_a_plan_is_made(
    data: DataConfig, changes: dict[str, list[str]], refusal: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        fingerprint(replace(data, **changes))  # type: ignore[arg-type]
    (problem,) = caught.value.problems
    nearest = f"did you mean {problem.suggestion}?" if problem.suggestion else ""
    message = f"{problem.key} {problem.found} {problem.allowed} {nearest}".strip()
    assert re.fullmatch(".*".join(map(re.escape, refusal.split("…"))) + ".*", message), message


def test_a_download_that_is_not_the_set_stays_nowhere(
    data: DataConfig, sacrebleu_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sacreBLEU keeps it, exits, and would take it for the set from then on."""

    def page(url: str, archive: str, **_: object) -> None:
        Path(archive).parent.mkdir(parents=True, exist_ok=True)
        Path(archive).write_text("<html>Log in</html>", "utf-8")
        raise SystemExit(1)

    monkeypatch.setattr(base, "download_file", page)
    for _ in range(2):
        with pytest.raises(RefusedError) as caught:
            fingerprint(replace(data, test=["sacrebleu:wmt14/full"]))
        (problem,) = caught.value.problems
        assert "its download is not the file that sacreBLEU expects" in str(problem.found)
        assert not list((sacrebleu_folder / "wmt14/full").rglob("*.tgz"))


def test_a_wrong_name_shows_without_a_download(data: DataConfig) -> None:
    for name, keys in (("wmt14/full", []), ("wmt14/ful", ["data.test"])):
        config = small_trial(replace(data, test=[f"sacrebleu:{name}"]))
        assert [problem.key for problem in TRANSLATION.data_problems(config, None)] == keys


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"train": ["sacrebleu:wmt13"]}, ["data.train"]),
        ({"train": None, "dev": None}, ["data.train", "data.dev"]),
        ({"dev": ["wmt13"], "test": ["sacrebleu:wmt13", "sacrebleu:wmt14"]}, ["data.dev"]),
        ({"dev": [], "test": []}, ["data.dev", "data.test"]),
    ],
)
def test_a_split_has_two_files_or_one_set(
    data: DataConfig, changes: dict[str, list[str] | None], keys: list[str]
) -> None:
    config = small_trial(replace(data, **changes))  # type: ignore[arg-type]
    assert [problem.key for problem in config.problems()] == keys


def test_a_sentence_of_a_set_that_is_too_long_is_named_by_set_and_line(
    data: DataConfig, tmp_path: Path
) -> None:
    prepared = prepared_text(data, tmp_path)
    longest = int(prepared.pairs("dev").longest_sides.max())
    config = small_trial(data, replace(SMALL, max_positions=longest - 1, positions="learned"))
    faults = [problem.found for problem in TRANSLATION.data_problems(config, prepared.folder)]
    assert f"is {longest - 1}; sacrebleu:wmt13:1 has {longest} pieces" in faults


@pytest.mark.parametrize(
    ("positions", "refused", "taken", "allowed"),
    [
        ("learned", 30, 64, "must fit into the 30 learned positions of the model"),
        ("sinusoids", 4, 8, "must have at most 32 pieces"),
    ],
)
def test_a_set_to_evaluate_is_refused_if_attention_would_need_too_much_memory(
    data: DataConfig,
    tmp_path: Path,
    sacrebleu_folder: Path,
    positions: PositionKind,
    refused: int,
    taken: int,
    allowed: str,
) -> None:
    vocabulary = prepared_text(data, tmp_path).vocabulary
    long = f"Two{' dogs' * 9}.\n"
    (sacrebleu_folder / "wmt13/wmt13.en-de.src").write_text(f"A dog sees a man.\n{long}", "utf-8")

    def evaluation_set(max_positions: int) -> EvaluationSet:
        model = replace(SMALL, max_positions=max_positions, positions=positions)
        return EvaluationSet.of_sacrebleu("wmt13", vocabulary, small_trial(data, model))

    longest = int(evaluation_set(taken).pairs.longest_sides.max())
    with pytest.raises(FaultyError) as caught:
        evaluation_set(refused)
    assert list(caught.value.faults) == [Fault("--set", f"wmt13:2 has {longest} pieces", allowed)]
