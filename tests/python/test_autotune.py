"""The chunk size that is fastest here, from Python."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import within_a_second

import phalanx
from phalanx import autotune, suggest_scan_chunk_size


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_choice_is_measured_once_and_remembered(cache, capsys):
    chunk = suggest_scan_chunk_size(256, "phalanx/CartPole-v1", "random", verbose=True)
    assert chunk in (8, 16, 32, 64, 128, 256, 512)
    told = capsys.readouterr().err
    assert "measured now" in told and f"scan_chunk_size = {chunk}" in told
    assert autotune.cache_path().parent == cache
    stored = json.loads(autotune.cache_path().read_text())
    assert any(key.startswith("CartPole-v1:random:256:") for key in stored["chunk_size_configs"])
    start = time.monotonic()
    assert suggest_scan_chunk_size(256, "CartPole-v1", "random", verbose=False) == chunk
    assert time.monotonic() - start < 5 and capsys.readouterr().err == ""
    assert [path.name for path in autotune.clear_cache()] == ["autotune_profiles.json"]


def test_a_search_tells_all_it_knows():
    found = autotune.tune(
        64, "CartPole-v1", "ppo", verbose=False, threads=1, time_budget=5, rollout_steps=32, num_minibatches=4
    )
    assert found["threads"] == 1 and found["source"] in ("measured_now", "rule_of_thumb")
    assert {"chunk_size", "status", "throughput_steps_per_s"} <= set(found["candidates"][0])


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ((8, "CartPole-v1", "ppo", 100), ValueError, "has no replay buffer"),
        ((8, "CartPole-v1", "nobody"), ValueError, "unknown agent 'nobody'"),
        ((10**9, "CartPole-v1", "random"), MemoryError, "lower num_envs"),
    ],
)
def test_what_cannot_be_tuned_is_told(arguments, error, told):
    with pytest.raises(error, match=told):
        suggest_scan_chunk_size(*arguments, verbose=False)


@pytest.mark.parametrize("budget", [-1.0, float("nan"), float("inf")])
def test_a_budget_that_is_no_time_is_refused(budget):
    with pytest.raises(ValueError, match=r"time_budget is .*, but must be a number of seconds"):
        autotune.tune(8, "CartPole-v1", "random", verbose=False, time_budget=budget)


def test_a_roll_out_is_tuned_by_the_module_that_knows_its_environment(monkeypatch):
    """That of a user's own crate, for its environments."""
    asked = []

    class Own:
        Engine = phalanx._phalanx.Engine

        @staticmethod
        def suggest(num_envs, env, *rest):
            asked.append((num_envs, env))
            return json.dumps({"scan_chunk_size": 8, "threads": 1})

    env = type("OwnVectorEnv", (phalanx.PhalanxVectorEnv,), {"native": Own})("CartPole-v1", 4)
    env.reset(seed=0)
    assert phalanx.rollout(env, 20, auto_tune=True).scan_chunk_size == 8 and asked == [(4, "CartPole-v1")]


def test_a_rollout_tunes_itself(cache, capsys):
    plain = phalanx.rollout("CartPole-v1", 200, num_envs=512, seed=4)
    tuned = phalanx.rollout("CartPole-v1", 200, num_envs=512, seed=4, auto_tune=True)
    assert f"scan_chunk_size = {tuned.scan_chunk_size}" in capsys.readouterr().err
    assert (tuned.checksum, tuned.return_mean) == (plain.checksum, plain.return_mean)
    stored = json.loads(autotune.cache_path().read_text())["chunk_size_configs"]
    assert [key for key in stored if key.startswith("CartPole-v1:random:512:")]
    # Remembered, so that neither this nor an environment that is there measures again.
    start = time.monotonic()
    assert phalanx.rollout("CartPole-v1", 200, num_envs=512, auto_tune=True).scan_chunk_size == tuned.scan_chunk_size
    assert time.monotonic() - start < 5
    env = phalanx.make_vec("CartPole-v1", 64, threads=1)
    env.reset(seed=0)
    found = phalanx.rollout(env, 50, auto_tune=True)
    told = capsys.readouterr().err
    assert f"scan_chunk_size = {found.scan_chunk_size}" in told and "threads = 1)" in told
    for clash in ({"scan_chunk_size": 8}, {"record": True}, {"actions": np.zeros((50, 64), int)}):
        with pytest.raises(TypeError, match="auto_tune"):
            phalanx.rollout(env, 50, auto_tune=True, **clash)


INTERRUPTED = """
import json, signal, sys, threading, time, phalanx
sent = []
def interrupt():
    time.sleep(1.5)
    sent.append(time.monotonic())
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=interrupt).start()
num_envs, agent, settings = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
try:
    while True:
        phalanx.suggest_scan_chunk_size(
            num_envs, "CartPole-v1", agent, force_revalidate=True, verbose=False, **settings
        )
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
"""


# The second has roll-outs of many seconds.
@pytest.mark.parametrize(
    ("num_envs", "agent", "settings"),
    [(4096, "random", {}), (4096, "ppo", {"rollout_steps": 256, "num_epochs": 50})],
)
def test_ctrl_c_ends_a_search(num_envs, agent, settings):
    command = [sys.executable, "-c", INTERRUPTED, str(num_envs), agent, json.dumps(settings)]

    def seconds_of(_):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    within_a_second(seconds_of)


def test_roll_outs_by_rows_have_a_tile(cache):
    plain = phalanx.rollout("ARC-v0", 30, num_envs=300, seed=4)
    for tile in (16, 512):
        assert phalanx.rollout("ARC-v0", 30, num_envs=300, seed=4, tile=tile).checksum == plain.checksum
    assert phalanx.rollout("ARC-v0", 30, num_envs=300, seed=4, auto_tune=True).checksum == plain.checksum
    assert phalanx.autotune.tune(300, "ARC-v0", "random", verbose=False)["tile"] in (32, 128, 512)
    assert "tile" not in phalanx.autotune.tune(64, "CartPole-v1", "random", verbose=False, time_budget=2.0)
    with pytest.raises(ValueError, match="a multiple of 16"):
        phalanx.rollout("ARC-v0", 30, tile=100)
    with pytest.raises(TypeError, match="auto_tune"):
        phalanx.rollout("ARC-v0", 30, tile=32, auto_tune=True)
    for clash in ({"record": True}, {"actions": np.zeros((30, 1, 5), int)}):
        with pytest.raises(TypeError, match="neither actions nor record"):
            phalanx.rollout("ARC-v0", 30, tile=32, **clash)
