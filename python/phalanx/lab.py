"""The benchmarking lab: measure callables, run the suite, compare with a baseline, read records.

>>> from phalanx import lab
>>> result = lab.benchmark_function(lambda: sum(range(1000)), "sum", "custom", iterations=50, size=1000)
>>> result["iterations"], result["metadata"]["size"], result["throughput"] > 0
(50, 1000, True)

Times are taken by the lab's own clock and come with a 95 % interval; comparisons follow the lab's rules, so that
a change counts only where its whole interval lies beyond the threshold. DataFrames need pandas, which is
imported only there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx import _phalanx
from phalanx.settings import demand, tell, to_count, to_whole

if TYPE_CHECKING:
    import pandas

__all__ = [
    "BenchmarkSuite",
    "SuiteReport",
    "benchmark_function",
    "command",
    "compare",
    "device_info",
    "format_number",
    "frame",
    "read_records",
    "run_suite",
    "time_fn",
]

FilePath = str | os.PathLike[str]
Result = dict[str, Any]

MIB = 1_048_576
# Not the file of `phalanx bench suite --save-baseline`, whose format is another.
BASELINE = "python_baseline_results.json"


def benchmark_function(
    func: Callable[[], object],
    name: str,
    category: str,
    iterations: int = 100,
    warmup: int = 10,
    **metadata: Any,
) -> Result:
    """Measure a callable: its throughput with a 95 % interval, CPU time, and the memory of one call.

    It is called ``warmup`` times, then ``iterations`` times for the clock, and twice more for its memory: what the
    engine allocates, and what Python and NumPy do (by ``tracemalloc``). What it raises ends the benchmark, in the
    warm-up as well. ``metadata`` is stored as it is.

    A call should take microseconds at least: the call itself costs some 50 ns.
    """
    if not callable(func):
        raise TypeError(f"func is a {type(func).__name__}, but must be callable without arguments")
    iterations, warmup = to_count("iterations", iterations), to_whole("warmup", warmup)
    if warmup < 0:
        raise ValueError(f"warmup is {warmup}, but must be a whole number from 0")
    demand("name", name, str, "a text")
    demand("category", category, str, "a text")
    stored = json.dumps({key: _stored(key, value) for key, value in metadata.items()})
    result: Result = json.loads(_phalanx.benchmark(func, name, category, iterations, warmup, stored))
    peak, current = _traced(func)
    for key, extra in (("memory_peak_mb", peak), ("memory_current_mb", current)):
        result[key] = (result[key] or 0.0) + extra / MIB
    return result


def _stored(key: str, value: Any) -> Any:
    """Metadata as JSON has it, which knows no infinity."""
    try:
        return json.loads(json.dumps(value, default=str, allow_nan=False))
    except ValueError:
        raise ValueError(f"the metadata {key} is {value!r}, but must be what JSON can store") from None


def _traced(func: Callable[[], object]) -> tuple[int, int]:
    """The peak and the rest of what one call allocates through Python, in bytes."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        kept = func()
        after, peak = tracemalloc.get_traced_memory()
        del kept
    finally:
        if not tracing:
            tracemalloc.stop()
    return max(peak - before, 0), max(after - before, 0)


def time_fn(func: Callable[[], object], runs: int) -> Result:
    """The time of each of ``runs`` calls: ``seconds``, their mean, spread, extremes, median and interval.

    What a call raises ends it.
    """
    return dict(json.loads(_phalanx.time_calls(func, to_count("runs", runs))))


def device_info() -> dict[str, Any]:
    """The machine that results should be stored with."""
    return dict(json.loads(_phalanx.device_info()))


def format_number(number: float) -> str:
    """A number as people read it.

    >>> from phalanx import lab
    >>> lab.format_number(123_456_789)
    '123M'
    """
    return _phalanx.format_number(number)


def compare(
    baseline: Result | Iterable[Result],
    current: Result | Iterable[Result],
    *,
    same_machine: bool = True,
) -> dict[str, dict[str, Any]]:
    """Results against those of the same names before: changes with their intervals, and a verdict for each.

    A verdict is ``regressed``, ``improved``, ``equivalent``, ``inconclusive``, ``noisy`` or ``incomparable``. A loss
    of throughput beyond 10 % or a gain of memory beyond 20 % counts, if the whole interval is beyond.
    """
    found = _phalanx.compare_results(json.dumps(_listed(baseline)), json.dumps(_listed(current)), same_machine)
    return dict(json.loads(found))


def _listed(results: Result | Iterable[Result]) -> list[Result]:
    return [dict(results)] if isinstance(results, Mapping) else [dict(result) for result in results]


