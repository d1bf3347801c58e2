"""`fedlapse trace`: files looked at, converted, drawn, and payloads sent over them; expected values are by hand."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest

from network.links.synth import presets, synth
from network.traces.read import read
from tests.all_of import all_of

# 1 MB/s for 10 s, nothing for 5 s, 2 MB/s for 5 s: 20 MB in 20 s
HILLS = "time_s,down_mbit_s\n0,8\n10,0\n15,16\n20,\n"
# 1 MB/s for 10 s, then nothing for 10 s
HALF = "time_s,up_mbit_s\n0,8\n10,0\n20,\n"
IDEAL = ("--model", "ideal")


@pytest.fixture
def file(tmp_path):
    def write(text, name="link.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def one_line(done, *said):
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    for part in said:
        assert part in done.stderr


# --- info


def test_info_tells_what_a_trace_holds(fedlapse, file):
    (told,) = json.loads(fedlapse("trace", "info", file(HILLS), "--format", "json").stdout)["traces"]
    assert (told["format"], told["direction"], told["kind"], told["duration_s"]) == ("csv", "down", "capacity", 20)
    assert (told["mean_mbit_s"], told["p10_mbit_s"], told["p50_mbit_s"], told["p90_mbit_s"]) == (8, 0, 8, 16)
    assert (told["outages"], told["longest_outage_s"], told["outage_share"]) == (1, 5, 0.25)
    assert (told["latency_ms"], told["step_s"]) == (None, 1)


def test_info_warns_of_what_a_logger_did(fedlapse, file):
    """UCC's logger pings about every 14 s: of 20 rows those from one before the ping to four after it, at a tenth."""
    rates = [800.0 if 9 <= n < 15 else 8000.0 for n in range(20)]
    rows = [f"2019.12.16_11.49.{n:02},{rate},D,{90 if n == 10 else '-'}" for n, rate in enumerate(rates)]
    path = file("Timestamp,DL_bitrate,State,PINGAVG\n" + "\n".join(rows))
    (told,) = json.loads(fedlapse("trace", "info", path, "--format", "json").stdout)["traces"]
    assert "30% of the seconds lie around a ping, with 10% of the rate of the others" in told["remark"]
    assert "30% of the seconds" in " ".join(fedlapse("trace", "info", path).stdout.split())


