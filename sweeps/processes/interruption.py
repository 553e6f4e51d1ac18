"""The exception that ends a run before its last trial: a signal, or a fault."""


class Interrupted(KeyboardInterrupt):
    """A signal, or a ``fault``, ended the run: its number, and one line per trial that was running.

    ``at_once`` is set by a second signal: then the run waits for nothing more.
    """

    def __init__(
        self, number: int, lines: tuple[str, ...] = (), at_once: bool = False, fault: str = ""
    ) -> None:
        super().__init__()
        self.number = number
        self.lines = lines
        self.at_once = at_once
        self.fault = fault

    @property
    def exit_code(self) -> int:
        """As a shell reports it: 130 after Ctrl-C or `allelse stop`, 143 after SIGTERM; on Linux
        138 after SIGUSR1 and 140 after SIGUSR2. 1 after a fault."""
        return 1 if self.fault else 128 + self.number
