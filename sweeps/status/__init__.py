"""Where the trials of a study stand, from its folder alone: as tables, as curves, once or live."""
