"""Finds runs over sockets that took longer than the model says, because the host did not keep their speed-up."""

from __future__ import annotations

from emulator.record.run import Run
from emulator.replay.bare import Setting
from emulator.replay.replayer import Replayer
from emulator.replay.script import read_script
from emulator.results.results import Results

# Of the modelled time: less than any stated error of seconds, and more than a host adds that almost keeps the speed-up:
# 2 % at --speedup 1 on two busy cores, where it keeps 0.84 (quickstart, fedavg, 2026-11-28).
LEAST = 0.05


def overtime(found: Results) -> dict[str, float]:
    """Returns, by algorithm, by what share of its modelled time a run took longer; of several seeds the largest share,
    and none below LEAST.

    The modelled time is that of a replay, which has no host, so that decisions may differ.  Where the record lacks what
    a replay needs, as no device replied in time, no round may take longer than its deadline.
    """
    replayer, setting = Replayer(found.scenario), Setting.of(found.scenario)
    shares: dict[str, float] = {}
    for label, seeds in found.runs.items():
        deadline = found.scenario.under(label).rounds.deadline_s
        for seed, rows in seeds.items():
            script = read_script(found.folder / Run(label, seed).name) if rows else None
            replayed = replayer.replay(script, setting, anyway=True).rows[: len(rows)] if script else ()
            ends = [row["time_s"] for row in replayed] or ([deadline * len(rows)] if rows and deadline else [])
            if ends:
                last = rows[len(replayed) - 1]  # of all, if none was replayed
                shares[label] = max(shares.get(label, 0.0), last["time_s"] / ends[-1] - 1)
    return {label: share for label, share in shares.items() if share > LEAST}
