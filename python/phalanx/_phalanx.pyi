"""The native half of the package: environments, roll-outs, training and the lab."""

from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

def env_ids() -> list[str]: ...
def env_spec(id: str) -> str: ...

class Engine:
    threads: int
    steps: int
    closed: bool
    needs_seed: bool
    def __init__(
        self,
        id: str,
        num_envs: int,
        *,
        autoreset: str,
        seed: int = 0,
        settings: list[tuple[str, str]] = ...,
        safety: str = "enforce",
        constraints: list[str] = ...,
        threads: int | None = None,
        copy: bool = True,
        episode_stats: bool = False,
        dense_finals: bool = False,
        pictures: bool = False,
    ) -> None: ...
    def spec(self) -> str: ...
    def close(self) -> None: ...
    def reset(
        self, first_seed: int | None = None, seeds: list[int | None] | None = None, mask: list[bool] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]: ...
    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[
        npt.NDArray[Any], npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]
    ]: ...
    def step_one(self, action: Any) -> tuple[npt.NDArray[Any], float, bool, bool, dict[str, Any]]: ...
    def reset_one(self, seed: int | None = None) -> tuple[npt.NDArray[Any], dict[str, Any]]: ...
    def action_masks(self) -> npt.NDArray[np.bool_]: ...
    def render(self) -> list[npt.NDArray[np.uint8]]: ...
    def state(self) -> npt.NDArray[np.float64]: ...
    def set_state(self, states: npt.NDArray[np.float64], mask: list[bool] | None = None) -> None: ...
    def param(self, name: str) -> list[float]: ...
    def set_param(self, name: str, values: list[float]) -> None: ...
    def snapshot(self) -> bytes: ...
    def restore(self, snapshot: bytes, mask: list[bool] | None = None) -> None: ...
    def rollout(
        self,
        steps: int,
        *,
        chunk: int | None = None,
        policy: str = "random",
        arguments: list[tuple[str, str]] = ...,
        actions: npt.ArrayLike | None = None,
        record: bool = False,
    ) -> dict[str, Any]: ...
