"""A study's rows: composed from files and overrides, and as `study.json` records them."""
