"""Schema of a study: the comparisons of algorithms, fixed before anything is trained."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from scenarios.schema.keys import Count, Name, NotNegative, Part, Positive, Rate, Seconds, Share, Value, says
from scenarios.schema.link_keys import Path
from scenarios.schema.tuning import Elsewhere

Changes = dict[str, Any]  # PATH: VALUE, as on the command line


class Grid(Part):
    """Links and devices of the study's map. Each cell is a replay of all runs there, without training."""

    up_mbit_s: Annotated[tuple[Rate, ...], Field(min_length=1, max_length=30)] = says(
        "Upload rates of all devices in Mbit/s.", [0.1, 1, 10, 100], default=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
    )
    down_over_up: Annotated[tuple[Positive, ...], Field(max_length=10)] = says(
        "Download rates, as multiples of the upload rate; none: downlinks stay as they are.", [1, 5, 10], default=()
    )
    round_trip_ms: Annotated[tuple[NotNegative, ...], Field(max_length=10)] = says(
        "Round trip times in ms; none: they stay as they are.", [20, 100, 600], default=()
    )
    speed_gflop_s: Annotated[tuple[Positive, ...], Field(max_length=10)] = says(
        "Speeds of all devices in GFLOP/s; none: devices stay as they are.", [0.5, 5, 50], default=()
    )


class Rule(Part):
    """Rule by which two algorithms are called different. There is only one; it is written here so that it is fixed with
    the rest."""

    interval: Literal["bootstrap-t"] = says(
        "Method for the interval of a ratio of mean times and its p-value: whole seeds are drawn again, with the times "
        "of both algorithms.",
        "bootstrap-t",
        default="bootstrap-t",
    )
    resamples: Literal[10_000] = says("Number of times that seeds are drawn again.", 10_000, default=10_000)
    adjust: Literal["holm"] = says(
        "Adjustment of the p-values of a pair of algorithms, over all targets and links together.",
        "holm",
        default="holm",
    )
    level_percent: Literal[5] = says("A difference is significant if its adjusted p-value is below this.", 5, default=5)


class Protocol(Part):
    """A study: ranked algorithms, controls, targets and links. It is fixed before anything is trained, and `fedlapse
    study` follows it."""

    controls: tuple[Name, ...] = says(
        "Names of algorithms that use the same data on the server as FedCL, without its importance.",
        ["fedmeta"],
        default=(),
    )
    placebos: dict[Name, Name] = says(
        "Algorithms with meaningless importance, and the algorithm that each imitates.",
        {"fedcl-shuffled": "fedcl"},
        default={},
    )
    nulls: tuple[Name, ...] = says(
        "Names of algorithms without their penalty. They learn exactly as the baseline does, or the study is wrong.",
        ["fedcl-0"],
        default=(),
    )
    rows: tuple[Name, ...] = says(
        "Names of algorithms that are shown but not ranked, such as the papers' own settings.",
        ["fedcl-paper"],
        default=(),
    )
    pairs: tuple[tuple[Name, Name], ...] = says(
        "Pairs of algorithms to compare, in addition to the comparison of each with the baseline.",
        [["fedcl", "fedcurv"]],
        default=(),
    )
    shares: tuple[Share, ...] = says(
        "Targets, as shares of the best validation accuracy that any tuned algorithm reaches under the seeds of the "
        "search, in the rounds of its last step.",
        [0.9, 0.95, 0.99],
        default=(0.9, 0.95, 0.99),
    )
    values: tuple[Value, ...] = says("Targets as test accuracies, such as those of papers.", [0.9], default=())
    hold: Count = says("Consecutive evaluated rounds in which a target must be reached.", 1, default=3)
    horizon_s: Seconds | None = says(
        "Virtual seconds after which a run ends. By default it ends with the last target or with `rounds.max`.",
        300,
        default=None,
    )
    regimes: Annotated[dict[Name, Changes], Field(max_length=50)] = says(
        "Regimes, by name: the study is made in each, with its own search, targets, placebos and nulls. A regime is a "
        "list of changes to the scenario, as PATH: VALUE.",
        {"two-labels": {"data.split": {"kind": "shards", "each": 2}}},
        default={},
    )
    rule: Rule = says("Rule by which two algorithms are called different.", {}, default=Rule())
    links: Annotated[dict[Name, Elsewhere], Field(max_length=50)] = says(
        "Other links, by name, on which the algorithms are compared too.", {"3g": {"up_mbit_s": 0.5}}, default={}
    )
    map: Grid | None = says("Grid of links and devices, with the fastest algorithm of each cell.", {}, default=None)
    traces: Annotated[tuple[Path, ...], Field(max_length=1000)] = says(
        "Files or folders of recorded links that all devices replay, one after the other.", ["traces"], default=()
    )
    up_ratio: Positive = says(
        "Uplink rate as a fraction of the recorded downlink, an assumption, if a trace has no uplink.",
        0.2,
        default=0.2,
    )

    @property
    def own_links_only(self) -> frozenset[str]:
        """Algorithms that are compared on the study's own links alone: they are checks, for which one setting is
        enough."""
        return frozenset({*self.placebos, *self.nulls})
