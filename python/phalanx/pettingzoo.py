"""Tic-tac-toe for two agents, as PettingZoo plays it. Importing this module imports PettingZoo.

The rules are the engine's. Squares are numbered down the columns, as in PettingZoo's `tictactoe_v3`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from phalanx.settings import missing
from phalanx.single import PhalanxEnv

try:
    from pettingzoo import AECEnv
    from pettingzoo.utils.agent_selector import AgentSelector
except ModuleNotFoundError as error:
    raise missing("phalanx.pettingzoo", "PettingZoo", "pettingzoo", error) from error

AGENTS = ["player_1", "player_2"]


class TicTacToe(AECEnv):  # type: ignore[misc]
    """Two agents on one board: `player_1` has the X and begins.

    >>> env = TicTacToe()
    >>> env.reset(seed=1)
    >>> for square in (0, 3, 1, 4, 2):
    ...     env.step(square)
    >>> env.rewards
    {'player_1': 1, 'player_2': -1}
    """

    metadata = {"render_modes": ["rgb_array"], "name": "phalanx_tictactoe_v0", "is_parallelizable": False, "render_fps": 1}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self._game = PhalanxEnv("TicTacToe-v0", opponent="self_play", illegal="lose", render_mode=render_mode)
        self.render_mode = render_mode
        self.possible_agents = AGENTS[:]
        self.agents = AGENTS[:]
        board = spaces.Box(low=0, high=1, shape=(3, 3, 2), dtype=np.int8)
        mask = spaces.Box(low=0, high=1, shape=(9,), dtype=np.int8)
        self.observation_spaces = {name: spaces.Dict({"observation": board, "action_mask": mask}) for name in AGENTS}
        self.action_spaces = {name: spaces.Discrete(9) for name in AGENTS}

    def observation_space(self, agent: str) -> spaces.Dict:
        _check_agent(agent)
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        _check_agent(agent)
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        obs, _ = self._game.reset(seed=seed)
        self._cells = obs[:9]
        self.agents = self.possible_agents[:]
        self.rewards = {name: 0 for name in self.agents}
        self._cumulative_rewards = {name: 0 for name in self.agents}
        self.terminations = {name: False for name in self.agents}
        self.truncations = {name: False for name in self.agents}
        self.infos: dict[str, dict[str, Any]] = {name: {} for name in self.agents}
        self._selector = AgentSelector(self.agents)
        self.agent_selection = self._selector.reset()

    def observe(self, agent: str) -> dict[str, npt.NDArray[np.int8]]:
        _check_agent(agent)
        self._check_begun()
        own = 1 if agent == AGENTS[0] else 2
        # Rows of ours are columns of theirs, so that square i is cell (i % 3, i // 3).
        board = self._cells.reshape(3, 3)
        planes = np.stack([board == own, board == 3 - own], axis=-1).astype(np.int8)
        to_move = agent == self.agent_selection
        mask = (board.T.reshape(9) == 0) & to_move
        return {"observation": planes.transpose(1, 0, 2), "action_mask": mask.astype(np.int8)}

    def step(self, action: int | None) -> None:
        self._check_begun()
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        mover = self.agent_selection
        other = AGENTS[1 - AGENTS.index(mover)]
        square = _square(action)
        cell = square % 3 * 3 + square // 3
        was_taken = bool(self._cells[cell] != 0)
        obs, reward, terminated, _, _ = self._game.step(cell)
        self._cells = obs[:9]
        self._cumulative_rewards[mover] = 0
        self._clear_rewards()
        if was_taken:
            self.rewards = {mover: -1, other: 0}
        elif terminated:
            self.rewards = {mover: int(reward), other: -int(reward)}
        if terminated:
            self.terminations = {name: True for name in self.agents}
            if was_taken:
                self.truncations = {name: True for name in self.agents}
        self.agent_selection = self._selector.next()
        self._accumulate_rewards()

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What the agent to move sees, and what it has come to."""
        self._check_begun()
        told: tuple[Any, float, bool, bool, dict[str, Any]] = super().last(observe)
        return told

    def _check_begun(self) -> None:
        if not hasattr(self, "agent_selection"):
            raise RuntimeError("the game has not begun: call reset first")

    def render(self) -> npt.NDArray[np.uint8] | None:
        return None if self.render_mode is None else self._game.render()

    def close(self) -> None:
        self._game.close()


def _check_agent(agent: Any) -> None:
    if agent not in AGENTS:
        raise ValueError(f"there is no agent {agent!r}, only {' and '.join(AGENTS)}")


def _square(action: Any) -> int:
    """The square that a live agent means."""
    if isinstance(action, bool | np.bool_) or not isinstance(action, int | np.integer | np.ndarray):
        raise TypeError(f"the action is {action!r}, but a live agent must choose a square by a whole number from 0 to 8")
    if isinstance(action, np.ndarray) and (action.size != 1 or not np.issubdtype(action.dtype, np.integer)):
        raise TypeError(f"the action has shape {action.shape} and dtype {action.dtype}, but must be one whole number")
    square = int(action.item() if isinstance(action, np.ndarray) else action)
    if not 0 <= square < 9:
        raise ValueError(f"the action is {square}, but squares are from 0 to 8")
    return square


def env(render_mode: str | None = None) -> TicTacToe:
    """The environment under the name by which PettingZoo's tools look for it."""
    return TicTacToe(render_mode=render_mode)
