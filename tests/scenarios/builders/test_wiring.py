"""Links as a scenario says them, and what becomes of them; rates by hand: 8 Mbit/s are a million bytes a second."""

import re

import numpy as np
import pytest

from network.links.rate import Constant
from network.links.synth import named, presets
from network.links.tcp import Tcp
from network.links.trace import Trace
from network.sharing.flow import SharedLink
from scenarios.builders import machines, wiring
from scenarios.load import BadScenario, build, parse
from tests.all_of import all_of
from tests.conftest import merged

PLAIN = {"name": "t", "fleet": [{"profile": "pi-4", "link": {"up_mbit_s": 8, "down_mbit_s": 16}}]}
BOTH = "time_s,down_mbit_s,up_mbit_s\n0,8,4\n10,16,8\n20,,\n"
DOWN = "time_s,down_mbit_s\n0,8\n10,16\n20,\n"
ACHIEVED = "# kind: achieved\ntime_s,down_mbit_s,up_mbit_s\n0,8,8\n10,16,8\n20,,\n"


def scenario(link=None, count=1, **changes):
    fleet = [{"profile": "pi-4", "count": count, "link": link}] if link else PLAIN["fleet"]
    return build(merged(PLAIN, {"fleet": fleet, **changes}))


def links(link=None, count=1, **changes):
    """The links of a fleet of one group, in the order of names."""
    return list(machines.fleet(scenario(link, count, **changes))[1].values())


def refused(*args, **changes):
    with pytest.raises(BadScenario) as caught:
        links(*args, **changes)
    return str(caught.value)


def told(text):
    """The message about a scenario's text, with its places."""
    with pytest.raises(BadScenario) as caught:
        parse(text, "t.yaml")
    return str(caught.value)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder in which files are written by name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDLAPSE_DATA", raising=False)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


# --- numbers and draws


def test_numbers_are_rates_in_bytes_and_latencies_in_seconds():
    (link,) = links({"up_mbit_s": 8, "down_mbit_s": 16, "latency_ms": 40, "loss": 0.01})
    assert (link.up, link.down, link.latency, link.loss, link.via) == (1e6, 2e6, 0.04, 0.01, None)
    assert not link.varies


def test_draws_differ_from_device_to_device_and_are_the_same_each_time():
    said = {"up_mbit_s": {"uniform": {"low": 1, "high": 9}}, "down_mbit_s": 8, "latency_ms": {"choice": [10, 20]}}
    rates = [link.up for link in links(said, 12)]
    assert len(set(rates)) == 12
    assert all_of(1e6 / 8 <= rate <= 9e6 / 8 for rate in rates)
    assert {link.latency for link in links(said, 12)} == {0.01, 0.02}
    assert [link.up for link in links(said, 12)] == rates
    assert [link.up for link in links(said, 12, fleet_seed=7)] != rates


def test_a_device_keeps_what_it_drew_when_others_join():
    said = {"up_mbit_s": {"uniform": {"low": 1, "high": 9}}, "down_mbit_s": 8}
    assert [link.up for link in links(said, 3)] == [link.up for link in links(said, 9)][:3]


# --- how bytes travel


def test_tcp_is_what_there_is_unless_something_else_is_said():
    """Defaults: cubic, a window of ten segments at first, TLS 1.3, kept alive, idle reset; windows on full links."""
    (link,) = links()
    assert link.tcp == Tcp("tcp", "cubic", 1448, 10, 2.0, 3 * 2**20, 1, True, True, windows=True)


def test_every_setting_of_the_network_reaches_the_link():
    said = {
        "model": "tcp",
        "congestion": "bbr",
        "tls": 2,
        "initial_window": 4,
        "window_mb": 1.5,
        "keep_alive": False,
        "idle_reset": False,
        "ethernet": True,
    }
    (link,) = links(network=said)
    assert link.tcp == Tcp("tcp", "bbr", 1448, 4, 2.0, 1_500_000, 2, False, False, True)


