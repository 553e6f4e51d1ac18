"""The verbs: parse, call, show.

``command`` has what they share, and ``names`` says what the names on the command line mean. A
verb is in the module of its name, or in ``setup``, ``run``, ``read``, ``remove`` or ``ui``. The
verbs of a task lie in ``trained``.
"""
