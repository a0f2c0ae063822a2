"""J. Action masks."""

import numpy as np
import pytest
from helpers import MODES, legal_actions

import phalanx


@pytest.mark.parametrize("mode", MODES)
def test_j_masks_are_the_empty_cells(mode, rng):
    env = phalanx.make_vec("TicTacToe-v0", 8, autoreset_mode=mode)
    obs, info = env.reset(seed=0)
    ended = np.zeros(8, bool)
    moves = 0
    while moves < 10_000:
        if mode.value == "Disabled" and ended.any():
            obs, info = env.reset(options={"reset_mask": ended})
            assert np.array_equal(info["_action_mask"], ended) and not info["action_mask"][~ended].any()
        masks = env.action_masks()
        assert masks.dtype == np.bool_ and masks.shape == (8, 9)
        assert np.array_equal(masks, obs[:, :9] == 0)
        before = obs
        obs, _, terminations, truncations, info = env.step(legal_actions(masks, rng))
        assert info["action_mask"].dtype == np.int8 and info["_action_mask"].all()
        assert np.array_equal(info["action_mask"], env.action_masks())
        ended = terminations | truncations
        if mode.value == "SameStep" and ended.any():
            last = info["final_info"]["action_mask"]
            for slot in np.flatnonzero(ended):
                assert np.array_equal(last[slot] == 1, info["final_obs"][slot][:9] == 0)
            assert not last[~ended].any()
        moves += 8
    assert before.shape == obs.shape


def test_j_sampling_with_masks():
    env = phalanx.make_vec("TicTacToe-v0", 4, autoreset_mode="SameStep")
    _, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(500):
        actions = env.action_space.sample(mask=tuple(info["action_mask"]))
        info = env.step(actions)[4]


def test_j_an_illegal_move_is_refused_and_changes_nothing():
    env = phalanx.make_vec("TicTacToe-v0", 3, opponent="self_play")
    env.reset(seed=0)
    env.step([0, 1, 2])
    before = env.snapshot()
    with pytest.raises(ValueError, match="environment 1 is 1, but must be one that its action mask allows"):
        env.step([1, 1, 1])
    assert env.snapshot() == before
    env.step([1, 2, 3])


def test_environments_without_masks_say_so():
    env = phalanx.make_vec("CartPole-v1", 2)
    _, info = env.reset(seed=0)
    assert "action_mask" not in info
    with pytest.raises(AttributeError, match="no action masks"):
        env.action_masks()


OPERATIONS = {"raw": {*range(10), 33, 34}, "standard": {*range(20), *range(28, 35)}}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operations", OPERATIONS)
def test_j_masks_of_several_choices(operations, mode):
    """A row has the flags of all choices one after the other, as sb3-contrib wants it; operations are restricted."""
    rules = {"operations": operations, "invalid_operation": "penalize", "invalid_penalty": -1000.0}
    env = phalanx.make_vec("ARC-v0", 6, autoreset_mode=mode, max_episode_steps=20, **rules)
    _, info = env.reset(seed=0)
    sizes = env.single_action_space.nvec
    env.single_action_space.seed(0)
    ends = 0
    for _ in range(300):
        masks = env.action_masks()
        assert masks.dtype == np.bool_ and masks.shape == (6, sizes.sum()) and masks[:, sizes[0] :].all()
        assert all(set(np.flatnonzero(row)) == OPERATIONS[operations] for row in masks[:, : sizes[0]])
        assert info["action_mask"].dtype == np.int8
        assert np.array_equal(info["action_mask"] == 1, masks & info["_action_mask"][:, None])
        choices = [tuple(np.split(row.astype(np.int8), np.cumsum(sizes)[:-1])) for row in masks]
        actions = np.stack([env.single_action_space.sample(mask=mask) for mask in choices])
        _, rewards, terminations, truncations, info = env.step(actions)
        # No legal operation is taken for one that is not.
        assert (rewards > -500).all()
        ended = terminations | truncations
        ends += int(ended.sum())
        if mode.value == "SameStep" and ended.any():
            # The same flags as in any other state: a state has no part in which operations are restricted.
            last = info["final_info"]["action_mask"]
            assert last.dtype == np.int8 and np.array_equal(info["final_info"]["_action_mask"], ended)
            assert np.array_equal(last == 1, masks & ended[:, None])
        if mode.value == "Disabled" and ended.any():
            _, info = env.reset(options={"reset_mask": ended})
    assert ends > 20
    if mode.value == "Disabled":
        env.reset()
    env.step(np.full((6, 5), 0))
    forbidden = np.zeros((6, 5), int)
    forbidden[:, 0] = 20
    if mode.value != "NextStep":
        assert (env.step(forbidden)[1] < -500).all()
