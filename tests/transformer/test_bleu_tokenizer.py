"""The tokenizer of BLEU: what sacreBLEU offers, what it needs, and whether it fits the script of
the target."""

import importlib.util
from pathlib import Path
from typing import get_args

import pytest
import sacrebleu
from sacrebleu import utils
from small_trials import SYNTHETIC, small_trial

from transformer.bleu_tokenizer import BleuTokenizer, misfit
from transformer.config import DataConfig
from transformer.decoding import tokenizer as module
from transformer.task import fingerprint

OLD_NAMES = {"spm"}  # sacreBLEU may remove it


def test_all_tokenizers_of_sacrebleu_can_be_chosen() -> None:
    assert set(get_args(BleuTokenizer)) == set(sacrebleu.BLEU.TOKENIZERS) - OLD_NAMES


def with_tokenizer(name: BleuTokenizer) -> DataConfig:
    return DataConfig("synthetic", "en", "de", 1000, None, None, None, None, name)


def test_it_is_no_part_of_the_data() -> None:
    assert fingerprint(with_tokenizer("zh")) == fingerprint(SYNTHETIC)


@pytest.mark.parametrize(
    ("name", "package"), [("ja-mecab", "sacrebleu[ja]"), ("ko-mecab", "sacrebleu[ko]")]
)
def test_a_missing_package_is_a_problem_that_names_it(
    name: BleuTokenizer, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    (problem,) = small_trial(with_tokenizer(name)).problems()
    assert problem.key == "data.bleu_tokenizer"
    assert f"pip install '{package}'" in problem.allowed


def test_a_model_that_cannot_be_fetched_is_a_fault_that_says_where_to_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of the proxy refuses every connection."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(utils, "SACREBLEU_DIR", str(tmp_path))
    module.model_faults.cache_clear()
    (fault,) = module.model_faults("flores200")
    model_file = tmp_path / "models" / "flores200sacrebleuspm"
    assert str(model_file) in fault.allowed
    assert not model_file.exists()
    model_file.write_text("a model")
    module.model_faults.cache_clear()
    assert module.model_faults("flores200") == module.model_faults("zh") == ()
    module.model_faults.cache_clear()


CHINESE = "我爱北京天安门"
JAPANESE = "東京へ行きました"
THAI = "ฉันรักเธอ"
GERMAN = "Ein Hund rennt."


@pytest.mark.parametrize(
    ("line", "fitting"), [(CHINESE, "zh"), (JAPANESE, "ja-mecab"), (THAI, "flores200")]
)
def test_a_script_without_spaces_does_not_fit_a_tokenizer_that_splits_at_spaces(
    line: str, fitting: str
) -> None:
    message = misfit("13a", [line, line, GERMAN])
    assert message is not None
    assert "2 of 3 dev targets" in message
    assert message.endswith(f"data.bleu_tokenizer={fitting}")
    assert misfit(fitting, [line] * 3) is None
    assert misfit("char", [line] * 3) is None
    assert misfit("13a", [line, GERMAN, GERMAN]) is None
    assert misfit("13a", [f"{GERMAN} {line[:2]}"] * 3) is None
    assert misfit("13a", ["", "3,5"]) is None
