"""Train and evaluate agents: ``create_config``, ``train_and_evaluate``, ``resume``, ``evaluate``.

>>> import phalanx
>>> config = phalanx.create_config("CartPole-v1", "ppo", num_envs=8, total_timesteps=8192)
>>> results = phalanx.train_and_evaluate(config, root=None, progress=False)
>>> results.summary()["training_global_steps"]
8192
>>> results.eval_metrics.mean_return.shape == results.eval_metrics.global_steps.shape
True

Training runs without Python's lock and looks for Ctrl-C some twenty times in a second. A roll-out that is
interrupted in its midst is undone: the run can go on from where it began.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from phalanx import _phalanx
from phalanx.native import Spec, hinted, keywords
from phalanx.results import (
    AgentState,
    Config,
    Episode,
    EvaluationResults,
    FilePath,
    TrainingResults,
    read_checkpoint,
)
from phalanx.settings import demand, own_name, setting_texts, show, to_count, to_flag, to_path
from phalanx.settings import tell as tell_user

__all__ = [
    "ProgressLine",
    "TrainingInterrupted",
    "create_config",
    "create_eval_config",
    "evaluate",
    "resume",
    "train_and_evaluate",
]

Progress = bool | Callable[[dict[str, Any]], bool | None]


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a training. ``results`` has what was learnt so far; a stored run can be resumed."""

    def __init__(self, results: TrainingResults) -> None:
        step, total = results.agent_state.global_step, results.config.total_timesteps
        how = "nothing was stored"
        if results.stored:
            how = f"phalanx.resume({str(results.run_dir)!r}) goes on"
        super().__init__(f"training was interrupted at step {step} of {total}; {how}")
        self.results = results

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.results,))


def create_config(
    env: str,
    agent: str,
    num_envs: int | None = None,
    steps_per_env: int | None = None,
    rollout_steps: int | None = None,
    eval_max_steps: int | None = None,
    eval_frequency: int | None = None,
    eval_rollouts: int | None = None,
    seed: int | None = None,
    wandb_enabled: bool = False,
    auto_tune: bool = False,
    **settings: Any,
) -> Config:
    """The settings of a run: the preset of the environment and the agent, and what is given here over it.

    What is None stays as the preset has it (without a preset: 1 environment, 1000 steps of each, an evaluation
    of 10 episodes every 100 steps of each environment, seed 42).

    Further settings are named by their key where only one section knows it (``learning_rate``), else with
    their section: ``env__max_steps=200``, or ``**{"env.max_steps": 200}``. Parameters of the environment always
    need theirs. Unknown names are errors that tell the nearest known ones.

    The trained agent is stored in the run's folder unless ``save_agent_checkpoint=False``.

    >>> import phalanx
    >>> config = phalanx.create_config("CartPole-v1", "dqn", learning_rate=1e-3, env__max_steps=200)
    >>> config.agent.learning_rate, config.env.max_steps
    (0.001, '200')
    >>> phalanx.create_config("CartPole-v1", "dqn", learning_rat=1e-3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: unknown key 'learning_rat' for agent dqn; did you mean 'learning_rate'...
    """
    demand("agent", agent, str, "the name of an agent")
    if wandb_enabled:
        raise ValueError(
            "wandb_enabled is True, but Phalanx does not upload: log__tensorboard=True writes event files that "
            "Weights & Biases can import"
        )
    named = {
        "run.num_envs": num_envs,
        "run.steps_per_env": steps_per_env,
        "run.rollout_steps": rollout_steps,
        "run.eval_max_steps": eval_max_steps,
        "run.eval_frequency": eval_frequency,
        "run.eval_rollouts": eval_rollouts,
        "run.seed": seed,
        "run.auto_tune": True if to_flag("auto_tune", auto_tune) else None,
    }
    given = setting_texts({key: value for key, value in named.items() if value is not None})
    defaults = [("run.save_agent_checkpoint", "true")]
    try:
        return Config(_phalanx.Config.create(own_name(env), agent, defaults, given + setting_texts(settings)))
    except ValueError as error:
        raise _with_section(error, env, settings, create_config) from None


def create_eval_config(
    env: str,
    agent: str,
    eval_rollouts: int = 10,
    eval_max_steps: int | None = None,
    seed: int = 42,
    **settings: Any,
) -> Config:
    """Settings to evaluate with, such as a controller that needs no training.

    >>> import phalanx
    >>> config = phalanx.create_eval_config("CartPole-v1", "random", eval_rollouts=100)
    >>> 15 < phalanx.evaluate(config).mean_return < 30
    True
    """
    demand("agent", agent, str, "the name of an agent or of a policy")
    named: dict[str, Any] = {"run.eval_rollouts": eval_rollouts, "run.seed": seed}
    if eval_max_steps is not None:
        named["run.eval_max_steps"] = eval_max_steps
    try:
        return Config(_phalanx.Config.for_evaluation(own_name(env), agent, setting_texts({**named, **settings})))
    except ValueError as error:
        raise _with_section(error, env, settings, create_eval_config) from None


