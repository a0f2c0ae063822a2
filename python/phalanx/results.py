"""What training and evaluation come to: settings, agents, curves and episodes.

Curves are NumPy arrays with one item for each interval of the log, or for each evaluation; a value that
does not exist, such as the loss before the first update, is NaN.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phalanx import _phalanx
from phalanx.settings import setting_texts, to_path

__all__ = [
    "AgentState",
    "Config",
    "Episode",
    "EvalMetrics",
    "EvaluationResults",
    "Run",
    "Section",
    "TrainingMetrics",
    "TrainingResults",
    "load_run",
]

FilePath = str | os.PathLike[str]


def _pythonic(section: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with None for what files call none; those of environments are texts that the engine reads."""
    if section == "env":
        return settings
    return {key: None if value == "none" else value for key, value in settings.items()}


class Section(Mapping[str, Any]):
    """The settings of one section, as attributes and as items; read only."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.__dict__["_name"] = name
        self.__dict__["_settings"] = dict(settings)

    def __getitem__(self, key: str) -> Any:
        return self._settings[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __getattr__(self, key: str) -> Any:
        try:
            return self.__dict__["_settings"][key]
        except KeyError:
            raise AttributeError(f"section {self._name} has no setting '{key}'") from None

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"settings are read only: use config.replace({self._name}__{key}={value!r})")

    def __repr__(self) -> str:
        return f"Section({self._settings!r})"


class Config:
    """The complete settings of a run; made by :func:`phalanx.create_config`.

    >>> import phalanx
    >>> config = phalanx.create_config("CartPole-v1", "ppo", num_envs=8, total_timesteps=10_000)
    >>> config.run.num_envs, config.agent.name
    (8, 'ppo')
    >>> config.replace(seed=7).run.seed
    7
    """

    __slots__ = ("_native", "_sections")

    def __init__(self, native: _phalanx.Config) -> None:
        self._native = native
        sections = json.loads(native.to_json())
        self._sections = {name: Section(name, _pythonic(name, settings)) for name, settings in sections.items()}

    @property
    def env(self) -> Section:
        """The environment: its name, and parameters that are not the usual ones."""
        return self._sections["env"]

    @property
    def agent(self) -> Section:
        """The agent: its name and hyper-parameters."""
        return self._sections["agent"]

    @property
    def run(self) -> Section:
        """The run: seed, sizes, lengths, evaluations, checkpoints."""
        return self._sections["run"]

    @property
    def log(self) -> Section:
        """What the run leaves behind."""
        return self._sections["log"]

    @property
    def total_timesteps(self) -> int:
        """Steps of all environments."""
        return self._native.total_timesteps

    @classmethod
    def from_toml(cls, text: str) -> Config:
        """The configuration that a text of TOML describes."""
        return cls(_phalanx.Config.from_toml(text))

    @classmethod
    def load(cls, path: FilePath, **settings: Any) -> Config:
        """The configuration of a TOML file, with ``settings`` over it."""
        return cls(_phalanx.Config.load(to_path("path", path), setting_texts(settings)))

    @classmethod
    def _unpickled(cls, text: str) -> Config:
        return cls(_phalanx.Config.unpickled(text))

    def replace(self, **settings: Any) -> Config:
        """The same with other settings, named as in :func:`phalanx.create_config`."""
        return Config(self._native.replaced(setting_texts(settings)))

    def to_toml(self) -> str:
        """A text that :meth:`from_toml` reads back as the same configuration, whatever later presets say."""
        return self._native.to_toml()

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """All settings by section."""
        return {name: dict(section) for name, section in self._sections.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._native == other._native

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Config._unpickled, (self.to_toml(),))

    def __repr__(self) -> str:
        run = self.run
        return (
            f"<Config {self.agent.name} on {self.env.name}: {run.num_envs} environments, "
            f"{self.total_timesteps} steps, seed {run.seed}>"
        )


class AgentState:
    """A moment of an agent's life: all that it needs to act and to learn on."""

    __slots__ = ("_native",)

    def __init__(self, native: _phalanx.AgentState) -> None:
        self._native = native

    @property
    def agent(self) -> str:
        """The agent's name."""
        return self._native.agent

    @property
    def global_step(self) -> int:
        """Steps of all environments so far."""
        return self._native.global_step

    @property
    def best_score(self) -> float | None:
        """The best mean return of an evaluation so far."""
        return self._native.best_score

    @property
    def config(self) -> Config:
        """The settings of its run."""
        return Config(self._native.config)

    @classmethod
    def load(cls, path: FilePath) -> AgentState:
        """Read a checkpoint."""
        return cls(_phalanx.AgentState.load(to_path("path", path)))

    def save(self, path: FilePath) -> None:
        """Write it as a safetensors file."""
        self._native.save(to_path("path", path))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name: weights, optimiser, buffers, environments."""
        return self._native.arrays()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentState) and self._native == other._native

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def _unpickled(cls, data: bytes) -> AgentState:
        return cls(_phalanx.AgentState.from_bytes(data))

    def __reduce__(self) -> tuple[Any, ...]:
        return (AgentState._unpickled, (self._native.to_bytes(),))

    def __repr__(self) -> str:
        return repr(self._native)


@dataclass(frozen=True, eq=False)
class TrainingMetrics:
    """Means over the intervals of the log; one item for each."""

    global_steps: NDArray[np.int64]
    """Steps of all environments."""
    steps_per_env: NDArray[np.int64]
    """Steps of each environment."""
    loss: NDArray[np.float64]
    """The loss."""
    reward: NDArray[np.float64]
    """The mean return of episodes that ended."""
    agent_metrics: dict[str, NDArray[np.float64]]
    """What else the agent reports, by tag, such as ``losses/entropy``."""


@dataclass(frozen=True, eq=False)
class EvalMetrics:
    """One item, or one row, for each evaluation."""

    global_steps: NDArray[np.int64]
    """Steps of all environments."""
    steps_per_env: NDArray[np.int64]
    """Steps of each environment."""
    episode_returns: NDArray[np.float64]
    """Returns, a row for each evaluation."""
    episode_lengths: NDArray[np.int64]
    """Lengths, a row for each evaluation."""
    mean_return: NDArray[np.float64]
    """Mean returns."""
    std_return: NDArray[np.float64]
    """Population standard deviations of returns."""
    mean_length: NDArray[np.float64]
    """Mean lengths."""


@dataclass(frozen=True, eq=False)
class TrainingResults:
    """What came out of training."""

    agent_state: AgentState
    """The agent with all that it needs to act and to learn on."""
    training_metrics: TrainingMetrics
    """Means over the intervals of the log."""
    eval_metrics: EvalMetrics
    """One item for each evaluation."""
    config: Config
    """The run's settings."""
    run_dir: Path | None
    """The run's folder, if it has one."""
    final_env_state: dict[str, NDArray[Any]] = field(repr=False)
    """Snapshots of the environments as they are now."""
    complete: bool
    """Whether the run came to its end."""
    stored: bool
    """Whether the run's folder has a checkpoint to go on from."""
    training_seconds: float
    """Seconds of training, evaluations and files not counted."""
    _native: _phalanx.Trained = field(repr=False)

    @classmethod
    def _of(cls, native: _phalanx.Trained) -> TrainingResults:
        return cls(
            agent_state=AgentState(native.agent_state),
            training_metrics=TrainingMetrics(**native.training_metrics()),
            eval_metrics=EvalMetrics(**native.eval_metrics()),
            config=Config(native.config),
            run_dir=None if native.run_dir is None else Path(native.run_dir),
            final_env_state=native.final_env_state(),
            complete=native.complete,
            stored=native.stored,
            training_seconds=native.training_seconds,
            _native=native,
        )

    @property
    def steps_per_second(self) -> float:
        """Steps of all environments in a second of training."""
        return self.agent_state.global_step / max(self.training_seconds, 1e-9)

    def summary(self) -> dict[str, Any]:
        """The figures most ask for."""
        return self._native.summary()

    def save(self, folder: FilePath) -> None:
        """Write a run's folder, which must not be there yet: settings, results and the agent."""
        self._native.save(to_path("folder", folder))

    @classmethod
    def load(cls, folder: FilePath) -> TrainingResults:
        """Read the folder of a run that came to its end and stored its agent."""
        return cls._of(_phalanx.Trained.load(to_path("folder", folder)))

    @classmethod
    def _unpickled(cls, agent_state: AgentState, config: Config, *rest: Any) -> TrainingResults:
        return cls._of(_phalanx.Trained.unpickled(agent_state._native, config._native, *rest))

    def __reduce__(self) -> tuple[Any, ...]:
        run_dir = None if self.run_dir is None else os.fspath(self.run_dir)
        rest = (self._native.metrics(), run_dir, (self.complete, self.stored), self.training_seconds)
        return (TrainingResults._unpickled, (self.agent_state, self.config, *rest))

    def save_agent(self, path: FilePath) -> None:
        """Write the agent alone, as a safetensors file."""
        self.agent_state.save(path)

    @staticmethod
    def load_agent(path: FilePath) -> AgentState:
        """Read an agent that :meth:`save_agent` or a run has written."""
        return AgentState.load(path)

    def __repr__(self) -> str:
        summary = self.summary()
        mean, std = summary["final_eval_return_mean"], summary["final_eval_return_std"]
        returns = "not evaluated" if mean is None else f"return {mean:.2f} ± {std:.2f}"
        how = "" if self.complete else ", interrupted"
        steps = summary["training_global_steps"]
        return f"<TrainingResults {self.config.agent.name} on {self.config.env.name}: {returns}, {steps} steps{how}>"


