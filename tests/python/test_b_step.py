"""B. reset and step."""

import inspect

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from helpers import MODES, actions_for

import phalanx


def test_b1_signature_of_reset():
    parameters = inspect.signature(phalanx.PhalanxVectorEnv.reset).parameters
    assert list(parameters) == ["self", "seed", "options"]
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in ("seed", "options"))
    assert len(phalanx.make_vec("CartPole-v1", 2).reset()) == 2


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "ChemicalReactor-v0", "Acrobot-v1"])
def test_b2_types_over_a_thousand_steps(env_id, rng):
    env = phalanx.make_vec(env_id, 5)
    env.reset(seed=0)
    for _ in range(1000):
        obs, rewards, terminations, truncations, info = env.step(actions_for(env, rng))
        assert obs.dtype == env.single_observation_space.dtype and obs.flags.c_contiguous and obs.flags.writeable
        assert rewards.dtype == np.float32 and rewards.shape == (5,)
        assert terminations.dtype == truncations.dtype == np.bool_ and terminations.shape == truncations.shape == (5,)
        assert isinstance(info, dict)
    assert obs in env.observation_space


def test_b3_both_flags_can_be_true():
    env = phalanx.make_vec("CartPole-v1", 2, max_episode_steps=1)
    env.reset(seed=0)
    env.set_state([[2.399, 5.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    _, _, terminations, truncations, _ = env.step([1, 1])
    assert terminations.tolist() == [True, False] and truncations.tolist() == [True, True]


def test_b4_discrete_actions_of_any_integer_type():
    env = phalanx.make_vec("CartPole-v1", 4)
    env.reset(seed=0)
    start = env.snapshot()
    expected = env.step(np.array([0, 1, 0, 1]))[0]
    wide = np.array([0, 9, 1, 9, 0, 9, 1, 9])
    forms = [[0, 1, 0, 1], (0, 1, 0, 1), wide[::2]] + [np.array([0, 1, 0, 1], t) for t in ("i1", "u1", "i4", "u4", "u8")]
    for actions in forms:
        env.restore(start)
        assert np.array_equal(env.step(actions)[0], expected)


@pytest.mark.parametrize(
    ("actions", "error", "words"),
    [
        (np.array([0, 1, 2, 1]), ValueError, "environment 2 is 2"),
        (np.array([0, 1, 1, -1]), ValueError, "environment 3 is -1"),
        (np.array([0, 2**40, 1, 1]), ValueError, "place 1 is 1099511627776"),
        (np.array([0.0, 1.0, 0.0, 1.0]), TypeError, "float64"),
        (np.array([True, False, True, True]), TypeError, "bool"),
        (np.array([0, 1, 0]), ValueError, r"\(3,\), but \(4,\)"),
        (np.zeros((4, 1), int), ValueError, r"\(4, 1\), but \(4,\)"),
        (3, ValueError, r"\(\), but \(4,\)"),
        (["a", "b", "c", "d"], TypeError, "dtype <U1, but must be whole numbers"),
        ([None] * 4, TypeError, "dtype object, but must be whole numbers"),
        (None, ValueError, r"\(\), but \(4,\)"),
        ([0, 1, 2**70, 1], ValueError, f"place 2 is {2**70}"),
        (np.array([0, 1, 1, 2**64 - 1], "u8"), ValueError, f"place 3 is {2**64 - 1}"),
        (np.array([0, 1, 1, 2**64 - 1], "u8")[::-1], ValueError, f"place 0 is {2**64 - 1}"),
    ],
)
def test_b4_wrong_actions_change_nothing(actions, error, words):
    env = phalanx.make_vec("CartPole-v1", 4)
    env.reset(seed=0)
    before = env.snapshot()
    with pytest.raises(error, match=words) as raised:
        env.step(actions)
    assert raised.type is error and "\n" not in str(raised.value)
    assert env.snapshot() == before
    env.step([0, 1, 0, 1])


def test_b5_continuous_actions():
    env = phalanx.make_vec("Pendulum-v1", 2)
    env.reset(seed=0)
    start = env.snapshot()
    expected = env.step(np.array([[0.5], [-1.0]], np.float32))[0]
    for actions in ([[0.5], [-1.0]], np.array([[0.5], [-1.0]]), np.array([[0.5, 9], [-1.0, 9]], np.float32)[:, :1]):
        env.restore(start)
        assert np.array_equal(env.step(actions)[0], expected)
    for bad in (np.nan, np.inf, 1e300):
        env.restore(start)
        with pytest.raises(ValueError, match="component 0 of the action of environment 1"):
            env.step(np.array([[0.0], [bad]]))
        assert env.snapshot() == start
    with pytest.raises(ValueError, match=r"\(2,\), but \(2, 1\)"):
        env.step(np.zeros(2))
    with pytest.raises(TypeError, match="complex"):
        env.step(np.zeros((2, 1), complex))
    # Beyond the bounds the pendulum clips, as Gymnasium's does.
    env.restore(start)
    beyond = env.step([[50.0], [-50.0]])[0]
    env.restore(start)
    assert np.array_equal(beyond, env.step([[2.0], [-2.0]])[0])


CONTINUOUS = [name for name in phalanx.env_ids() if phalanx.make_vec(name).single_action_space.dtype == np.float32]


@pytest.mark.parametrize("env_id", CONTINUOUS)
def test_b5_actions_beyond_the_bounds_are_clipped(env_id, rng):
    """In every environment, as the book says; MountainCarContinuous charges what was asked for, as Gymnasium's does."""
    env = phalanx.make_vec(env_id, 64)
    low, high = env.single_action_space.low, env.single_action_space.high
    env.reset(seed=0)
    for scale in (1.0, 3.0, 100.0):
        start = env.snapshot()
        middle, half = (low + high) / 2, (high - low) / 2
        actions = (middle + scale * half * rng.uniform(-1, 1, (64, *low.shape))).astype(np.float32)
        a = env.step(actions)
        env.restore(start)
        b = env.step(np.clip(actions, low, high))
        parts = (0, 2, 3) if env_id == "MountainCarContinuous-v0" and scale > 1 else range(4)
        assert all(np.array_equal(a[part], b[part]) for part in parts)
        bad = actions.copy()
        bad[17, -1] = np.nan
        before = env.snapshot()
        with pytest.raises(ValueError, match="environment 17"):
            env.step(bad)
        assert env.snapshot() == before


@pytest.mark.parametrize("options", [{}, {"zzz": 1}, None])
def test_b6_unknown_options_are_ignored(options):
    phalanx.make_vec("CartPole-v1", 2).reset(seed=0, options=options)


def test_b7_options_are_left_alone():
    env = phalanx.make_vec("CartPole-v1", 2, autoreset_mode="Disabled")
    env.reset(seed=0)
    mask = np.array([True, False])
    options = {"reset_mask": mask}
    env.reset(options=options)
    assert list(options) == ["reset_mask"] and options["reset_mask"] is mask

    wrapped = RecordEpisodeStatistics(phalanx.make_vec("CartPole-v1", 2, autoreset_mode="Disabled"))
    wrapped.reset(seed=0)
    for _ in range(3):
        wrapped.step([0, 1])
    wrapped.reset(options={"reset_mask": np.array([True, False])})
    assert wrapped.episode_lengths.tolist() == [0, 3]


@pytest.mark.parametrize("mode", MODES)
def test_b8_a_step_needs_a_reset(mode):
    env = phalanx.make_vec("CartPole-v1", 2, autoreset_mode=mode)
    with pytest.raises(ResetNeeded, match="reset before the first step"):
        env.step([0, 0])
    env.reset(seed=0)
    env.step([0, 0])


def test_multi_discrete_actions():
    env = phalanx.make_vec("ARC-v0", 2)
    env.reset(seed=0)
    choices = env.single_action_space.nvec
    env.step(np.zeros((2, len(choices)), int))
    with pytest.raises(ValueError, match=rf"\(2, {len(choices)}\) is needed"):
        env.step(np.zeros(2, int))
    bad = np.zeros((2, len(choices)), int)
    bad[1, 0] = choices[0]
    with pytest.raises(ValueError, match="component 0 of the action of environment 1"):
        env.step(bad)


@pytest.mark.parametrize(("env_id", "num_envs"), [("ChemicalReactor-v0", 5), ("ARC-v0", 3), ("VanDeVusse-v0", 4)])
def test_b4_b5_the_order_of_memory_does_not_matter(env_id, num_envs, rng):
    """A transposed array is contiguous as well, but not in the order of environments."""
    env = phalanx.make_vec(env_id, num_envs, autoreset_mode="SameStep")
    env.reset(seed=0)
    start = env.snapshot()
    actions = actions_for(env, rng)
    expected = env.step(actions)[0]
    dtypes = ("f4", "f8") if actions.dtype.kind == "f" else ("i4", "i8")
    for dtype in dtypes:
        env.restore(start)
        turned = np.asfortranarray(actions.astype(dtype))
        assert turned.shape[1] == 1 or not turned.flags.c_contiguous
        assert np.array_equal(env.step(turned)[0], expected)


def test_b4_b5_numbers_may_lie_anywhere():
    """A view of bytes is contiguous, but its numbers lie where no number may."""
    discrete = np.frombuffer(bytearray(40), "u1")[1:33].view("i8")
    real = np.frombuffer(bytearray(40), "u1")[1:33].view("f8").reshape(4, 1)
    assert not discrete.flags.aligned and not real.flags.aligned
    for env_id, given in (("CartPole-v1", discrete), ("Pendulum-v1", real)):
        env = phalanx.make_vec(env_id, 4)
        env.reset(seed=0)
        start = env.snapshot()
        expected = env.step(np.zeros(given.shape, given.dtype))[0]
        env.restore(start)
        assert np.array_equal(env.step(given)[0], expected)
        env.restore(start)
        assert np.array_equal(env.step(given.astype(given.dtype.newbyteorder()))[0], expected)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "TicTacToe-v0"])
def test_b4_a_refused_action_leaves_views_alone(env_id):
    env = phalanx.make_vec(env_id, 2, copy=False, autoreset_mode="SameStep")
    env.reset(seed=0)
    arrays = env.step([0, 1])[:4]
    arrays[2][:] = [True, False]
    arrays[3][:] = True
    kept = [array.copy() for array in arrays]
    refused = [[0, 99]] if env_id == "CartPole-v1" else [[0, 99], [0, 1]]
    for actions in refused:
        with pytest.raises(ValueError):
            env.step(actions)
        assert all(np.array_equal(a, b) for a, b in zip(arrays, kept))


@pytest.mark.parametrize("action", [True, False, np.True_, np.array(True)])
def test_a_bool_is_no_action_of_a_single_environment(action):
    env = phalanx.make("CartPole-v1")
    env.reset(seed=0)
    before = env.snapshot()
    with pytest.raises(TypeError, match="whole number"):
        env.step(action)
    assert env.snapshot() == before
    env.step(np.int8(1))


@pytest.mark.parametrize("seed", [-1, [0, -1, 2], [0, 1], 2**64 - 2, 1.5])
@pytest.mark.parametrize("mask", [None, np.array([True, False, True])])
def test_a_refused_reset_changes_nothing(seed, mask):
    """Neither the environments, which still need their first reset, nor the generator that Gymnasium gives them."""
    options = None if mask is None else {"reset_mask": mask}
    env = phalanx.make_vec("CartPole-v1", 3, autoreset_mode="Disabled")
    before = env.snapshot()
    with pytest.raises((TypeError, ValueError), match="seed"):
        env.reset(seed=seed, options=options)
    assert env.snapshot() == before
    with pytest.raises(ResetNeeded):
        env.step([0, 1, 0])
    env.reset(seed=7, options=options)
    assert env.np_random_seed == 7
    drawn, before = env.np_random.bit_generator.state, env.snapshot()
    with pytest.raises((TypeError, ValueError), match="seed"):
        env.reset(seed=seed, options=options)
    assert env.snapshot() == before and env.np_random_seed == 7 and env.np_random.bit_generator.state == drawn


def test_a_refused_reset_of_a_single_environment_changes_nothing():
    env = phalanx.make("CartPole-v1")
    env.reset(seed=7)
    drawn = env.np_random.bit_generator.state
    env.close()
    with pytest.raises(ClosedEnvironmentError):
        env.reset(seed=8)
    assert env.np_random_seed == 7 and env.np_random.bit_generator.state == drawn


@pytest.mark.parametrize("states", [np.zeros((2, 4)), np.full((3, 4), np.nan), np.zeros((3, 4, 1)), np.zeros((3, 5))])
def test_a_refused_state_changes_nothing(states):
    env = phalanx.make_vec("CartPole-v1", 3)
    before = env.snapshot()
    with pytest.raises(ValueError, match="state") as raised:
        env.set_state(states)
    assert "\n" not in str(raised.value) and env.snapshot() == before
    with pytest.raises(ResetNeeded):
        env.step([0, 1, 0])
    env.set_state(np.zeros((3, 4)))
    env.step([0, 1, 0])


def test_arrays_without_axes_are_single_values():
    env = phalanx.make_vec("CartPole-v1", 2, gravity=np.array(5.0))
    assert env.get_attr("gravity") == (5.0, 5.0)
    env.set_attr("gravity", np.array(6.0))
    assert env.get_attr("gravity") == (6.0, 6.0)
    assert np.array_equal(env.reset(seed=np.array(5))[0], env.reset(seed=5)[0])
