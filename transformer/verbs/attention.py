"""``allelse attention``: what the heads of a trained model read in a sentence, as a picture."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sweeps.task import Problem, RefusedError, Trained, Typed
from transformer.config import ModelConfig, TrialConfig
from transformer.faults import FaultyError, NotFiniteError
from transformer.pictures.choice import FORMATS, Kind, choose
from transformer.verbs.models import as_problems, open_translator, output_problem, refusing

if TYPE_CHECKING:
    # It loads torch, which no refusal needs.
    from transformer.pictures.picture import Picture

Sentence = Annotated[str, typer.Argument()]
TargetOption = typer.Option(help="The target sentence; by default, the model's own translation.")
Target = Annotated[str | None, TargetOption]
WordOption = typer.Option(
    "--word",
    help='Draw only what this word attends to; its:2 is the second "its". Repeat it for several.',
)
Queries = Annotated[list[str] | None, WordOption]
HeadOption = typer.Option("--head", help="Draw only these heads, such as 5,6, counted from 1.")
Heads = Annotated[str | None, HeadOption]
LayerOption = typer.Option(help="Draw this layer, counted from 1; by default the last but one.")
Layer = Annotated[int | None, LayerOption]
KindOption = typer.Option(help="Draw only this attention; cross is the decoder's to the encoder.")
KindChoice = Annotated[Kind | None, KindOption]
Pieces = Annotated[bool, typer.Option("--pieces", help="Show pieces instead of words.")]
GridOption = typer.Option("--grid", help="Draw heat maps of all heads; a page has both pictures.")
AsGrid = Annotated[bool, GridOption]
OutputOption = typer.Option(help="Write a page (.html), or for a paper .svg, .pdf or .png.")
Output = Annotated[Path, OutputOption]


def attention(
    model: Trained[TrialConfig] | Path,
    sentence: Sentence,
    typed: Typed,
    target: Target = None,
    word: Queries = None,
    head: Heads = None,
    layer: Layer = None,
    kind: KindChoice = None,
    pieces: Pieces = False,
    grid: AsGrid = False,
    output: Output = Path("attention.html"),
) -> int:
    """Draw which words a model's heads attend to, as in the paper's Figures 3 to 5.

    Takes a trial, a checkpoint, an exported model or an MLflow run. Layers and heads are counted
    from 1.
    """
    problems = [*_output_problems(output)]
    if grid and output.suffix != ".html":
        problems += _grid_problems(word, layer, head)
    if not isinstance(model, Path):
        problems += _choice_problems(model.config.model, kind, layer, head)
    if problems:  # before torch is loaded
        raise RefusedError(problems)
    err = Console(stderr=True, highlight=False, emoji=False)
    try:
        with refusing():
            with err.status(f"Loading {escape(model.name)}"):
                translator = open_translator(model, None, typed)
            choice = choose(translator.model.config, kind, layer, head)
            from transformer.pictures.picture import read_picture

            picture = read_picture(translator, choice, sentence, target, pieces, word or ())
    except NotFiniteError as error:
        err.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
        return 1
    if kind is not None or word:
        picture = picture.of_one_kind()
    output.write_bytes(picture.content(output.suffix, _about(model), grid))
    for line in _lines(picture, output, grid):
        Console(highlight=False, emoji=False).print(escape(line), soft_wrap=True)
    return 0


def _output_problems(output: Path) -> Iterator[Problem]:
    """Why the file cannot be written; its ending may be unknown."""
    problem = output_problem(output)
    if output.suffix not in FORMATS:
        allowed = f"must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        yield Problem("--output", f"is {output}", allowed)
    elif problem is not None:
        yield problem


def _grid_problems(
    word: list[str] | None, layer: int | None, head: str | None
) -> Iterator[Problem]:
    """Options that choose a part, although a grid shows all layers, heads and words."""
    for option, value in {"--word": word, "--layer": layer, "--head": head}.items():
        if value is not None:
            fault = "is given with --grid, which draws all layers, heads and words"
            yield Problem(option, fault, "leave it out")


def _choice_problems(
    model: ModelConfig, kind: Kind | None, layer: int | None, head: str | None
) -> list[Problem]:
    """Kinds, layers and heads that the model lacks."""
    try:
        choose(model, kind, layer, head)
    except FaultyError as error:
        return as_problems(error.faults)
    return []


def _about(model: Trained[TrialConfig] | Path) -> str:
    """What the model was trained on, as far as its folder says."""
    if isinstance(model, Path):
        return f"Model: {model.name}."
    data = model.config.data
    languages = f"{data.source} to {data.target}"
    return f"Model: {model.name}, trained on {data.name}, {languages}, {model.step} steps."


def _lines(picture: "Picture", output: Path, grid: bool) -> list[str]:
    """What was drawn, and the model's translation."""
    lines = []
    if picture.pair.is_translation:
        lines.append(f"The model's translation: {picture.pair.target_text}")
    return [*lines, f"Wrote {output}: {picture.title(output.suffix, grid)}"]
