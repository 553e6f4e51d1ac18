"""From files and overrides to the settings of each row: Hydra composes, the scale divides, the schema checks.

``planning.compose`` puts it together. ``hydra`` alone imports Hydra and OmegaConf, and knows groups, keys and the line
that set a value; ``files`` says where files lie and checks a user's own; ``tasks`` finds the task.
"""
