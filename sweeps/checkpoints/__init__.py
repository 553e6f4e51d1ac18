"""The checkpoints of a trial, at any fsspec URL.

``reader`` finds and reads them. ``store`` is what an attempt writes with, in a thread of its own.
``owner`` decides which attempt may, and ``retention`` which checkpoints stay. Each one is a
``manifest`` and ``files``: a state that ``plain_state`` took apart, or what the task's
``own_format`` wrote. ``folders`` says where they are.
"""
