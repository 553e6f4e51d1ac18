"""A reader for each kind of file in which programs write metrics."""
