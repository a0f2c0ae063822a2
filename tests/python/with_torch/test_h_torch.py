"""C5, H, N. Gymnasium's conversion to torch, and torch tensors over our memory."""

import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.wrappers.vector import ArrayConversion, NumpyToTorch  # noqa: E402

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


def test_h1_array_conversion():
    import numpy

    env = ArrayConversion(phalanx.make_vec("CartPole-v1", 2), env_xp=numpy, target_xp=torch)
    obs, _ = env.reset(seed=0)
    assert isinstance(obs, torch.Tensor)
    env.step(torch.zeros(2, dtype=torch.int64))


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
