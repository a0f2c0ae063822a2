"""F. Registration and make_vec."""

import json
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import phalanx


@pytest.mark.parametrize(
    "script",
    [
        "import gymnasium as gym, phalanx; gym.register_envs(phalanx); gym.make_vec('phalanx/CartPole-v1', num_envs=2)",
        "import gymnasium as gym; gym.make('phalanx:phalanx/CartPole-v1').reset(seed=0)",
    ],
)
def test_f1_both_spellings_in_a_fresh_interpreter(script):
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=120)


def test_f1_nothing_of_gymnasium_is_overridden():
    assert "phalanx" not in str(gymnasium.spec("CartPole-v1").entry_point)
    ours = [name for name in gymnasium.registry if "phalanx" in str(gymnasium.registry[name].entry_point)]
    assert len(ours) == len(phalanx.env_ids()) and all(name.startswith("phalanx/") for name in ours)


def test_f2_keywords_of_make_vec():
    env = gymnasium.make_vec("phalanx/CartPole-v1", num_envs=4, autoreset_mode="SameStep", gravity=5.0)
    assert isinstance(env, phalanx.PhalanxVectorEnv)
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    assert env.get_attr("gravity") == (5.0,) * 4
    assert gymnasium.make_vec("phalanx/CartPole-v1", num_envs=2, render_mode="rgb_array").render_mode == "rgb_array"


def test_f3_specs_round_trip():
    env = gymnasium.make_vec("phalanx/CartPole-v1", num_envs=3, autoreset_mode="SameStep")
    json.loads(env.spec.to_json())
    again = gymnasium.make_vec(env.spec)
    assert again.num_envs == 3 and again.metadata == env.metadata
    single = gymnasium.make("phalanx/CartPole-v1", gravity=3.0)
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(single.spec.to_json()))
    assert again.unwrapped.get_param("gravity").tolist() == [3.0]


def test_f4_time_limits():
    env = gymnasium.make("phalanx/MountainCar-v0")
    env.reset(seed=0)
    for step in range(1, 201):
        assert env.step(1)[3] == (step == 200)
    assert gymnasium.make("phalanx/CartPole-v1").spec.max_episode_steps == 500
    unlimited = gymnasium.make("phalanx/MountainCar-v0").unwrapped
    unlimited.reset(seed=0)
    assert not any(unlimited.step(1)[3] for _ in range(300))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_f5_other_vectorisations(kind):
    env = gymnasium.make_vec("phalanx/CartPole-v1", num_envs=2, vectorization_mode=kind)
    env.reset(seed=0)
    env.step(np.array([0, 1]))
    env.close()


def test_ranges_of_parameters_are_drawn_in_single_environments_too():
    def drawn(**seed):
        return phalanx.make("CartPole-v1", gravity="5..15", **seed).get_param("gravity")[0]

    assert drawn(param_seed=3) == drawn(param_seed=3) != drawn(param_seed=4)
    assert drawn() == drawn(param_seed=0)
    # What differs among many is kept as the engine computes with it.
    (first, _) = phalanx.make_vec("CartPole-v1", 2, gravity="5..15", param_seed=3).get_attr("gravity")
    assert np.float32(drawn(param_seed=3)) == first
    env = gymnasium.make("phalanx/CartPole-v1", gravity="5..15", param_seed=3)
    assert env.unwrapped.get_param("gravity")[0] == drawn(param_seed=3)
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match="the seed"):
            drawn(param_seed=wrong)
