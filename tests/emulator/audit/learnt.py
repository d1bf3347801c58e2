"""The metrics in rows of hand-written records: no model was evaluated."""

from __future__ import annotations

from typing import Any

METRICS = ("accuracy", "loss", "validation", "initial", "personalised_participants", "personalised")
NOT_EVALUATED: dict[str, Any] = {**dict.fromkeys(METRICS), "leverage": {}, "numbers": {}}
