"""One trained model for all tests of decoding."""

import pytest
from trained_letters import Trained, train_letters


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train_letters(tmp_path_factory.mktemp("letters"))
