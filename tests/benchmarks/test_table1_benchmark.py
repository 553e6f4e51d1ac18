"""What the benchmark of Table 1 measures, against the published orders of growth."""

import pytest

from benchmarks.layer_types import (
    ATTENTION,
    LAYER_TYPES,
    RECURRENT,
    LayerType,
    Size,
    crossing,
    exponent,
    flops,
    path_length,
    sequential_steps,
)

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration")
SMALL = Size(n=64, d=32, k=3, r=9)
EXPONENTS = {
    "self-attention": {"n": 2, "d": 1},
    "recurrent": {"n": 1, "d": 2},
    "convolutional": {"n": 1, "d": 2, "k": 1},
    "convolutional, dilated": {"n": 1, "d": 2, "k": 1},
}
PATHS = {
    "self-attention": [1, 1],
    "recurrent": [9, 27],
    "convolutional": [4, 13],
    "convolutional, dilated": [2, 3],
    "separable": [4, 13],
    "restricted attention": [1, 4],
}


def named(name: str) -> LayerType:
    (layer_type,) = (layer_type for layer_type in LAYER_TYPES if layer_type.name == name)
    return layer_type


@pytest.mark.parametrize("name", EXPONENTS)
def test_counted_flops_grow_by_the_published_powers(name: str) -> None:
    for size_name, published in EXPONENTS[name].items():
        values = [getattr(SMALL, size_name) * factor for factor in (1, 3, 5)]
        costs = [
            flops(named(name), SMALL.with_value(size_name, value), named(name).operations)
            for value in values
        ]
        assert exponent(values, costs) == pytest.approx(published), size_name


def test_restricted_attention_grows_with_r_and_with_n() -> None:
    layer_type = named("restricted attention")
    size = Size(n=512, d=32, r=65)
    start = flops(layer_type, size, layer_type.operations)
    assert flops(
        layer_type, size.with_value("n", 1024), layer_type.operations
    ) / start == pytest.approx(2, 0.1)
    assert flops(
        layer_type, size.with_value("r", 129), layer_type.operations
    ) / start == pytest.approx(2, 0.1)


def test_attention_is_dearer_than_recurrence_from_n_equal_to_d() -> None:
    lengths = [8, 16, 32, 64]
    sizes = [Size(n=n, d=32) for n in lengths]
    ratios = [flops(ATTENTION, size) / flops(RECURRENT, size) for size in sizes]
    assert crossing(lengths, ratios) == pytest.approx(32)
    assert crossing(lengths, [2.0, 3.0, 4.0, 5.0]) is None


@pytest.mark.parametrize("kind", LAYER_TYPES, ids=lambda layer_type: layer_type.name)
def test_only_recurrence_waits_for_each_position(kind: LayerType) -> None:
    steps = [sequential_steps(kind, Size(n=n, d=16)) for n in (8, 16)]
    assert steps[1] - steps[0] == (8 if kind is RECURRENT else 0)


@pytest.mark.parametrize("kind", LAYER_TYPES, ids=lambda layer_type: layer_type.name)
def test_paths_by_gradients(kind: LayerType) -> None:
    size = Size(d=16, k=3, r=9)
    lengths = [path_length(kind, size.with_value("n", n)) for n in (9, 27)]
    assert lengths == PATHS[kind.name]
