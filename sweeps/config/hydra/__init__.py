"""Hydra and OmegaConf, which only this room imports. What it returns is plain data, and overrides
that answer in plain data.

`composer` composes a task's files: `text_files` reads them, and `surrogates` repairs letters that
YAML leaves in two halves. `typed_override` reads an override by Hydra's grammar. `references`
resolves those between keys. `refusals` turns what Hydra raises into problems.
"""
