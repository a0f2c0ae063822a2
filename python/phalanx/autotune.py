"""The chunk size that is fastest here, measured once and remembered.

A chunk is how many steps an environment makes before the driver looks at logs, evaluations and Ctrl-C. It
never changes results, only speed. What was found is kept in ``~/.phalanx/autotune_profiles.json``
(``PHALANX_CACHE_DIR`` moves it), which the ``phalanx`` command shares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from phalanx import _phalanx
from phalanx.native import Spec, hinted, keywords
from phalanx.settings import demand, own_name, setting_texts, tell, to_count

__all__ = ["cache_path", "clear_cache", "suggest_scan_chunk_size", "tune"]


def suggest_scan_chunk_size(
    num_envs: int,
    env: str,
    agent: str,
    buffer_size: int | None = None,
    force_revalidate: bool = False,
    verbose: bool = True,
    **settings: Any,
) -> int:
    """The chunk size for an environment with an agent: remembered, or measured now in about 20 seconds.

    >>> chunk = suggest_scan_chunk_size(64, "CartPole-v1", "random", verbose=False, time_budget=1.0, threads=1)
    >>> chunk >= 1
    True

    Args:
        num_envs: Environments that are stepped together.
        env: The environment.
        agent: An agent that learns (``dqn``, ``pqn``, ``ppo``, ``q_learning``), whose training is timed, or a policy
            (``random``, ``pid``, ...), whose roll-outs are.
        buffer_size: Transitions of a replay buffer, for which memory is set aside.
        force_revalidate: Measure even if the result is remembered.
        verbose: Tell on standard error what was found.
        settings: As of :func:`tune`.
    """
    found = tune(num_envs, env, agent, buffer_size, force_revalidate, verbose, **settings)
    return int(found["scan_chunk_size"])


def tune(
    num_envs: int,
    env: str,
    agent: str,
    buffer_size: int | None = None,
    force_revalidate: bool = False,
    verbose: bool = True,
    *,
    threads: int | None = None,
    time_budget: float | None = None,
    params: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """All that a search found: chunk size, threads, tile (of roll-outs by rows), throughput, every candidate with its speed.

    Args:
        threads: Threads that share the work; tuned as well if None.
        time_budget: Seconds after which the best so far is taken; no limit if None.
        params: Parameters of the environment.
        settings: Settings of the agent, or arguments of the policy.
    """
    return tuned_by(
        _phalanx,
        num_envs,
        env,
        agent,
        buffer_size,
        force_revalidate,
        verbose,
        threads=threads,
        time_budget=time_budget,
        params=params,
        **settings,
    )


def tuned_by(
    native: Any,
    num_envs: int,
    env: str,
    agent: str,
    buffer_size: int | None = None,
    force_revalidate: bool = False,
    verbose: bool = True,
    *,
    threads: int | None = None,
    time_budget: float | None = None,
    params: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """As :func:`tune`, with the native module that knows the environment."""
    demand("agent", agent, str, "the name of an agent or of a policy")
    if time_budget is not None:
        demand("time_budget", time_budget, (int, float, np.number), "a number of seconds, or None")
        if not 0 <= time_budget < 2**32:
            raise ValueError(f"time_budget is {time_budget}, but must be a number of seconds from 0, or None")
    if params is not None:
        demand("params", params, Mapping, "a dict")
    try:
        found = native.suggest(
            to_count("num_envs", num_envs),
            own_name(env),
            agent,
            None if buffer_size is None else to_count("buffer_size", buffer_size),
            force_revalidate,
            None if threads is None else to_count("threads", threads),
            time_budget,
            setting_texts(params or {}),
            setting_texts(settings),
            tell if verbose else None,
        )
    except ValueError as error:
        spec = Spec(native.env_spec(own_name(env)))
        raise hinted(error, settings, keywords(tune), spec, "by params={{{name!r}: ...}}") from None
    return dict(json.loads(found))


def cache_path() -> Path | None:
    """The file of what is remembered; None without a home folder."""
    path = _phalanx.cache_path()
    return None if path is None else Path(path)


def clear_cache() -> list[Path]:
    """Forget everything, so that the next search measures again; answers the files that are gone."""
    return [Path(path) for path in _phalanx.clear_cache()]
