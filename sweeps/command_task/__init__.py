"""A command as a task, from YAML alone.

``lookup`` finds ``conf/task/NAME.yaml``, ``reading`` turns it into a ``definition``, and
``command_task`` makes a ``Task`` of that. ``template`` and ``values`` fill the command's words.
"""
