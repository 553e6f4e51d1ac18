"""From files and overrides to the settings of each row: Hydra composes, the scale divides, the schema checks.

``compose`` is what others call. ``hydra`` alone imports Hydra and OmegaConf; ``folders`` says where files lie,
``files`` checks a user's own, and ``places`` finds the line that set a value. ``tasks`` finds the task.
"""
