"""Facts: right or missing, whatever happens to their file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.ledger import facts as module
from emulator.ledger.facts import Fact, FactsFile

FACTS = [Fact(f"{number:064x}", "train", "s" * 64, [number, "device"], [number * 1.5, b"bits"]) for number in range(3)]


class Told(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small file, page by page as small as SQLite can make it."""
    path = tmp_path_factory.mktemp("facts") / "facts.sqlite"
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA page_size = 512")
        file.execute("VACUUM")
    file.close()
    filled(path)
    return path.read_bytes()


def filled(path: Path, told: Callable[[str], None] = Told()) -> None:  # noqa: B008
    facts = FactsFile(path, told)
    facts.about("name: some")
    for fact in FACTS:
        facts.put(fact)
    facts.close()


def wrong(path: Path) -> list[str]:
    """The faults that a command finds: facts in the file that were never put there, and missing facts that were not
    reported.  The command can then continue."""
    told, found = Told(), []
    facts = FactsFile(path, told)
    study = facts.about("name: some")
    for fact in FACTS:
        known = facts.get(fact.key)
        if known not in (fact, None):
            found.append(f"{known}")
        if known is None:
            facts.put(fact)
    if not told and [facts.get(fact.key) for fact in FACTS] != FACTS:
        found.append("something is missing, and nobody was told")
    if facts.scenario(study) not in ("name: some", None):
        found.append("another scenario")
    list(facts.keys()), facts.counts()
    facts.close()
    found += [text for text in told if "\n" in text or str(path) not in text]
    again = FactsFile(path, told)
    for fact in FACTS:
        if again.get(fact.key) is None:
            again.put(fact)
    if [again.get(fact.key) for fact in FACTS] != FACTS:
        found.append("not healed")
    again.close()
    return found


def test_a_fact_survives_reopening(tmp_path: Path) -> None:
    told = Told()
    filled(tmp_path / "facts.sqlite", told)
    facts = FactsFile(tmp_path / "facts.sqlite", told)
    assert [facts.get(fact.key) for fact in FACTS] == FACTS
    assert facts.get("f" * 64) is None
    assert facts.counts() == {"train": 3}
    assert told == []
    facts.close()


def test_a_fact_that_is_used_outlives_those_that_are_not(tmp_path: Path) -> None:
    filled(tmp_path / "facts.sqlite")
    _execute(tmp_path / "facts.sqlite", "UPDATE facts SET day = 0")  # used last in 1970
    facts = FactsFile(tmp_path / "facts.sqlite", Told())
    assert facts.get(FACTS[1].key) == FACTS[1]
    facts.drop(before=1)
    assert [facts.get(fact.key) for fact in FACTS] == [None, FACTS[1], None]
    facts.close()


def test_a_key_that_is_known_keeps_its_first_fact(tmp_path: Path) -> None:
    filled(tmp_path / "facts.sqlite")
    facts = FactsFile(tmp_path / "facts.sqlite", Told())
    facts.put(Fact(FACTS[0].key, "train", "t" * 64, [], ["other"]))
    assert facts.get(FACTS[0].key) == FACTS[0]
    facts.close()


# Every 409th byte, a prime; `make torture` takes all of them.
STEP = 1 if os.environ.get("FEDLAPSE_TORTURE") else 409


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_never_makes_another_fact(tmp_path: Path, sound: bytes, mask: int) -> None:
    for place in range(0, len(sound), STEP):
        data = bytearray(sound)
        data[place] ^= mask
        assert wrong(spoilt(tmp_path, place, bytes(data))) == [], place


def test_cut_anywhere_it_never_makes_another_fact(tmp_path: Path, sound: bytes) -> None:
    for length in range(0, len(sound), STEP):
        assert wrong(spoilt(tmp_path, length, sound[:length])) == [], length


