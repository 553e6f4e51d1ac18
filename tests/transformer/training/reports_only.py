"""The reports among what ``fit`` yields."""

from collections.abc import Iterable, Iterator

from transformer.messages import Noticed, Report


def reports_of(yielded: Iterable[Report | Noticed]) -> Iterator[Report]:
    return (each for each in yielded if isinstance(each, Report))
