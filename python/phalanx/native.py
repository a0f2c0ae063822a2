"""What vector and single environments share: the engine, its parameters, its state and its snapshots."""

from __future__ import annotations

import inspect
import json
import operator
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from phalanx import _phalanx
from phalanx._phalanx import Engine, env_spec
from phalanx.settings import demand, is_row, nearest, setting_text, to_count, to_numbers, to_texts, to_whole

#: The step limit of an environment whose rules end every episode.
NO_LIMIT = 2**31 - 1


class Spec:
    """What is known of an environment: names, spaces, parameters, options, limits.

    >>> Spec.of("CartPole-v1").max_episode_steps
    500
    """

    def __init__(self, text: str) -> None:
        self.fields: dict[str, Any] = json.loads(text)

    @classmethod
    def of(cls, env_id: str) -> Spec:
        """The spec of an environment with its default settings."""
        return cls(env_spec(env_id))

    @property
    def id(self) -> str:
        return str(self.fields["name"])

    @property
    def max_episode_steps(self) -> int | None:
        steps = int(self.fields["max_steps"])
        return None if steps == NO_LIMIT else steps

    @property
    def reward_threshold(self) -> float | None:
        threshold = self.fields["reward_threshold"]
        return None if threshold is None else float(threshold)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the physical constants that each environment may have its own value of."""
        return tuple(param["name"] for param in self.fields["params"])

    @property
    def settings(self) -> tuple[str, ...]:
        """Names of all that can be set when an environment is made."""
        return (*self.params, *(option["name"] for option in self.fields["options"]), "max_steps")

    @property
    def state_names(self) -> tuple[str, ...]:
        return tuple(self.fields["state_names"])

    @property
    def constraints(self) -> tuple[str, ...]:
        return tuple(constraint["name"] for constraint in self.fields["constraints"])

    @property
    def has_action_mask(self) -> bool:
        return bool(self.fields["action_mask"] != "none")

    @property
    def render_fps(self) -> int:
        """Pictures for each second: as fast as the real thing where its time is in seconds, else a pleasant rate."""
        rate = 1.0 / self.fields["dt"] if self.fields["dt"] else 0.0
        return round(rate) if 10.0 <= rate <= 100.0 else 30

    def observation_space(self) -> spaces.Box:
        space = self.fields["observation"]
        dtype = np.float32 if space["element"] == "f32" else np.int8
        bounds = (np.array([float(bound) for bound in space[side]], np.float32) for side in ("low", "high"))
        low, high = (bound.astype(dtype).reshape(space["shape"]) for bound in bounds)
        return spaces.Box(low, high, dtype=dtype)

    def action_space(self) -> spaces.Discrete | spaces.MultiDiscrete | spaces.Box:
        space = self.fields["action"]
        if space["type"] == "discrete":
            return spaces.Discrete(space["n"])
        if space["type"] == "multidiscrete":
            return spaces.MultiDiscrete(space["sizes"])
        low, high = (np.array(space[side], np.float32) for side in ("low", "high"))
        return spaces.Box(low, high, dtype=np.float32)


def to_seed(seed: object) -> int:
    """A seed as a whole number that the engine takes, from anything that stands for one."""
    if isinstance(seed, (bool, np.bool_)):
        raise TypeError("the seed is a bool, but must be a whole number from 0 to 2**64 - 1")
    try:
        number = operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"the seed is {seed!r}, but must be a whole number from 0 to 2**64 - 1") from None
    if not 0 <= number < 2**64:
        raise ValueError(f"the seed is {number}, but must be a whole number from 0 to 2**64 - 1")
    return number


def keywords(function: Callable[..., Any]) -> list[str]:
    """The names of what a function may be given, but need not."""
    parameters = inspect.signature(function).parameters
    return [name for name, one in parameters.items() if one.default is not inspect.Parameter.empty]


def check_keywords(given: Iterable[str], own: Iterable[str], spec: Spec) -> None:
    """Raises a `TypeError` for a keyword that is more like one of the function's own than like a setting."""
    own = list(own)
    for name in given:
        near = None if name in spec.settings else nearest(name, [*own, *spec.settings])
        if near in own:
            raise TypeError(f"unknown keyword '{name}' for {spec.id}; did you mean '{near}'?")


def hinted(error: ValueError, given: Iterable[str], own: Iterable[str], spec: Spec, where: str) -> ValueError:
    """What the engine said, and more where it did not know the name of a setting: it knows neither a function's own
    keywords nor that a parameter of the environment is given elsewhere."""
    told = str(error)
    for name in given:
        if not told.startswith(("unknown key", "unknown argument")) or f"'{name}'" not in told.split(";")[0]:
            continue
        if name in spec.settings:
            return ValueError(f"{told.split(';')[0]}; it is a setting of {spec.id}: give it {where.format(name=name)}")
        if (near := nearest(name, own)) and "did you mean" not in told:
            return ValueError(f"{told.split(';')[0]}; did you mean '{near}'?")
    return error


def check_id(env_id: Any) -> None:
    """Raises a `TypeError` for what is no name of an environment."""
    demand("env_id", env_id, str, "the name of an environment, such as 'CartPole-v1'")


def check_options(options: Any) -> None:
    """Raises a `TypeError` for what are no options of a reset."""
    demand("options", options, (Mapping, type(None)), "a dict or None")


