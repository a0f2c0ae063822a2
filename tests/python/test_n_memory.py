"""N. Memory, copies, DLPack."""

import gc
import tracemalloc

import numpy as np
import pytest
from helpers import actions_for

import phalanx
from phalanx._phalanx import allocations


def arrays_of(env, actions):
    return env.step(actions)[:4]


def test_n1_fresh_arrays_by_default():
    env = phalanx.make_vec("CartPole-v1", 16)
    kept = [env.reset(seed=0)[0]]
    contents = [kept[0].copy()]
    for _ in range(50):
        for array in arrays_of(env, np.zeros(16, int)):
            assert not any(np.shares_memory(array, other) for other in kept)
            kept.append(array)
            contents.append(array.copy())
    assert all(np.array_equal(a, b) for a, b in zip(kept, contents))


def test_n1_views_on_request():
    env = phalanx.make_vec("CartPole-v1", 16, copy=False)
    first, _ = env.reset(seed=0)
    a = arrays_of(env, np.zeros(16, int))
    b = arrays_of(env, np.zeros(16, int))
    assert np.shares_memory(first, a[0]) and all(np.shares_memory(x, y) for x, y in zip(a, b))
    copied = phalanx.make_vec("CartPole-v1", 16)
    env.reset(seed=0), copied.reset(seed=0)
    for _ in range(40):
        a, b = (arrays_of(each, np.ones(16, int)) for each in (env, copied))
        assert all(np.array_equal(x, y) for x, y in zip(a, b))


@pytest.mark.parametrize("copy", [True, False])
def test_n2_arrays_outlive_their_environment(copy):
    env = phalanx.make_vec("CartPole-v1", 1000, copy=copy)
    env.reset(seed=0)
    arrays = arrays_of(env, np.zeros(1000, int))
    expected = [array.copy() for array in arrays]
    env.close()
    del env
    gc.collect()
    churn = [np.full(4000, 7.0, np.float32) for _ in range(100)]
    assert all(np.array_equal(a, b) for a, b in zip(arrays, expected)) and len(churn) == 100


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("num_envs", [1, 3, 1000])
def test_n3_n5_aligned_and_writable(copy, num_envs):
    env = phalanx.make_vec("CartPole-v1", num_envs, copy=copy)
    arrays = [env.reset(seed=0)[0], *arrays_of(env, np.zeros(num_envs, int))]
    assert all(array.ctypes.data % 64 == 0 and array.flags.writeable for array in arrays)


def test_n4_dlpack():
    env = phalanx.make_vec("CartPole-v1", 8, copy=False)
    env.reset(seed=0)
    obs, rewards, *_ = arrays_of(env, np.zeros(8, int))
    assert obs.__dlpack_device__() == (1, 0)
    for _ in range(2):
        for array in (obs, rewards):
            view = np.from_dlpack(array)
            assert np.shares_memory(view, array) and np.array_equal(view, array)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="this NumPy has no such keywords")
