"""Makes every environment known to Gymnasium as `phalanx/<id>`."""

from __future__ import annotations

import gymnasium

from phalanx._phalanx import env_ids
from phalanx.native import Spec


def register_all() -> None:
    """Registers each environment for `gymnasium.make` and `gymnasium.make_vec`."""
    for env_id in env_ids():
        name = f"phalanx/{env_id}"
        if name in gymnasium.registry:
            continue
        spec = Spec.of(env_id)
        gymnasium.register(
            id=name,
            entry_point="phalanx.single:PhalanxEnv",
            vector_entry_point="phalanx.vector:PhalanxVectorEnv",
            max_episode_steps=spec.max_episode_steps,
            reward_threshold=spec.reward_threshold,
            kwargs={"env_id": env_id},
        )
