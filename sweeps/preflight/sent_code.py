"""The user's code as plain data, for processes that read it as JSON and for nodes that may lack our
packages."""

from typing import Any

from tracking.code import Code

BYTES = "latin-1"
"""An encoding in which each byte is a character."""


def to_plain(code: Code | None) -> dict[str, Any] | None:
    if code is None:
        return None
    files = {name: content.decode(BYTES) for name, content in code.files.items()}
    return {"files": files, "roots": dict(code.roots)}


def from_plain(plain: dict[str, Any] | None) -> Code | None:
    if plain is None:
        return None
    files = {name: text.encode(BYTES) for name, text in plain["files"].items()}
    return Code(files, plain["roots"])
