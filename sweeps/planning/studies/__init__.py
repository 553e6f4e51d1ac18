"""Recorded studies: how commands name them, and how they are renamed, removed and restored."""
