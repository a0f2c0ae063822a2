"""H. Gymnasium's vector wrappers, unmodified, with the results they have over Gymnasium's own vector environment."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import TransformObservation
from gymnasium.wrappers import vector as wrappers
from helpers import MODES, actions_for, sync

import phalanx

# Wrappers of observations refuse SAME_STEP, and NormalizeObservation all but NEXT_STEP (`test_c4`).
NOT_SAME_STEP = [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED]

WRAPPERS = {
    # Not in DISABLED: Gymnasium's own environment takes the mask out of the options, so that the wrapper above it forgets
    # the totals of all. `test_b7` and `test_d3` show what it does over ours.
    "RecordEpisodeStatistics": (wrappers.RecordEpisodeStatistics, "CartPole-v1", MODES[:2]),
    "NormalizeObservation": (wrappers.NormalizeObservation, "CartPole-v1", [AutoresetMode.NEXT_STEP]),
    "NormalizeReward": (wrappers.NormalizeReward, "CartPole-v1", MODES),
    "ClipReward": (lambda env: wrappers.ClipReward(env, 0.0, 0.5), "CartPole-v1", MODES),
    "ClipAction": (wrappers.ClipAction, "Pendulum-v1", MODES),
    "RescaleAction": (lambda env: wrappers.RescaleAction(env, -1.0, 1.0), "Pendulum-v1", MODES),
    "RescaleObservation": (
        lambda env: wrappers.RescaleObservation(env, 0.0, 1.0), "Pendulum-v1", NOT_SAME_STEP
    ),
    "TransformReward": (lambda env: wrappers.TransformReward(env, lambda r: 2 * r), "CartPole-v1", MODES),
    "TransformAction": (lambda env: wrappers.TransformAction(env, lambda a: 1 - a), "CartPole-v1", MODES),
    "TransformObservation": (
        lambda env: wrappers.TransformObservation(env, lambda obs: obs * 2), "CartPole-v1", NOT_SAME_STEP
    ),
    "FlattenObservation": (wrappers.FlattenObservation, "CartPole-v1", NOT_SAME_STEP),
    "ReshapeObservation": (lambda env: wrappers.ReshapeObservation(env, (2, 2)), "CartPole-v1", NOT_SAME_STEP),
    "VectorizeTransformObservation": (
        lambda env: wrappers.VectorizeTransformObservation(
            env, TransformObservation, func=lambda obs: -obs, observation_space=env.single_observation_space
        ),
        "CartPole-v1", NOT_SAME_STEP,
    ),
    "DtypeObservation": (
        lambda env: wrappers.DtypeObservation(env, np.float64), "CartPole-v1", NOT_SAME_STEP
    ),
    "DictInfoToList": (wrappers.DictInfoToList, "CartPole-v1", MODES),
}

MATRIX = [(name, mode) for name, (_, _, modes) in WRAPPERS.items() for mode in modes]


@pytest.mark.parametrize(("name", "mode"), MATRIX)
def test_h1_results_are_those_over_sync_vector_env(name, mode, rng):
    wrap, env_id, _ = WRAPPERS[name]
    limit = {"max_episode_steps": 30}
    ours = wrap(phalanx.make_vec(env_id, 3, autoreset_mode=mode, **limit))
    theirs = wrap(sync(env_id, 3, mode, **limit))
    a, b = ours.reset(seed=0), theirs.reset(seed=0)
    np.testing.assert_allclose(a[0], b[0], rtol=1e-6)
    assert alike(a[1], b[1])
    ends = 0
    for _ in range(200):
        actions = actions_for(ours, rng)
        a, b = ours.step(actions), theirs.step(actions)
        for part in range(4):
            np.testing.assert_allclose(a[part], b[part], rtol=1e-6, atol=1e-6)
        assert alike(a[4], b[4])
        done = a[2] | a[3]
        ends += int(done.sum())
        if mode == AutoresetMode.DISABLED and done.any():
            # Each has a dict of its own: Gymnasium's environment takes the mask out of it.
            a, b = (env.reset(options={"reset_mask": done.copy()}) for env in (ours, theirs))
            np.testing.assert_allclose(a[0], b[0], rtol=1e-6, atol=1e-6)
            assert alike(a[1], b[1])
    assert ends > 10


def alike(ours, theirs):
    """Equality of infos, but for the seconds that an episode took."""
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(alike(a, b) for a, b in zip(ours, theirs))
    if isinstance(ours, dict):
        return set(ours) == set(theirs) and all(key == "t" or alike(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, np.ndarray) and ours.dtype == object:
        pairs = list(zip(ours, theirs, strict=True))
        return all((a is None) == (b is None) and (a is None or alike(a, b)) for a, b in pairs)
    return np.allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_h2_wrappers_may_write_into_what_was_returned(rng):
    plain = phalanx.make_vec("CartPole-v1", 3)
    copied = phalanx.make_vec("CartPole-v1", 3)
    view = phalanx.make_vec("CartPole-v1", 3, copy=False)
    plain.reset(seed=0), copied.reset(seed=0), view.reset(seed=0)
    for _ in range(100):
        actions = rng.integers(2, size=3)
        expected = plain.step(actions)[0]
        for env in (copied, view):
            obs, rewards, terminations, truncations, _ = env.step(actions)
            assert np.array_equal(obs, expected)
            for array in (obs, rewards, terminations, truncations):
                array[:] = 1


def test_h2_vectorize_transform_observation(rng):
    plain = phalanx.make_vec("CartPole-v1", 3)
    space = plain.single_observation_space
    wrapped = wrappers.VectorizeTransformObservation(
        phalanx.make_vec("CartPole-v1", 3), TransformObservation, func=lambda obs: -obs, observation_space=space
    )
    assert np.array_equal(wrapped.reset(seed=0)[0], -plain.reset(seed=0)[0])
    for _ in range(100):
        actions = rng.integers(2, size=3)
        assert np.array_equal(wrapped.step(actions)[0], -plain.step(actions)[0])


@pytest.mark.parametrize("env_id", phalanx.env_ids())
def test_h3_render_returns_a_sequence_of_frames(env_id):
    env = phalanx.make_vec(env_id, 2, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert isinstance(frames, tuple) and len(frames) == 2
    assert all(frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3 for frame in frames)
    assert env.call("render")[0].shape == frames[0].shape


def test_h3_no_pictures_without_a_render_mode():
    env = phalanx.make_vec("CartPole-v1", 2)
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="render_mode"):
        env.render()
    with pytest.raises(ValueError, match="human"):
        phalanx.make_vec("CartPole-v1", 2, render_mode="human")


def both_with_pictures(wrap, num_envs, mode, look, rng):
    """Makes 200 steps of ours and of Gymnasium's own below a wrapper, which must see the same."""
    kwargs = {"max_episode_steps": 30, "render_mode": "rgb_array"}
    envs = [
        wrap(env, name)
        for name, env in (
            ("ours", phalanx.make_vec("CartPole-v1", num_envs, autoreset_mode=mode, **kwargs)),
            ("theirs", sync("CartPole-v1", num_envs, mode, **kwargs)),
        )
    ]
    results = [env.reset(seed=0) for env in envs]
    for step in range(200):
        if step % 20 == 0:
            assert np.array_equal(*(look(env) for env in envs)), step
        actions = rng.integers(2, size=num_envs)
        results = [env.step(actions) for env in envs]
        assert all(np.array_equal(a, b) for a, b in zip(results[0][:4], results[1][:4]))
        done = results[0][2] | results[0][3]
        if mode == AutoresetMode.DISABLED and done.any():
            # Each has a dict of its own: Gymnasium's environment takes the mask out of it.
            [env.reset(options={"reset_mask": done.copy()}) for env in envs]
    return envs


@pytest.mark.parametrize("mode", MODES)
def test_h1_record_video(mode, tmp_path, rng):
    pytest.importorskip("moviepy")

    def wrap(env, name):
        return wrappers.RecordVideo(env, str(tmp_path / name), video_length=190, step_trigger=lambda step: step == 0)

    envs = both_with_pictures(wrap, 2, mode, lambda env: np.array(env.recorded_frames[-1:]), rng)
    [env.close() for env in envs]
    ours, theirs = ([path.name for path in (tmp_path / name).glob("*.mp4")] for name in ("ours", "theirs"))
    assert len(ours) == 1 and ours == theirs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_h1_human_rendering(num_envs, mode, monkeypatch, rng):
    pygame = pytest.importorskip("pygame")
    pytest.importorskip("cv2")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")

    def wrap(env, name):
        # The window waits between pictures, for who watches them.
        env.metadata["render_fps"] = 10_000
        return wrappers.HumanRendering(env)

    def look(env):
        assert env.render_mode == "human" and env.window is not None
        return pygame.surfarray.array3d(env.window)

    envs = both_with_pictures(wrap, num_envs, mode, look, rng)
    assert look(envs[0]).any()
    [env.close() for env in envs]
