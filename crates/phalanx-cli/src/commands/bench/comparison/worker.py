"""A worker of the lab in Python: reads requests from standard input, one line of JSON each, and answers each with one.

The text of one library follows in the same program. It defines
    version()                     its version
    MODES                         mode -> class with __init__(case) and run(iterations) -> (steps, number)
    trajectory(env, starts, actions)   what it does from given states, or from its own where it takes none
"""

import json
import os
import struct
import sys
import time
import warnings

# Nobody reads them, and a full pipe would stop us.
warnings.filterwarnings("ignore")
_SCRIPT_START = time.time()

# Libraries may print; only answers may go where the lab reads.
_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

ACTION_ROWS = 64
CHECKSUM_STRIDE = 64


def since_process_start_ns():
    try:
        with open("/proc/self/stat") as stat:
            started = int(stat.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(1, int((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1e9))
    except (OSError, AttributeError, ValueError):
        return max(1, int((time.time() - _SCRIPT_START) * 1e9))


def rss_bytes(field="VmRSS:"):
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith(field):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def drawn_actions(space, num_envs, seed):
    """Actions of ACTION_ROWS steps, after which they repeat, drawn before anything is timed."""
    import numpy as np

    random = np.random.default_rng(seed)
    if hasattr(space, "n"):
        return [random.integers(0, space.n, num_envs) for _ in range(ACTION_ROWS)]
    shape = (num_envs,) + space.shape
    return [random.uniform(space.low, space.high, shape).astype(space.dtype) for _ in range(ACTION_ROWS)]


class HostSteps:
    """Calls step(actions) and receives arrays. Steps that only reset an environment do not count."""

    def start(self, step, actions):
        self.step, self.actions, self.calls, self.ended, self.sum = step, actions, 0, 0, 0.0

    def run(self, iterations):
        import numpy as np

        step, actions, calls, ended, resets = self.step, self.actions, self.calls, self.ended, 0
        for _ in range(iterations):
            observation, reward, terminated, truncated, _info = step(actions[calls % ACTION_ROWS])
            calls += 1
            resets += ended
            ended = int(np.count_nonzero(np.logical_or(terminated, truncated)))
            if calls % CHECKSUM_STRIDE == 0:
                self.sum += float(observation.sum()) + float(reward.sum())
        self.sum += float(observation.sum())
        self.calls, self.ended = calls, ended
        return iterations * len(reward) - resets, self.sum


def timed(work, iterations):
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    steps, number = work.run(iterations)
    wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    checksum = struct.unpack("<Q", struct.pack("<d", number))[0]
    return {"wall_ns": max(1, wall), "cpu_ns": cpu, "steps": steps, "checksum": f"{checksum:016x}"}


def calibrated(work, wanted_ns):
    iterations = 1
    while True:
        taken = timed(work, iterations)["wall_ns"]
        if taken >= wanted_ns:
            return iterations
        iterations = int(iterations * min(10.0, max(1.2, 1.2 * wanted_ns / taken))) + 1


def answer(request, state, mode):
    kind, value = next(iter(request.items()))
    if kind == "prepare":
        before = rss_bytes()
        state["work"] = MODES[mode](value)
        state["work"].run(1)
        ready = {"startup_ns": since_process_start_ns(), "workload": {"array_bytes": None, "bytes_per_env": None}}
        return {"ready": {**ready, "rss_before": before, "rss_after": rss_bytes(), "rss_peak": rss_bytes("VmHWM:")}}
    if kind == "calibrate":
        return {"calibrated": calibrated(state["work"], value)}
    if kind == "sample":
        return {"sample": timed(state["work"], value)}
    return {"failed": f"not a request: {kind}"}


def reply(value):
    _ANSWERS.write(json.dumps(value) + "\n")
    _ANSWERS.flush()


def reason(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def main():
    if sys.argv[1] == "describe":
        request = json.loads(sys.stdin.read())
        try:
            found = {"version": version(), "python": sys.version.split()[0]}
        except Exception as error:  # a library that fails while it is imported is as good as missing
            return reply({"missing": reason(error)})
        try:
            found["trajectory"] = trajectory(request["env"], request["starts"], request["actions"])
        except Exception as error:
            found["unchecked"] = reason(error)
        return reply(found)
    state = {}
    for line in sys.stdin:
        try:
            reply(answer(json.loads(line), state, sys.argv[1]))
        except Exception as error:
            reply({"failed": reason(error)})
