"""C5, H, N. Gymnasium's conversion to torch, and torch tensors over our memory."""

import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.vector import AutoresetMode  # noqa: E402
from gymnasium.wrappers.vector import ArrayConversion, NumpyToTorch  # noqa: E402
from helpers import same, sync  # noqa: E402

import phalanx  # noqa: E402


def test_c5_dense_finals_go_to_torch(rng):
    env = NumpyToTorch(phalanx.make_vec("CartPole-v1", 4, autoreset_mode="SameStep", final_obs_dense=True))
    env.reset(seed=0)
    ends = 0
    for _ in range(200):
        obs, rewards, terminations, truncations, info = env.step(torch.from_numpy(rng.integers(2, size=4)))
        assert all(isinstance(part, torch.Tensor) for part in (obs, rewards, terminations, truncations))
        if "final_obs_dense" in info:
            assert isinstance(info["final_obs_dense"], torch.Tensor)
            ends += len(info["final_indices"])
    assert ends > 10


def plain(value):
    """Tensors as arrays, in infos too."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return value.numpy() if isinstance(value, torch.Tensor) else value


CONVERSIONS = {
    "NumpyToTorch": NumpyToTorch,
    "ArrayConversion": lambda env: ArrayConversion(env, env_xp=np, target_xp=torch),
}


# SAME_STEP has last observations as objects, which no tensor holds (C5): `test_c5` shows what there is for it.
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
@pytest.mark.parametrize("name", CONVERSIONS)
def test_h1_conversions_give_what_they_give_over_sync_vector_env(name, mode, rng):
    wrap, limit = CONVERSIONS[name], {"max_episode_steps": 30}
    ours = wrap(phalanx.make_vec("CartPole-v1", 3, autoreset_mode=mode, **limit))
    theirs = wrap(sync("CartPole-v1", 3, mode, **limit))
    a, b = ours.reset(seed=0), theirs.reset(seed=0)
    ends = 0
    for _ in range(200):
        assert torch.equal(a[0], b[0]) and same(plain(a[-1]), plain(b[-1]))
        actions = torch.from_numpy(rng.integers(2, size=3))
        a, b = ours.step(actions), theirs.step(actions)
        for part in range(4):
            assert isinstance(a[part], torch.Tensor) and torch.equal(a[part], b[part].to(a[part].dtype))
        done = (a[2] | a[3]).numpy()
        ends += int(done.sum())
        if mode == AutoresetMode.DISABLED and done.any():
            # Each has a dict of its own: Gymnasium's environment takes the mask out of it.
            a, b = (env.reset(options={"reset_mask": done.copy()}) for env in (ours, theirs))
    assert ends > 10


@pytest.mark.parametrize("name", CONVERSIONS)
def test_c5_last_observations_as_objects_do_not_become_tensors(name):
    env = CONVERSIONS[name](phalanx.make_vec("CartPole-v1", 3, autoreset_mode="SameStep", max_episode_steps=3))
    env.reset(seed=0)
    with pytest.raises((TypeError, BufferError)):
        for _ in range(3):
            env.step(torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize("copy", [True, False])
def test_n4_n7_tensors_share_memory_and_outlive_the_environment(copy):
    env = phalanx.make_vec("CartPole-v1", 100, copy=copy)
    env.reset(seed=0)
    obs = env.step(np.zeros(100, int))[0]
    tensors = [torch.from_dlpack(obs), torch.from_dlpack(obs), torch.from_numpy(obs)]
    assert all(tensor.data_ptr() == obs.ctypes.data for tensor in tensors)
    expected = obs.copy()
    env.close()
    del env, obs
    gc.collect()
    assert all(np.array_equal(tensor.numpy(), expected) for tensor in tensors)