def frame(records: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Results or records as a DataFrame, nested fields as ``outer.inner`` columns."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("DataFrames need pandas: pip install pandas") from error
    return pandas.json_normalize([dict(record) for record in records])


def read_records(path: FilePath, type: str | None = None) -> list[dict[str, Any]]:
    """The records of a file, or of all files of a folder: dicts whose ``type`` is run, case, sample, summary or verdict.

    Damaged lines are skipped with a warning.
    """
    records, damaged = _phalanx.read_records(os.fspath(path))
    for damage in damaged:
        warnings.warn(damage, stacklevel=2)
    found = [json.loads(record) for record in records]
    return [record for record in found if type is None or record["type"] == type]


@dataclass
class _Planned:
    func: Callable[[], object]
    name: str
    category: str
    iterations: int
    warmup: int
    metadata: dict[str, Any]


@dataclass
class BenchmarkSuite:
    """Benchmarks of a user's own: run together, stored, compared with a baseline.

    >>> from phalanx import lab
    >>> suite = lab.BenchmarkSuite()
    >>> @suite.benchmark("sorting", size=1000)
    ... def sorting():
    ...     return sorted(range(1000, 0, -1))
    >>> [result["name"] for result in suite.run_all_benchmarks()]
    ['sorting']
    """

    output_dir: FilePath = "benchmark_results"
    results: list[Result] = field(default_factory=list)
    _planned: list[_Planned] = field(default_factory=list, repr=False)

    def benchmark(
        self, name: str, category: str = "custom", iterations: int = 100, warmup: int = 10, **metadata: Any
    ) -> Callable[[Callable[[], object]], Callable[[], object]]:
        """Decorator of a function that :meth:`run_all_benchmarks` measures."""

        def plan(func: Callable[[], object]) -> Callable[[], object]:
            self._planned.append(_Planned(func, name, category, iterations, warmup, metadata))
            return func

        return plan

    def benchmark_function(
        self,
        func: Callable[[], object],
        name: str,
        category: str,
        iterations: int = 100,
        warmup: int = 10,
        **metadata: Any,
    ) -> Result:
        """Measure a callable now (see :func:`benchmark_function`) and keep its result."""
        result = benchmark_function(func, name, category, iterations, warmup, **metadata)
        self.results.append(result)
        return result

    def run_all_benchmarks(self) -> list[Result]:
        """Measure all that was planned, in order."""
        return [
            self.benchmark_function(
                plan.func, plan.name, plan.category, plan.iterations, plan.warmup, **plan.metadata
            )
            for plan in self._planned
        ]

    def report(self) -> dict[str, Any]:
        """The results and what they amount to, as :meth:`save_results` stores them."""
        summed = json.loads(_phalanx.sum_up(json.dumps(self.results)))
        return {"timestamp": time.strftime("%Y-%m-%d %H:%M:%S"), **summed, "results": self.results}

    def save_results(self, path: FilePath | None = None) -> Path:
        """Write the report: to ``path``, or to a new file of the output folder."""
        if path is None:
            path = _new_file(Path(self.output_dir), f"benchmark_results_{time.strftime('%Y%m%d_%H%M%S')}")
        return _write_json(Path(path), self.report())

    def save_baseline(self, path: FilePath | None = None) -> Path:
        """Make these results the baseline."""
        return _write_json(self._baseline(path), self.report())

    def compare_baseline(self, path: FilePath | None = None) -> dict[str, dict[str, Any]]:
        """The results against the baseline, by name (see :func:`compare`)."""
        file = self._baseline(path)
        try:
            stored = json.loads(file.read_text())
            before, machine = stored["results"], stored["system_info"].get("fingerprint")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            raise ValueError(f"{file} is damaged, or no baseline that save_baseline has written ({what})") from error
        same_machine = machine == self.report()["system_info"]["fingerprint"]
        return compare(before, self.results, same_machine=same_machine)

    def print_summary(self) -> None:
        """A line for each result, and what could be better."""
        width = max((len(result["name"]) for result in self.results), default=0)
        for result in self.results:
            rate, memory = format_number(result["throughput"]), result["memory_peak_mb"]
            peak = "" if memory is None else f"  {memory:8.2f} MiB"
            print(f"{result['name']:<{width}}  {rate:>8}/s{peak}  {result['category']}")
        for advice in self.report()["recommendations"]:
            print(advice)

    def to_frame(self) -> pandas.DataFrame:
        """The results as a DataFrame."""
        return frame(self.results)

    def _baseline(self, path: FilePath | None) -> Path:
        return Path(self.output_dir) / BASELINE if path is None else Path(path)


def _new_file(folder: Path, stem: str) -> Path:
    """A file that nothing had before: a stored run never changes. Two of one second get a number."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        path = folder / (f"{stem}_{number}.json" if number else f"{stem}.json")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return path


def _write_json(path: Path, value: object) -> Path:
    """Writes a file complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(value, indent=2) + "\n")
    part.replace(path)
    return path


