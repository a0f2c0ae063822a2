"""E. Seeding and determinism."""

import copy
import hashlib

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from helpers import actions_for, single

import phalanx


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "ccasr-gfp-control"])
def test_e1_slot_i_is_a_single_environment_with_seed_s_plus_i(env_id, rng):
    env = phalanx.make_vec(env_id, 20, autoreset_mode="SameStep")
    first, _ = env.reset(seed=7)
    singles = [single(env_id) for _ in range(20)]
    assert all(np.array_equal(one.reset(seed=7 + i)[0], first[i]) for i, one in enumerate(singles))
    for _ in range(60):
        actions = actions_for(env, rng)
        obs, rewards, *_ = env.step(actions)
        for i, one in enumerate(singles):
            seen, reward, terminated, truncated, _ = one.step(actions[i])
            assert reward == rewards[i]
            if terminated or truncated:
                seen, _ = one.reset()
            assert np.array_equal(seen, obs[i])


def test_e1_lists_of_seeds():
    env = phalanx.make_vec("CartPole-v1", 3)
    by_list, _ = env.reset(seed=[5, 6, 7])
    assert np.array_equal(by_list, env.reset(seed=5)[0])
    assert np.array_equal(by_list, env.reset(seed=np.array([5, 6, 7]))[0])
    for wrong in ([1, 2], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match="3 are needed"):
            env.reset(seed=wrong)
    second, _ = env.reset(seed=5), None
    following, _ = env.reset()
    env.reset(seed=5)
    mixed, _ = env.reset(seed=[None, 6, None])
    assert np.array_equal(mixed[[0, 2]], following[[0, 2]]) and np.array_equal(mixed[1], by_list[1])


@pytest.mark.parametrize("seed", [None, 5, [None, 6, None]])
def test_e1_a_mask_can_come_first(seed):
    env = phalanx.make_vec("CartPole-v1", 3, autoreset_mode="Disabled")
    obs, _ = env.reset(seed=seed, options={"reset_mask": np.array([False, True, False])})
    assert len({row.tobytes() for row in obs}) == 3
    if seed is not None:
        assert np.array_equal(obs[1], phalanx.make_vec("CartPole-v1", 3).reset(seed=5)[0][1])
    env.step([0, 0, 0])


def test_e1_seeds_do_not_wrap_around():
    env = phalanx.make_vec("CartPole-v1", 3)
    env.reset(seed=2**64 - 3)
    with pytest.raises(ValueError, match=r"must be at most 2\*\*64 - 3"):
        env.reset(seed=2**64 - 2)


def test_setting_a_state_first_leaves_resets_random():
    firsts = []
    for _ in range(2):
        env = phalanx.make_vec("CartPole-v1", 2)
        env.set_state(np.zeros((2, 4)))
        assert np.array_equal(env.state()[:, :4], np.zeros((2, 4)))
        env.step([0, 0])
        firsts.append(env.reset()[0])
        one = phalanx.make("CartPole-v1")
        one.set_state(np.zeros(4))
        firsts.append(one.reset()[0][None])
    assert not np.array_equal(firsts[0], firsts[2]) and not np.array_equal(firsts[1], firsts[3])


def test_e1_a_list_with_gaps_can_come_first():
    env = phalanx.make_vec("CartPole-v1", 3)
    obs, _ = env.reset(seed=[None, 6, None])
    other = phalanx.make_vec("CartPole-v1", 3)
    assert np.array_equal(obs[1], other.reset(seed=5)[0][1])
    assert not np.array_equal(obs[0], obs[2])


@pytest.mark.parametrize("seed", [np.int64(9), np.uint8(9)])
def test_e1_integer_likes_are_seeds(seed):
    env = phalanx.make_vec("CartPole-v1", 2)
    assert np.array_equal(env.reset(seed=seed)[0], env.reset(seed=9)[0])


@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError), (2**64, ValueError)])
def test_e1_wrong_seeds(seed, error):
    for env in (phalanx.make_vec("CartPole-v1", 2), single("CartPole-v1")):
        with pytest.raises(error, match="whole number from 0"):
            env.reset(seed=seed)


def test_e1_without_a_seed_runs_differ_and_none_goes_on():
    a, b = phalanx.make_vec("CartPole-v1", 2), phalanx.make_vec("CartPole-v1", 2)
    assert not np.array_equal(a.reset()[0], b.reset()[0])
    a.reset(seed=3), b.reset(seed=3)
    assert np.array_equal(a.reset()[0], b.reset()[0])


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_e2_autoresets_go_on_with_the_stream(mode, rng):
    envs = [phalanx.make_vec("CartPole-v1", 2, autoreset_mode=mode) for _ in range(2)]
    starts = [envs[0].reset(seed=0)[0], envs[1].reset(seed=0)[0]][:1]
    ended, episodes = np.zeros(2, bool), 0
    while episodes < 50:
        actions = rng.integers(2, size=2)
        a, b = (env.step(actions) for env in envs)
        assert all(np.array_equal(a[part], b[part]) for part in range(4))
        done = a[2] | a[3]
        fresh = ended if mode == "NextStep" else done
        starts.extend(a[0][fresh])
        episodes += int(done.sum())
        ended = done
    rows = np.vstack(starts)
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_e3_np_random():
    env = phalanx.make_vec("CartPole-v1", 2)
    env.reset(seed=11)
    assert env.np_random_seed == 11
    env.reset()
    assert env.np_random_seed == 11
    env.np_random = np.random.default_rng(0)
    assert env.np_random_seed == -1


def digest(num_envs, threads, slots=8, env_id="CartPole-v1"):
    env = phalanx.make_vec(env_id, num_envs, threads=threads)
    rng = np.random.default_rng(1)
    env.reset(seed=0)
    total = hashlib.sha256()
    for _ in range(100):
        # The first slots get the same actions whatever the number of environments.
        actions = np.zeros(num_envs, int)
        actions[:slots] = rng.integers(2, size=slots)
        for part in env.step(actions)[:4]:
            total.update(part[:slots].tobytes())
    return total.hexdigest()


def test_e4_neither_threads_nor_neighbours_matter():
    expected = digest(8, 1)
    assert {digest(1000, 1), digest(5000, 1), digest(5000, 2), digest(5000, 5)} == {expected}


def test_e5_the_action_space_has_a_generator_of_its_own():
    a, b = phalanx.make_vec("CartPole-v1", 3), phalanx.make_vec("CartPole-v1", 3)
    a.action_space.seed(1), b.action_space.seed(1)
    a.reset(seed=0)
    for _ in range(20):
        sample = a.action_space.sample()
        assert np.array_equal(sample, b.action_space.sample())
        a.step(sample)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: env._like(AutoresetMode.SAME_STEP)], ids=["copy", "like"])
def test_e5_copies_have_spaces_and_generators_of_their_own(clone):
    """`_like` is how `to_sb3` makes an environment of another mode."""
    env = phalanx.make_vec("CartPole-v1", 4, gravity=[1.0, 2.0, 3.0, 4.0])
    env.reset(seed=0)
    env.action_space.seed(5)
    expected, drawn = copy.deepcopy(env.action_space).sample(), env.np_random.bit_generator.state
    other = clone(env)
    for name in ("action_space", "single_action_space", "observation_space", "single_observation_space"):
        getattr(other, name).seed(6)
    other.np_random.random()
    other.metadata["render_fps"] = 1
    assert np.array_equal(env.action_space.sample(), expected) and env.np_random.bit_generator.state == drawn
    assert env.metadata["render_fps"] != 1 and env.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    assert other.get_attr("gravity") == (1.0, 2.0, 3.0, 4.0)
