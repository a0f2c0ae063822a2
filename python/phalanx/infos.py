"""What wrappers and adapters share: infos of vector environments, and what they need of them."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from phalanx.settings import demand


def row(infos: dict[str, Any], env: int) -> dict[str, Any]:
    """What infos say of one environment.

    >>> import numpy as np
    >>> flags = np.array([True, False])
    >>> infos = {"cost": np.array([2.0, 0.0]), "_cost": flags, "episode": {"l": np.array([7, 0])}, "_episode": flags}
    >>> row(infos, 0)["episode"]["l"].item(), row(infos, 1)
    (7, {})
    """
    found: dict[str, Any] = {}
    for name, values in infos.items():
        if name.startswith("_"):
            continue
        mask = infos.get(f"_{name}")
        if mask is None or mask[env]:
            found[name] = row(values, env) if isinstance(values, dict) else values[env]
    return found


def check_finals(env: Any, who: str) -> None:
    """Raises a `ValueError` unless last observations are where Gymnasium puts them in the mode SameStep."""
    demand(f"the environment of {who}", env, VectorEnv, "a vector environment")
    if env.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
        raise ValueError(f"{who} needs an environment with autoreset_mode='SameStep'")
    check_sparse(env, who)


def check_sparse(env: Any, who: str) -> None:
    """Raises a `ValueError` if an environment of ours has no `final_obs`."""
    demand(f"the environment of {who}", env, VectorEnv, "a vector environment")
    if getattr(env.unwrapped, "_build", {}).get("dense_finals"):
        raise ValueError(f"{who} needs info['final_obs'], which an environment with final_obs_dense=True has not")
