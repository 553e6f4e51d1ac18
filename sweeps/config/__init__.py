"""From files and overrides to the settings of each row: Hydra composes, the scale divides, the
schema checks.

``planning.study_rows.compose`` combines these steps. Only ``hydra`` imports Hydra and OmegaConf: it
composes options, and finds the line that sets a value. ``files`` finds files and checks the user's;
``tasks`` finds and imports the task.
"""
