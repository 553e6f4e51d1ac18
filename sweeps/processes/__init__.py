"""What the processes of a sweep share.

The ``events`` and orders that they exchange, ``storage`` that may fail for a while, ``times`` to
wait, standard ``streams``, ``interruption``, and what is private to Ray.
"""
