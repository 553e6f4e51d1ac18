"""What is typed after a verb that takes finished models: which ones, and how to decode with them."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sweeps.planning.compose import compose_settings
from sweeps.planning.naming import naming
from sweeps.planning.overrides import COMMAND_LINE, parse_overrides
from sweeps.planning.settings import Settings
from sweeps.planning.yaml_files import Library
from transformer.config import DecodeConfig
from transformer.schema import Problem, RefusedError, parse

SET = "data.set="


@dataclass(frozen=True)
class Request:
    """Names of models, overrides of ``decode``, the set if one was named, and where the study that is meant lies."""

    names: list[str]
    decode: dict[str, Any]
    set_name: str | None
    shared: Settings

    def decoding(self, trained: DecodeConfig) -> DecodeConfig:
        """How to decode: what was typed, and else as the model's trial did. Raises RefusedError."""
        decode, problems = parse(DecodeConfig, asdict(trained) | self.decode, "decode")
        if decode is None:
            raise RefusedError(replace(problem, place=COMMAND_LINE) for problem in problems)
        return decode


def read_request(verb: str, words: list[str], average: int | None = None, sets: bool = False) -> Request:
    """The words without ``=`` name models; ``sets`` allows data.set. Raises RefusedError with all that is wrong."""
    names = [word for word in words if "=" not in word or Path(word).exists()]
    typed = [word for word in words if word not in names and not word.startswith(SET)]
    overrides, problems = parse_overrides(typed, Library(Path.cwd()))
    decode = {k.removeprefix("decode."): v for k, v in overrides.values.items() if k.startswith("decode.")}
    chosen = [word.removeprefix(SET) for word in words if word.startswith(SET)]
    foreign = [key for key in (*overrides.choices, *overrides.values) if not _means(key)]
    problems += [_foreign(verb, key) for key in [*foreign, *(["data.set"] if chosen and not sets else [])]]
    if average is not None and "average_checkpoints" in decode:
        problems.append(
            Problem("--average", "is given with decode.average_checkpoints", "one of them says it", None, COMMAND_LINE)
        )
    if not names:
        problems.append(Problem("TRIAL", "is missing", "must name a trial, as `ablate status` lists them"))
    if problems:
        raise RefusedError(problems)
    decode |= {"average_checkpoints": average} if average is not None else {}
    return Request(names, decode, chosen[-1] if chosen else None, compose_settings(naming(typed)))


def _means(key: str) -> bool:
    return key.startswith("decode.") or bool(naming([f"{key}="]))


def _foreign(verb: str, key: str) -> Problem:
    ways = ", ".join(f"decode.{name}" for name in DecodeConfig.__dataclass_fields__)
    where = "data=, scale=, sweep.name=, paths. and tracking., which say where the study and its runs lie"
    allowed = f"`ablate {verb}` takes {ways}; and {where}"
    return Problem(key, "cannot be changed once a model is trained", allowed, None, COMMAND_LINE)