def spoilt(folder: Path, number: int, data: bytes) -> Path:
    path = folder / str(number) / "facts.sqlite"
    path.parent.mkdir()
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"no database" * 100),
        lambda path: _execute(path, "PRAGMA user_version = 99"),
        lambda path: (path.unlink(), _execute(path, "CREATE TABLE others (x)")),
        lambda path: _execute(path, "ALTER TABLE facts RENAME COLUMN result TO came"),
        lambda path: _execute(path, "DROP TABLE facts"),
    ],
    ids=["no database", "newer", "foreign", "another column", "no table"],
)
def test_a_file_that_is_not_ours_is_set_aside_whole_and_another_one_begun(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    path, told = tmp_path / "facts.sqlite", Told()
    filled(path)
    spoil(path)
    before = path.read_bytes()
    facts = FactsFile(path, told)
    facts.get(FACTS[0].key)
    (aside,) = tmp_path.glob("facts.sqlite.damaged-*")
    (line,) = told
    assert line.startswith(f"{path} cannot be read (")
    assert line.endswith(f"; it is now {aside.name}, and a new one is begun")
    assert aside.read_bytes() == before
    assert facts.counts() == {}
    facts.put(FACTS[0])
    assert facts.get(FACTS[0].key) == FACTS[0]
    facts.close()


def _execute(path: Path, what: str) -> None:
    with sqlite3.connect(path) as file:
        file.execute(what)
    file.close()


@pytest.mark.parametrize("column", ["job", "study", "args", "result", "checksum"])
@pytest.mark.parametrize("value", ["NULL", "7", "x'00ff'", "cast(x'ff' as text)"])
def test_a_row_of_which_any_part_was_changed_is_no_fact(tmp_path: Path, column: str, value: str) -> None:
    path, told = tmp_path / "facts.sqlite", Told()
    filled(path)
    _execute(path, f"UPDATE facts SET {column} = {value} WHERE key = '{FACTS[1].key}'")
    facts = FactsFile(path, told)
    assert [facts.get(fact.key) for fact in FACTS] == [FACTS[0], None, FACTS[2]]
    assert told == [f"{path}: a fact is damaged; it is computed again"]
    facts.put(FACTS[1])
    assert facts.get(FACTS[1].key) == FACTS[1]
    facts.close()


def test_a_damaged_scenario_is_none(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    filled(path)
    facts = FactsFile(path, Told())
    study = facts.about("name: some")
    _execute(path, "UPDATE studies SET scenario = 'name: another'")
    assert facts.scenario(study) is None
    assert facts.about("name: some") == study
    assert facts.scenario(study) == "name: some"
    facts.close()


def test_a_file_that_another_process_keeps_to_itself_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    path, told = tmp_path / "facts.sqlite", Told()
    filled(path)
    facts = FactsFile(path, told)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert facts.get(FACTS[0].key) is None
    assert told == [f"{path}: database is locked; not all that is computed is remembered"]
    assert facts._file.execute("PRAGMA busy_timeout").fetchone() == (0,)
    other.execute("ROLLBACK")
    other.close()
    assert facts.get(FACTS[0].key) == FACTS[0]
    facts.close()


def test_a_full_disk_loses_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    path, told = tmp_path / "facts.sqlite", Told()
    filled(path)
    facts = FactsFile(path, told)
    facts._file.execute("PRAGMA max_page_count = 1")  # SQLite then answers as on a full disk
    for number in range(100):
        facts.put(Fact(f"{number:x}", "train", "s", ["x" * 1000], []))
    assert set(told) == {f"{path}: database or disk is full; not all that is computed is remembered"}
    assert [facts.get(fact.key) for fact in FACTS] == FACTS
    facts.close()


def test_where_it_only_reads_nothing_is_changed_and_all_that_is_sound_is_found(tmp_path: Path) -> None:
    path, told = tmp_path / "facts.sqlite", Told()
    filled(path)
    _execute(path, f"UPDATE facts SET job = 'evaluate' WHERE key = '{FACTS[1].key}'")
    _execute(path, "UPDATE facts SET day = 0")
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    facts = FactsFile(path, told, writes=False)
    facts.put(Fact("f" * 64, "train", "s", [], []))
    facts.about("name: another")
    assert [facts.get(key) for key in (*(fact.key for fact in FACTS), "f" * 64)] == [FACTS[0], None, FACTS[2], None]
    facts.close()
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
    assert told == [f"{path}: a fact is damaged; it is computed again"]


def test_where_it_only_reads_a_file_that_is_not_ours_is_an_os_error_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(OSError, match="not a database"):
        FactsFile(path, Told(), writes=False)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    filled(path)
    path.chmod(0o400)
    with pytest.raises(OSError, match="readonly"):
        FactsFile(path, Told())


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="unable to open"):
        FactsFile(tmp_path / "none" / "facts.sqlite", Told())


@pytest.mark.slow
def test_processes_that_put_the_same_keys_leave_each_once(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom emulator.ledger.facts import Fact, FactsFile\n"
        "facts = FactsFile(Path(sys.argv[1]), lambda text: sys.exit(text))\n"
        "for n in range(100):\n    facts.put(Fact(f'{n:x}', 'train', 's', [n], [n]))\n"
        "    assert facts.get(f'{n:x}').result == [n]\n"
    )
    path = tmp_path / "facts.sqlite"
    together = [subprocess.Popen([sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE) for _ in range(4)]
    assert [(each.communicate()[1], each.returncode) for each in together] == [(b"", 0)] * 4
    facts = FactsFile(path, Told())
    assert facts.counts() == {"train": 100}
    facts.close()


@pytest.mark.slow
def test_a_fact_outlives_a_process_that_is_killed_in_the_next_instant(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom emulator.ledger.facts import Fact, FactsFile\n"
        "facts = FactsFile(Path(sys.argv[1]), lambda text: sys.exit(text))\n"
        "for n in range(100):\n    facts.put(Fact(f'{n:x}', 'train', 's', [n], [n]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path, told = tmp_path / "facts.sqlite", Told()
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -signal.SIGKILL
    facts = FactsFile(path, told)
    assert facts.counts() == {"train": 100}
    assert told == []
    facts.close()
