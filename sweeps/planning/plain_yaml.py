"""A YAML file as plain data. Text is read as OmegaConf reads it: 1e-3 is a number, and a date is text."""

import re
from pathlib import Path
from typing import Any

import yaml

TIMESTAMP = "tag:yaml.org,2002:timestamp"
FLOAT = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+$|[-+]?\.[0-9][0-9_]*[eE][-+]?[0-9]+$")
"""Numbers with an exponent that YAML 1.1 reads as text."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The fast loader if PyYAML has it."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))


def read_yaml(path: Path) -> dict[str, Any]:
    """The groups and keys of a file; {} if it holds none."""
    return plain_data(path.read_text("utf-8-sig"))


def plain_data(text: str) -> dict[str, Any]:
    """The groups and keys of a text; {} if it holds none. Raises yaml.YAMLError, ValueError."""
    content = yaml.load(text, Loader=_Loader)
    return {str(key): value for key, value in content.items()} if isinstance(content, dict) else {}


def refers(value: Any) -> bool:
    """Whether any text in the value may refer to another key."""
    if isinstance(value, dict | list):
        return any(map(refers, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and "${" in value
