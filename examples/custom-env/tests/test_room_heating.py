"""The template works: its environment from Python, beside Phalanx's own.

    pip install . ./examples/custom-env pytest && pytest examples/custom-env/tests
"""

import gymnasium
import numpy as np
import phalanx
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import room_heating


def test_the_vector_environment_follows_the_closed_form():
    envs = room_heating.make_vec(num_envs=4, tau=[60.0, 90.0, 120.0, 240.0])
    obs, _ = envs.reset(seed=1)
    start, tau = obs[:, 0].astype(np.float64), np.array(envs.get_attr("tau"))
    for step in range(1, 6):
        obs, rewards, terminated, truncated, _ = envs.step(np.ones(4, np.int64))
        end = tau * 0.5
        expected = end + (start - end) * np.exp(-5.0 * step / tau)
        np.testing.assert_allclose(obs[:, 0], expected, rtol=1e-5)
        np.testing.assert_allclose(rewards, -np.abs(expected - 20.0) - 0.1, rtol=1e-4)
        assert not (terminated | truncated).any()


def test_it_is_an_environment_of_gymnasium():
    single = gymnasium.make("room_heating/RoomHeating-v0")
    check_env(single.unwrapped, skip_render_check=True)
    envs = RecordEpisodeStatistics(gymnasium.make_vec("room_heating/RoomHeating-v0", num_envs=8))
    envs.reset(seed=0)
    for _ in range(300):
        envs.step(envs.action_space.sample())
    assert len(envs.return_queue) >= 8
    assert isinstance(envs.unwrapped, phalanx.vector.PhalanxVectorEnv)


def test_it_brings_no_allocator():
    """A program has one: a crate of your own may choose it, so the library leaves the choice."""
    assert room_heating._room_heating.allocations() is None and phalanx._phalanx.allocations() > 0


def test_roll_outs_of_it_are_tuned(tmp_path, monkeypatch):
    monkeypatch.setenv("PHALANX_CACHE_DIR", str(tmp_path))
    envs = room_heating.make_vec(num_envs=4)
    envs.reset(seed=0)
    assert phalanx.rollout(envs, 100, auto_tune=True).steps == 100


def test_episodes_of_it_are_exported(tmp_path, monkeypatch):
    export = pytest.importorskip("phalanx.minari").export
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    envs = room_heating.make_vec(num_envs=4, autoreset_mode="SameStep")
    envs.reset(seed=0)
    recorded = phalanx.rollout(envs, 600, record=True)
    dataset = export("room/heating-random-v0", "room_heating/RoomHeating-v0", recorded)
    assert dataset.total_episodes == recorded.episodes > 0


def test_it_does_not_disturb_the_environments_of_phalanx():
    assert "RoomHeating-v0" not in phalanx.env_ids()
    assert "RoomHeating-v0" in room_heating._room_heating.env_ids()
    with pytest.raises(gymnasium.error.NameNotFound):
        phalanx.make_vec("RoomHeating-v0")
    ours, theirs = room_heating.make_vec("CartPole-v1", 3), phalanx.make_vec("CartPole-v1", 3)
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
