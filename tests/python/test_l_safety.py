"""L. Costs of violated constraints."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper
from helpers import MODES, actions_for

import phalanx
from phalanx.safety import CostInInfo, SafetyVectorEnv


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stats", [False, True])
def test_l_episode_costs_are_sums_of_costs(mode, stats, rng):
    # The start is cooler than that, and the reaction may heat it up: some steps violate it, others do not.
    env = phalanx.make_vec(
        "ChemicalReactor-v0", 6, autoreset_mode=mode, safety="monitor", max_episode_steps=20, episode_stats=stats,
        constraints=["temperature<=325:soft:name=warm"],
    )
    env.reset(seed=0)
    sums, ended, ends, total = np.zeros(6), np.zeros(6, bool), 0, 0.0
    for _ in range(300):
        if mode.value == "Disabled" and ended.any():
            env.reset(options={"reset_mask": ended})
            ended[:] = False
        _, _, terminations, truncations, info = env.step(actions_for(env, rng))
        if mode.value == "NextStep" and ended.all():
            # All began an episode, so nobody has a cost.
            assert not any("cost" in key for key in info)
            ended = terminations | truncations
            continue
        assert info["cost"].dtype == np.float64 and (info["cost"] >= 0).all()
        skipped = ended if mode.value == "NextStep" else np.zeros(6, bool)
        assert np.array_equal(info["_cost"], ~skipped)
        parts = [info[key] for key in info if key.startswith("cost_")]
        assert len(parts) >= 1 and np.array_equal(sum(parts), info["cost"])
        assert np.array_equal(info["violation"], info["cost"] > 0)
        sums += info["cost"]
        total += info["cost"].sum()
        ended = terminations | truncations
        if ended.any():
            costs = info["episode"]["c"] if stats else info["episode_cost"]
            assert ("episode_cost" in info) != stats
            assert np.array_equal(costs[ended], sums[ended]) and not costs[~ended].any()
            sums[ended] = 0
            ends += int(ended.sum())
    assert ends > 50 and total > 0


def test_l_a_safe_policy_costs_nothing():
    env = phalanx.make_vec("Pendulum-v1", 3, constraints=["theta_dot<=100:soft:name=speed"])
    env.reset(seed=0)
    for _ in range(100):
        info = env.step(np.zeros((3, 1)))[4]
        assert not info["cost"].any() and not info["cost_speed"].any() and not info["violation"].any()


def test_l_what_violates_costs():
    """A constraint that the start violates costs 1 in each step, and two that are violated together cost 2."""
    names = ["theta_dot>=100:soft:name=fast", "theta_dot<=-100:soft:name=back", "theta_dot<=100:soft:name=speed"]
    env = phalanx.make_vec("Pendulum-v1", 3, constraints=names)
    env.reset(seed=0)
    for _ in range(50):
        info = env.step(np.zeros((3, 1)))[4]
        assert (info["cost"] == 2).all() and info["violation"].all()
        assert (info["cost_fast"] == 1).all() and (info["cost_back"] == 1).all() and not info["cost_speed"].any()


def test_l_six_values_and_back(rng):
    def make():
        return phalanx.make_vec(
            "ChemicalReactor-v0", 4, autoreset_mode="SameStep", safety="monitor", max_episode_steps=20
        )

    five, six, back = make(), SafetyVectorEnv(make()), CostInInfo(SafetyVectorEnv(make()))
    for env in (five, six, back):
        env.reset(seed=0)
    total = 0.0
    for _ in range(1000):
        actions = actions_for(five, rng)
        a, b, c = five.step(actions), six.step(actions), back.step(actions)
        assert len(a) == 5 and len(b) == 6 and len(c) == 5
        assert np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1])
        assert np.array_equal(a[4]["cost"], b[2])
        assert np.array_equal(a[2], b[3]) and np.array_equal(a[3], b[4])
        assert ("final_obs" in a[4]) == ("final_observation" in b[5])
        assert set(c[4]) == set(a[4]) and np.array_equal(c[4]["cost"], a[4]["cost"])
        total += b[2].sum()
    # Otherwise none of this says anything.
    assert total > 0


def test_l_without_constraints_there_is_no_cost():
    for name, safety in (("CartPole-v1", "enforce"), ("ChemicalReactor-v0", "off")):
        with pytest.raises(ValueError, match="needs costs"):
            SafetyVectorEnv(phalanx.make_vec(name, 2, autoreset_mode="SameStep", safety=safety))
    # Costs may come from a wrapper between, which only a step can tell.
    between = VectorWrapper(phalanx.make_vec("CartPole-v1", 2, autoreset_mode="SameStep"))
    assert SafetyVectorEnv(between).num_envs == 2
    foreign = SafetyVectorEnv(
        SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    )
    foreign.reset(seed=0)
    with pytest.raises(KeyError, match="cost"):
        foreign.step(np.zeros(2, int))
    with pytest.raises(ValueError, match="6 are needed"):
        plain = CostInInfo(phalanx.make_vec("CartPole-v1", 2))
        plain.reset(seed=0)
        plain.step(np.zeros(2, int))
    with pytest.raises(ValueError, match="SameStep"):
        SafetyVectorEnv(phalanx.make_vec("ChemicalReactor-v0", 2))


def test_l_in_same_step_the_cost_belongs_to_the_transition():
    env = phalanx.make_vec("ChemicalReactor-v0", 2, autoreset_mode="SameStep", safety="monitor", max_episode_steps=1)
    env.reset(seed=0)
    actions = np.zeros((2, *env.single_action_space.shape), np.float32)
    info = env.step(actions)[4]
    assert info["_cost"].all() and np.array_equal(info["final_info"]["cost"], info["cost"])
    env = phalanx.make_vec(
        "Pendulum-v1", 2, autoreset_mode="SameStep", constraints=["theta_dot>=100:soft:name=fast"], max_episode_steps=1
    )
    env.reset(seed=0)
    info = env.step(np.zeros((2, 1)))[4]
    assert info["cost"].tolist() == info["final_info"]["cost"].tolist() == info["episode_cost"].tolist() == [1.0, 1.0]
