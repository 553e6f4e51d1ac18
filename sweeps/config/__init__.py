"""From files and overrides to the settings of each row: Hydra composes, the scale divides, the
schema checks.

``planning.study_rows.compose`` combines these steps. ``library`` has a task's keys and defaults,
and finds the line that sets a value. Only the room ``hydra`` imports Hydra and OmegaConf. ``files``
finds files and checks the user's; ``tasks`` finds and imports the task.
"""
