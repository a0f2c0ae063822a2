"""K. Two players."""

import logging

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from helpers import legal_actions  # noqa: E402
from pettingzoo.test import api_test, seed_test  # noqa: E402

import phalanx  # noqa: E402
from phalanx.pettingzoo import TicTacToe, env  # noqa: E402


def test_k1_pettingzoos_own_tests():
    api_test(TicTacToe(), num_cycles=1000)
    seed_test(env)


def test_k2_games_are_those_of_pettingzoo(rng):
    """50,000 games, some of which end by an illegal move, against PettingZoo's `env()`, which judges these."""
    reference = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    ours, theirs = TicTacToe(), reference.env()
    # The wrapper that ends illegal games says so in the log, every time.
    logging.getLogger("pettingzoo").setLevel(logging.ERROR)
    illegal = 0
    for game in range(50_000):
        ours.reset(), theirs.reset()
        while not any(theirs.terminations.values()):
            agent = theirs.agent_selection
            assert ours.agent_selection == agent
            seen = theirs.observe(agent)
            if game % 10 == 0:
                for name in theirs.agents:
                    a, b = ours.observe(name), theirs.observe(name)
                    assert np.array_equal(a["observation"], b["observation"])
                    assert np.array_equal(a["action_mask"], b["action_mask"])
            legal = np.flatnonzero(seen["action_mask"])
            action = int(rng.integers(9)) if game % 10 == 0 else int(legal[rng.integers(len(legal))])
            illegal += action not in legal
            ours.step(action), theirs.step(action)
            assert ours.rewards == theirs.rewards
            assert ours.terminations == theirs.terminations and ours.truncations == theirs.truncations
            if action in legal:
                assert ours.agent_selection == theirs.agent_selection
    assert illegal > 1_000


def test_k3_the_batched_form_agrees(rng):
    batch = phalanx.make_vec("TicTacToe-v0", 6, opponent="self_play", autoreset_mode="SameStep")
    _, info = batch.reset(seed=0)
    boards = [TicTacToe() for _ in range(6)]
    [board.reset() for board in boards]
    games = 0
    for _ in range(400):
        assert info["to_move"].tolist() == [board.possible_agents.index(board.agent_selection) for board in boards]
        actions = legal_actions(batch.action_masks(), rng)
        _, rewards, terminations, _, info = batch.step(actions)
        for slot, board in enumerate(boards):
            mover = board.agent_selection
            cell = int(actions[slot])
            board.step(cell % 3 * 3 + cell // 3)
            both = [board.rewards[name] for name in board.possible_agents]
            assert info["rewards_all"][slot].tolist() == both
            assert rewards[slot] == board.rewards[mover]
            assert terminations[slot] == board.terminations[mover]
            if terminations[slot]:
                board.reset()
                games += 1
    assert games > 100
