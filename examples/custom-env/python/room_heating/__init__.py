"""A room to be heated, as a Phalanx environment: the template of an environment of your own.

>>> import room_heating
>>> envs = room_heating.make_vec(num_envs=3, outside=[-5.0, 0.0, 5.0])
>>> observations, info = envs.reset(seed=0)
>>> observations.shape
(3, 2)
"""

from typing import Any

import gymnasium
from phalanx.native import Spec
from phalanx.single import PhalanxEnv
from phalanx.vector import PhalanxVectorEnv

from room_heating import _room_heating

__all__ = ["ENV_ID", "RoomHeatingEnv", "RoomHeatingVectorEnv", "make_vec"]

ENV_ID = "RoomHeating-v0"


class RoomHeatingVectorEnv(PhalanxVectorEnv):
    """The vector environment of Phalanx, over our engine."""

    native = _room_heating


class RoomHeatingEnv(PhalanxEnv):
    """The single environment of Phalanx, over our engine."""

    native = _room_heating


def make_vec(env_id: str = ENV_ID, num_envs: int = 1, **kwargs: Any) -> RoomHeatingVectorEnv:
    """Makes rooms; keywords as of `phalanx.make_vec`."""
    return RoomHeatingVectorEnv(env_id, num_envs, **kwargs)


gymnasium.register(
    id=f"room_heating/{ENV_ID}",
    entry_point="room_heating:RoomHeatingEnv",
    vector_entry_point="room_heating:RoomHeatingVectorEnv",
    max_episode_steps=Spec(_room_heating.env_spec(ENV_ID)).max_episode_steps,
    kwargs={"env_id": ENV_ID},
)
