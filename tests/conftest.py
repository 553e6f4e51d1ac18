"""The order of the test files."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Ray come first: they are long, and the last file to start keeps one process waiting."""
    long = {item.path for item in items if item.get_closest_marker("ray")}
    items.sort(key=lambda item: item.path not in long)
