"""Verbs on trained models: a task's functions as commands, and the trained trials that they
take."""