def command(binary: FilePath | None = None) -> Path:
    """The ``phalanx`` command, which measures in fresh processes of its own.

    Looked for in this order: ``binary``, the variable ``PHALANX_BIN``, where ``pip install`` has put it beside this
    Python, the search path, and the build of the checkout that this package was installed from in place.
    """
    named = binary if binary is not None else os.environ.get("PHALANX_BIN")
    if named:
        path = Path(named)
        if not os.access(path, os.X_OK):
            raise FileNotFoundError(f"{path} is no program that can be run")
        return path
    found = shutil.which("phalanx", path=sysconfig.get_path("scripts")) or shutil.which("phalanx")
    if found:
        return Path(found)
    for folder in Path(__file__).resolve().parents:
        built = folder / "target" / "release" / "phalanx"
        if (folder / "crates" / "phalanx-cli").is_dir() and os.access(built, os.X_OK):
            return built
    raise FileNotFoundError(
        "the suite measures with the phalanx command, which `pip install` puts beside Python but was not found: "
        "build it with `cargo install --path crates/phalanx-cli`, or name it in PHALANX_BIN"
    )


@dataclass(frozen=True)
class SuiteReport:
    """What a run of the suite showed."""

    report: dict[str, Any] = field(repr=False)
    """The whole report, as the suite stores it."""
    exit_code: int
    """0, or 10 for a regression or an alarm, 12 if it was too noisy to tell."""

    @property
    def results(self) -> list[Result]:
        """The results."""
        return list(self.report["results"])

    @property
    def comparisons(self) -> dict[str, dict[str, Any]]:
        """The comparison with a baseline, by name."""
        return dict(self.report["comparisons"])

    @property
    def regressions(self) -> list[str]:
        """The names of what became slower or takes more memory."""
        return [name for name, found in self.comparisons.items() if found["verdict"] == "regressed"]

    def to_frame(self) -> pandas.DataFrame:
        """The results as a DataFrame."""
        return frame(self.results)


def run_suite(
    categories: Sequence[str] | str = ("all",),
    *,
    baseline: FilePath | None = None,
    compare_baseline: bool = False,
    save_baseline: bool = False,
    output_dir: FilePath = "benchmark_results",
    pairs: int | None = None,
    samples: int | None = None,
    sample_ms: int | None = None,
    verbose: bool = True,
    binary: FilePath | None = None,
) -> SuiteReport:
    """Run the engine's own suite (``phalanx bench suite``), optionally against a baseline.

    It runs in processes of the ``phalanx`` command (see :func:`command`), not in this one, whose other threads and
    memory would be measured with it. A baseline keeps the binary that made it, and is run again in turns with it.

    Args:
        categories: Of kernel, environment, rl, safety, memory, startup, all.
        baseline: Baseline to compare with, which must exist unless ``save_baseline`` makes it.
        compare_baseline: Compare with the baseline of the output folder, if it is there.
        save_baseline: Make this run the baseline.
        output_dir: Folder for the report, the records and the baseline.
        pairs, samples, sample_ms: Processes of each benchmark, samples of each, and their least time; fewer are faster
            and show less.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"pairs": 2, "samples": 2, "sample_ms": 1, "verbose": False}
    ...     report = run_suite("startup", output_dir=folder, **options)
    >>> report.results[0]["name"], report.regressions
    ('startup/CartPole-v1', [])
    """
    arguments = [os.fspath(command(binary)), "bench", "suite", "--json", "--output-dir", os.fspath(output_dir)]
    arguments += ["--categories", *([categories] if isinstance(categories, str) else categories)]
    for flag, number in (("--pairs", pairs), ("--samples", samples), ("--sample-ms", sample_ms)):
        arguments += [] if number is None else [flag, str(number)]
    arguments += [] if baseline is None else ["--baseline", os.fspath(baseline)]
    arguments += ["--compare-baseline"] if compare_baseline else []
    arguments += ["--save-baseline"] if save_baseline else []
    arguments += [] if verbose else ["--quiet"]
    exit_code, printed, told = _run(arguments, verbose)
    if not printed.strip():
        # The last line says what was wrong; those before it how far it had come.
        last = told.strip().splitlines()[-1:]
        why = f": {last[0]}" if last else ""
        # What was asked for is wrong, or what was done failed.
        kind = ValueError if exit_code == 2 else RuntimeError
        raise kind(f"the suite ended with exit code {exit_code}{why}")
    return SuiteReport(json.loads(printed), exit_code)


def _run(arguments: Sequence[str], verbose: bool) -> tuple[int, str, str]:
    """Runs the command: its exit code, and what it printed. Ctrl-C ends it; half a second is left for records.

    What it tells is told again if `verbose`: through Python, so that notebooks show it.
    """
    told: list[str] = []
    reading, writing = os.pipe()

    def listen() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                told.append(line)
                if verbose:
                    tell(line)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=writing, text=True)
    finally:
        os.close(writing)
    with process:
        try:
            printed, _ = process.communicate()
        except KeyboardInterrupt:
            # In a terminal it has heard Ctrl-C itself; where only this process was meant, it has not.
            for seconds, end in ((0.1, process.send_signal), (0.5, lambda _: process.kill())):
                try:
                    process.wait(seconds)
                    break
                except subprocess.TimeoutExpired:
                    end(signal.SIGINT)
            raise
        except BaseException:
            process.kill()
            raise
    # A process that it has left behind may keep the pipe open.
    listener.join(1.0)
    return process.returncode, printed, "".join(told)