def test_info_draws_a_sparkline(fedlapse, file):
    done = fedlapse("trace", "info", file(HILLS))
    assert done.returncode == 0
    line = next(line for line in done.stdout.splitlines() if "█" in line).split()[0]
    n = len(line)
    low, out, high = line[: n // 2], line[n // 2 + 1 : 3 * n // 4 - 1], line[3 * n // 4 + 1 :]
    # half of the largest is the fifth of eight bars
    assert (set(low), set(out), set(high)) == ({"▅"}, {"▁"}, {"█"})
    assert "0 to 16 Mbit/s" in done.stdout


def test_info_shows_the_others_beside_a_bad_file(fedlapse, file):
    done = fedlapse("trace", "info", file(HILLS), file("0 1\n1 -2\n", "bad"))
    assert "link.csv" in done.stdout
    one_line(done, "bad: line 2", "'-2'")


def test_info_says_that_a_file_is_missing(fedlapse):
    one_line(fedlapse("trace", "info", "nowhere.csv"), "nowhere.csv: there is no such file")
    one_line(fedlapse("trace", "info", "."), ".: is not a file")


def test_a_file_that_may_not_be_read_is_told_in_one_line(fedlapse, file, monkeypatch):
    path = file(HILLS)
    monkeypatch.setattr("os.access", lambda *_, **__: False)  # what click asks; a test may run as root

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    one_line(fedlapse("trace", "info", path), "link.csv: cannot be read: Permission denied")
    one_line(fedlapse("trace", "transfer", path, "--bytes", "2MB"), "link.csv: cannot be read: Permission denied")


def test_info_reads_a_file_as_it_is_told_to(fedlapse, file):
    path = file("0 1\n1 1\n2 3\n3 3\n", "pairs")  # also an Oboe trace
    one_line(fedlapse("trace", "info", path), "could be pensieve or oboe")
    done = fedlapse("trace", "info", path, "--from", "pensieve", "--format", "json")
    assert json.loads(done.stdout)["traces"][0]["duration_s"] == 3


def test_info_of_a_trace_shorter_than_a_second(fedlapse, file):
    done = fedlapse("trace", "info", file("time_s,up_mbit_s\n0,0\n0.5,\n"), "--format", "json")
    (told,) = json.loads(done.stdout)["traces"]
    assert (told["outages"], told["longest_outage_s"], told["mean_mbit_s"]) == (1, 0.5, 0)


def test_a_dead_trace_is_out_all_the_time(fedlapse, file):
    """Steps are whole: the last half second is in none of them."""
    done = fedlapse("trace", "info", file("time_s,up_mbit_s\n0,0\n1.5,\n"), "--format", "json")
    (told,) = json.loads(done.stdout)["traces"]
    assert (told["outages"], told["outage_share"]) == (1, 1.0)


def test_a_picture_never_replaces_a_trace(fedlapse, file):
    path = file(HILLS)
    one_line(fedlapse("trace", "info", path, "--plot", path), "ends in .png or .svg")
    assert path.read_text() == HILLS


@pytest.mark.slow
def test_info_and_transfer_draw_pictures(fedlapse, file, tmp_path):
    path = file(HILLS)
    assert fedlapse("trace", "info", path, "--plot", "a.png").returncode == 0
    assert fedlapse("trace", "transfer", path, "--bytes", "1MB", "--plot", "b.svg").returncode == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "bytes over the mean rate" in (tmp_path / "b.svg").read_text()


# --- convert


def test_a_constant_link_is_evenly_spaced_packets(fedlapse, file, tmp_path):
    # 12 Mbit/s are 1500 bytes a ms
    done = fedlapse("trace", "convert", file("time_s,down_mbit_s,latency_ms\n0,12,20\n1,,\n"), "out.down")
    assert (tmp_path / "out.down").read_text().split() == [str(ms) for ms in range(1, 1001)]
    assert "lost: the latency" in done.stdout
    assert "1500000 bytes of 1500000" in done.stdout


def test_both_directions_become_a_pair_and_come_back(fedlapse, file, tmp_path):
    path = file("time_s,down_mbit_s,up_mbit_s\n0,12,1.2\n1,,\n")
    assert fedlapse("trace", "convert", path, "pair", "--to", "mahimahi").returncode == 0
    assert fedlapse("trace", "convert", "pair", "back.csv").returncode == 0
    down, up = read(tmp_path / "back.csv")
    assert (down.carried(0, 1), up.carried(0, 1)) == pytest.approx((1.5e6, 1.5e5))


def test_a_pair_of_which_one_is_longer_is_cut_to_the_shorter(fedlapse, file, tmp_path):
    """As Mahimahi's own recordings are, by seconds: 1500 bytes a ms for 1 s down, and every other ms for 1.5 s up."""
    file("\n".join(map(str, range(1, 1001))), "drive.down")
    file("\n".join(map(str, range(2, 1501, 2))), "drive.up")
    done = fedlapse("trace", "convert", "drive", "drive.csv")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "lost: the last 0.5 of 1.5 s up, because the other way ends there"
    down, up = read(tmp_path / "drive.csv")
    assert (down.period, up.period) == (1, 1)
    assert (down.carried(0, 1), up.carried(0, 1)) == pytest.approx((1.5e6, 0.75e6))


def test_our_own_csv_keeps_all(fedlapse, file, tmp_path):
    path = file("# kind: achieved\ntime_s,down_mbit_s,latency_ms,loss\n0,8,20,0.5\n1,16,30,0\n4,,,\n")
    done = fedlapse("trace", "convert", path, "copy.csv")
    assert "lost: nothing" in done.stdout
    (was,), (now,) = read(path), read(tmp_path / "copy.csv")
    assert (was.rates.tolist(), was.kind) == (now.rates.tolist(), now.kind)
    assert (now.latency_at(2), now.loss_at(0)) == (0.03, 0.5)


def test_a_goodput_for_mahimahi_comes_with_a_warning(fedlapse, file):
    done = fedlapse("trace", "convert", file("0 1\n1 1\n2 3\n", "walk"), "walk.down")
    assert "lost: the kind" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["link.csv", "link.csv"], "link.csv is there already; --force replaces it"),
        (["link.csv", "out"], "does not tell a format"),
        (["link.csv", "out", "--to", "oboe"], "there is no writer for it"),
        (["link.csv", "out.up"], "what was read has the direction down"),
        (["link.csv", "out.csv", "--direction", "up"], "holds no trace of the direction up"),
        (["link.csv", "out.csv", "--from", "mahimahi"], "its direction must be named"),
    ],
)
def test_what_cannot_be_converted_is_told_in_one_line(fedlapse, file, arguments, said):
    path = file(HILLS)
    one_line(fedlapse("trace", "convert", *arguments), said)
    assert path.read_text() == HILLS


