"""From files and overrides to the settings of each row: Hydra composes, the scale divides, the schema checks.

``planning.compose`` puts it together. ``hydra`` alone imports Hydra and OmegaConf; ``files`` says where files lie and
checks a user's own; ``library`` knows groups, keys and the line that set a value; ``tasks`` finds the task.
"""