@dataclass(frozen=True, eq=False)
class Episode:
    """An episode, step by step."""

    observations: NDArray[np.float32]
    """A row for each step, and one after the last."""
    actions: NDArray[Any]
    """What was done."""
    rewards: NDArray[np.float32]
    """What it brought."""
    terminated: NDArray[np.bool_]
    """Where the environment's rules ended it."""
    truncated: NDArray[np.bool_]
    """Where a limit ended it."""

    @property
    def length(self) -> int:
        """Its steps."""
        return len(self.rewards)

    @property
    def episode_return(self) -> float:
        """The sum of its rewards."""
        return float(self.rewards.sum(dtype=np.float64))


@dataclass(frozen=True, eq=False)
class EvaluationResults:
    """What came out of an evaluation. Deviations are those of the numbers themselves."""

    mean_return: float
    std_return: float
    min_return: float
    max_return: float
    mean_length: float
    std_length: float
    min_length: float
    max_length: float
    mean_cost: float | None
    """Violated constraints of an episode, summed over its steps; None without constraints."""
    termination_rate: float
    """The part of the episodes that the task itself ended."""
    episode_returns: NDArray[np.float64] = field(repr=False)
    episode_lengths: NDArray[np.int64] = field(repr=False)
    num_episodes: int
    seed: int
    config: Config
    run_dir: Path | None
    """Where the episodes were saved."""
    episodes: list[Episode] | None = field(repr=False)
    """What was seen and done, if that was asked for."""
    agent_state: AgentState | None
    """The agent that was given."""

    def summary(self) -> dict[str, Any]:
        """The figures most ask for."""
        names = ["mean_return", "std_return", "min_return", "max_return", "mean_length"]
        return {name: getattr(self, name) for name in [*names, "num_episodes", "termination_rate"]}


