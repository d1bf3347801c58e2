import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices.energy import Power

SECONDS = st.floats(0, 1e6)


def test_joules_are_watts_times_seconds():
    # 100 s idle at 0.5 W, 20 s computing at 4 W, 10 s on air at 1.2 W
    assert Power(0.5, 4.0, 1.2).joules(100, 20, 10) == pytest.approx(50 + 80 + 12)


def test_nothing_known_is_nothing_drawn():
    assert Power().joules(1e6, 1e6, 1e6) == 0


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_two_stretches_draw_what_one_does(a, b, c, d):
    power = Power(0.5, 4.0, 1.2)
    apart = power.joules(a, b, 0) + power.joules(c, d, 0)
    assert apart == pytest.approx(power.joules(a + c, b + d, 0))


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf])
@pytest.mark.parametrize("what", ["idle", "compute", "radio"])
def test_power_and_seconds_that_are_none_are_refused(what, bad):
    with pytest.raises(ValueError, match=f"{what} power"):
        Power(**{what: bad})
    with pytest.raises(ValueError, match=f"{what} lasts"):
        Power().joules(**{"idle": 0, "compute": 0, "radio": 0, what: bad})
