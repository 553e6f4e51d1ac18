"""Translation as a task: Table 3 of "Attention Is All You Need". Of our packages it imports ``sweeps.task`` alone."""
