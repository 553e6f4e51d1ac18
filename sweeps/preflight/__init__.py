"""Checks before anything starts: folders, the tracking store, nodes. They leave no files behind."""
