"""The native half of the package: environments, roll-outs, training and the lab."""

import os
from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

__version__: str

def env_ids() -> list[str]: ...
def env_spec(id: str) -> str: ...
def cores() -> int: ...

@final
class Engine:
    threads: int
    steps: int
    closed: bool
    needs_seed: bool
    def __new__(
        cls,
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
    ) -> Engine: ...
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
        tile: int | None = None,
        policy: str = "random",
        arguments: list[tuple[str, str]] = ...,
        actions: npt.ArrayLike | None = None,
        record: bool = False,
    ) -> dict[str, Any]: ...

@final
class Config:
    @staticmethod
    def create(
        env: str, agent: str, defaults: list[tuple[str, str]], settings: list[tuple[str, str]]
    ) -> Config: ...
    @staticmethod
    def for_evaluation(env: str, agent: str, settings: list[tuple[str, str]]) -> Config: ...
    @staticmethod
    def from_toml(text: str) -> Config: ...
    @staticmethod
    def load(path: str, settings: list[tuple[str, str]]) -> Config: ...
    total_timesteps: int
    def replaced(self, settings: list[tuple[str, str]]) -> Config: ...
    def to_toml(self) -> str: ...
    def to_json(self) -> str: ...
    def warnings(self) -> list[str]: ...

@final
class AgentState:
    """A moment of an agent's life: all that it needs to act and to learn on."""

    agent: str
    global_step: int
    best_score: float | None
    config: Config
    @staticmethod
    def load(path: str | os.PathLike[str]) -> AgentState:
        """Read a checkpoint."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a safetensors file."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Its arrays by name: weights, optimiser, buffers, environments."""

@final
class Trained:
    agent_state: AgentState
    config: Config
    run_dir: str | os.PathLike[str] | None
    complete: bool
    stored: bool
    training_seconds: float
    @staticmethod
    def load(folder: str) -> Trained: ...
    def save(self, folder: str) -> None: ...
    def training_metrics(self) -> dict[str, Any]: ...
    def eval_metrics(self) -> dict[str, Any]: ...
    def final_env_state(self) -> dict[str, npt.NDArray[Any]]: ...
    def summary(self) -> dict[str, Any]: ...

def train(
    config: Config,
    root: str | None,
    run_dir: str | None,
    resume_from: AgentState | None,
    threads: int | None,
    callback: Callable[[dict[str, Any]], bool | None] | None,
    tell: Callable[[str], None] | None,
) -> tuple[Trained, BaseException | None]: ...
def resume_run(
    run: str, threads: int | None, callback: Callable[[dict[str, Any]], bool | None] | None
) -> tuple[Trained, BaseException | None]: ...
def evaluate_agent(
    config: Config, agent_state: AgentState | None, return_episodes: bool, save_episodes: str | None
) -> dict[str, Any]: ...
def read_run(run: str, checkpoint: str | None) -> tuple[Config, AgentState | None, str | None]: ...
def suggest(
    num_envs: int,
    env: str,
    agent: str,
    buffer_size: int | None,
    force: bool,
    threads: int | None,
    time_budget: float | None,
    params: list[tuple[str, str]],
    settings: list[tuple[str, str]],
    tell: Callable[[str], None] | None,
) -> str: ...
def cache_path() -> str | os.PathLike[str] | None: ...
def clear_cache() -> list[str | os.PathLike[str]]: ...
def benchmark(
    func: Callable[[], object], name: str, category: str, iterations: int, warmup: int, metadata: str
) -> str: ...
def time_calls(func: Callable[[], object], runs: int) -> str: ...
def compare_results(baseline: str, current: str, same_machine: bool) -> str: ...
def sum_up(results: str) -> str: ...
def read_records(path: str) -> tuple[list[str], list[str]]: ...
def device_info() -> str: ...
def format_number(number: float) -> str: ...
def allocations() -> int: ...
