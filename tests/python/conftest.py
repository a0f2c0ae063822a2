import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
# Whoever runs the tests in the background may ignore Ctrl-C, and Python does then, too; the tests send it to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


#: Reasons that are no fault of an installation.
FINE = ("no vector checker is released",)


def demand(report: Any) -> None:
    """Where everything is said to be installed, a skipped test is one that has failed."""
    if os.environ.get("PHALANX_NO_SKIPS") and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not reason.endswith(FINE):
            report.outcome, report.longrepr = "failed", f"nothing may be skipped here: {reason}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    demand((yield).get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: Any) -> Iterator[None]:
    demand((yield).get_result())
