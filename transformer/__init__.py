"""Translation as a task: Table 3 of "Attention Is All You Need". It uses only ``sweeps.task``."""