def ragged(error: ValueError, spec: Spec) -> ValueError:
    """What is wrong with actions that are no array, of which NumPy speaks in words of its own."""
    if "setting an array element with a sequence" not in str(error):
        return error
    return ValueError(f"the actions of {spec.id} are lists of different lengths, but must be an array of numbers")


def fresh_seed() -> int:
    """A seed nobody chose, far from overflow."""
    return secrets.randbits(62)


class Native:
    """An environment that is an `Engine`; subclasses say how it is stepped."""

    #: Keywords that others of the kind take, and what to say of them.
    foreign_keywords: ClassVar[dict[str, str]] = {}
    #: The native module; one with environments of its own knows them (`examples/custom-env`).
    native: ClassVar[Any] = _phalanx
    _engine: Engine
    _build: dict[str, Any]
    _spec: Spec

    def _start(
        self,
        env_id: str,
        num_envs: int,
        *,
        settings: dict[str, Any],
        max_episode_steps: int | None,
        constraints: Sequence[str],
        threads: int | None,
        **choices: Any,
    ) -> Spec:
        check_id(env_id)
        demand("safety", choices["safety"], str, "'enforce', 'penalize', 'monitor' or 'off'")
        texts: list[tuple[str, str]] = []
        per_env: dict[str, Any] = {}
        for name, value in settings.items():
            if is_row(value) and np.ndim(value) == 1:
                per_env[name] = to_numbers(name, value)
            else:
                texts.append((name, setting_text(value)))
        if max_episode_steps is not None:
            texts.append(("max_steps", str(to_whole("max_episode_steps", max_episode_steps))))
        self._build = dict(
            id=env_id,
            num_envs=to_count("num_envs", num_envs),
            settings=texts,
            constraints=to_texts("constraints", constraints, "a list of texts such as 'temperature<=350:soft'"),
            threads=None if threads is None else to_count("threads", threads),
            **choices,
        )
        try:
            self._engine = self.native.Engine(**self._build)
            for name, values in per_env.items():
                self._engine.set_param(name, values.tolist())
        except (AttributeError, TypeError) as error:
            # The engine knows of no keywords.
            for name in settings:
                if name in self.foreign_keywords:
                    raise TypeError(self.foreign_keywords[name]) from None
            check_keywords(settings, keywords(type(self)), Spec(self.native.env_spec(env_id)))
            if isinstance(error, AttributeError):
                raise TypeError(str(error)) from None
            raise
        return Spec(self._engine.spec())

    @property
    def num_steps(self) -> int:
        """Steps that environments have made; starting an episode is none."""
        return self._engine.steps

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of what a state consists of."""
        return self._spec.state_names

    def state(self) -> npt.NDArray[np.float64]:
        """The state of each environment, a row each, in the order of :attr:`state_names`."""
        return self._engine.state()

    def set_state(self, states: npt.ArrayLike, mask: npt.ArrayLike | None = None) -> None:
        """Sets the states of all environments, or of those in `mask`; their episodes begin here.

        Environments that were never reset are reset first, so that what follows is as random as after a reset.
        """
        rows = np.atleast_2d(to_numbers("states", states))
        needed = (self._build["num_envs"], len(self.state_names))
        if rows.shape != needed:
            raise ValueError(f"the array of states has shape {rows.shape}, but {needed} is needed")
        self._engine.set_state(rows, self._flags(mask), fresh_seed())

    def get_param(self, name: str) -> npt.NDArray[np.float64]:
        """The value of a physical constant in each environment."""
        return np.array(self._engine.param(name))

    def set_param(self, name: str, values: npt.ArrayLike) -> None:
        """Sets a physical constant: one value for all environments, or one for each."""
        self._engine.set_param(name, np.atleast_1d(to_numbers(name, values)).tolist())

    def snapshot(self) -> bytes:
        """Everything needed to go on from here: states, random streams, step counts, parameters."""
        return self._engine.snapshot()

    def restore(self, snapshot: bytes, mask: npt.ArrayLike | None = None) -> None:
        """Goes back to a snapshot of an environment like this one, everywhere or where `mask` is true.

        Any other snapshot is refused with a `ValueError`, and nothing changes.
        """
        if not isinstance(snapshot, bytes):
            # Not `bytes(5)`, which is five zeros.
            try:
                snapshot = memoryview(snapshot).tobytes()
            except TypeError:
                raise TypeError(f"the snapshot is {snapshot!r}, but must be bytes-like, of snapshot()") from None
        self._engine.restore(snapshot, self._flags(mask))

    def _flags(self, mask: npt.ArrayLike | None) -> list[bool] | None:
        """A mask as the engine takes it. Numbers could be meant as indices."""
        if mask is None:
            return None
        flags = np.asarray(mask)
        if flags.dtype != np.bool_ or flags.ndim != 1:
            raise TypeError(f"the mask has shape {flags.shape} and dtype {flags.dtype}, but must be a row of bool")
        chosen: list[bool] = flags.tolist()
        return chosen

    def _fields(self) -> dict[str, Any]:
        """Everything but the engine."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_engine", "_step")}

    def _assume(self, fields: dict[str, Any]) -> None:
        """Becomes what has these fields, with an engine of its own."""
        self.__dict__.update(fields)
        self._engine = self.native.Engine(**self._build)
        self._bind()

    def __getstate__(self) -> dict[str, Any]:
        return {"fields": self._fields(), "snapshot": self._engine.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._assume(state["fields"])
        self._engine.restore(state["snapshot"])

    def _bind(self) -> None:
        """Keeps what every step calls at hand."""
        raise NotImplementedError
