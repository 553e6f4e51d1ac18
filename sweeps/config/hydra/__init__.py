"""Hydra and OmegaConf, which only this room imports. Others get plain data, and overrides as
``TypedOverride``.

`composer` composes a task's files: `text_files` reads them, and `surrogates` repairs letters that
YAML leaves in two halves. `typed_override` reads an override by Hydra's grammar. `references`
resolves those between keys. `refusals` turns what Hydra raises into problems.
"""
