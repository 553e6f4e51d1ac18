"""The arguments of a verb that takes finished models: which models, and how to decode with them."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sweeps.planning.compose import compose_settings
from sweeps.planning.naming import naming
from sweeps.planning.overrides import COMMAND_LINE, parse_overrides
from sweeps.planning.settings import Settings
from sweeps.planning.task_named import library_of
from sweeps.schema import Problem, RefusedError, parse
from transformer.config import DecodeConfig


@dataclass(frozen=True)
class Request:
    """Names of models, overrides of ``decode``, the set if one was named, and the settings that locate the study."""

    names: list[str]
    decode: dict[str, Any]
    set_name: str | None
    shared: Settings

    def decoding(self, trained: DecodeConfig) -> DecodeConfig:
        """The decode settings: the overrides, and otherwise those of the trial. Raises RefusedError."""
        decode, problems = parse(DecodeConfig, asdict(trained) | self.decode, "decode")
        if decode is None:
            raise RefusedError(replace(problem, place=COMMAND_LINE) for problem in problems)
        return decode


def read_request(verb: str, arguments: list[str], average: int | None = None, set_name: str | None = None) -> Request:
    """Arguments without ``=`` name models, the others are overrides. Raises RefusedError with every problem."""
    names = [argument for argument in arguments if "=" not in argument or Path(argument).exists()]
    overrides = [argument for argument in arguments if argument not in names]
    parsed, problems = parse_overrides(overrides, library_of([], Path.cwd()))
    decode = {k.removeprefix("decode."): v for k, v in parsed.values.items() if k.startswith("decode.")}
    problems += [_foreign(verb, key) for key in (*parsed.choices, *parsed.values) if not _means(key)]
    if average is not None and "average_checkpoints" in decode:
        found = "is given with decode.average_checkpoints"
        problems.append(Problem("--average", found, "use only one of them", None, COMMAND_LINE))
    if not names:
        problems.append(Problem("TRIAL", "is missing", "must name a trial; `ablate status` lists them"))
    if problems:
        raise RefusedError(problems)
    decode |= {"average_checkpoints": average} if average is not None else {}
    return Request(names, decode, set_name, compose_settings(naming(overrides)))


def _means(key: str) -> bool:
    return key.startswith("decode.") or bool(naming([f"{key}="]))


def _foreign(verb: str, key: str) -> Problem:
    ways = ", ".join(f"decode.{name}" for name in DecodeConfig.__dataclass_fields__)
    where = "data=, scale=, sweep.name=, paths. and tracking., to find the study and its runs"
    allowed = f"`ablate {verb}` takes {ways}; and {where}"
    return Problem(key, "cannot be changed once a model is trained", allowed, None, COMMAND_LINE)
