"""The rounds of a progress bar that starts again in each epoch, in a program that names an epoch
only after its bar, or never."""

from dataclasses import dataclass

from tracking.written.output_line import Position


@dataclass
class Rounds:
    """Of bars with ``steps`` steps: the one that a program wrote scores in before it named an
    epoch. A round counts as an epoch, from 0."""

    steps: int
    step: int = 0
    finished: int = 0
    epoch_was_named: bool = False  # since the bar's last state
    may_be_over: bool = False  # an epoch was named without a score, as before a bar

    @property
    def position(self) -> Position:
        return Position(self.step, self.steps, epoch=self.finished)

    def place(self, position: Position, has_score: bool) -> Position | None:
        """Where a line stands that names this position. None if the epochs that the program names
        count from now on: another bar follows one of them.

        A score of an epoch stands at the bar's end, and so does another bar, such as that of a
        validation.
        """
        if position.is_epoch:
            self.epoch_was_named = True
            self.may_be_over = self.may_be_over or not has_score
            return self.position
        if position.step is None or not position.is_bar_alone:
            return position
        if position.steps != self.steps:
            return None if self.may_be_over else self.position
        self.finished += self._starts_again(position.step)
        self.step = position.step
        self.epoch_was_named = False
        return self.position

    def _starts_again(self, step: int) -> bool:
        """A few steps back aren't a new round: several workers may write at once."""
        steps_back = self.step - step
        return steps_back > 0 and (self.epoch_was_named or 2 * steps_back >= self.steps)