# --- synth


def test_synth_writes_both_directions_of_a_seed(fedlapse, tmp_path):
    assert fedlapse("trace", "synth", "lte-driving", "--seconds", 60, "--seed", 3, "-o", "out.csv").returncode == 0
    down, up = read(tmp_path / "out.csv")
    assert down.carried(0, 60) == pytest.approx(synth("lte-driving", 60, 3, "down").carried(0, 60))
    assert up.carried(0, 60) == pytest.approx(synth("lte-driving", 60, 3, "up").carried(0, 60))
    assert (tmp_path / "out.csv").read_text().startswith("# made by fedlapse trace synth lte-driving --seconds 60")


def test_synth_without_a_preset_lists_them(fedlapse):
    listed = json.loads(fedlapse("trace", "synth", "--format", "json").stdout)
    assert [one["name"] for one in listed] == list(presets())
    text = fedlapse("trace", "synth").stdout
    assert all_of(name in text for name in presets())
    assert "~100" in text  # a satellite's mean is assumed


def test_synth_without_a_file_writes_to_the_terminal(fedlapse):
    lines = fedlapse("trace", "synth", "wifi", "--seconds", 3, "--direction", "up").stdout.splitlines()
    assert lines[1] == "time_s,up_mbit_s,latency_ms"
    assert len(lines) == 2 + 3 + 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["4g"], "there is no preset '4g'; there are 3g, "),
        (["wifi", "--seconds", "-1"], "the duration is -1.0 s"),
        (["wifi", "-o", "out"], "does not tell a format"),
        (["wifi", "--to", "mahimahi"], "say --direction"),
    ],
)
def test_what_cannot_be_drawn_is_told_in_one_line(fedlapse, arguments, said):
    one_line(fedlapse("trace", "synth", *arguments), said)


# --- transfer


def sent(fedlapse, *arguments):
    done = fedlapse("trace", "transfer", *arguments, "--format", "json")
    assert done.returncode == 0
    (link,) = json.loads(done.stdout)["links"]
    return link


def test_transfer_starts_again_and_again(fedlapse, file):
    link = sent(fedlapse, file(HALF), "--bytes", "2MB", "--every", "5s", *IDEAL)
    # from 0 and 5 s at full rate; from 10 and 15 s after the outage, 2 s into the loop
    assert [one["taken_s"] for one in link["transfers"]] == pytest.approx([2, 2, 12, 7])
    assert (link["min_s"], link["median_s"], link["max_s"], link["mean_s"]) == pytest.approx((2, 4.5, 12, 5.75))
    assert (link["looped"], link["never"]) == (2, 0)
    assert link["bytes_over_mean_rate_s"] == pytest.approx(4)  # 10 MB in 20 s


def test_transfers_over_a_dead_link_never_end(fedlapse, file):
    path = file("time_s,down_mbit_s\n0,0\n20,\n")
    link = sent(fedlapse, path, "--bytes", "2MB")
    assert (link["starts"], link["never"], link["median_s"]) == (2, 2, None)
    assert " ∞ " in fedlapse("trace", "transfer", path, "--bytes", "2MB").stdout


