"""`phalanx bench comparison` beside this Python's Gymnasium: it is measured, computes the same, and is never cited as ours.

    python comparison.py --phalanx target/release/phalanx
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phalanx", type=Path, required=True, help="the phalanx binary")
    phalanx = parser.parse_args().phalanx
    with tempfile.TemporaryDirectory() as folder:
        command = [phalanx, "bench", "comparison", "--library", "gymnasium", "--library", "phalanx"]
        plan = ["--num-envs", "16", "--processes", "1", "--samples", "2", "--sample-ms", "1"]
        where = ["--python", sys.executable, "--results-dir", folder, "--json", "--quiet"]
        report = json.loads(subprocess.run([*command, *plan, *where], check=True, capture_output=True).stdout)
        cited = subprocess.run([phalanx, "bench", "cite", report["records"], "--json"], check=True, capture_output=True)
    theirs = [row for row in report["rows"] if row["library"] == "gymnasium"]
    assert len(theirs) == 3, theirs
    for row in theirs:
        assert row["success"] and row["throughput_steps_per_s"] > 0, row
        assert row["same_physics"].startswith("equal"), row
        print(f"gymnasium {row['library_version']} {row['mode']}: physics {row['same_physics']}")
    ours = [row["throughput_steps_per_s"] for row in report["rows"] if row["library"] == "phalanx"]
    rate = json.loads(cited.stdout)["steps_per_second"]
    assert any(abs(rate / own - 1) < 0.5 for own in ours), (rate, ours)


if __name__ == "__main__":
    main()
