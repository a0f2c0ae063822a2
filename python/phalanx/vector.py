"""Vector environments: the ones Gymnasium's wrappers and trainers take."""

from __future__ import annotations

import copy as copying
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from phalanx.native import Native, check_options, fresh_seed, ragged, to_seed
from phalanx.settings import is_row, nearest, to_flag, to_mode


class PhalanxVectorEnv(Native, VectorEnv):
    """`num_envs` copies of one environment, stepped in lockstep.

    Observations are float32 (int8 for ARC), rewards float32, flags bool. With `copy=False` the four arrays of a step
    are the same objects each time and are valid until the next call, which may not run while another thread reads or
    writes them; a call that is refused leaves them alone. What is written into them never changes what the engine does.

    >>> env = PhalanxVectorEnv("CartPole-v1", num_envs=3)
    >>> observations, info = env.reset(seed=42)
    >>> observations.shape, observations.dtype
    ((3, 4), dtype('float32'))
    >>> observations, rewards, terminations, truncations, info = env.step(np.array([0, 1, 0]))
    >>> rewards
    array([1., 1., 1.], dtype=float32)
    >>> env.close()
    """

    # What is true of all; each environment has its own with the mode in it.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
        copy: bool = True,
        episode_stats: bool = False,
        final_obs_dense: bool = False,
        threads: int | None = None,
        safety: str = "enforce",
        constraints: Sequence[str] = (),
        param_seed: int = 0,
        **settings: Any,
    ) -> None:
        """Makes the environments; see `phalanx.make_vec` for the keywords."""
        mode = to_mode(autoreset_mode)
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is {render_mode!r}, but must be None or 'rgb_array'")
        self._spec = self._start(
            env_id,
            num_envs,
            settings=settings,
            max_episode_steps=max_episode_steps,
            constraints=constraints,
            autoreset=mode.value,
            seed=to_seed(param_seed),
            safety=safety,
            threads=threads,
            copy=to_flag("copy", copy),
            episode_stats=to_flag("episode_stats", episode_stats),
            dense_finals=to_flag("final_obs_dense", final_obs_dense),
            pictures=render_mode is not None,
        )
        self.num_envs = int(num_envs)
        self.render_mode = render_mode
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": self._spec.render_fps,
            "autoreset_mode": mode,
        }
        self.single_observation_space = self._spec.observation_space()
        self.single_action_space = self._spec.action_space()
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._bind()

    def _bind(self) -> None:
        self._step = self._engine.step

    def _like(self, mode: AutoresetMode) -> PhalanxVectorEnv:
        """New environments with the settings and parameters of these, but another mode."""
        made = object.__new__(type(self))
        # Copies, since spaces have random numbers of their own.
        fields = copying.deepcopy(self._fields())
        fields["_build"]["autoreset"] = mode.value
        fields["metadata"]["autoreset_mode"] = mode
        made._assume(fields)
        for name in self._spec.params:
            values = self.get_param(name)
            if not np.array_equal(made.get_param(name), values):
                made.set_param(name, values)
        return made

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Starts episodes.

        An integer seed `s` gives environment `i` the stream of a single environment with seed `s + i`; a list has a seed
        or `None` for each; `None` goes on with the streams there are. `options={"reset_mask": mask}` resets only some
        environments; other options are ignored, and `options` is left as it is.
        """
        mask = self._reset_mask(options)
        # All must have begun before some of them can begin anew.
        begin = None if mask is None else fresh_seed()
        first, seeds = None, None
        if is_row(seed) or isinstance(seed, Sequence) and not isinstance(seed, (str, bytes)):
            seeds = self._seeds(seed)  # type: ignore[arg-type]
        elif seed is not None:
            first = to_seed(seed)
        elif mask is None and self._engine.needs_seed:
            first = fresh_seed()
        begun = self._engine.reset(first, seeds, mask, begin)
        if first is not None and seed is not None:
            # Last, since the engine may have refused the seed.
            VectorEnv.reset(self, seed=first)
        return begun

    def _seeds(self, given: Sequence[int | None]) -> list[int | None]:
        if len(given) != self.num_envs:
            raise ValueError(f"there are {len(given)} seeds, but {self.num_envs} are needed, one for each environment")
        seeds = [None if one is None else to_seed(one) for one in given]
        if self._engine.needs_seed:
            seeds = [fresh_seed() if one is None else one for one in seeds]
        return seeds

    def _reset_mask(self, options: dict[str, Any] | None) -> list[bool] | None:
        check_options(options)
        if not options or "reset_mask" not in options:
            return None
        mask = options["reset_mask"]
        if not isinstance(mask, np.ndarray):
            raise TypeError(f"the reset mask is a {type(mask).__name__}, but must be a NumPy array")
        if mask.shape != (self.num_envs,):
            raise ValueError(f"the reset mask has shape {mask.shape}, but ({self.num_envs},) is needed")
        if mask.dtype != np.bool_:
            raise TypeError(f"the reset mask has dtype {mask.dtype}, but must be bool")
        if not mask.any():
            raise ValueError("the reset mask chooses no environment, but must choose at least one")
        flags: list[bool] = mask.tolist()
        return flags

    def step(
        self, actions: npt.ArrayLike
    ) -> tuple[
        npt.NDArray[Any], npt.NDArray[np.float32], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]
    ]:
        """Steps all environments; a wrong action is refused before anything changes."""
        try:
            return self._step(actions)
        except ValueError as error:
            raise ragged(error, self._spec) from None

    def render(self) -> tuple[npt.NDArray[np.uint8], ...]:
        """A picture of each environment, height x width x 3."""
        return tuple(self._engine.render())

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the engine's threads and frees its state; arrays that were returned stay as they are."""
        # Where the constructor has failed there is none, but Python finalises the object all the same.
        engine = getattr(self, "_engine", None)
        if engine is not None:
            engine.close()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """Which actions are legal now, a row for each environment."""
        return self._engine.action_masks()

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """A parameter, a state, a mask or any attribute, once for each environment."""
        return self.call(name)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """What each environment answers to a method of that name, or its value of an attribute."""
        if name in self._spec.params:
            return tuple(self.get_param(name).tolist())
        if name in ("render", "state", "action_masks"):
            return tuple(getattr(self, name)(*args, **kwargs))
        if not hasattr(self, name) and (near := nearest(name, self._spec.params)):
            raise AttributeError(f"{self._spec.id} has no attribute '{name}'; did you mean '{near}'?")
        value = getattr(self, name)
        if callable(value):
            raise AttributeError(f"'{name}' is for all environments together: call it on the vector environment itself")
        return (value,) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Sets a parameter: one value for all environments, or a list or tuple with one for each."""
        if name not in self._spec.params:
            # The engine knows the nearest one.
            self._engine.param(name)
        if is_row(values) and len(values) != self.num_envs:
            raise ValueError(f"there are {len(values)} values of {name}, but {self.num_envs} are needed")
        self.set_param(name, values)

    def __repr__(self) -> str:
        return f"PhalanxVectorEnv({self._spec.id}, num_envs={self.num_envs}, {self.metadata['autoreset_mode'].value})"


def make_vec(env_id: str, num_envs: int = 1, **kwargs: Any) -> PhalanxVectorEnv:
    """Makes `num_envs` environments that step in lockstep.

    Keywords: `autoreset_mode` ("NextStep", "SameStep" or "Disabled"), `max_episode_steps`, `render_mode` ("rgb_array"),
    `copy` (False: arrays are views that the next call overwrites), `episode_stats` (info["episode"] without a wrapper),
    `final_obs_dense` (SameStep gives last observations as one array, `info["final_obs_dense"]`, with the environments in
    `info["final_indices"]`, so that the info can become tensors; there is no `info["final_obs"]` then, and neither array
    has a row for each environment, which tools that expect Gymnasium's layout do not take: `DictInfoToList`,
    `LegacyFinalInfo`, `SafetyVectorEnv`, `to_sb3`, `EpisodeRecorder`), `threads`, `safety` ("enforce", "penalize", "monitor",
    "off"), `constraints` (a list such as ["temperature<=350:soft"]). All others are parameters and options of the
    environment; a parameter may be a number, a list with one for each environment, or a range such as "9..10", of which
    `param_seed` (default 0) draws one for each. The seed of a reset does not: an environment keeps its parameters.

    >>> env = make_vec("CartPole-v1", 2, gravity=[9.75, 1.5])
    >>> env.get_attr("gravity")
    (9.75, 1.5)
    """
    return PhalanxVectorEnv(env_id, num_envs, **kwargs)
