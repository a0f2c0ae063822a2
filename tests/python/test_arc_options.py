"""Options that change what an environment is, above all those of ARC."""

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from helpers import MODES, actions_for, legal_actions, single

import phalanx

ARC_OPTIONS = json.loads(phalanx._phalanx.env_spec("ARC-v0"))["options"]
#: Every word of every option, and some together.
CASES = [(env_id, {}) for env_id in phalanx.env_ids()]
CASES += [("ARC-v0", {option["name"]: word}) for option in ARC_OPTIONS for word in option["choices"]]
CASES += [
    ("ARC-v0", {"reward": "training", "show_steps": "on"}),
    ("ARC-v0", {"max_episode_steps": 20, "show_steps": "on", "one_hot": "on"}),
    ("ARC-v0", {"operations": "raw", "flat": "on", "canvas": "5"}),
]


@pytest.mark.parametrize(("env_id", "kwargs"), CASES, ids=str)
def test_e1_slot_i_is_a_single_environment_for_every_name_and_option(env_id, kwargs, rng):
    env = phalanx.make_vec(env_id, 3, autoreset_mode="SameStep", **kwargs)
    first, _ = env.reset(seed=7)
    singles = [single(env_id, **kwargs) for _ in range(3)]
    assert all(np.array_equal(one.reset(seed=7 + i)[0], first[i]) for i, one in enumerate(singles))
    assert all(one.observation_space == env.single_observation_space for one in singles)
    for _ in range(40):
        actions = legal_actions(env.action_masks(), rng) if env_id == "TicTacToe-v0" else actions_for(env, rng)
        obs, rewards, terminations, truncations, _ = env.step(actions)
        for i, one in enumerate(singles):
            seen, reward, terminated, truncated, _ = one.step(actions[i])
            assert (reward, terminated, truncated) == (rewards[i], terminations[i], truncations[i])
            if terminated or truncated:
                seen, _ = one.reset()
            assert np.array_equal(seen, obs[i])


@pytest.mark.parametrize(("kwargs", "limit"), [({}, 100), ({"reward": "training"}, 150), ({"max_episode_steps": 7}, 7)])
def test_both_kinds_of_environments_have_the_limit_that_goes_with_the_options(kwargs, limit):
    many, one = phalanx.make_vec("ARC-v0", 2, **kwargs), phalanx.make("ARC-v0", **kwargs)
    many.reset(seed=0), one.reset(seed=0)
    nothing = np.zeros((2, 5), int)
    ends = [(many.step(nothing)[3].tolist(), one.step(nothing[0])[3]) for _ in range(limit)]
    assert ends == [([False, False], False)] * (limit - 1) + [([True, True], True)]


@pytest.mark.parametrize("kwargs", [{}, {"reward": "training"}])
def test_f5_shown_steps_are_the_same_in_other_vectorisations(kwargs):
    """Gymnasium's time limit is a wrapper; the environment knows it, and does not enforce it."""
    envs = [
        gymnasium.make_vec("phalanx/ARC-v0", num_envs=2, vectorization_mode=mode, show_steps="on", **kwargs)
        for mode in ("vector_entry_point", "sync")
    ]
    a, b = (env.reset(seed=0)[0] for env in envs)
    nothing = np.zeros((2, 5), int)
    for step in range(1, 201):
        assert np.array_equal(a, b)
        (a, _, _, ours, _), (b, _, _, theirs, _) = (env.step(nothing) for env in envs)
        assert np.array_equal(ours, theirs) and ours.all() == (step == 100)
        if step == 10:
            assert (a[..., -1] == 10).all()


def test_f4_a_single_arc_environment_does_not_truncate_by_itself():
    env = gymnasium.make("phalanx/ARC-v0", show_steps="on").unwrapped
    env.reset(seed=0)
    flags = [env.step(np.zeros(5, int))[3] for _ in range(200)]
    assert not any(flags)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operations", ["raw", "standard"])
def test_j_the_masks_of_last_states_are_there_for_options_too(mode, operations):
    env = phalanx.make_vec("ARC-v0", 2, operations=operations, autoreset_mode=mode, max_episode_steps=1)
    _, info = env.reset(seed=0)
    expected = info["action_mask"]
    assert 0 < expected.sum() < expected.size
    info = env.step(np.zeros((2, 5), int))[4]
    assert np.array_equal(info["action_mask"], expected)
    if mode == AutoresetMode.SAME_STEP:
        assert np.array_equal(info["final_info"]["action_mask"], expected)


def test_j_single_environments_have_masks_by_their_options():
    env = phalanx.make("ARC-v0", operations="raw")
    _, info = env.reset(seed=0)
    assert np.array_equal(info["action_mask"] == 1, env.action_masks())
    with pytest.raises(AttributeError, match="no action masks"):
        phalanx.make("ARC-v0").action_masks()


def test_memory_is_looked_at_with_the_options_in_force():
    if not Path("/proc/meminfo").exists():
        return
    (line,) = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    # 31 channels of 30 x 30 cells each, where there is one of 10 x 10 by default.
    large = {"canvas": 30, "context": 10, "one_hot": "on"}
    num_envs = 3 * int(line.split()[1]) * 1024 // (4 * 31 * 900)
    with pytest.raises(MemoryError, match="are available"):
        phalanx.make_vec("ARC-v0", num_envs, **large)
    assert phalanx.make_vec("ARC-v0", 2, **large).reset(seed=0)[0].shape == (2, 30, 30, 31)


def test_tasks_that_are_not_there(tmp_path):
    for make in (phalanx.make_vec, phalanx.make):
        with pytest.raises(FileNotFoundError, match="the directory '.*none' does not exist"):
            make("ARC-v0", tasks=tmp_path / "none")
        with pytest.raises(ValueError, match="has no tasks"):
            make("ARC-v0", tasks=tmp_path)
