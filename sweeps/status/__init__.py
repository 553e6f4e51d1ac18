"""The status of a study's trials, read only from its folder: as tables, as curves, once or live."""
