"""What a device did in an asynchronous version that asked it twice, as tables and charts show it."""

from __future__ import annotations

from emulator.record.call import AGAIN
from emulator.record.events import Asked, Closed, ComputeEnded, ComputeStarted, Opened
from emulator.report.scenes import scenes
from emulator.results.records import activities

EVENTS = [
    Opened(0.0, 0, [], "m"),
    Asked(0.0, 0, ["b", "a"]),
    ComputeStarted(0.0, 0, "a", {}, {"train": 2.0}, 1.0),
    ComputeEnded(2.0, 0, "a", "u"),
    Asked(2.0, AGAIN, ["a"]),
    ComputeStarted(2.0, AGAIN, "a", {}, {"train": 3.0}, 1.0),
    ComputeEnded(5.0, AGAIN, "a", "u"),
    Closed(5.0, 0, "first", ["a", ["a", AGAIN]]),
]


def test_a_device_is_asked_and_counted_as_often_as_it_was() -> None:
    row = {"round": 0, "seconds": {"devices": {"a": [5.0, 0.0, 0.5]}}, "joules": {"a": 7.0}}
    found = activities([row], EVENTS)["a"]
    assert (found.asked, found.counted, found.compute_s, found.wait_s, found.joules) == (2, 2, 5.0, 0.5, 7.0)


def test_a_version_s_scene_has_all_that_its_devices_do() -> None:
    (scene,) = scenes(EVENTS, [0]).values()
    assert scene.asked == ["b", "a"]
    assert [(bar.device, bar.start, bar.stop) for bar in scene.bars] == [("a", 0.0, 2.0), ("a", 2.0, 5.0)]
