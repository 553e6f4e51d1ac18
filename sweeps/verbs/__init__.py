"""The verbs: parse, call, show. ``command`` is what they share, ``names`` what they take for studies, rows and trials.

A verb stands with its work in ``run``, ``read``, ``results``, ``compare``, ``ui`` or ``remove``; ``shown_…`` print.
``task_verbs`` makes commands of a task's functions, ``named_trials`` finds the ``trained_trial`` that each is given.
"""
