"""Letters that YAML leaves in two halves, called surrogates."""

import re
from typing import Any

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""A letter beyond the first 65 536, as ``json.dumps`` writes it: two surrogates."""


def join_surrogates(value: Any) -> Any:
    """Plain data in which each pair of surrogates is the letter that it stands for."""
    if isinstance(value, dict):
        return {key: join_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [join_surrogates(item) for item in value]
    return PAIR.sub(_letter, value) if isinstance(value, str) else value


def _letter(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")
