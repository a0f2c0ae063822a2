"""C. The autoreset modes, slot by slot against Gymnasium's own vector environment over our single one."""

import subprocess
import sys
from collections import deque
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TransformObservation
from gymnasium.wrappers import vector as wrappers
from helpers import MODES, SHORT, actions_for, same, sync

import phalanx


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize(("env_id", "kwargs"), SHORT)
def test_c1_c2_as_sync_vector_env(env_id, kwargs, mode, rng):
    ours, theirs = phalanx.make_vec(env_id, 5, autoreset_mode=mode, **kwargs), sync(env_id, 5, mode, **kwargs)
    assert np.array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    ends = 0
    for _ in range(2000):
        actions = actions_for(ours, rng)
        a, b = ours.step(actions), theirs.step(actions)
        for part in range(4):
            assert np.array_equal(a[part], b[part])
        assert same(a[4], b[4])
        ends += int((a[2] | a[3]).sum())
    assert ends > 100


def test_c2_finals_are_absent_when_nobody_finished():
    env = phalanx.make_vec("CartPole-v1", 2, autoreset_mode="SameStep")
    env.reset(seed=0)
    assert env.step([0, 1])[4] == {}
    env.set_state([[2.399, 5.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    obs, rewards, terminations, _, info = env.step([1, 0])
    assert terminations.tolist() == [True, False]
    assert info["final_obs"].dtype == object and info["final_obs"][1] is None
    assert info["final_obs"][0][0] > 2.4 and abs(obs[0, 0]) <= 0.05
    assert info["_final_obs"].tolist() == info["_final_info"].tolist() == [True, False]
    assert info["final_info"] == {}
    assert rewards.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("env_id", "kwargs"), SHORT)
def test_c2_final_observations_are_where_the_episode_ended(env_id, kwargs, rng):
    """As a twin sees them that does not begin the next episode by itself, step limits included."""
    ours = phalanx.make_vec(env_id, 4, autoreset_mode="SameStep", **kwargs)
    twin = phalanx.make_vec(env_id, 4, autoreset_mode="Disabled", **kwargs)
    ours.reset(seed=2), twin.reset(seed=2)
    ends = 0
    for _ in range(300):
        actions = actions_for(ours, rng)
        obs, _, terminations, truncations, info = ours.step(actions)
        last = twin.step(actions)[0]
        done = terminations | truncations
        for env in np.flatnonzero(done):
            assert np.array_equal(info["final_obs"][env], last[env]) and not np.array_equal(obs[env], last[env])
        assert np.array_equal(obs[~done], last[~done])
        ends += int(done.sum())
        if done.any():
            assert np.array_equal(twin.reset(options={"reset_mask": done})[0], obs)
    assert ends > 20


def test_c3_disabled_refuses_and_resets_by_mask():
    env = phalanx.make_vec("CartPole-v1", 3, autoreset_mode="Disabled", max_episode_steps=2)
    env.reset(seed=0)
    env.step([0, 0, 0])
    env.set_state(env.state(), [False, True, False])
    obs, _, _, truncations, _ = env.step([0, 0, 0])
    assert truncations.tolist() == [True, False, True]
    before = env.snapshot()
    with pytest.raises(ResetNeeded, match="0, 2"):
        env.step([0, 0, 0])
    assert env.snapshot() == before
    after, info = env.reset(options={"reset_mask": np.array([True, False, False])})
    assert np.array_equal(after[1:], obs[1:]) and not np.array_equal(after[0], obs[0])
    with pytest.raises(ResetNeeded, match="environments 2 "):
        env.step([0, 0, 0])
    env.reset(options={"reset_mask": np.array([False, False, True])})
    env.step([0, 0, 0])


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ([True, False], TypeError),
        (np.array([True]), ValueError),
        (np.array([1, 0]), TypeError),
        (np.array([False, False]), ValueError),
    ],
)
def test_c3_malformed_masks(mask, error):
    env = phalanx.make_vec("CartPole-v1", 2, autoreset_mode="Disabled")
    env.reset(seed=0)
    before = env.snapshot()
    with pytest.raises(error, match="reset mask"):
        env.reset(options={"reset_mask": mask})
    assert env.snapshot() == before


def test_c3_partial_reset_as_sync_vector_env(rng):
    ours = phalanx.make_vec("CartPole-v1", 6, autoreset_mode="Disabled")
    theirs = sync("CartPole-v1", 6, AutoresetMode.DISABLED)
    ours.reset(seed=1), theirs.reset(seed=1)
    for i in range(600):
        actions = rng.integers(2, size=6)
        a, b = ours.step(actions), theirs.step(actions)
        assert all(np.array_equal(a[part], b[part]) for part in range(4))
        done = a[2] | a[3]
        if done.any():
            seed = None if i % 3 else 100 + i
            one = ours.reset(seed=seed, options={"reset_mask": done})
            two = theirs.reset(seed=seed, options={"reset_mask": done.copy()})
            assert np.array_equal(one[0], two[0]) and same(one[1], two[1])


# Gymnasium 1.2 asserts what later ones raise.
REFUSED = (ValueError, AssertionError)
OBSERVATION_WRAPPERS = {
    "FlattenObservation": wrappers.FlattenObservation,
    "DtypeObservation": lambda env: wrappers.DtypeObservation(env, np.float64),
    "TransformObservation": lambda env: wrappers.TransformObservation(env, lambda obs: obs),
    "VectorizeTransformObservation": lambda env: wrappers.VectorizeTransformObservation(
        env, TransformObservation, func=lambda obs: -obs, observation_space=env.single_observation_space
    ),
    "RescaleObservation": lambda env: wrappers.RescaleObservation(env, 0.0, 1.0),
    "ReshapeObservation": lambda env: wrappers.ReshapeObservation(env, (3, 1)),
}
#: For dictionaries and pictures, which none of our environments has.
OF_OTHER_SPACES = {
    "FilterObservation": lambda env: wrappers.FilterObservation(env, ["x"]),
    "GrayscaleObservation": wrappers.GrayscaleObservation,
    "ResizeObservation": lambda env: wrappers.ResizeObservation(env, (8, 8)),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OBSERVATION_WRAPPERS)
