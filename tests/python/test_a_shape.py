"""A. The shape of the object."""

import copy
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from helpers import MODES, single

import phalanx

IDS = phalanx.env_ids()


@pytest.mark.parametrize("env_id", IDS)
def test_a1_a2_spaces_are_batches_of_the_single_ones(env_id):
    env = phalanx.make_vec(env_id, 3)
    assert env.num_envs == 3
    assert env.observation_space == batch_space(env.single_observation_space, 3)
    assert env.action_space == batch_space(env.single_action_space, 3)
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space


def test_a3_metadata_is_per_instance_and_holds_the_enum():
    envs = {mode: phalanx.make_vec("CartPole-v1", 2, autoreset_mode=mode.value) for mode in MODES}
    for mode, env in envs.items():
        assert env.metadata["autoreset_mode"] is mode
        assert isinstance(env.metadata["render_modes"], list)
        assert env.metadata["render_fps"] == 50
        assert copy.deepcopy(env.metadata) == env.metadata
    assert len({id(env.metadata) for env in envs.values()}) == 3


def test_a4_closing_twice_then_stepping():
    env = phalanx.make_vec("CartPole-v1", 2)
    env.reset(seed=0)
    env.spec = gymnasium.spec("CartPole-v1")
    env.close()
    env.close(anything=1)
    assert env.closed
    calls = (
        lambda: env.step([0, 0]), env.reset, env.snapshot, env.state, env.action_masks, env.render,
        lambda: env.restore(b""), lambda: env.set_state([[0.0] * 4] * 2), lambda: env.get_param("gravity"),
        lambda: env.set_param("gravity", 1.0), lambda: phalanx.rollout(env, 5),
    )
    for call in calls:
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="closed"):
            call()
    game = phalanx.make_vec("TicTacToe-v0", 2)
    game.reset(seed=0)
    game.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="closed"):
        game.action_masks()


def test_a_failed_constructor_can_be_finalised():
    with pytest.raises(gymnasium.error.NameNotFound):
        phalanx.PhalanxVectorEnv("NoSuchThing-v0", 2)
    unmade = object.__new__(phalanx.PhalanxVectorEnv)
    unmade.close()


def test_a5_extra_methods_are_reached_through_unwrapped():
    wrapped = RecordEpisodeStatistics(phalanx.make_vec("CartPole-v1", 2))
    assert not hasattr(wrapped, "snapshot")
    assert hasattr(wrapped.unwrapped, "snapshot")


def test_a6_parameters_of_each_environment(rng):
    gravities = [9.8, 1.6, 24.8]
    env = phalanx.make_vec("CartPole-v1", 3)
    env.reset(seed=5)
    env.set_attr("gravity", gravities)
    assert env.get_attr("gravity") == pytest.approx(tuple(gravities))
    assert env.call("gravity") == env.get_attr("gravity")
    singles = [single("CartPole-v1", gravity=gravity) for gravity in gravities]
    for slot, one in enumerate(singles):
        one.reset(seed=5 + slot)
    for _ in range(8):
        actions = rng.integers(2, size=3)
        obs, *_ = env.step(actions)
        expected = [one.step(action)[0] for one, action in zip(singles, actions)]
        assert np.array_equal(obs, expected)
    env.set_attr("gravity", 5.0)
    assert env.get_attr("gravity") == (5.0, 5.0, 5.0)
    for wrong in ([1.0], (1.0, 2.0), [1.0] * 4):
        with pytest.raises(ValueError, match="3 are needed"):
            env.set_attr("gravity", wrong)
    with pytest.raises(AttributeError, match="gravitas"):
        env.set_attr("gravitas", 1.0)
    with pytest.raises(AttributeError):
        env.get_attr("no_such_thing")
    for call in (lambda: env.get_param("gravitas"), lambda: env.set_param("gravitas", 1.0)):
        with pytest.raises(AttributeError, match="unknown parameter 'gravitas'.*did you mean 'gravity'"):
            call()
    assert env.get_attr("render_mode") == (None, None, None)


def test_parameters_can_be_given_at_once_as_a_list_or_a_range():
    env = phalanx.make_vec("CartPole-v1", 4, gravity=[1.0, 2.0, 3.0, 4.0], length="0.4..0.6")
    assert env.get_attr("gravity") == (1.0, 2.0, 3.0, 4.0)
    lengths = env.get_param("length")
    assert len(set(lengths)) == 4 and (0.4 <= lengths).all() and (lengths <= 0.6).all()
    for value in (1.0, [1.0] * 4):
        with pytest.raises(TypeError, match="gravitas"):
            phalanx.make_vec("CartPole-v1", 4, gravitas=value)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"num_envs": -1}, "num_envs is -1, but must be"),
        ({"num_envs": 0}, "num_envs is 0, but must be"),
        ({"num_envs": 2**70}, f"num_envs is {2**70}, but must be"),
        ({"threads": -2}, "threads is -2, but must be"),
        ({"safety": "sometimes"}, "unknown safety mode 'sometimes'"),
    ],
)
def test_wrong_values_are_value_errors(kwargs, words):
    with pytest.raises(ValueError, match=words):
        phalanx.make_vec("CartPole-v1", **kwargs)


def test_more_environments_than_memory_are_refused():
    with pytest.raises(MemoryError, match="bytes"):
        phalanx.make_vec("CartPole-v1", 10**14)


def test_an_unknown_environment_is_told_with_the_nearest():
    with pytest.raises(gymnasium.error.NameNotFound, match="did you mean 'CartPole-v1'"):
        phalanx.make_vec("CartPol-v1", 2)


USER_SCRIPT = """
import numpy as np
import phalanx

env = phalanx.make_vec("CartPole-v1", 8)
obs, info = env.reset(seed=1)
obs, rewards, terminations, truncations, info = env.step(np.zeros(8, np.int64))
total: float = float(rewards.sum())
result = phalanx.rollout("CartPole-v1", 10, num_envs=4)
mean: float | None = result.return_mean
"""


def test_a7_stubs_satisfy_a_strict_type_checker(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(USER_SCRIPT)
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a7_the_package_itself_satisfies_it(tmp_path):
    """Strictly, but for what Gymnasium and others leave untyped."""
    package = Path(phalanx.__file__).parent
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--no-warn-unused-ignores"]
    command += ["--package", "phalanx"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (package / "py.typed").exists()


def test_a7_the_stubs_are_those_of_the_module(tmp_path):
    # The list of names is made by the module itself.
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("phalanx._phalanx.__all__\n")
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy.stubtest", "phalanx._phalanx", "--ignore-disjoint-bases"]
    command += ["--allowlist", str(allowed)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_autoreset_mode_is_checked():
    with pytest.raises(ValueError, match="Sometimes"):
        phalanx.make_vec("CartPole-v1", 2, autoreset_mode="Sometimes")
    assert phalanx.make_vec("CartPole-v1").metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
