"""The order of the test files."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Ray come first, then those that train: the last long file to start keeps one process waiting."""
    ray, slow = ({item.path for item in items if item.get_closest_marker(name)} for name in ("ray", "slow"))
    items.sort(key=lambda item: (item.path not in ray, item.path not in slow))
