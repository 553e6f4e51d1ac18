"""Names of metrics in MLflow. docs/mlflow.md explains them to users."""

from tracking.card import Card

VAL, FINAL, BEST, LAST, DELTA, PUBLISHED = "val/", "final/", "best/", "last/", "delta/", "published/"
PUBLISHED_DELTA = "published/delta/"


def journal_name(card: Card, name: str) -> str:
    """`val/<metric>` for a metric of the card on its own set, such as `dev/<metric>`; other names as they are."""
    set_name, _, metric = name.partition("/")
    known = any(each.name == metric and each.set == set_name for each in card.metrics)
    return f"{VAL}{metric}" if known else name


def final_name(card: Card, set_name: str, metric: str) -> str:
    """`final/<metric>` on the metric's own set, which the table shows; `final/<set>/<metric>` on others."""
    own = any(each.name == metric and each.set == set_name for each in card.metrics)
    return f"{FINAL}{metric}" if own else f"{FINAL}{set_name}/{metric}"