def test_a_link_may_have_a_model_of_its_own():
    models = [
        links({"up_mbit_s": 8, "down_mbit_s": 8, **own}, network={"model": "lv08"})[0].tcp.model
        for own in ({}, {"model": "ideal"})
    ]
    assert models == ["lv08", "ideal"]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("{model: udp}", "network.model: 'udp' is not known"),
        ("{congestion: cubik}", "did you mean cubic?"),
        ("{tls: 3}", "network.tls: 3 is not known"),
        ("{window_mb: 0}", "network.window_mb: it must be greater than or equal to 0.001"),
        ("{initial_window: 0}", "network.initial_window"),
        ("{modell: tcp}", "unknown key 'modell'; did you mean model?"),
    ],
)
def test_a_network_that_cannot_be_is_told_with_what_would_be_right(network, message):
    fleet = "fleet: [{profile: pi-4, link: {up_mbit_s: 1, down_mbit_s: 1}}]\n"
    said = told(f"name: t\n{fleet}network: {network}\n")
    assert message in said
    assert said.startswith("t.yaml:3:")


# --- recorded links


def test_a_file_with_both_directions_is_the_whole_link(here):
    here(walk_csv=BOTH)
    (link,) = links({"trace": {"down": "walk.csv"}})
    assert (link.down.direction, link.up.direction) == ("down", "up")
    assert [link.rate("down").at(t) for t in (0, 15, 20)] == [1e6, 2e6, 1e6]
    assert [link.rate("up").at(t) for t in (0, 15)] == [0.5e6, 1e6]
    assert link.varies


def test_a_downlink_needs_an_uplink_and_says_how(here):
    here(walk_csv=DOWN)
    said = refused({"trace": {"down": "walk.csv"}})
    assert "walk.csv: is a downlink only" in said
    assert all(way in said for way in ("up_mbit_s", "trace.up", "up_ratio", "symmetric"))


def test_recordings_are_told_with_their_place_where_they_are_to_be_read(here):
    here(walk_csv=DOWN, back_csv="time_s,down_mbit_s,up_mbit_s\n0,8,4\n2,8,4\n1,8,4\n")
    text = "name: t\nfleet:\n" + "".join(
        f"  - {{profile: pi-4, link: {{trace: {{down: {name}}}}}}}\n" for name in ("walk.csv", "back.csv")
    )
    assert parse(text, "t.yaml").devices == 2
    with pytest.raises(BadScenario) as caught:
        parse(text, "t.yaml", recordings=True)
    walk, back = (line for line in str(caught.value).splitlines() if line.startswith("t.yaml"))
    column = text.splitlines()[2].index("{down") + 1
    assert walk.startswith(f"t.yaml:3:{column}: fleet.0.link.trace: walk.csv: is a downlink only; give up_mbit_s")
    assert back.startswith(f"t.yaml:4:{column}: fleet.1.link.trace: back.csv: line 4: ")


def test_recordings_of_shared_links_and_the_server_are_told_with_their_place(here):
    text = "name: t\nfleet: [{profile: pi-4, link: {up_mbit_s: 1, down_mbit_s: 1, via: cell}}]\n"
    text += "topology: {cell: {trace: {down: a}}}\nserver: {link: {trace: {down: b}}}\n"
    with pytest.raises(BadScenario) as caught:
        parse(text, "t.yaml", recordings=True)
    shared, own = (line.index("{down") + 1 for line in text.splitlines()[2:])
    assert f"t.yaml:3:{shared}: topology.cell.trace: a: there is no such file" in str(caught.value)
    assert f"t.yaml:4:{own}: server.link.trace: b: there is no such file" in str(caught.value)


def test_a_column_of_zeros_is_no_uplink(here):
    """Such a column once ended in a division by zero."""
    here(still_csv="time_s,down_mbit_s,up_mbit_s\n0,8,0\n5,,\n")
    assert "still.csv: is a downlink only" in refused({"trace": {"down": "still.csv"}})
    assert "still.csv: carries no bytes up" in refused({"trace": {"down": "still.csv", "up": "still.csv"}})
    (link,) = links({"trace": {"down": "still.csv", "up_ratio": 0.5}})
    assert link.rate("up").at(0) == 0.5e6


@pytest.mark.parametrize(
    ("more", "rate"), [({"up_ratio": 0.2}, 0.2e6), ({"symmetric": True}, 1e6), ({"up": "other.csv"}, 0.5e6)]
)
def test_an_uplink_is_a_part_of_the_downlink_or_the_same_or_another_file(here, more, rate):
    here(walk_csv=DOWN, other_csv=BOTH)
    (link,) = links({"trace": {"down": "walk.csv", **more}})
    assert link.rate("up").at(0.0) == rate


def test_an_uplink_may_be_a_number(here):
    here(walk_csv=DOWN)
    (link,) = links({"trace": {"down": "walk.csv"}, "up_mbit_s": 2})
    assert link.rate("up") == Constant(0.25e6)


