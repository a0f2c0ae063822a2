"""Phalanx: a million reinforcement-learning environments in lockstep."""

from phalanx._phalanx import __version__, env_ids

__all__ = ["__version__", "env_ids"]