@pytest.mark.parametrize("copy", [True, False])
def test_n4_dlpack_keywords(copy):
    env = phalanx.make_vec("CartPole-v1", 8, copy=copy)
    obs, _ = env.reset(seed=0)
    versioned = repr(obs.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" in versioned and "dltensor_versioned" not in repr(obs.__dlpack__())
    assert "dltensor" in repr(obs.__dlpack__(dl_device=(1, 0), stream=None))
    shared, copied = np.from_dlpack(obs, copy=False, device="cpu"), np.from_dlpack(obs, copy=True)
    assert np.shares_memory(shared, obs) and not np.shares_memory(copied, obs)
    shared[0, 0] = 7.0
    assert obs[0, 0] == 7.0 and copied[0, 0] != 7.0
    # No other device, and no stream of one.
    with pytest.raises((BufferError, ValueError)):
        obs.__dlpack__(dl_device=(2, 0))
    with pytest.raises((BufferError, RuntimeError, ValueError)):
        obs.__dlpack__(stream=1)


def test_n4_n6_n7_jax():
    jax = pytest.importorskip("jax")
    env = phalanx.make_vec("CartPole-v1", 8)
    obs, _ = env.reset(seed=0)
    for _ in range(2):
        shared = jax.dlpack.from_dlpack(obs)
        assert shared.dtype == np.float32 and shared.unsafe_buffer_pointer() == obs.ctypes.data
    del env, obs
    gc.collect()
    assert shared.shape == (8, 4) and bool((abs(shared) <= 0.05).all())


def test_n7_jax_arrays_over_views_change_and_copies_do_not():
    jax = pytest.importorskip("jax")
    env = phalanx.make_vec("CartPole-v1", 8, copy=False)
    obs, _ = env.reset(seed=0)
    shared, copied, before = jax.dlpack.from_dlpack(obs), jax.numpy.array(obs), obs.copy()
    assert shared.unsafe_buffer_pointer() == obs.ctypes.data != copied.unsafe_buffer_pointer()
    after = env.step(np.ones(8, int))[0]
    # Not by JAX, which may keep what it has computed of an array that it takes for immutable.
    assert np.array_equal(np.from_dlpack(shared), after) and not np.array_equal(after, before)
    assert np.array_equal(copied, before)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize(("num_envs", "threads"), [(64, 1), (5_000, 2)])
def test_n8_steps_allocate_nothing_in_rust(copy, num_envs, threads, rng):
    env = phalanx.make_vec("CartPole-v1", num_envs, copy=copy, threads=threads)
    env.reset(seed=0)
    actions = rng.integers(2, size=(8, num_envs))
    for i in range(100):
        result = env.step(actions[i % 8])
    before = allocations()
    for i in range(1000):
        result = env.step(actions[i % 8])
    assert allocations() == before
    # What was counted is what is claimed: a snapshot does allocate.
    env.snapshot()
    assert allocations() > before and len(result) == 5


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(("num_envs", "threads"), [(1, 1), (64, 1), (5_000, 2)])
def test_n8_same_step_allocates_where_episodes_end(copy, dense, num_envs, threads, rng):
    """What an info tells of ends is new, and made by arrays that grow by doubling: never one for each environment."""
    env = phalanx.make_vec(
        "CartPole-v1", num_envs, autoreset_mode="SameStep", copy=copy, final_obs_dense=dense, threads=threads
    )
    env.reset(seed=0)
    actions = rng.integers(2, size=(8, num_envs))
    with_ends = 0
    for i in range(300):
        before = allocations()
        result = env.step(actions[i % 8])
        made, ends = allocations() - before, int((result[2] | result[3]).sum())
        if i > 100:
            # 10 and twice the logarithm were counted; some more are left for other versions of NumPy.
            assert made <= (12 + 2 * ends.bit_length() if ends else 0), (made, ends)
            with_ends += ends > 0
    assert with_ends > 5


@pytest.mark.parametrize("copy", [True, False])
def test_n8_disabled_allocates_for_what_a_reset_took(copy, rng):
    """A reset returns an array, which the next step cannot use."""
    env = phalanx.make_vec("CartPole-v1", 64, autoreset_mode="Disabled", copy=copy)
    env.reset(seed=0)
    for i in range(300):
        actions = rng.integers(2, size=64)
        before = allocations()
        _, _, terminations, truncations, _ = env.step(actions)
        made, done = allocations() - before, terminations | truncations
        assert i < 100 or made <= (1 if copy else 0), made
        if done.any():
            env.reset(options={"reset_mask": done})


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("TicTacToe-v0", {}),
        ("ChemicalReactor-v0", {"safety": "monitor"}),
        ("Pendulum-v1", {"constraints": ["theta_dot<=1:soft:name=speed"]}),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_n8_masks_and_costs_allocate_what_they_return(env_id, kwargs, threads, rng):
    """The arrays of an info are new, as everything in an info is; there is nothing besides that grows with anything."""

    def per_step(num_envs):
        env = phalanx.make_vec(env_id, num_envs, copy=False, threads=threads, **kwargs)
        env.reset(seed=0)
        made = []
        for _ in range(60):
            legal = env.action_masks() if env_id == "TicTacToe-v0" else None
            actions = actions_for(env, rng) if legal is None else legal.argmax(axis=1)
            before = allocations()
            info = env.step(actions)[4]
            made.append((allocations() - before) / max(len(info), 1))
        return max(made[20:]), len(info)

    (few, keys), (many, _) = per_step(64), per_step(5_000)
    assert keys > 0 and few < 4 and many < 4


def test_n8_steps_make_few_objects_and_keep_none(rng):
    env = phalanx.make_vec("CartPole-v1", 64, copy=False)
    env.reset(seed=0)
    actions = rng.integers(2, size=64)
    first = env.step(actions)
    for _ in range(100):
        env.step(actions)
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    for _ in range(1000):
        env.step(actions)
    after = tracemalloc.take_snapshot()
    tracemalloc.stop()
    grown = sum(row.size_diff for row in after.compare_to(before, "filename") if "tracemalloc" not in str(row.traceback))
    assert grown < 2000
    # New are the tuple and the info: the four arrays are those of the first step.
    result = env.step(actions)
    assert result is not first and all(a is b for a, b in zip(first[:4], result[:4])) and len(result) == 5
