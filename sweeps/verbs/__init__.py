"""The verbs: parse, call, show. ``command`` is what they share, ``texts`` the sentences behind samples.

A verb stands with its work in ``run``, ``read``, ``results``, ``compare``, ``ui`` or ``remove``.
``task_verbs`` makes commands of a task's functions, which are given a ``trained_trial``.
"""
