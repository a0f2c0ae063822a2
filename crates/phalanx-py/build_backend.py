"""Builds the Python package with maturin, and puts the `phalanx` command beside it.

`phalanx.lab.run_suite` measures with the command, in processes of its own, so `pip install .` must bring it. maturin
builds a library or a program, not both, but takes files for a wheel's `scripts` from a folder: the command is built
first, by the same cargo with the same profile, so that all but its own crate is compiled for both.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import (  # noqa: F401  hooks that pip looks for here
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[2]
# As `cargo xtask test` builds it.
BUILD = ["build", "--release", "--workspace", "--exclude", "phalanx-py", "--bin", "phalanx"]
# Where `tool.maturin.data` says; maturin asks for the folder in every hook.
SCRIPTS = ROOT / "target" / "phalanx.data" / "scripts"
SCRIPTS.mkdir(parents=True, exist_ok=True)


def build_wheel(*arguments: Any, **keywords: Any) -> str:
    with_command()
    return maturin.build_wheel(*arguments, **keywords)


def build_editable(*arguments: Any, **keywords: Any) -> str:
    with_command()
    return maturin.build_editable(*arguments, **keywords)


def with_command() -> None:
    """Builds the command and copies it to where maturin takes it from."""
    if not (ROOT / "crates" / "phalanx-cli").is_dir():
        print("A source distribution has no phalanx command: phalanx.lab.run_suite will need one on the path.")
        return
    cargo = os.environ.get("CARGO", "cargo")
    build = [cargo, *BUILD, "--message-format", "json-render-diagnostics"]
    told = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    # Where it is depends on settings of cargo that only cargo knows, so it is asked.
    made = [json.loads(line).get("executable") for line in told.splitlines() if line.startswith("{")]
    built = Path(next(path for path in reversed(made) if path))
    command = Path(shutil.copy2(built, SCRIPTS / built.name))
    # Most of it is the lines of the source, which only profiles need.
    if strip := shutil.which("strip"):
        subprocess.run([strip, "--strip-debug", os.fspath(command)], check=False)
