"""Whole roll-outs in one call, without Python in the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded

from phalanx import _phalanx, autotune
from phalanx.native import Spec, check_keywords, keywords, ragged, to_seed
from phalanx.settings import demand, setting_text, to_count, to_flag
from phalanx.vector import PhalanxVectorEnv


@dataclass(frozen=True)
class RolloutResult:
    """What came of a roll-out. Means and spreads are over episodes that ended, `None` if none did.

    Arrays are there if `record=True`. `observations` has one row of environments more than there are steps:
    `observations[t]` is what the action `actions[t]` was chosen on. Where an episode ended in step `t`,
    `observations[t + 1]` already belongs to the next one; the last observations are in `final_observations`, and each
    row of `final_places` says of which step and which environment.
    """

    num_envs: int
    steps: int
    scan_chunk_size: int
    wall_seconds: float
    steps_per_second: float
    episodes: int
    return_mean: float | None
    return_std: float | None
    length_mean: float | None
    length_std: float | None
    cost_mean: float | None = None
    cost_std: float | None = None
    violations: dict[str, int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    scores: dict[str, float | None] = field(default_factory=dict)
    checksum: str | None = None
    observations: npt.NDArray[Any] | None = field(default=None, repr=False)
    actions: npt.NDArray[Any] | None = field(default=None, repr=False)
    rewards: npt.NDArray[np.float32] | None = field(default=None, repr=False)
    terminations: npt.NDArray[np.bool_] | None = field(default=None, repr=False)
    truncations: npt.NDArray[np.bool_] | None = field(default=None, repr=False)
    costs: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    final_observations: npt.NDArray[Any] | None = field(default=None, repr=False)
    final_places: npt.NDArray[np.int64] | None = field(default=None, repr=False)


def argument_text(value: object) -> str:
    """An argument of a policy as the command line writes it: a list is `0:1:1`."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return ":".join(setting_text(one) for one in value)
    return setting_text(value)