def test_ideal_is_latency_then_bytes_at_the_rate(fedlapse, file):
    link = sent(fedlapse, file("time_s,up_mbit_s\n0,8\n5,\n"), "--bytes", "2MB", "--latency", "50ms", *IDEAL)
    assert link["median_s"] == pytest.approx(0.05 + 2)


def test_the_files_latency_is_used_when_none_is_given(fedlapse, file):
    link = sent(fedlapse, file("time_s,up_mbit_s,latency_ms\n0,8,100\n5,,\n"), "--bytes", "2MB", *IDEAL)
    assert link["median_s"] == pytest.approx(0.1 + 2)


def test_tcp_over_a_capacity_carries_headers(fedlapse, file):
    """And tcp is the default, as of scenarios."""
    link = sent(fedlapse, file("time_s,up_mbit_s\n0,8\n5,\n"), "--bytes", "2MB")
    assert link["median_s"] == pytest.approx((2e6 + 52 * math.ceil(2e6 / 1448)) / 1e6)


def test_tcp_over_a_goodput_adds_round_trips_alone(fedlapse, file):
    path = file("# kind: achieved\ntime_s,down_mbit_s\n0,8\n5,\n")
    link = sent(fedlapse, path, "--bytes", "2MB", "--model", "tcp", "--latency", "50ms")
    assert link["median_s"] == pytest.approx(3 * 0.1 + 2)  # TCP, TLS 1.3 and the request


def test_a_link_that_loses_all_never_ends_under_tcp(fedlapse, file):
    path = file("time_s,up_mbit_s,loss\n0,8,1\n5,,\n")
    assert sent(fedlapse, path, "--bytes", "2MB", "--model", "tcp")["never"] == 1


def test_transfer_is_told_as_a_table(fedlapse, file):
    done = fedlapse("trace", "transfer", file(HALF), "--bytes", "2MB", "--every", "5s", *IDEAL)
    row = next(line for line in done.stdout.splitlines() if line.startswith("up ")).split()
    assert row == ["up", "4", "2.00", "2.00", "4.50", "8.25", "11.2", "12.0", "5.75", "4.00", "0"]
    assert "2 of 4 went past the end of the trace" in done.stdout


def test_short_transfers_are_told_in_ms(fedlapse, file):
    """3 kB at 1 MB/s take 3 ms, which hundredths of a second would hide."""
    done = fedlapse("trace", "transfer", file("time_s,up_mbit_s\n0,8\n5,\n"), "--bytes", "3kB", *IDEAL)
    assert "in ms" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("up ")).split()
    assert row[2:] == ["3.0"] * 8 + ["0"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bytes", "2"], "'2' is not a size; write it as 6.65MB"),
        (["--bytes", "1e30MB"], "--bytes is 1e+27 GB; a payload has 1,000,000 GB at most"),
        (["--bytes", "2MB", "--every", "0s"], "starts must lie some time apart"),
        (["--bytes", "2MB", "--every", "0.5ms"], "--every 0.0005 s makes 40000 starts"),
        (["--bytes", "2MB", "--latency", "fast"], "'fast' is not a time"),
    ],
)
def test_a_transfer_that_cannot_be_is_told_in_one_line(fedlapse, file, arguments, said):
    one_line(fedlapse("trace", "transfer", file(HALF), *arguments), said)


# --- the terminal


@pytest.mark.slow
def test_a_reader_that_stops_reading_gets_no_traceback(tmp_path):
    command = f"{sys.executable} -m emulator trace synth wifi --seconds 100000 | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("# made by")
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_made_is_told(fedlapse, tmp_path):
    (tmp_path / "walk.csv").write_text("time_s,down_mbit_s,up_mbit_s\n0,4,2\n3,8,1\n5,,\n")
    new = tmp_path / "new" / "deeper"
    first = fedlapse("trace", "convert", tmp_path / "walk.csv", new / "a.csv")
    assert first.stdout.splitlines()[:2] == [f"made the folder {new}", f"wrote {new / 'a.csv'}"]
    assert "made the folder" not in fedlapse("trace", "convert", tmp_path / "walk.csv", new / "b.csv").stdout