def _with_section(error: ValueError, env: str, given: Mapping[str, Any], function: Callable[..., Any]) -> ValueError:
    """What was wrong, with the section that a parameter of the environment needs."""
    if not given:
        return error
    return hinted(error, given, keywords(function), Spec.of(own_name(env)), "as env__{name}")


def train_and_evaluate(
    config: Config,
    resume_from: AgentState | FilePath | None = None,
    *,
    root: FilePath | None = ".",
    run_dir: FilePath | None = None,
    threads: int | None = None,
    progress: Progress = True,
) -> TrainingResults:
    """Train and evaluate as a configuration says.

    Args:
        config: Settings of the run, from :func:`create_config`.
        resume_from: What another run with the same settings came to (an agent, or its file), to go on from.
        root: Folder that the run's own folder ``outputs/DATE/TIME`` is made in; None writes nothing.
        run_dir: The run's own folder instead, which must not be there yet.
        threads: Threads, if the configuration does not say; they never change results.
        progress: True for a line in a terminal or a notebook; False for none; or a function that is called up to
            20 times in a second with a dict (``global_step``, ``first_step`` from which this session went on,
            ``total``, ``steps_per_second``, ``loss``, ``episode_return``, ``eval_return``, ``checkpoint``,
            ``run_dir``), and ends the run by returning False (nothing else does, neither None nor 0).

    Raises:
        TrainingInterrupted: After Ctrl-C. It is a KeyboardInterrupt, has the ``results`` so far, and the run's
            folder has a checkpoint that :func:`resume` goes on from.
    """
    _check_config(config)
    if resume_from is not None and not isinstance(resume_from, AgentState):
        resume_from = AgentState.load(resume_from)
    # Also where it is not used.
    root, run_dir = _text("root", root), _text("run_dir", run_dir)
    if run_dir is not None:
        root = None
    with _shown(progress, config) as callback:
        tell = None if not progress else tell_user
        trained, raised = _phalanx.train(
            config._native, root, run_dir, _native(resume_from), _threads(threads), callback, tell
        )
    return _ended(trained, raised)


def resume(
    run: FilePath,
    *,
    total_timesteps: int | None = None,
    threads: int | None = None,
    progress: Progress = True,
) -> TrainingResults:
    """Go on with a run from its last complete checkpoint, to the same bits as if it had not stopped.

    With more ``total_timesteps`` than its settings say it becomes a run of that length: rates that fall with the length
    rise again, so that it comes to other bits than one that was so long from the start.
    """
    run = to_path("run", run)
    config, _ = _phalanx.read_run(run)
    steps_per_env = None
    if total_timesteps is not None:
        config = config.replaced([("run.total_timesteps", str(to_count("total_timesteps", total_timesteps)))])
        steps_per_env = Config(config).run.steps_per_env
    with _shown(progress, Config(config)) as callback:
        trained, raised = _phalanx.resume_run(run, steps_per_env, _threads(threads), callback)
    return _ended(trained, raised)


def _check_config(config: object) -> None:
    if not isinstance(config, Config):
        raise TypeError(f"config is a {type(config).__name__}, but must come from create_config")


def evaluate(
    config: Config,
    agent_state: AgentState | None = None,
    checkpoint: FilePath | None = None,
    return_episodes: bool = False,
    save_episodes: bool = False,
    *,
    root: FilePath = ".",
) -> EvaluationResults:
    """Play ``run.eval_rollouts`` whole episodes with an agent's best actions.

    Args:
        config: Settings of the run, or from :func:`create_eval_config`.
        agent_state: The trained agent; without it, the agent as it begins.
        checkpoint: Its file, or the folder of its run, instead.
        return_episodes: Whether the episodes come back with the results.
        save_episodes: Whether they are stored in a new folder below ``root``; nothing is written otherwise.

    Ctrl-C ends it within a step of all its episodes.
    """
    _check_config(config)
    if agent_state is not None and checkpoint is not None:
        raise ValueError("agent_state and checkpoint are both given: give one of them")
    if checkpoint is not None:
        agent_state = _agent_of(checkpoint)
    found = _phalanx.evaluate_agent(
        config._native, _native(agent_state), return_episodes, to_path("root", root) if save_episodes else None
    )
    episodes = found.pop("episodes")
    folder = found.pop("run_dir")
    return EvaluationResults(
        **found,
        config=config,
        run_dir=None if folder is None else Path(folder),
        episodes=None if episodes is None else [Episode(**episode) for episode in episodes],
        agent_state=agent_state,
    )


def _agent_of(place: FilePath) -> AgentState:
    """The agent of a file, or the one of a run that went furthest."""
    if not Path(to_path("checkpoint", place)).is_dir():
        return AgentState.load(place)
    return read_checkpoint(place, None)


def _ended(trained: _phalanx.Trained, raised: BaseException | None) -> TrainingResults:
    """The results, unless something was raised on the way, which is raised again now that all is stored."""
    results = TrainingResults._of(trained)
    if raised is None:
        return results
    if isinstance(raised, KeyboardInterrupt):
        raise TrainingInterrupted(results) from None
    raise raised