def rollout(
    env: str | PhalanxVectorEnv,
    steps: int,
    *,
    num_envs: int | None = None,
    policy: str | None = None,
    policy_args: Mapping[str, Any] | None = None,
    actions: npt.ArrayLike | None = None,
    record: bool = False,
    scan_chunk_size: int | None = None,
    tile: int | None = None,
    auto_tune: bool = False,
    seed: int | None = None,
    **kwargs: Any,
) -> RolloutResult:
    """Steps environments `steps` times under a built-in policy, or with an array of actions (steps x environments).

    `env` is an id, for `num_envs` fresh environments (1 if not given) with the keywords of `make_vec`; or a vector
    environment, which goes on from where it is. `record=True` returns all arrays, otherwise there are statistics only,
    which is much faster under a policy. `record=True` and `actions` need the mode SameStep, which environments that
    are made here have; one that is given must have been made with it. `policy` is `random` if neither a policy nor
    actions are given. Ctrl-C is heard within a second. Actions are all checked before the first step is made, but for
    whether a move is legal, which shows when it is its turn: then all steps before it are undone.

    `tile` is how many environments of `ARC-v0`, whose steps go by rows, make the steps of a chunk together under a policy
    (a multiple of 16, 128 if not given). `auto_tune` finds the chunk size and the tile that are fastest here, and the
    threads of environments that are made here, unless they are given; it takes some seconds and is remembered (see
    `phalanx.autotune`). Results do not depend on any of them.

    Random actions go on from one roll-out of a vector environment to the next, whatever was reset, restored in part
    or played in between; `reset` with a seed for all of its environments begins them anew, and a snapshot knows how
    far they have come.

    `seed` (0 if not given) is that of the command line: one seed for the whole batch, of which environment `i` has the
    `i`-th stream. It gives other episodes than `reset(seed=...)`, by which environment `i` has the seed `s + i`.

    >>> result = rollout("CartPole-v1", 100, num_envs=64, seed=1)
    >>> result.episodes > 200, result.return_mean == result.length_mean
    (True, True)
    >>> rollout("Pendulum-v1", 10, num_envs=2, record=True).observations.shape
    (11, 2, 3)
    """
    if actions is not None and (policy is not None or policy_args is not None):
        raise TypeError("actions and a policy are both given: give one of them")
    if policy is not None:
        demand("policy", policy, str, "the name of a policy, such as 'random'")
    if policy_args is not None:
        demand("policy_args", policy_args, Mapping, "a dict")
    record, auto_tune = to_flag("record", record), to_flag("auto_tune", auto_tune)
    arguments = [(name, argument_text(value)) for name, value in (policy_args or {}).items()]
    steps = to_count("steps", steps)
    if auto_tune and (scan_chunk_size is not None or tile is not None or actions is not None or record):
        raise TypeError(
            "auto_tune finds the scan_chunk_size and the tile of a policy's roll-out: give neither these nor actions nor "
            "record"
        )
    if tile is not None and (actions is not None or record):
        raise TypeError("tile is for a policy's roll-out: give neither actions nor record with it")
    if "param_seed" in kwargs:
        raise TypeError("param_seed is for make_vec: a roll-out draws parameters with its seed")
    choices: dict[str, Any] = dict(
        chunk=None if scan_chunk_size is None else to_count("scan_chunk_size", scan_chunk_size),
        tile=None if tile is None else to_count("tile", tile),
        policy="random" if policy is None else policy,
        arguments=arguments,
        actions=actions,
        record=record,
    )
    if isinstance(env, str):
        own = [*keywords(rollout), *keywords(PhalanxVectorEnv)]
        unknown = [name for name in kwargs if name not in own]
        if unknown:
            check_keywords(unknown, own, Spec.of(env))
        threads_given = kwargs.get("threads") is not None
        # A chunk of steps is worth all cores, where a single step would not be.
        kwargs = {"autoreset_mode": "SameStep", "threads": _phalanx.cores(), **kwargs}
        first = to_seed(0 if seed is None else seed)
        fresh = PhalanxVectorEnv(env, 1 if num_envs is None else num_envs, param_seed=first, **kwargs)
        if auto_tune:
            found = _tuned(fresh, choices, threads_given)
            choices["chunk"], choices["tile"] = found["scan_chunk_size"], found.get("tile")
            if found["threads"] != kwargs["threads"]:
                fresh.close()
                kwargs["threads"] = found["threads"]
                fresh = PhalanxVectorEnv(env, fresh.num_envs, param_seed=first, **kwargs)
        try:
            return RolloutResult(**fresh._engine.rollout(steps, **choices))
        except ValueError as error:
            raise ragged(error, fresh._spec) from None
        finally:
            fresh.close()
    clashes = [name for name, value in (("num_envs", num_envs), ("seed", seed)) if value is not None] + list(kwargs)
    if clashes:
        raise TypeError(f"{', '.join(clashes)}: these keywords are for environments that are made here, from an id")
    inner = getattr(env, "unwrapped", env)
    if not isinstance(inner, PhalanxVectorEnv):
        raise TypeError(f"rollout needs an id or what phalanx.make_vec makes, not {type(inner).__name__}")
    engine = inner._engine
    if engine.needs_seed:
        raise ResetNeeded("call reset before the first roll-out")
    if auto_tune:
        found = _tuned(inner, choices, True)
        choices["chunk"], choices["tile"] = found["scan_chunk_size"], found.get("tile")
    try:
        return RolloutResult(**engine.rollout(steps, **choices))
    except ValueError as error:
        raise ragged(error, inner._spec) from None


def _tuned(env: PhalanxVectorEnv, choices: Mapping[str, Any], threads_given: bool) -> dict[str, Any]:
    """The chunk size and the threads that are fastest for such environments (constraints cost as much with any)."""
    return autotune.tuned_by(
        env.native,
        env.num_envs,
        env._spec.id,
        choices["policy"],
        threads=env._engine.threads if threads_given else None,
        params=dict(env._build["settings"]),
        **dict(choices["arguments"]),
    )
