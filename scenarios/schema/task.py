"""Schema of the task: what a model is trained for, and what is measured."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from algorithms.tasks.task import LOWER, METRICS, SHARES
from scenarios.schema.keys import Part, says

Metric = Annotated[str, Field(min_length=1, max_length=80)]
Listed = Annotated[tuple[Metric, ...], Field(strict=False)]  # a list, also after the short form is written out
OF_MAIN = ("initial", "personalised", "personalised_participants", "validation")  # measure the task's first metric


class Task(Part):
    """The task of the model, as `regression` or `{name: classification, metrics: [f1]}`."""

    name: str = says(
        "Loss and metrics: classification, language, multilabel, regression, segmentation, or your own as "
        "package.module:Task.",
        "regression",
        "my_package.tasks:Pinball",
        default="classification",
    )
    metrics: Listed = says(
        "Metrics of the task to measure after each evaluated round; those of targets are measured anyway. The first "
        "one decides: `validation`, `initial` and `personalised` measure it. By default the task's own first one.",
        ["f1", "auc"],
        default=(),
    )
    lower: Listed | None = says(
        "Metrics of an own task that are better the lower they are; fedlapse writes it into records.",
        ["pinball"],
        default=None,
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, said: Any) -> Any:
        return {"name": said} if isinstance(said, str) else said

    @property
    def main(self) -> str:
        """The metric that decides."""
        return next(iter((*self.metrics, *METRICS.get(self.name, ()))), "loss")

    @property
    def measured(self) -> tuple[str, ...]:
        """The metrics that are measured on test examples, besides the loss; the one that decides is the first."""
        usual = [name for name in ("accuracy",) if name in METRICS.get(self.name, ())]
        return tuple(dict.fromkeys([self.main, *usual, *self.metrics]))

    def is_lower(self, metric: str) -> bool:
        """Returns True if a metric is better the lower it is."""
        metric = self.main if metric in OF_MAIN else metric
        return metric in (LOWER if self.name in METRICS else (*(self.lower or ()), "loss"))

    def is_share(self, metric: str) -> bool:
        """Returns True if a metric is known to lie between 0 and 1."""
        return self.name in METRICS and (self.main if metric in OF_MAIN else metric) in SHARES


CLASSES = Task()