LOGS = {
    "hsdpa": "".join(f"{n * 1.5} 2.{n % 7}1\n" for n in range(40)),
    "sigcomm21": "1 5\n2 6\n3 7\n4 8\n",
    "oboe": "0 800\n4000 800\n4500 900\n9000 900\n",
}


@pytest.mark.parametrize("log", LOGS)
def test_a_log_of_downloads_is_no_uplink(here, log):
    """No downlink file is used as an uplink in silence."""
    here(log=LOGS[log], walk_csv=DOWN)
    assert "log of downloads: it says nothing about an uplink" in refused({"trace": {"down": "walk.csv", "up": "log"}})
    assert "log: is a downlink only" in refused({"trace": {"down": "log"}})


def test_a_downlink_only_log_is_achieved_throughput_and_so_is_its_part(here):
    here(log=LOGS["hsdpa"])
    (link,) = links({"trace": {"down": "log", "up_ratio": 0.5}})
    assert (link.down.kind, link.up.kind) == ("achieved", "achieved")


def test_two_uplinks_are_one_too_many(here):
    here(walk_csv=DOWN)
    assert "one of up, up_ratio and symmetric; two" in refused(
        {"trace": {"down": "walk.csv", "up_ratio": 0.2, "symmetric": True}}
    )
    assert "not two" in refused({"trace": {"down": "walk.csv", "up_ratio": 0.2}, "up_mbit_s": 2})
    assert "leave down_mbit_s out" in refused({"trace": {"down": "walk.csv"}, "down_mbit_s": 2})


def test_a_mahimahi_pair_goes_by_its_stem_and_in_a_folder(here):
    here(lte_down="1\n2\n", lte_up="2\n", more__lte_down="1\n2\n", more__lte_up="2\n")
    for named_as in ("lte", "more"):
        (link,) = links({"trace": {"down": named_as}})
        assert (link.down.mean, link.up.mean) == (1.5e6, 0.75e6)  # 1500 bytes a line, 2 ms a period


def test_half_of_a_pair_by_its_own_name_is_that_half(here):
    here(lte_down="1\n2\n", lte_up="2\n")
    assert "lte.down: is a downlink only" in refused({"trace": {"down": "lte.down"}})
    (link,) = links({"trace": {"down": "lte.down", "up": "lte.up"}})
    assert link.up.mean == 0.75e6


def test_a_folder_gives_each_device_one_of_its_traces(here):
    files = {f"traces__{n}_csv": f"time_s,down_mbit_s,up_mbit_s\n0,{n},{n}\n5,,\n" for n in (1, 2, 3)}
    here(**files, traces__README_md="# what this is\nTraces.\n", traces__notes_txt="hello")
    drawn = [link.down.peak * 8 / 1e6 for link in links({"trace": {"down": "traces"}}, 30)]
    assert set(drawn) == {1, 2, 3}
    assert [link.down.peak * 8 / 1e6 for link in links({"trace": {"down": "traces"}}, 30)] == drawn


def test_as_many_uplinks_as_downlinks_go_in_pairs(here):
    for n in (1, 2, 3):
        here(**{f"d{n}_csv": f"time_s,down_mbit_s\n0,{n}\n5,\n", f"u{n}_csv": f"time_s,up_mbit_s\n0,{n}\n5,\n"})
    said = {"trace": {"down": ["d1.csv", "d2.csv", "d3.csv"], "up": ["u1.csv", "u2.csv", "u3.csv"]}}
    made = links(said, 20)
    assert {link.down.peak for link in made} == {125e3, 250e3, 375e3}
    assert all_of(link.up.peak == link.down.peak for link in made)


def test_a_damaged_file_in_a_folder_is_told_and_not_passed_over(here):
    here(traces__a_csv=BOTH, traces__b_csv="time_s,down_mbit_s,up_mbit_s\n0,8,x\n")
    said = refused({"trace": {"down": "traces"}})
    assert "b.csv: line 2" in said
    assert "'x'" in said


