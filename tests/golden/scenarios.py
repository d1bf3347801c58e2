"""The scenarios of the golden timelines: they stop by rounds, so that no float of a model enters them."""

from typing import Any

LINK = {"up_mbit_s": 4, "down_mbit_s": 8, "latency_ms": 20}
FLEET = [
    {"profile": "phone-mid", "count": 2, "link": LINK},
    {"name": "pi-4", "profile": "pi", "count": 2, "link": {"up_mbit_s": 2, "down_mbit_s": 8, "latency_ms": 30}},
]
AWAY = [FLEET[0], {**FLEET[1], "presence": {"off": [[0.3, 1.9], [4.0, 4.5]]}}]

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "fedavg-all": ("fedavg", {"fleet": FLEET, "rounds": {"max": 2}}),
    "fedcurv-first-k": ({"fedcurv": {}}, {"fleet": FLEET, "rounds": {"max": 3, "fraction": 0.5, "ask": 3}}),
    "fedcl-deadline": ({"fedcl": {"interval": 2}}, {"fleet": FLEET, "rounds": {"max": 3, "deadline_s": 1.3}}),
    "fedprox-finish": (
        {"fedprox": {"mu": 0.1}},
        {"fleet": FLEET, "rounds": {"max": 4, "deadline_s": 1.1, "stragglers": "finish"}},
    ),
    "fedavg-away": ("fedavg", {"fleet": AWAY, "rounds": {"max": 4}}),
}
GOLDEN = {name: (algorithm, {"training": {"batch": 64}, **changes}) for name, (algorithm, changes) in CASES.items()}
