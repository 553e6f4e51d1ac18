"""The text of ``sweep.vary`` and ``sweep.grid``: what was meant by one that is split or has mistakes in its commas."""

import re
from collections.abc import Iterator, Sequence

from sweeps.planning.override_text import parsed

MAKERS = ("sweep.vary", "sweep.grid")
"""Keys that make rows of lists of values."""
EXAMPLE = "{model.n_heads: [1, 4]}"
KEY = re.compile(r"""(?:^|(?<=[\s,;|{}\])]))["']?(?P<key>[A-Za-z_][\w./-]*)["']?\s*(?::|=)+\s*""")
VALUE = re.compile(r"""\$\{[^}]*\}|"[^"]*"|'[^']*'|[^\s,;|()\[\]{}"']+""")


def folded(arguments: Sequence[str], makers: Sequence[str]) -> list[str]:
    """The arguments, with ``sweep.vary.model.n_heads=[1,4]`` as a part of ``sweep.vary={…}``."""
    others: list[str] = []
    parts: dict[str, list[str]] = {}
    for argument in arguments:
        key, mark, value = argument.partition("=")
        maker = next((maker for maker in makers if mark and key.startswith(f"{maker}.")), None)
        if maker:
            parts.setdefault(maker, []).append(f"{key.removeprefix(f'{maker}.')}: {value}")
        else:
            others.append(argument)
    for maker, lists in parts.items():
        given = [argument for argument in others if argument.startswith(f"{maker}={{") and argument.endswith("}")]
        others = [argument for argument in others if argument not in given]
        inside = filter(str.strip, (argument[len(maker) + 2 : -1] for argument in given))
        others.append(f"{maker}={{{', '.join([*inside, *lists])}}}")
    return others


def rejoined(arguments: Sequence[str], makers: Sequence[str]) -> list[str]:
    """The arguments, with the parts into which the shell splits ``sweep.vary={…,…}`` as one text again."""
    parts: dict[str, list[str]] = {}
    for argument in arguments:
        maker, mark, value = argument.partition("=")
        if mark and maker in makers and not value.endswith("}"):
            parts.setdefault(maker, []).append(value)
    whole = {maker: f"{maker}={{{','.join(values)}}}" for maker, values in parts.items() if len(values) > 1}
    texts = [
        argument if argument.endswith("}") else whole.get(argument.partition("=")[0], argument)
        for argument in arguments
    ]
    return [text for place, text in enumerate(texts) if text not in whole.values() or text not in texts[:place]]


def lists_meant(maker: str, text: str) -> str | None:
    """``{model.n_heads: 1,4}`` as ``sweep.vary={model.n_heads: [1, 4]}``; None if it holds no key with values."""
    found = list(KEY.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)] * bool(found)
    lists: dict[str, list[str]] = {}
    for match, end in zip(found, ends, strict=True):
        lists.setdefault(match["key"], []).extend(VALUE.findall(text[match.end() : end]))
    if not lists or not all(lists.values()):
        return None
    listed = [f"{key}: [{', '.join(values)}]" for key, values in lists.items()]
    meant = f"{maker}={{{', '.join(listed)}}}"
    override = parsed(meant)
    return meant if override is not None and isinstance(override.value, dict) else None


def repeated_keys(text: str) -> list[str]:
    """Keys that a readable text gives twice, of which Hydra would keep the last."""
    keys = [part.partition(":")[0].strip() for part in _parts(text.strip()[1:-1])]
    return sorted({key for key in keys if keys.count(key) > 1})


def _parts(text: str) -> Iterator[str]:
    """The text between commas that stand outside brackets and quotes."""
    depth, quote, start = 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]
