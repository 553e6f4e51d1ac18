"""The verb ``probe``: runs a command for a while, and lists the metrics that it writes.

``run`` runs it in a fresh ``workspace``, ``listing`` has a line for each metric, ``pasted`` is
their YAML, and ``shown`` prints all of it. ``resume`` compares a run with one that was killed and
resumed.
"""