def _native(agent_state: AgentState | None) -> _phalanx.AgentState | None:
    if agent_state is None:
        return None
    if not isinstance(agent_state, AgentState):
        raise TypeError(f"agent_state is a {type(agent_state).__name__}, but must come from a training or a checkpoint")
    return agent_state._native


def _text(name: str, path: FilePath | None) -> str | None:
    return None if path is None else to_path(name, path)


def _threads(threads: int | None) -> int | None:
    return None if threads is None else to_count("threads", threads)


class _Nothing:
    """What is shown where nothing is."""

    def __init__(self, callback: Callable[[dict[str, Any]], bool | None] | None) -> None:
        self.callback = callback

    def __enter__(self) -> Callable[[dict[str, Any]], bool | None] | None:
        return self.callback

    def __exit__(self, *_: object) -> None:
        return None


def _shown(progress: Progress, config: Config) -> ProgressLine | _Nothing:
    if callable(progress):
        return _Nothing(progress)
    demand("progress", progress, (bool, np.bool_), "True, False or a function")
    return ProgressLine(f"{config.agent.name} on {config.env.name}") if progress else _Nothing(None)


def _short(number: float) -> str:
    return _phalanx.format_number(number)


class ProgressLine:
    """How far a run is, in one line: live in a terminal or a notebook, now and then in a log.

    ``with ProgressLine("ppo on CartPole-v1") as show: train_and_evaluate(config, progress=show)`` is what
    ``progress=True`` does.
    """

    PATIENCE = 0.5
    """Seconds before anything is shown: what is over by then needs no progress."""
    LOG_INTERVAL = 5.0
    """Seconds between lines where lines cannot be overwritten."""
    WIDTH = 24
    """Cells of the bar."""

    def __init__(self, what: str, out: TextIO | None = None) -> None:
        self.what = what
        self.out: TextIO | None = sys.stderr if out is None else out
        self.start = time.monotonic()
        self.next = self.start + self.PATIENCE
        self.notebook: Any = None
        self.mode = "notebook" if _in_notebook() else "terminal" if _is_terminal(self.out) else "log"
        if self.mode == "log":
            self.next = self.start + self.LOG_INTERVAL
        self.cells = _cells(self.out)
        self.drawn = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self.drawn and self.mode == "terminal":
            show(self.out, "\r\x1b[K")

    def __call__(self, now: Mapping[str, Any]) -> None:
        """Shows how far a run is, if it is time to."""
        time_now = time.monotonic()
        over = now["global_step"] >= now["total"]
        if time_now < self.next and not (over and self.drawn):
            return
        self.next = time_now + (self.LOG_INTERVAL if self.mode == "log" else 0.1)
        self.drawn = True
        if self.mode == "notebook":
            self._update_notebook(now)
        elif self.mode == "terminal":
            line = self.line(now)[: shutil.get_terminal_size().columns - 1]
            show(self.out, f"\r{line}\x1b[K")
        else:
            show(self.out, f"{self.what}: {self.line(now, bar=False)}\n")

    def line(self, now: Mapping[str, Any], bar: bool = True) -> str:
        """The line itself: ``Step k/N (p%) | loss=.. | eval_return=.. | SPS=..``."""
        step, total = now["global_step"], now["total"]
        share = min(step / max(total, 1), 1.0)
        filled = round(share * self.WIDTH)
        full, empty = self.cells
        cells = " [" + full * filled + empty * (self.WIDTH - filled) + "]" if bar else ""
        parts = [f"Step {step}/{total} ({100 * share:.0f}%){cells}"]
        for name in ("loss", "episode_return", "eval_return"):
            if now.get(name) is not None:
                parts.append(f"{name}={now[name]:.4g}")
        parts.append(f"SPS={_short(now['steps_per_second'])}")
        made, seconds = step - now["first_step"], time.monotonic() - self.start
        if made and step < total:
            parts.append(f"{(total - step) * seconds / made:.0f} s left")
        return " | ".join(parts)

    def _update_notebook(self, now: Mapping[str, Any]) -> None:
        from IPython.display import display

        share = 100 * now["global_step"] / max(now["total"], 1)
        line = self.line(now, bar=False)
        shown = {
            "text/plain": f"{self.what}: {line}",
            "text/html": f"<div>{self.what} <progress value='{share:.1f}' max='100'></progress> {line}</div>",
        }
        if self.notebook is None:
            self.notebook = display(shown, raw=True, display_id=True)
        else:
            self.notebook.update(shown, raw=True)


def _cells(out: Any) -> tuple[str, str]:
    """A full cell of the bar and an empty one, of characters that the stream has."""
    try:
        "█·".encode(getattr(out, "encoding", None) or "utf-8")
    except (LookupError, TypeError, ValueError):
        return "#", "."
    return "█", "·"


def _is_terminal(out: Any) -> bool:
    """Whether lines can be overwritten there; a stream that is missing, closed or can only be written to says no."""
    try:
        return bool(out.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def _in_notebook() -> bool:
    """Whether IPython runs as the kernel of a notebook, where a carriage return overwrites nothing."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
