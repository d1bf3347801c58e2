"""The description of the computer in host.json."""

import platform

import pytest

from emulator.sessions.machine import machine, processor


@pytest.mark.parametrize(
    ("cpuinfo", "named"),
    [
        ("processor\t: 0\nmodel\t\t: 85\nmodel name\t: AMD EPYC 7763\nflags\t\t: fpu\n", "AMD EPYC 7763"),
        (
            "processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
            "Raspberry Pi 4 Model B Rev 1.4",
        ),
    ],
)
def test_the_processor_has_its_model(tmp_path, cpuinfo, named):
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert processor(tmp_path / "cpuinfo") == named


@pytest.mark.parametrize("cpuinfo", [None, "processor\t: 0\n"])
def test_where_the_system_does_not_name_it_there_is_the_architecture(tmp_path, cpuinfo):
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert processor(tmp_path / "cpuinfo") in (platform.processor(), platform.machine())


def test_the_machine_has_all_that_tells_two_records_apart():
    said = machine(["cpu"])
    assert said["machine"].keys() == {"system", "architecture", "processor", "cores"}
    assert said["device"] == {"torch": ["cpu"]}
