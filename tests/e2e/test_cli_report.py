"""``loadgen report`` on folders in every state a run or a sweep can be left in."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from loadgen.cli.__main__ import main
from loadgen.cli.variants import VARIANTS_NAME
from loadgen.control.journal import Ended, Stopped
from loadgen.store import RunDir
from tests.journals import AT, journal
from tests.recording_server import Recording, recording_server
from tests.report_runs import mixed, stored
from tests.sweeps import grid, swept
from tests.variants import side_by_side

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs the verb: exit code, what it said to stdout and to stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["report", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def finished(tmp_path: Path) -> RunDir:
    return stored(tmp_path / "results")


def edited(run: RunDir, path: Path, old: str, new: str) -> RunDir:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return run


def test_a_finished_run_is_judged_again_and_drawn(
    report: Said, finished: RunDir
) -> None:
    code, said, aside = report(finished.path)
    assert (code, aside) == (0, "")
    assert "Verdict: VALID" in said
    assert "Over time" in said
    assert "Time to the first token" in said


def test_json_is_the_summary_as_it_was_written(report: Said, finished: RunDir) -> None:
    code, said, _ = report(finished.path, "--json")
    written = json.loads(finished.summary_path.read_text())
    again = json.loads(said)
    written.pop("files")
    again.pop("files")
    assert (code, again) == (0, written)


def test_nothing_in_the_folder_is_touched(report: Said, finished: RunDir) -> None:
    def contents() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in finished.path.iterdir()}

    before = contents()
    report(finished.path)
    assert contents() == before


def test_the_page_and_the_files_are_written(
    report: Said, finished: RunDir, tmp_path: Path
) -> None:
    kinds = ("csv", "json", "junit", "markdown", "prometheus", "vllm-bench")
    exports = [f"--export={kind}={tmp_path / kind}" for kind in kinds]
    code, _, aside = report(finished.path, "--html", tmp_path / "page.html", *exports)
    assert (code, aside) == (0, "")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert all((tmp_path / kind).stat().st_size > 100 for kind in kinds)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--export", "csv"], "write KIND=FILE; kinds: json, csv, parquet"),
        (["--export", "xml=x"], "'xml=x' cannot be written of this"),
        (["--gate", "much"], "'much' is no share; write 95%"),
        (["--gate", "101%"], "'101%' is no share"),
        (["--slo", "ttft=2"], "--slo ttft: '2' is not a duration"),
        (["--html", "/no/such/folder/page.html"], "cannot write /no/such/folder"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(
    report: Said, finished: RunDir, flags: list[str], words: str
) -> None:
    code, _, aside = report(finished.path, *flags)
    assert code == 2
    assert words in aside
    assert aside.count("\n") == 1


@pytest.mark.parametrize(
    ("gate", "code"), [("1%", 0), ("0.01", 0), ("100%", 1), ("1", 1)]
)
def test_a_gate_decides_the_exit_code(
    report: Said, finished: RunDir, gate: str, code: int
) -> None:
    assert report(finished.path, "--gate", gate)[0] == code


def test_a_gate_is_a_test_case(report: Said, finished: RunDir, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    code, _, _ = report(finished.path, "--gate", "100%", "--export", f"junit={file}")
    (suite,) = ElementTree.parse(file).getroot()
    assert (code, suite.attrib["failures"]) == (1, "3")


def test_an_invalid_run_passes_no_gate(report: Said, tmp_path: Path) -> None:
    killed = stored(tmp_path, finish=False)
    assert report(killed.path, "--gate", "1%")[0] == 3


def test_a_killed_run_says_what_is_lost(report: Said, tmp_path: Path) -> None:
    killed = stored(tmp_path, mixed(40)[:25], offered=40, finish=False)
    with killed.shard_path(0).open("ab") as shard:
        shard.write(b'{"seq":25,"reque')
    code, said, _ = report(killed.path, "--html", tmp_path / "page.html")
    assert code == 0
    assert "INVALID, do not use these numbers" in said
    assert "the last line (26) is torn and was left out" in said
    assert "15 of 40 requests left no record" in said
    table = tmp_path / "requests.csv"
    report(killed.path, "--export", f"csv={table}")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == 25
    refusals = [row for row in rows if row["outcome"] == "http_reject"]
    assert all(row["layer"] for row in refusals), "attributed as the report is"
    page = (tmp_path / "page.html").read_text()
    assert "INVALID" in page
    assert "15 requests without a record not drawn" in page


@pytest.mark.parametrize(("version", "word"), [(9, "newer"), (0, "older")])
@pytest.mark.parametrize("name", ["manifest.json", "summary.json"])
def test_another_version_s_file_is_named(
    report: Said, finished: RunDir, name: str, version: int, word: str
) -> None:
    kind = name.removesuffix(".json")
    path = finished.path / name
    edited(finished, path, f"loadgen.{kind}/1", f"loadgen.{kind}/{version}")
    code, said, aside = report(finished.path)
    assert (code, said) == (2, "")
    assert f"was written by {word} loadgen" in aside.replace(
        "a newer", "newer"
    ).replace("an older", "older")
    assert str(path) in aside


def test_an_edited_file_voids_the_run(report: Said, finished: RunDir) -> None:
    edited(finished, finished.requests_path, '"status":503', '"status":200')
    code, said, _ = report(finished.path)
    assert code == 0
    assert "INVALID" in said
    assert "requests.jsonl was changed after it was judged" in said


def test_a_damaged_file_is_one_line(report: Said, finished: RunDir) -> None:
    finished.manifest_path.write_text('{"schema":"loadgen.manifest/1",')
    code, _, aside = report(finished.path)
    assert code == 2
    assert "manifest.json is damaged" in aside
    assert aside.count("\n") == 1


def test_another_target_is_judged_by(report: Said, finished: RunDir) -> None:
    _, said, _ = report(finished.path, "--slo", "e2e=1ms", "--json")
    goodput = json.loads(said)["goodput"]
    assert goodput["slo"] == {"e2e_s": 0.001}
    assert goodput["good"] == 0


def test_several_runs_are_a_line_each(
    report: Said, finished: RunDir, tmp_path: Path
) -> None:
    other = stored(tmp_path / "results", mixed(20), name="other")
    page = tmp_path / "page.html"
    code, said, _ = report(finished.path, other.path, "--html", page)
    assert code == 0
    assert said.startswith("2 runs\n")
    assert finished.path.name in said
    assert other.path.name in page.read_text()
    assert report(tmp_path / "results")[1] == said, "a folder stands for its runs"


def test_one_bad_run_does_not_hide_the_others(
    report: Said, finished: RunDir, tmp_path: Path
) -> None:
    bad = stored(tmp_path / "results", name="bad")
    bad.manifest_path.write_text("{")
    code, said, _ = report(tmp_path / "results")
    assert code == 2
    assert finished.path.name in said
    assert "Not readable" in said
    code, said, _ = report(tmp_path / "results", "--json")
    runs = json.loads(said)["runs"]
    assert [run["summary"] is None for run in runs] == [False, True]
    assert "damaged" in runs[1]["trouble"]


def test_one_missed_gate_of_several_fails(report: Said, tmp_path: Path) -> None:
    stored(tmp_path, name="one")
    stored(tmp_path, name="two")
    assert report(tmp_path, "--gate", "100%")[0] == 1
    assert report(tmp_path, "--export", f"csv={tmp_path / 'x'}")[0] == 2


def the_sweep(folder: Path, *, stopped: bool = True, **fields: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    made = journal(folder, **fields)
    for run in grid({2.0: [100, 99], 4.0: [60, 50]}):
        made.add(Ended(at_utc=AT, run=run))
    if stopped:
        made.add(Stopped(at_utc=AT, status="complete", text="complete", planned_runs=4))
    return folder


def test_a_sweep_is_shown_by_its_curve(report: Said, tmp_path: Path) -> None:
    folder = the_sweep(tmp_path / "sweep")
    exports = [f"--export={kind}={tmp_path / kind}" for kind in ("csv", "markdown")]
    code, said, _ = report(folder, "--html", tmp_path / "page.html", *exports)
    assert code == 0
    assert "Up to " in said
    assert "Goodput against offered load" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "csv").read_text().startswith("offered_rps,")
    knee = json.loads(report(folder, "--json")[1])["knee"]
    assert 2 < knee["rate_rps"] < 4


def test_a_sweep_that_was_killed_says_so(report: Said, tmp_path: Path) -> None:
    folder = the_sweep(tmp_path / "sweep", stopped=False)
    code, said, _ = report(folder)
    assert code == 0
    assert "killed, or still going on" in said.replace("\n", " ")


def test_a_sweep_is_no_run(report: Said, finished: RunDir, tmp_path: Path) -> None:
    folder = the_sweep(tmp_path / "sweep")
    code, _, aside = report(folder, "--gate", "95%")
    assert (code, "judge runs, not sweeps" in aside) == (2, True)
    code, _, aside = report(folder, finished.path)
    assert (code, "sweeps and runs cannot be shown in one" in aside) == (2, True)
    code, _, aside = report(folder, "--export", "parquet=x")
    assert (code, "kinds: json, csv, markdown" in aside) == (2, True)


def test_a_folder_of_both_shows_the_runs_and_names_the_sweeps(
    report: Said, finished: RunDir, tmp_path: Path
) -> None:
    stored(tmp_path / "results", name="other")
    the_sweep(tmp_path / "results" / "sweep")
    code, said, aside = report(tmp_path / "results")
    assert (code, said.startswith("2 runs")) == (0, True)
    assert "holds sweeps too, not shown here: sweep" in aside


def test_several_sweeps_stand_side_by_side(report: Said, tmp_path: Path) -> None:
    one, two = the_sweep(tmp_path / "one"), the_sweep(tmp_path / "two", name="other")
    same = the_sweep(tmp_path / "three")
    code, said, _ = report(one, two, same, "--html", tmp_path / "page.html")
    assert code == 0
    page = (tmp_path / "page.html").read_text()
    for name in ("one", "other", "three"):
        assert name in said
        assert name in page


def test_variants_are_shown_as_they_were_written(report: Said, tmp_path: Path) -> None:
    sweep = swept(grid({2.0: [100, 99], 4.0: [60, 50]}))
    variants = side_by_side({"cap 12": sweep, "no cap": None})
    file = tmp_path / VARIANTS_NAME
    file.write_bytes(msgspec.json.encode(variants))
    code, said, _ = report(tmp_path, "--html", tmp_path / "page.html")
    assert code == 0
    assert "no cap: it did not start" in said
    assert "cap 12" in (tmp_path / "page.html").read_text()
    assert json.loads(report(tmp_path, "--json")[1])["name"] == "caps"
    file.write_bytes(file.read_bytes().replace(b"variants/1", b"variants/2"))
    code, _, aside = report(tmp_path)
    assert (code, "was written by a newer loadgen" in aside) == (2, True)


def test_what_is_no_run_is_said(report: Said, tmp_path: Path) -> None:
    code, _, aside = report(tmp_path)
    assert (code, "is not a run folder" in aside) == (2, True)
    code, _, aside = report(tmp_path / "nothing")
    assert (code, "does not exist" in aside) == (2, True)


def test_a_burst_writes_its_page_at_once(tmp_path: Path) -> None:
    with recording_server(Recording()) as server:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "loadgen.cli", "burst", "--quiet", "--json"),
                *("--url", server.url, "--rate", "100/s", "--duration", "300ms"),
                *("--html", "page.html"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode in (0, 3), done.stderr  # 3: too busy a machine
    assert json.loads(done.stdout)["offered"]["requests"] == 30
    page = (tmp_path / "page.html").read_text()
    assert "30 requests offered" in page
    assert server.url in page
