"""The lab from Python: callables, suites, baselines, records."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import within_a_second

from phalanx import lab

FIELDS = {
    "name", "category", "duration", "memory_peak_mb", "memory_current_mb", "cpu_percent", "iterations", "throughput",
    "metadata",
}  # fmt: skip


def test_a_callable_is_called_as_often_as_said_and_its_result_has_the_fields():
    calls = []
    result = lab.benchmark_function(lambda: calls.append(1), "count", "custom", 100, 10, batch_size=64, note="x")
    assert len(calls) == 100 + 10 + 2
    assert FIELDS <= set(result)
    assert (result["iterations"], result["category"]) == (100, "custom")
    assert result["metadata"] == {"batch_size": 64, "note": "x"}
    assert result["throughput"] == pytest.approx(100 / result["duration"])
    low, high = result["throughput_ci95"]["low"], result["throughput_ci95"]["high"]
    assert 0 < low < high


def test_memory_is_that_of_one_call():
    result = lab.benchmark_function(lambda: np.ones(1 << 20, np.float64), "ones", "memory", 5, 1)
    assert 8.0 <= result["memory_peak_mb"] < 9.0 and 8.0 <= result["memory_current_mb"] < 9.0
    nothing = lab.benchmark_function(lambda: None, "nothing", "memory", 5, 1)
    assert nothing["memory_peak_mb"] < 0.1


def test_what_a_callable_raises_ends_the_benchmark_in_the_warm_up_too():
    def failing_at(call):
        calls = 0

        def func():
            nonlocal calls
            calls += 1
            if calls == call:
                raise LookupError(call)

        return func

    for call in (2, 6, 9):
        with pytest.raises(LookupError, match=str(call)):
            lab.benchmark_function(failing_at(call), "fails", "custom", 5, 3)
    calls = []
    with pytest.raises(KeyboardInterrupt):
        lab.time_fn(lambda: calls.append(len(calls)) or len(calls) < 2 or signal.raise_signal(signal.SIGINT), 5)
    assert len(calls) == 2
    for runs in (0, -1):
        with pytest.raises(ValueError, match=f"runs is {runs}"):
            lab.time_fn(print, runs)
    with pytest.raises(TypeError, match="callable"):
        lab.benchmark_function(3, "three", "custom")
    with pytest.raises(ValueError, match="iterations is 0"):
        lab.benchmark_function(print, "none", "custom", 0)


def test_times_agree_with_each_other():
    times = lab.time_fn(lambda: sum(range(1000)), 9)
    assert len(times["seconds"]) == 9
    assert times["min_s"] <= times["median_s"] <= times["max_s"]
    assert times["mean_s"] == pytest.approx(np.mean(times["seconds"]))


def exact(throughput, memory=100.0, name="a"):
    return {
        "name": name, "category": "x", "duration": 1.0, "memory_peak_mb": memory, "memory_current_mb": memory,
        "cpu_percent": 100.0, "iterations": 100, "throughput": throughput,
        "throughput_ci95": {"low": throughput, "high": throughput}, "noise_percent": 0.0, "kind": None,
        "case_version": None, "metadata": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("throughput", "memory", "verdict", "severity"),
    [
        (89.0, 100.0, "regressed", "medium"),
        (79.0, 100.0, "regressed", "high"),
        (91.0, 100.0, "equivalent", None),
        (112.0, 100.0, "improved", None),
        (100.0, 121.0, "regressed", "medium"),
        (100.0, 119.0, "equivalent", None),
    ],
)
def test_the_golden_changes_of_the_reference(throughput, memory, verdict, severity):
    found = lab.compare(exact(100.0), exact(throughput, memory))["a"]
    assert (found["verdict"], found["severity"]) == (verdict, severity)
    assert found["throughput_change_percent"] == pytest.approx(throughput - 100)


def test_results_of_other_machines_and_other_names_are_not_compared():
    assert lab.compare(exact(100.0), exact(50.0), same_machine=False)["a"]["verdict"] == "incomparable"
    assert lab.compare(exact(100.0), exact(50.0, name="b")) == {}


def test_a_suite_of_ones_own_is_stored_and_compared(tmp_path, capsys):
    suite = lab.BenchmarkSuite(tmp_path)

    @suite.benchmark("sorting", size=1000)
    def sorting():
        return sorted(range(1000, 0, -1))

    suite.run_all_benchmarks()
    report = json.loads(suite.save_results().read_text())
    assert report["category_stats"]["custom"]["count"] == 1 == report["summary"]["total_benchmarks"]
    assert report["system_info"]["cpu_count"] >= 1 and report["results"][0]["metadata"] == {"size": 1000}
    suite.print_summary()
    assert capsys.readouterr().out.startswith("sorting")
    suite.save_baseline()
    slower = lab.BenchmarkSuite(tmp_path)
    slower.benchmark_function(lambda: [sorting() for _ in range(4)], "sorting", "custom")
    assert slower.compare_baseline()["sorting"]["verdict"] == "regressed"
    with pytest.raises(FileNotFoundError):
        slower.compare_baseline(tmp_path / "missing.json")


def test_records_are_dicts_and_damage_is_told(tmp_path):
    record = {"type": "sample", "no": "record"}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\nnot json\n")
    with pytest.warns(UserWarning, match="skipped"):
        assert lab.read_records(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        lab.read_records(tmp_path / "missing.jsonl")


def test_frames_are_those_of_pandas_and_optional(monkeypatch):
    pandas = pytest.importorskip("pandas")
    table = lab.frame([exact(100.0), exact(50.0, name="b")])
    assert isinstance(table, pandas.DataFrame)
    assert table["throughput_ci95.low"].tolist() == [100.0, 50.0]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        lab.frame([])


def test_importing_the_lab_imports_no_pandas():
    script = "import sys; from phalanx import lab; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_command_is_found_or_asked_for(tmp_path, monkeypatch):
    program = tmp_path / "phalanx"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(FileNotFoundError, match="no program"):
        lab.command(program)
    program.chmod(0o755)
    assert lab.command(program) == program
    monkeypatch.setenv("PHALANX_BIN", str(program))
    assert lab.command() == program
    monkeypatch.delenv("PHALANX_BIN")
    # What was installed with the package goes before what else is called so.
    installed = shutil.which("phalanx", path=sysconfig.get_path("scripts"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lab.command() == (program if installed is None else Path(installed))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    assert lab.command() == program
    (tmp_path / "scripts").mkdir()
    beside = Path(shutil.copy2(program, tmp_path / "scripts"))
    assert lab.command() == beside
    beside.unlink()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(lab, "__file__", str(tmp_path / "lab.py"))
    with pytest.raises(FileNotFoundError, match="PHALANX_BIN"):
        lab.command()


def test_the_suite_runs_and_finds_itself_equivalent(tmp_path):
    try:
        lab.command()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    small = {"output_dir": tmp_path, "pairs": 2, "samples": 2, "sample_ms": 1, "verbose": False}
    first = lab.run_suite(["startup"], save_baseline=True, **small)
    assert first.exit_code == 0 and first.results and first.comparisons == {}
    assert (tmp_path / "baseline_results.json").exists()
    assert {record["type"] for record in lab.read_records(tmp_path)} >= {"run", "case"}
    assert lab.read_records(tmp_path, "run")[0]["machine"]
    again = lab.run_suite(["startup"], compare_baseline=True, **small)
    assert set(again.comparisons) == {result["name"] for result in again.results} != set()
    # So few samples tell little apart; what they say is one of the verdicts, and the exit code and the list follow it.
    verdicts = {found["verdict"] for found in again.comparisons.values()}
    assert verdicts <= {"regressed", "improved", "equivalent", "inconclusive", "noisy"}
    assert bool(again.regressions) == ("regressed" in verdicts) == (again.exit_code == 10)
    with pytest.raises(ValueError, match="unknown category 'nonsense'"):
        lab.run_suite(["nonsense"], **small)


INTERRUPTED = """
import os, signal, sys, threading, time
from phalanx import lab
sent = []
def interrupt():
    time.sleep(1.5)
    sent.append(time.monotonic())
    # To the process, not to this thread: the main thread waits for the system, which tells it.
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    lab.run_suite(["environment"], output_dir=sys.argv[1], verbose=False)
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
"""


def test_ctrl_c_ends_the_suite_and_its_processes(tmp_path):
    try:
        program = lab.command()
    except FileNotFoundError as error:
        pytest.skip(str(error))

    def seconds_of(attempt):
        folder = tmp_path / str(attempt)
        command = [sys.executable, "-c", INTERRUPTED, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        if os.path.isdir("/proc"):
            deadline = time.monotonic() + 5
            while left := measuring(program, folder):
                assert time.monotonic() < deadline, left
                time.sleep(0.05)
        return float(done.stdout)

    within_a_second(seconds_of)


def measuring(program, folder):
    """Processes of the suite that was writing to a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has just ended
            continue
        if str(program) in words and str(folder) in words:
            found.append(words)
    return found
