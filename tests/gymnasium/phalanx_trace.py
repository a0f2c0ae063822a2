"""Phalanx's side of the comparison: whatever `phalanx trace` prints, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass

import numpy as np


# Two names of one environment; a trace may print either.
ALIASES = {"cartpole-control": "CartPole-v1"}


@dataclass(frozen=True)
class Trajectory:
    """One episode. Row 0 of `states` and `obs` is the reset; row 0 of the rest is the first step."""

    states: np.ndarray
    obs: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray

    def __len__(self) -> int:
        return len(self.rewards)


class TraceError(Exception):
    """`phalanx trace` failed, or printed something that its documentation does not allow."""


def trace(phalanx, env, start, actions, parameters=None, precision="f32") -> Trajectory:
    """Run `phalanx trace` from `start` with a file of `actions` and return what it printed."""
    descriptor, action_file = tempfile.mkstemp(suffix=".csv", text=True)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.writelines(f"{action!r}\n" for action in actions)
        command = [phalanx, "trace", "--env", env, "--actions", action_file]
        # One word, not two: a state that begins with a minus sign must not look like a flag.
        command += ["--state=" + ",".join(repr(float(value)) for value in start)]
        for name, value in (parameters or {}).items():
            command += ["--param", f"{name}={value}"]
        command += ["--seed", "0", "--format", "json", "--precision", precision]
        process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    finally:
        os.unlink(action_file)
    if process.returncode != 0:
        raise TraceError(f"exit code {process.returncode}: {process.stderr.strip()}")
    try:
        return parse(json.loads(process.stdout), env, actions, precision)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise TraceError(f"unexpected output of {' '.join(command)}: {error!r}") from error


def parse(document, env, actions, precision) -> Trajectory:
    """Check the shape of the printed JSON and turn it into arrays."""
    reset, *steps = document["steps"]
    expect(document["env"] in (env, ALIASES.get(env)), f"env is {document['env']!r}, asked for {env!r}")
    expect(steps, "no steps")
    expect(isinstance(document["params"], dict), "params is not an object")
    expect(reset["action"] is None and reset["reward"] is None, "the reset has an action or reward")
    expect(not reset["terminated"] and not reset["truncated"], "the reset has a flag")
    for t, step in enumerate(document["steps"]):
        expect(step["t"] == t, f"step {t} calls itself {step['t']}")
        expect(len(step["state"]) == len(document["state_names"]), "state does not fit state_names")
        expect(len(step["obs"]) == len(document["obs_names"]), "obs does not fit obs_names")
        for flag in ("terminated", "truncated"):
            expect(isinstance(step[flag], bool), f"{flag} is not a boolean")
    # An f32 may be printed with the fewest digits that identify it; the value meant is the nearest f32.
    printed = np.array([step["action"] for step in steps], dtype=np.float32).reshape(-1)
    expect(np.array_equal(printed, np.array(actions[: len(steps)], dtype=np.float32)), "other actions")
    real = np.float32 if precision == "f32" else np.float64

    def numbers(field, rows):
        return np.array([row[field] for row in rows], dtype=real).astype(np.float64)

    return Trajectory(
        states=numbers("state", document["steps"]),
        obs=numbers("obs", document["steps"]),
        rewards=numbers("reward", steps),
        terminated=np.array([step["terminated"] for step in steps], dtype=bool),
        truncated=np.array([step["truncated"] for step in steps], dtype=bool),
    )


def expect(condition, message):
    if not condition:
        raise ValueError(message)
