"""G. The single environment, and Gymnasium's checker."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import phalanx

#: Gymnasium's own pendulum has bounds of 2; a bandit has nothing to observe.
OF_THE_TASK = {
    "Pendulum-v1": ["normalized space"],
    "pendulum-control": ["normalized space"],
    "TwoArmedBandit-v0": ["maximum and minimum values are equal"],
}
LEGAL_ONLY = {"TicTacToe-v0": {"illegal": "lose"}}


@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
@pytest.mark.parametrize("env_id", phalanx.env_ids())
def test_g1_check_env(env_id, render_mode):
    """With the check of pictures, which makes one environment for each mode that the metadata name."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Bounds that are infinite, in truth or nearly so, which is what the rule excepts; and what the task itself has.
        for words in ("infinity", *OF_THE_TASK.get(env_id, [])):
            warnings.filterwarnings("ignore", f".*{words}.*")
        kwargs = LEGAL_ONLY.get(env_id, {})
        env = gymnasium.make(f"phalanx/{env_id}", disable_env_checker=True, render_mode=render_mode, **kwargs)
        # The check of pictures needs a registered environment: without a spec it is skipped.
        check_env(env.unwrapped, skip_render_check=render_mode is None)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_g1_pictures_follow_the_state(env_id):
    env = gymnasium.make(f"phalanx/{env_id}", render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
    env.step(env.action_space.sample())
    assert not np.array_equal(frame, env.render())


def test_g2_flags_are_pythons_own():
    env = phalanx.make("CartPole-v1")
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(np.int64(1))
    assert terminated is False and truncated is False and type(reward) is float and info == {}


def test_g3_observations_are_fresh():
    env = phalanx.make("CartPole-v1")
    a, _ = env.reset(seed=0)
    b = env.step(0)[0]
    c = env.step(0)[0]
    assert not np.shares_memory(a, b) and not np.shares_memory(b, c)


REFERENCES = [("CartPole-v1", 1e-6), ("MountainCar-v0", 1e-6), ("Acrobot-v1", 2e-5), ("Pendulum-v1", 1e-5)]


@pytest.mark.parametrize(("env_id", "tolerance"), REFERENCES)
def test_g4_steps_are_those_of_gymnasium(env_id, tolerance, rng):
    """The reference's state is injected before each step: both then make one step, ours in single precision."""
    ours, theirs = phalanx.make(env_id), gymnasium.make(env_id).unwrapped
    theirs.reset(seed=0), ours.reset(seed=0)
    ends = 0
    for _ in range(1000):
        ours.set_state(np.asarray(theirs.state, np.float64))
        action = theirs.action_space.sample()
        a, b = ours.step(action), theirs.step(action)
        np.testing.assert_allclose(a[0], b[0], atol=tolerance, rtol=tolerance)
        assert a[1] == pytest.approx(b[1], abs=1e-4) and a[2] == b[2]
        if b[2] or rng.random() < 0.02:
            theirs.reset()
            ends += 1
    assert ends > 5


@pytest.mark.parametrize(
    ("env_id", "action"),
    [
        ("MountainCar-v0", 1),
        ("Acrobot-v1", 1),
        ("Pendulum-v1", [0.0]),
    ],
)
def test_g4_limits_are_those_of_gymnasium(env_id, action):
    """Both make whole episodes that only time ends: with states injected there would be no time to run out."""
    ours, theirs = phalanx.make(env_id), gymnasium.make(env_id)
    theirs.reset(seed=0), ours.reset(seed=0)
    ours.set_state(np.asarray(theirs.unwrapped.state, np.float64))
    flags = [(False, False)]
    while flags[-1] == (False, False):
        a, b = ours.step(action), theirs.step(action)
        assert a[2:4] == b[2:4], len(flags)
        flags.append(b[2:4])
    assert flags[-1] == (False, True) and len(flags) - 1 == theirs.spec.max_episode_steps


@pytest.mark.parametrize("action", [2, -1, 2**40, 2**70, -(2**70)])
def test_wrong_actions_of_a_single_environment(action):
    env = phalanx.make("CartPole-v1")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action"):
        env.step(action)
    with pytest.raises(TypeError, match="whole number"):
        env.step(0.5)
    env.step(1)


def test_a_single_environment_must_be_reset():
    env = phalanx.make("MountainCar-v0", max_episode_steps=2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[3] is True
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.reset()
