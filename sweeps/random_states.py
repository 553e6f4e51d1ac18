"""The states of Python's, NumPy's and torch's random numbers, as JSON can hold them.

NumPy's and torch's are read only if the program has imported them.
"""

import random
import sys
from collections.abc import Mapping
from typing import Any

RandomStates = dict[str, Any]


def random_states() -> RandomStates:
    """The states of now, also of each GPU if torch uses them."""
    version, internal, gauss = random.getstate()
    states: RandomStates = {"python": [version, list(internal), gauss]}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, gauss = numpy.random.get_state(legacy=True)
        states["numpy"] = [name, keys.tolist(), int(position), int(has_gauss), float(gauss)]
    torch = sys.modules.get("torch")
    if torch is not None:
        states["torch"] = _text(torch.get_rng_state())
        if torch.cuda.is_initialized():
            states["cuda"] = [_text(state) for state in torch.cuda.get_rng_state_all()]
    return states


def set_random_states(states: Mapping[str, Any]) -> None:
    """Go on with the random numbers of `random_states`."""
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    if "numpy" in states:
        import numpy

        name, keys, *rest = states["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), *rest))
    if "torch" in states:
        import torch

        torch.set_rng_state(_tensor(states["torch"]))
        gpus = torch.cuda.device_count() if "cuda" in states else 0
        for gpu, state in enumerate(states.get("cuda", [])[:gpus]):
            torch.cuda.set_rng_state(_tensor(state), gpu)


def _text(state: Any) -> str:
    """The bytes of a tensor as hexadecimal digits."""
    return bytes(state.tolist()).hex()


def _tensor(text: str) -> Any:
    import torch

    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)