@pytest.mark.parametrize(
    ("down", "message"),
    [
        ("nowhere.csv", "no such file"),
        ("empty", "empty holds no downlink trace"),
        ("still.csv", "carries no bytes down"),
        ("only.up", "has the suffix up"),
        ("~nobody-is-called-so/x", "home"),
        ("x" * 4000, "too long"),
        ("a\0b", "no such file"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_one_line(here, down, message):
    here(empty__readme="nothing", still_csv="time_s,down_mbit_s,up_mbit_s\n0,0,1\n5,,\n", only_up="1\n")
    said = refused({"trace": {"down": down}})
    assert "\n" not in said
    assert message in said


def test_files_are_looked_for_in_the_data_folder_too(here, tmp_path, monkeypatch):
    here(data__walk_csv=BOTH, data__lte_down="1\n2\n", data__lte_up="2\n")
    monkeypatch.setenv("FEDLAPSE_DATA", str(tmp_path / "data"))
    assert links({"trace": {"down": "walk.csv"}})[0].down.peak == 2e6
    assert links({"trace": {"down": "lte"}})[0].down.mean == 1.5e6


def test_the_same_name_in_another_folder_is_another_file(here, tmp_path, monkeypatch):
    here(a__walk_csv=BOTH, b__walk_csv=BOTH.replace("16", "24"))
    peaks = []
    for folder in ("a", "b"):
        monkeypatch.chdir(tmp_path / folder)
        peaks.append(links({"trace": {"down": "walk.csv"}})[0].down.peak)
    assert peaks == [2e6, 3e6]


def test_a_latency_that_is_said_wins_over_the_recorded_one(here):
    here(walk_csv="time_s,down_mbit_s,up_mbit_s,latency_ms\n0,8,8,70\n5,,,\n")
    said = {"trace": {"down": "walk.csv"}}
    delays = [
        links({**said, **more}, network={"model": "ideal"})[0].passage("down", 1, 0.0).delay
        for more in ({}, {"latency_ms": 20})
    ]
    assert delays == [0.07, 0.02]


def test_a_format_may_be_named_where_content_leaves_it_open(here):
    """Two seconds of a rate in Mbit/s, or chunks of 1 ms in kbit/s?"""
    here(traces__log="0 1\n1 1\n2 3\n3 3\n", log="0 1\n1 1\n2 3\n3 3\n")
    peaks = {}
    for down in ("log", "traces"):
        said = {"down": down, "symmetric": True}
        assert "name its format" in refused({"trace": said})
        for name in ("pensieve", "oboe"):
            peaks[name] = links({"trace": {**said, "format": name}})[0].down.peak
        assert peaks == {"pensieve": 3e6 / 8, "oboe": 3e3 / 8}


# --- radios


@pytest.mark.parametrize("name", presets())
def test_a_radio_is_its_presets_link_with_its_latency(name):
    (link,) = links({"radio": name})
    assert isinstance(link.down, Trace)
    assert isinstance(link.up, Trace)
    assert (link.down.direction, link.up.direction, link.down.kind) == ("down", "up", "capacity")
    assert link.latency == named(name).latency
    assert link.down.period == link.up.period == 3600


def test_the_devices_of_a_radio_have_sequences_of_their_own_that_stay():
    first, second = links({"radio": "lte-driving"}, 2)
    again = links({"radio": "lte-driving"}, 5)[0]
    assert not np.array_equal(first.down.rates, second.down.rates)
    assert np.array_equal(first.down.rates, again.down.rates)
    assert np.array_equal(first.up.rates, again.up.rates)


def test_both_directions_of_a_radio_are_of_one_radio():
    """Outages they share, always (network/links/synth.py)."""
    (link,) = links({"radio": "3g-driving"})
    assert np.array_equal(link.down.rates == 0, link.up.rates == 0)
    assert (link.down.rates == 0).any()


def test_a_radio_may_have_another_latency():
    assert links({"radio": "lte-driving", "latency_ms": 5})[0].latency == 0.005


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("{radio: lte-drivin}", "there is no radio 'lte-drivin'; did you mean lte-driving?"),
        ("{radio: lte-driving, up_mbit_s: 1}", "a radio has its own rates"),
        ("{radio: lte-driving, trace: {down: x}}", "trace or radio, not both"),
        ("{latency_ms: 3}", "a link needs up_mbit_s and down_mbit_s, or trace, or radio"),
        ("{up_mbit_s: 3}", "a link needs up_mbit_s and down_mbit_s, or trace, or radio"),
        ("{trace: {down: []}}", "fleet.0.link.trace.down: it must not be empty"),
        ("{trace: {down: x, format: mahimai}}", "did you mean mahimahi?"),
        ("{trace: {up: x}}", "'down' is missing"),
        ("{up_mbit_s: 1, down_mbit_s: 1, loss: 1.0}", "fleet.0.link.loss: it must be less than 1"),
        ("{up_mbit_s: 1, down_mbit_s: 1, model: quic}", "fleet.0.link.model: 'quic' is not known"),
    ],
)
def test_a_link_that_cannot_be_is_told_with_its_place(link, message):
    said = told(f"name: t\nfleet:\n  - {{profile: pi-4, link: {link}}}\n")
    assert message in said
    assert said.startswith("t.yaml:3:")


# --- topology


TREE = {
    "home": {"airtime": True, "behind": "dsl"},
    "cell": {"up_mbit_s": 8, "down_mbit_s": 16, "behind": "dsl"},
    "dsl": {"up_mbit_s": 4, "down_mbit_s": 40},
}


def test_shared_links_have_a_capacity_each_way_and_an_airtime_of_one():
    made = wiring.topology(scenario(topology=TREE))
    assert made["down"]["cell"] == SharedLink(2e6, "dsl", False)
    assert made["up"]["cell"] == SharedLink(1e6, "dsl", False)
    assert made["up"]["dsl"] == SharedLink(0.5e6, None, False)
    assert made["down"]["home"] == made["up"]["home"] == SharedLink(1.0, "dsl", True)


def test_a_buffer_is_in_kilobytes_and_without_one_nothing_waits():
    cell = {"up_mbit_s": 8, "down_mbit_s": 16, "buffer_kb": 250}
    made = wiring.topology(scenario(topology={"cell": cell, "dsl": TREE["dsl"]}))
    assert [made[way][name].buffer for name in ("cell", "dsl") for way in ("down", "up")] == [250e3, 250e3, 0, 0]
    rates = {"up_mbit_s": 8, "down_mbit_s": 8}
    servers = [wiring.server(scenario(server={"link": {**rates, **more}})) for more in ({"buffer_kb": 1.5}, {})]
    assert [server.buffer for server in servers] == [1500, 0]


def test_without_a_topology_each_device_has_a_way_of_its_own():
    assert wiring.topology(scenario()) == {"down": {}, "up": {}}


def test_devices_are_dealt_to_stations_in_turn():
    said = {"up_mbit_s": 8, "down_mbit_s": 8, "via": ["home", "cell", "dsl"]}
    vias = [link.via for link in links(said, 7, topology=TREE)]
    assert sorted(vias.count(name) for name in TREE) == [2, 2, 3]
    assert all(vias[number] == vias[number - 3] for number in range(3, 7))


def test_one_station_is_for_all():
    assert {link.via for link in links({"up_mbit_s": 8, "down_mbit_s": 8, "via": "cell"}, 4, topology=TREE)} == {"cell"}


LINK = "fleet:\n  - {profile: pi-4, link: {up_mbit_s: 1, down_mbit_s: 1%s}}\n"


@pytest.mark.parametrize(
    ("topology", "link", "at", "message"),
    [
        (
            "a: {airtime: true, up_mbit_s: 3}",
            "",
            "{airtime",
            "topology.a: a link with `airtime: true` has no rate of its own",
        ),
        (
            "a: {airtime: true, buffer_kb: 9}",
            "",
            "{airtime",
            "topology.a: a link with `airtime: true` has no queue of its own",
        ),
        (
            "a: {up_mbit_s: 3, down_mbit_s: 3, buffer_kb: 0}",
            "",
            "0}",
            "topology.a.buffer_kb: it must be greater than 0",
        ),
        ("a: {up_mbit_s: 3, down_mbit_s: 3, buffer_kb: 1e7}", "", "1e7", "it must be less than or equal to 1000000"),
        ("a: {up_mbit_s: 3, down_mbit_s: 3, buffer_kb: 9kB}", "", "9kB", "buffer_kb: it must be a valid number"),
        ("a: {up_mbit_s: 3, down_mbit_s: 3, bufer_kb: 9}", "", "bufer", "did you mean buffer_kb?"),
        ("a: {up_mbit_s: 3}", "", "{up_", "topology.a: a link needs up_mbit_s and down_mbit_s, or trace, or radio"),
        (
            "a: {airtime: true, trace: {down: x}}",
            "",
            "{airtime",
            "topology.a: a link with `airtime: true` has no rate of its own",
        ),
        ("a: {trace: {down: x}, down_mbit_s: 3}", "", "{trace", "topology.a: trace.down gives the downlink"),
        ("a: {trace: {down: x, capacity: cell}}", "", "capacity", "unknown key 'capacity'"),
        ("a: {trace: {down: x, up_source: y}}", "", "{down", "up_source says where up_ratio is from"),
        ("a: {trace: {down: x, format: mahimai}}", "", "mahimai", "topology.a.trace.format: there is no format"),
        ("a: {radio: lte}", "", "lte}", "topology.a.radio: there is no radio 'lte'"),
        ("a: {airtime: true, behind: b}", "", "b}", "topology.a.behind: there is no 'b'"),
        ("dsl: {up_mbit_s: 1, down_mbit_s: 1}, a: {airtime: true, behind: dssl}", "", "dssl", "did you mean dsl?"),
        (
            "a: {up_mbit_s: 1, down_mbit_s: 1, behind: b}, b: {up_mbit_s: 1, down_mbit_s: 1, behind: a}",
            "",
            "b}",
            "a -> b -> a: no way leads to the server",
        ),
        ("a: {airtime: true, behind: a}", "", "a}", "a -> a: no way leads to the server"),
        (
            "a: {airtime: true}, b: {airtime: true, behind: a}",
            "",
            "a}",
            "topology.b.behind: a shares airtime, so only devices can be behind it",
        ),
        ("a b: {airtime: true}", "", "{airtime", "begin with a letter or digit"),
        ("cell: {airtime: true}", ", via: sell", "sell", "fleet.0.link.via: there is no 'sell'; did you mean cell?"),
        ("cell: {airtime: true}", ", via: [cell, sell]", "[cell", "there is no 'sell'; did you mean cell?"),
        ("cell: {airtime: true}", ", via: []", "[]", "must not be empty"),
        ("cell: {airtime: true, behnd: x}", "", "behnd", "unknown key 'behnd'; did you mean behind?"),
    ],
)
def test_a_topology_that_cannot_be_is_told_with_place_and_hint(topology, link, at, message):
    text = f"name: t\ntopology: {{{topology}}}\n" + LINK % link
    said = told(text)
    assert message in said
    line, column = map(int, re.match(r"t\.yaml:(\d+):(\d+):", said).groups())
    assert text.splitlines()[line - 1][column - 1 :].startswith(at)


def test_who_is_behind_a_station_that_there_is_not_is_told_so_without_any():
    assert "there is no 'cell'; topology names none" in told("name: t\n" + LINK % ", via: cell")


def test_a_recording_of_one_phone_is_not_put_behind_a_cell_again(here):
    """A per-phone trace already contains its share."""
    here(walk_csv=BOTH)
    said = told(
        "name: t\ntopology: {cell: {up_mbit_s: 9, down_mbit_s: 9}}\n"
        "fleet:\n  - {profile: pi-4, link: {trace: {down: walk.csv}, via: cell}}\n"
    )
    assert said.startswith("t.yaml:4:35: fleet.0.link.trace: a recording of one phone contains its share")
    assert "capacity: cell" in said


def test_a_recording_of_a_whole_cell_may_be_behind_one(here):
    here(walk_csv=BOTH)
    said = {"trace": {"down": "walk.csv", "capacity": "cell"}, "via": "cell"}
    (link,) = links(said, topology={"cell": {"up_mbit_s": 9, "down_mbit_s": 9}})
    assert (link.via, link.down.peak) == ("cell", 2e6)


def test_a_generated_radio_is_not_put_behind_a_cell():
    said = told(
        "name: t\ntopology: {c: {airtime: true}}\nfleet: [{profile: pi-4, link: {radio: lte-driving, via: c}}]\n"
    )
    assert "leave via out" in said
    assert said.startswith("t.yaml:3:")


@pytest.mark.parametrize("up", [{}, {"up": "walk.csv"}])
def test_achieved_throughput_is_never_shared(here, up):
    """An upper bound of what one download had: what two would share, it does not say.  Of the uplink as well."""
    here(walk_csv=ACHIEVED, other_csv=DOWN)
    topology = {"cell": {"up_mbit_s": 9, "down_mbit_s": 9}}
    said = {"down": "other.csv" if up else "walk.csv", **up, "capacity": "cell"}
    assert "cannot be shared" in refused({"trace": said, "via": "cell"}, topology=topology)
    assert links({"trace": {key: value for key, value in said.items() if key != "capacity"}})[0].varies


# --- recordings of what is shared


BEHIND = {"up_mbit_s": 8, "down_mbit_s": 16, "via": "cell"}


def shared(cell, **changes):
    """The link of a cell, down and up."""
    made = wiring.topology(scenario(BEHIND, topology={"cell": cell, "dsl": TREE["dsl"]}, **changes))
    return made["down"]["cell"], made["up"]["cell"]


def test_a_cell_may_be_recorded(here):
    here(cell_csv=BOTH, other_csv=DOWN)
    down, up = shared({"trace": {"down": "cell.csv"}, "behind": "dsl"})
    assert [down.capacity.at(t) for t in (0, 15, 20)] == [1e6, 2e6, 1e6]
    assert [up.capacity.at(t) for t in (0, 15)] == [0.5e6, 1e6]
    assert (down.parent, down.airtime) == ("dsl", False)
    _, up = shared({"trace": {"down": "other.csv", "up_ratio": 0.5}})
    assert up.capacity.at(0) == 0.5e6
    assert shared({"trace": {"down": "other.csv"}, "up_mbit_s": 2})[1] == SharedLink(0.25e6)


def test_a_cell_begins_in_each_seed_at_a_place_of_its_own(here):
    here(cell_csv=BOTH)
    down, up = shared({"trace": {"down": "cell.csv"}})
    assert [each.starting(0.75).capacity.offset for each in (down, up)] == [15, 15]
    assert SharedLink(5.0, "dsl").starting(0.75) == SharedLink(5.0, "dsl")


def test_of_several_recordings_a_cell_has_one_that_stays(here):
    here(**{f"c{n}_csv": f"time_s,down_mbit_s,up_mbit_s\n0,{n},{n}\n5,,\n" for n in (1, 2, 3)})
    said = {"trace": {"down": ["c1.csv", "c2.csv", "c3.csv"]}}
    peaks = {shared(said, fleet_seed=seed)[0].capacity.peak for seed in range(12)}
    assert peaks == {125e3, 250e3, 375e3}
    assert shared(said)[0].capacity.name == shared(said)[0].capacity.name


def test_a_generated_cell_is_its_preset(here):
    down, up = shared({"radio": "lte-driving"})
    assert (down.capacity.period, up.capacity.direction) == (3600, "up")


def test_the_servers_link_may_be_recorded_or_generated(here):
    """Its `down` is what devices upload into."""
    here(backhaul_csv=BOTH)
    _, link = machines.server(scenario(server={"link": {"trace": {"down": "backhaul.csv"}, "latency_ms": 20}}))
    assert (link.rate("down").at(0), link.rate("up").at(0), link.latency) == (1e6, 0.5e6, 0.02)
    assert machines.server(scenario(server={"link": {"radio": "satellite-leo"}}))[1].down.period == 3600
    assert "server.link.radio" in told(f"name: t\n{LINK % ''}server: {{link: {{radio: wify}}}}\n")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"down": "log.csv"}, "log.csv: is throughput that one transfer had, an upper bound that cannot be shared"),
        ({"down": "down.csv"}, "down.csv: is a downlink only; give up_mbit_s, or trace.up"),
        ({"down": "nowhere.csv"}, "nowhere.csv: there is no such file"),
        ({"down": "down.csv", "up": "down.csv"}, "down.csv: holds no trace of the direction up"),
    ],
)
def test_what_cannot_be_shared_is_told_with_the_name_of_the_link(here, said, message):
    here(log_csv=ACHIEVED, down_csv=DOWN)
    for where, changes in (
        ("topology.cell", {"topology": {"cell": {"trace": said}}}),
        ("server.link", {"server": {"link": {"trace": said}}}),
    ):
        with pytest.raises(BadScenario) as caught:
            wiring.topology(scenario(**changes)), machines.server(scenario(**changes))
        assert str(caught.value).startswith(f"{where}: {message}")
        assert "\n" not in str(caught.value)


def test_phones_behind_a_recorded_cell_say_what_their_radio_can(here):
    """A recording of the cell on each of them, too, would count it twice."""
    here(cell_csv=BOTH)
    said = {"trace": {"down": "cell.csv", "capacity": "cell"}, "via": "cell"}
    message = refused(said, topology={"cell": {"trace": {"down": "cell.csv"}}})
    assert "cell is recorded already; give up_mbit_s and down_mbit_s" in message
