"""FLOPs of devices belong to training: an attempt that only scores, on whatever machine, leaves
them as they are."""

import json
from typing import Any

from place import STUDY, TOY, Place

COSTS = TOY.replace("steps=lambda", "costs=lambda config: Costs(flops=6e9), steps=lambda").replace(
    "from sweeps.task import ", "from sweeps.task import Costs, "
)
OF_TRAINING = ("device_flops", "mfu", "sustained", "pace", "seconds")


def result_of(project: Place) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((project.study / "base-s1" / "result.json").read_text())
    return result


def test_a_scoring_with_another_rate_or_none_leaves_the_costs_of_training(place: Place) -> None:
    place.write({"toy.py": COSTS})
    place.train("base", "cluster.sustained_tflops=2")
    trained = result_of(place)
    assert trained["sustained"] == {"flops_per_s": 2e12, "source": "typed"}
    for cut, words in ((0.6, ["cluster.sustained_tflops=5"]), (0.7, [])):
        place.train("base", f"train.cut={cut}", *words)
        scored = result_of(place)
        assert scored["scores"]["test"]["decode"] == {"train.cut": cut}
        assert {name: scored[name] for name in OF_TRAINING} == {
            name: trained[name] for name in OF_TRAINING
        }


def test_a_training_whose_evaluation_was_interrupted_keeps_its_rate(place: Place) -> None:
    """The second attempt only scores, with another rate."""
    evaluation = '    trial.evaluated("test", {"score": done})'
    interruption = """\
    if (HERE / "loses").exists():
        (HERE / "loses").unlink()
        raise RuntimeError("lost")
"""
    place.write({"toy.py": COSTS.replace(evaluation, interruption + evaluation), "loses": ""})
    words = ("train", "task=toy", STUDY, "row=base")
    assert place.type(*words, "cluster.sustained_tflops=2").returncode == 1
    place.must(*words, "cluster.sustained_tflops=5")
    result = result_of(place)
    assert result["sustained"] == {"flops_per_s": 2e12, "source": "typed"}
    assert result["device_flops"] == result["seconds"] * 2e12
    assert result["mfu"] == 6e9 / result["device_flops"]


def test_a_training_that_goes_on_with_another_kind_of_rate_has_no_flops_of_devices(
    place: Place,
) -> None:
    """The second attempt measures its device, as on another machine."""
    place.write({"toy.py": COSTS})
    (place.folder / "stops").touch()
    assert (
        place.type("train", "task=toy", STUDY, "row=base", "cluster.sustained_tflops=2").returncode
        == 1
    )
    place.write(
        {
            "toy.py": COSTS.replace(
                "from parts.one import one", "import torch\n    from parts.one import one"
            )
        }
    )
    place.train("base", "--changed-code")
    result = result_of(place)
    assert {"pace", "seconds"} <= result.keys()
    assert not {"device_flops", "mfu", "sustained"} & result.keys()
