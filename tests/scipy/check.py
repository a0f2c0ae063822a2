"""The reactors against SciPy: steady states, ignition and open-loop episodes.

    python check.py --phalanx PATH

The plants are written down a second time here, from their equations and in K and mol/L, and solved by
`solve_ivp` at a relative tolerance of 1e-10 and by root finding. `phalanx trace` runs the same actions from
the same start, in f32 and in f64; every step of an episode must agree within the tolerance stated below.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, minimize_scalar

# The promise of the project: relative, at every step of an episode, in either precision.
TOLERANCE = 1e-4
# An exception (LIMITS.md): in f32, with the jacket just above the fold.
FOLD_TOLERANCE_F32 = 3e-4
# And the other: the fixed sub-steps are too long for the flash of an ignition that no constraint stops. Relative to the
# largest magnitude of a quantity, since the flash uses up nearly all of CA.
IGNITION_TOLERANCE = 1e-2
GAS_CONSTANT = 0.0831446
TRIP = 373.15


def trace(phalanx, env, start, actions, settings, precision, safety="enforce") -> tuple[np.ndarray, np.ndarray, list]:
    """States and observations that `phalanx trace` prints, the start first, and the names of the latter."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "actions.csv"
        file.write_text("".join(",".join(repr(float(a)) for a in row) + "\n" for row in actions))
        command = [phalanx, "trace", "--env", env, "--actions", str(file), "--format", "json"]
        command += ["--state=" + ",".join(repr(float(value)) for value in start), "--precision", precision]
        command += ["--safety", safety]
        for name, value in settings.items():
            command += ["--param", f"{name}={value}"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if process.returncode != 0:
        sys.exit(f"phalanx trace failed: {process.stderr.strip()}")
    document = json.loads(process.stdout)
    rows = document["steps"]
    states, observations = (np.array([row[field] for row in rows], dtype=float) for field in ("state", "obs"))
    return states, observations, document["obs_names"]


def solve(rate, start, inputs, dt) -> np.ndarray:
    """The solution at the end of each step, with inputs that are constant during a step."""
    rows = [np.asarray(start, dtype=float)]
    for step in inputs:
        # LSODA is at home in stiff plants; the absolute tolerance is that of the smallest quantity here.
        solution = solve_ivp(rate, (0.0, dt), rows[-1], args=(step,), method="LSODA", rtol=1e-10, atol=1e-12)
        rows.append(solution.y[:, -1])
    return np.array(rows)


# ChemicalReactor-v0: Seborg, Edgar and Mellichamp's reactor with gas and actuators.


def rate_constant(temperature):
    return 7.2e10 * np.exp(-8750.0 / temperature)


def cstr(_t, x, command):
    ca, cb, temperature, gas, tc, q, v = x
    dilution, reaction = q / 100.0, rate_constant(temperature) * ca
    pressure = gas * GAS_CONSTANT * temperature / 50.0
    return [
        dilution * (1.0 - ca) - reaction,
        -dilution * cb + reaction,
        dilution * (350.0 - temperature) + 5e4 / 239.0 * reaction + 5e4 / 23900.0 * (tc - temperature),
        0.1 * reaction * 100.0 - 2.0 * v * max(pressure - 1.01325, 0.0),
        *((target - now) / 0.1 for target, now in zip(command, (tc, q, v))),
    ]


def command(action):
    a0, a1, a2 = np.clip(action, -1.0, 1.0)
    return 300.0 + 15.0 * a0, 100.0 + 20.0 * a1, 0.5 + 0.5 * a2


def cstr_start(ca, temperature, tc=300.0):
    gas = 3.0 * 50.0 / (GAS_CONSTANT * temperature)
    return [ca, 1.0 - ca, temperature, gas, tc, 100.0, 0.5]


def cstr_trace(phalanx, start, actions, precision, safety="enforce", **settings):
    """The traced trajectory in the units and the order of `cstr`."""
    # The state holds temperatures as differences.
    ca, cb, temperature, gas, tc, q, v = start
    state = [ca, cb, temperature - 350.0, gas, tc - 300.0, q, v, 350.0, 1.0, 0.7, 0.0, 0.0, 0.0, 0.0]
    settings = {"disturbances": "false", **settings}
    states, observations, names = trace(phalanx, "ChemicalReactor-v0", state, actions, settings, precision, safety)
    traced = states[:, :7] + [0.0, 0.0, 350.0, 0.0, 300.0, 0.0, 0.0]
    # Observations are f32 whatever the precision.
    columns = [names.index(name) for name in ("CA", "CB", "temperature", "Tc", "q", "v")]
    assert np.allclose(observations[:, columns], traced[:, [0, 1, 2, 4, 5, 6]], rtol=1e-6, atol=1e-7)
    pressure = traced[:, 3] * GAS_CONSTANT * traced[:, 2] / 50.0
    assert np.allclose(observations[:, names.index("pressure")], pressure, rtol=1e-6)
    return traced


def cstr_actions():
    """Open-loop episodes of 500 steps by name."""
    generator = np.random.default_rng(7)
    hold = lambda *action: np.tile(action, (500, 1))  # noqa: E731
    steps = {f"jacket to {tc} K": hold((tc - 300.0) / 15.0, 0.0, 0.0) for tc in (295, 302, 304, 305, 310, 315)}
    sweep = np.column_stack([-0.4 + 0.4 * np.sin(np.arange(500) / k) for k in (17, 23, 31)])
    levels = np.repeat(generator.uniform(-1.0, 1.0, (50, 3)), 10, axis=0)
    levels[:, 0] = 0.3 * levels[:, 0] - 0.4  # cold enough that most of it is below ignition
    return {
        **steps,
        "at rest": hold(0.0, 0.0, 0.0),
        "vent closed": hold(0.0, 0.0, -1.0),
        "more feed, then less": np.concatenate((hold(-0.2, 1.0, 0.0)[:250], hold(-0.2, -1.5, 0.5)[:250])),
        "waves": sweep,
        "levels": levels,
        "random": np.clip(generator.uniform(-1.2, 1.2, (500, 3)), -1.2, 1.0),
    }


def check_cstr_episodes(phalanx, report):
    start = cstr_start(0.8772529, 324.4750)
    for name, actions in cstr_actions().items():
        # f32 traces get f32 actions; so does the reference.
        actions = actions.astype(np.float32).astype(float)
        reference = solve(cstr, start, [command(action) for action in actions], 0.1)
        pressure = reference[:, 3] * GAS_CONSTANT * reference[:, 2] / 50.0
        beyond = np.flatnonzero((reference[:, 2] > TRIP) | (pressure > 10.0))
        # The step that trips stops at a sub-step; what comes after it is not an episode.
        rows = beyond[0] if len(beyond) else len(reference)
        for precision in ("f32", "f64"):
            traced = cstr_trace(phalanx, start, actions, precision)
            error = relative(traced[:rows], reference[:rows])
            report(f"reactor, {name}, {precision}, {rows - 1} steps", error, TOLERANCE)


def check_cstr_fold(phalanx, report):
    """Just above the fold, where the time of ignition amplifies every error."""
    start = cstr_start(0.8772529, 324.4750)
    for tc in (303.25, 303.28, 303.3, 303.35, 303.4):
        actions = np.tile(np.float32([(tc - 300.0) / 15.0, 0.0, 0.0]).astype(float), (100, 1))
        reference = solve(cstr, start, [command(action) for action in actions], 0.1)
        rows = np.argmax(reference[:, 2] > TRIP)
        assert rows > 0, "every one of them ignites"
        for precision, tolerance in (("f32", FOLD_TOLERANCE_F32), ("f64", TOLERANCE)):
            traced = cstr_trace(phalanx, start, actions, precision)
            report(f"reactor, fold, Tc {tc:g} K, {precision}, {rows - 1} steps", relative(traced[:rows], reference[:rows]), tolerance)


def check_cstr_through_ignition(phalanx, report):
    """Without constraints nothing stops the reactor from burning through its peak."""
    start = cstr_start(0.8772529, 324.4750)
    actions = np.tile(np.float32([5.0 / 15.0, 0.0, 0.0]).astype(float), (500, 1))
    reference = solve(cstr, start, [command(action) for action in actions], 0.1)
    assert reference[:, 2].max() > TRIP
    for precision in ("f32", "f64"):
        traced = cstr_trace(phalanx, start, actions, precision, safety="off")
        error = float((np.abs(traced - reference) / np.abs(reference).max(axis=0)).max())
        report(f"reactor, through ignition, {precision}, 500 steps", error, IGNITION_TOLERANCE)


def check_cstr_trips(phalanx, report):
    """The state that stops an episode: that of the reference at the end of the same sub-step."""
    start = cstr_start(0.8772529, 324.4750)
    for tc in (304.0, 305.0, 310.0, 315.0):
        action = [np.float32((tc - 300.0) / 15.0), 0.0, 0.0]
        reference = solve(cstr, start, [command(action)] * 600, 0.01)
        for precision in ("f32", "f64"):
            traced = cstr_trace(phalanx, start, [action] * 60, precision)
            last = traced[np.argmax(traced[:, 2] > TRIP)]
            same = reference[np.argmax(reference[:, 2] > TRIP)]
            report(f"reactor, shut down at Tc {tc:g} K, {precision}", relative(last, same), TOLERANCE)


def holding_jacket(temperature):
    """CA and jacket temperature that hold the reactor at a temperature, from the algebraic balance."""
    k = rate_constant(temperature)
    ca = 1.0 / (1.0 + k)
    return ca, temperature - ((350.0 - temperature) + 5e4 / 239.0 * k * ca) / (5e4 / 23900.0)


def check_cstr_steady_states(phalanx, report):
    brackets = [(295.0, 310.0, 325.0), (300.0, 310.0, 335.0), (302.0, 310.0, 335.0)]
    brackets += [(300.0, 337.0, 359.0), (300.0, 361.0, 372.0)]
    for tc, low, high in brackets:
        temperature = brentq(lambda t, tc=tc: holding_jacket(t)[1] - tc, low, high, xtol=1e-12)
        ca = holding_jacket(temperature)[0]
        start = cstr_start(ca, temperature, tc)
        # A stable state holds for an episode, an unstable one for as long as rounding takes to grow.
        stable = high < 336.0
        steps = 500 if stable else 5
        for precision in ("f32", "f64"):
            action = [(tc - 300.0) / 15.0, 0.0, 0.0]
            traced = cstr_trace(phalanx, start, [action] * steps, precision)
            error = relative(traced[-1][[0, 1, 2]], np.array(start)[[0, 1, 2]])
            report(f"reactor, steady at Tc {tc:g} K, {temperature:.3f} K, {precision}", error, TOLERANCE)


def check_cstr_ignition(phalanx, report):
    """Just below the fold the reactor stays on the lower branch, just above it ignites."""
    fold = minimize_scalar(lambda t: -holding_jacket(t)[1], bounds=(330.0, 345.0), method="bounded", options={"xatol": 1e-9})
    ignition = holding_jacket(fold.x)[1]
    report("reactor, ignition temperature of the literature", abs(ignition / 303.229 - 1.0), 2e-6)
    margin = 0.05
    for precision in ("f32", "f64"):
        for side in (-1.0, 1.0):
            tc = ignition + side * margin
            action = [(tc - 300.0) / 15.0, 0.0, 0.0]
            traced = cstr_trace(phalanx, cstr_start(0.8772529, 324.4750), [action] * 500, precision)
            ignited = bool((traced[:, 2] > TRIP).any())
            # No number to compare: an error of 0 or of everything.
            error = 0.0 if ignited == (side > 0.0) else 1.0
            report(f"reactor, Tc {tc:.3f} K {'ignites' if side > 0 else 'stays'}, {precision}", error, TOLERANCE)


# VanDeVusse-v0.


def van_de_vusse(_t, x, inputs):
    ca, cb, tr, tk = x
    feed, cooling = inputs
    kelvin = tr + 273.15
    k1 = k2 = 1.287e12 * np.exp(-9758.3 / kelvin)
    k3 = 9.043e9 * np.exp(-8560.0 / kelvin)
    heat = 0.9342 * 3.01
    return [
        feed * (5.1 - ca) - k1 * ca - k3 * ca**2,
        -feed * cb + k1 * ca - k2 * cb,
        -(4.2 * k1 * ca - 11.0 * k2 * cb - 41.85 * k3 * ca**2) / heat
        + feed * (130.0 - tr)
        + 4032.0 * 0.215 * (tk - tr) / (heat * 10.0),
        (cooling + 4032.0 * 0.215 * (tr - tk)) / (5.0 * 2.0),
    ]


def check_van_de_vusse(phalanx, report):
    start = [0.8, 0.5, 134.14, 130.0]
    generator = np.random.default_rng(11)
    episodes = {
        "F 20, Q -5000": np.tile([(20.0 - 52.5) / 47.5, -750.0 / 4250.0], (200, 1)),
        "levels": np.repeat(generator.uniform(-1.0, -0.2, (20, 2)), 10, axis=0),
        "random": generator.uniform(-1.2, 1.2, (200, 2)),
    }
    for name, actions in episodes.items():
        actions = actions.astype(np.float32).astype(float)
        inputs = [(52.5 + 47.5 * a, -4250.0 + 4250.0 * b) for a, b in np.clip(actions, -1.0, 1.0)]
        reference = solve(van_de_vusse, start, inputs, 0.005)
        state = [*start, 20.0, -5000.0, 0.6, 0.0]
        for precision in ("f32", "f64"):
            states, _, _ = trace(phalanx, "VanDeVusse-v0", state, actions, {}, precision)
            report(f"van de Vusse, {name}, {precision}, 200 steps", relative(states[:, :4], reference), TOLERANCE)


def relative(found, expected) -> float:
    """The largest relative error; quantities are compared to their largest magnitude in the episode, or to
    themselves if that is all there is. A shape that differs is an infinite error, as is a NaN."""
    found, expected = np.atleast_2d(found), np.atleast_2d(expected)
    if found.shape != expected.shape:
        return np.inf
    scale = np.abs(expected)
    # A closed vent approaches zero and has no relative error there.
    scale = np.maximum(scale, 1e-2 * scale.max(axis=0))
    error = (np.abs(found - expected) / np.where(scale > 0.0, scale, 1.0)).max()
    return float(error) if np.isfinite(error) else np.inf


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phalanx", required=True, help="the binary to test")
    phalanx = parser.parse_args().phalanx
    faults = []

    def report(what, error, tolerance):
        ok = error <= tolerance
        print(f"{'ok  ' if ok else 'FAIL'} {what}: error {error:.1e}, allowed {tolerance:.0e}", flush=True)
        if not ok:
            faults.append(what)

    checks = (check_cstr_steady_states, check_cstr_ignition, check_cstr_episodes, check_cstr_trips, check_van_de_vusse)
    checks += (check_cstr_fold, check_cstr_through_ignition)
    for check in checks:
        check(phalanx, report)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
