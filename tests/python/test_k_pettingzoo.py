"""K. Two players."""

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


def compare_games(theirs, games, rng, illegal):
    """Plays games on both, comparing what players see (in every tenth game), get and are told; counts illegal moves."""
    ours, found = TicTacToe(), 0
    for game in range(games):
        ours.reset(), theirs.reset()
        free = list(range(9))
        while not any(theirs.terminations.values()):
            assert ours.agent_selection == theirs.agent_selection
            for name in theirs.agents if game % 10 == 0 else ():
                a, b = ours.observe(name), theirs.observe(name)
                assert np.array_equal(a["observation"], b["observation"])
                assert np.array_equal(a["action_mask"], b["action_mask"])
            action = int(rng.integers(9)) if illegal else free[int(rng.random() * len(free))]
            is_legal = action in free
            ours.step(action), theirs.step(action)
            assert ours.rewards == theirs.rewards
            assert ours.terminations == theirs.terminations and ours.truncations == theirs.truncations
            if is_legal:
                free.remove(action)
                assert ours.agent_selection == theirs.agent_selection
            found += not is_legal
    return found


def test_k2_games_are_those_of_pettingzoo(rng):
    """50,000 games, of which 2,000 go on until somebody moves illegally, which PettingZoo's `env()` judges."""
    reference = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    assert compare_games(reference.raw_env(), 48_000, rng, illegal=False) == 0
    assert compare_games(reference.env(), 2_000, rng, illegal=True) > 1_000


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


@pytest.mark.parametrize("opponent", ["random", "perfect", "self_play"])
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_k3_nobody_wins_by_an_illegal_move(opponent, mode, rng):
    """The mover loses, the other gets nothing (K2); a game lost on the board is won by the other."""
    env = phalanx.make_vec("TicTacToe-v0", 8, opponent=opponent, illegal="lose", autoreset_mode=mode)
    env.reset(seed=0)
    found, ended = {True: 0, False: 0}, np.zeros(8, bool)
    for _ in range(300):
        legal, actions = env.action_masks(), rng.integers(9, size=8)
        _, rewards, terminations, _, info = env.step(actions)
        for slot in np.flatnonzero((rewards < 0) & ~ended):
            is_foul = not legal[slot, actions[slot]]
            assert sorted(info["rewards_all"][slot].tolist()) == ([-1, 0] if is_foul else [-1, 1])
            found[is_foul] += 1
        ended = terminations if mode == "NextStep" else ended
    assert found[True] > 10 and (found[False] > 10 or opponent == "self_play")


@pytest.mark.parametrize(
    ("action", "kind"),
    [(9, ValueError), (-1, ValueError), (100, ValueError), (1.5, TypeError), ("3", TypeError), (True, TypeError),
     (float("nan"), TypeError), (None, TypeError), (np.array([1, 2]), TypeError)],
)
def test_what_is_no_square_is_refused(action, kind):
    game = TicTacToe()
    with pytest.raises(RuntimeError, match="call reset first"):
        game.step(0)
    game.reset(seed=1)
    with pytest.raises(kind, match="0 to 8|whole number"):
        game.step(action)
    assert game.agent_selection == "player_1" and game.observe("player_1")["action_mask"].all()
    game.step(np.int64(4))
    assert game.agent_selection == "player_2"
    with pytest.raises(ValueError, match="player_1 and player_2"):
        game.observe("player_3")


@pytest.mark.parametrize("call", [lambda game: game.observe("player_1"), lambda game: game.last(), lambda g: g.step(0)])
def test_a_game_that_has_not_begun_says_so(call):
    with pytest.raises(RuntimeError, match="the game has not begun: call reset first"):
        call(TicTacToe())


@pytest.mark.parametrize("name", ["observation_space", "action_space", "observe"])
def test_an_agent_that_is_none_is_told_with_those_there_are(name):
    with pytest.raises(ValueError, match="there is no agent 'x', only player_1 and player_2"):
        getattr(TicTacToe(), name)("x")
