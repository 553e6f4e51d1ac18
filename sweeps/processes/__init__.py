"""What the processes of a sweep share.

``storage`` may fail for a while, ``times`` to wait, standard ``streams``, ``interruption``, and
what is private to Ray.
"""