def test_c4_observation_wrappers_refuse_same_step(name, mode):
    env = phalanx.make_vec("Pendulum-v1", 2, autoreset_mode=mode)
    if mode == AutoresetMode.SAME_STEP:
        with pytest.raises(REFUSED):
            OBSERVATION_WRAPPERS[name](env)
    else:
        OBSERVATION_WRAPPERS[name](env).reset(seed=0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OF_OTHER_SPACES)
def test_c4_wrappers_of_other_spaces_refuse_ours(name, mode):
    with pytest.raises((*REFUSED, TypeError)):
        OF_OTHER_SPACES[name](phalanx.make_vec("Pendulum-v1", 2, autoreset_mode=mode))


@pytest.mark.parametrize("mode", MODES)
def test_c4_normalize_observation_takes_next_step_only(mode):
    env = phalanx.make_vec("CartPole-v1", 2, autoreset_mode=mode)
    if mode == AutoresetMode.NEXT_STEP:
        wrappers.NormalizeObservation(env).reset(seed=0)
    else:
        with pytest.raises(REFUSED):
            wrappers.NormalizeObservation(env)


def test_c4_normalize_observation_refuses_partial_masks():
    """Ours takes them in any mode, so the refusal is the wrapper's."""
    env = wrappers.NormalizeObservation(phalanx.make_vec("CartPole-v1", 2))
    env.reset(seed=0)
    before = env.unwrapped.snapshot()
    with pytest.raises(REFUSED):
        env.reset(options={"reset_mask": np.array([True, False])})
    assert env.unwrapped.snapshot() == before
    env.reset(options={"reset_mask": np.array([True, True])})


def test_c5_dense_finals_agree_with_the_sparse_ones(rng):
    sparse = phalanx.make_vec("CartPole-v1", 8, autoreset_mode="SameStep")
    dense = phalanx.make_vec("CartPole-v1", 8, autoreset_mode="SameStep", final_obs_dense=True)
    sparse.reset(seed=0), dense.reset(seed=0)
    ends = 0
    for _ in range(300):
        actions = rng.integers(2, size=8)
        a, b = sparse.step(actions)[4], dense.step(actions)[4]
        assert ("final_obs" in a) == ("final_obs_dense" in b) and "final_obs" not in b
        if "final_obs" in a:
            places = np.flatnonzero(a["_final_obs"])
            assert np.array_equal(b["final_indices"], places)
            assert np.array_equal(b["final_obs_dense"], np.stack(list(a["final_obs"][places])))
            assert b["final_obs_dense"].dtype == np.float32
            np.from_dlpack(b["final_obs_dense"])
            with pytest.raises(BufferError):
                np.from_dlpack(a["final_obs"])
            ends += len(places)
    assert ends > 50


@pytest.mark.parametrize("mode", MODES)
def test_c6_starts_are_not_steps(mode, rng):
    env = phalanx.make_vec("CartPole-v1", 4, autoreset_mode=mode)
    env.reset(seed=0)
    counted, ended = 0, np.zeros(4, bool)
    for _ in range(500):
        if mode == AutoresetMode.DISABLED and ended.any():
            env.reset(options={"reset_mask": ended})
            ended[:] = False
        counted += 4 - int(ended.sum() if mode == AutoresetMode.NEXT_STEP else 0)
        _, _, terminations, truncations, _ = env.step(rng.integers(2, size=4))
        ended = terminations | truncations
    assert env.num_steps == counted


def test_f4_the_vector_environment_truncates_at_exactly_its_limit():
    env = gymnasium.make_vec("phalanx/MountainCar-v0", num_envs=2)
    env.reset(seed=0)
    for step in range(1, 201):
        truncations = env.step([1, 1])[3]
        assert truncations.all() == (step == 200)


def test_seeds_may_be_any_sequence():
    env = phalanx.make_vec("CartPole-v1", 3)
    expected = env.reset(seed=[5, 6, 7])[0]
    for seeds in (range(5, 8), (5, 6, 7), np.array([5, 6, 7]), deque([5, 6, 7])):
        assert np.array_equal(env.reset(seed=seeds)[0], expected)
    for wrong in ("567", b"567"):
        with pytest.raises(TypeError, match="whole number"):
            env.reset(seed=wrong)


def test_a_snapshot_is_something_with_bytes():
    env = phalanx.make_vec("CartPole-v1", 2)
    env.reset(seed=0)
    snapshot = env.snapshot()
    for wrong in (5, 10**11, [1, 2], "text", None):
        with pytest.raises(TypeError, match="bytes-like"):
            env.restore(wrong)
    for form in (bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)):
        env.step([0, 1])
        env.restore(form(snapshot))
        assert env.snapshot() == snapshot


THREADS = """
import resource
import phalanx
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
# Each thread needs a stack of 2 MiB.
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
try:
    phalanx.make_vec("CartPole-v1", 4, threads=1000)
except OSError as error:
    print("refused:", error)
"""


def test_threads_that_the_system_does_not_give_are_an_error_of_the_system():
    if not Path("/proc/self/statm").exists():
        return
    told = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True).stdout
    assert told.startswith("refused: cannot start 1000 threads for CartPole-v1")
