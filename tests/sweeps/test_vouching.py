"""What must be the same for a repeated trial to show that code trains the same weights."""

from typing import Any

from sweeps.vouching.candidates import differences


def cpu(**fields: Any) -> dict[str, Any]:
    return {"cpu": {"model": "AMD EPYC", **fields}}


def test_generations_are_compared_where_both_records_have_it() -> None:
    recorded = cpu(generation="family 25, model 17")
    assert list(differences(recorded, cpu(generation="family 26, model 2"))) == [
        "the CPU's generation is family 26, model 2, but was family 25, model 17"
    ]
    assert list(differences(cpu(), recorded)) == []
    assert list(differences(recorded, cpu())) == []
