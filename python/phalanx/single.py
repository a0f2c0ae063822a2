"""Single environments, for `gymnasium.make` and for everything that takes a `gymnasium.Env`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt

from phalanx.native import Native, Spec, check_id, check_options, fresh_seed, to_seed
from phalanx.settings import to_flag


class PhalanxEnv(Native, gymnasium.Env):
    """One environment. It ends episodes by its own rules only: `gymnasium.make` adds the time limit.

    >>> env = PhalanxEnv("CartPole-v1")
    >>> observation, info = env.reset(seed=42)
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> observation.shape, reward, terminated, truncated
    ((4,), 1.0, False, False)
    """

    # What is true of all: `gymnasium.make` looks at the class.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}

    foreign_keywords: ClassVar[dict[str, str]] = {
        name: f"{name} is a keyword of make_vec: a single environment has none"
        for name in ("num_envs", "autoreset_mode", "copy", "episode_stats", "final_obs_dense", "threads")
    }

    def __init__(
        self,
        env_id: str,
        *,
        max_episode_steps: int | None = None,
        time_limit: bool = False,
        render_mode: str | None = None,
        safety: str = "enforce",
        constraints: Sequence[str] = (),
        param_seed: int = 0,
        **settings: Any,
    ) -> None:
        """Makes the environment; with `max_episode_steps`, or its own limit if `time_limit`, it truncates by itself.

        Parameters that are ranges are drawn by `param_seed`.
        """
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is {render_mode!r}, but must be None or 'rgb_array'")
        check_id(env_id)
        truncates = to_flag("time_limit", time_limit) or max_episode_steps is not None
        if not truncates:
            # Gymnasium keeps the registered limit; environments that show how much of it is used up must know it.
            max_episode_steps = Spec(self.native.env_spec(env_id)).max_episode_steps
        self._spec = self._start(
            env_id,
            1,
            settings=settings,
            max_episode_steps=max_episode_steps,
            time_limit=truncates,
            constraints=constraints,
            autoreset="Disabled",
            seed=to_seed(param_seed),
            safety=safety,
            threads=1,
            copy=False,
            pictures=render_mode is not None,
        )
        self.render_mode = render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": self._spec.render_fps}
        self.observation_space = self._spec.observation_space()
        self.action_space = self._spec.action_space()
        self._bind()

    def _bind(self) -> None:
        self._step = self._engine.step_one

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Starts an episode: of the stream of `seed`, or the next one of the stream there is."""
        check_options(options)
        number = None if seed is None else to_seed(seed)
        begun = self._engine.reset_one(fresh_seed() if number is None and self._engine.needs_seed else number)
        # Last, since the engine may have refused.
        gymnasium.Env.reset(self, seed=number)
        return begun

    def step(self, action: Any) -> tuple[npt.NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Makes one step."""
        return self._step(action)

    def render(self) -> npt.NDArray[np.uint8]:
        """A picture, height x width x 3."""
        return self._engine.render()[0]

    def close(self) -> None:
        """Frees the engine's state."""
        self._engine.close()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions are legal now."""
        masks: npt.NDArray[np.bool_] = self._engine.action_masks()[0]
        return masks


def make(env_id: str, **kwargs: Any) -> PhalanxEnv:
    """Makes one environment that truncates at its own step limit, without Gymnasium's wrappers.

    Keywords: `max_episode_steps`, `render_mode`, `safety`, `constraints` and `param_seed` as of `make_vec`; all others
    are parameters and options of the environment.

    >>> env = make("Pendulum-v1", g=9.81)
    >>> env.reset(seed=0)[0].shape
    (3,)
    """
    return PhalanxEnv(env_id, **{"time_limit": True, **kwargs})
