"""The verbs, one function each: parse, call, show. `--help` loads `run`, `read`, `results`, `remove` alone."""