@dataclass(frozen=True, eq=False)
class Run:
    """A run that was read back from its folder."""

    path: Path
    """Its folder."""
    config: Config
    """Its settings."""
    metadata: dict[str, Any] | None
    """Where, when and how it ran; None if it was killed before that was stored."""
    results: TrainingResults | None
    """What came out of it; None if it did not come to its end, or stored no agent."""

    def load_checkpoint(self, name: str | None = "final") -> AgentState:
        """One of its checkpoints: ``final``, ``step_00001000``, or the one that went furthest (None)."""
        return read_checkpoint(self.path, name)


def read_checkpoint(run: FilePath, name: str | None) -> AgentState:
    """A checkpoint of a run; without a name, the one that went furthest."""
    state = _phalanx.read_checkpoint(to_path("run", run), name)
    if state is None:
        raise FileNotFoundError(f"{os.fspath(run)} has stored no checkpoint")
    return AgentState(state)


def load_run(path: FilePath) -> Run:
    """Read a run back from its folder; results or an agent that are there but damaged are a `ValueError`."""
    folder = Path(to_path("path", path))
    config, metadata = _phalanx.read_run(os.fspath(folder))
    trained = _phalanx.read_results(os.fspath(folder))
    results = None if trained is None else TrainingResults._of(trained)
    return Run(folder, Config(config), None if metadata is None else json.loads(metadata), results)
