//! Games of `TicTacToe-v0` against its random opponent, and the exact values of dynamic programming.

mod common;

use std::collections::HashMap;

use phalanx_core::batch::{Actions, ActionsMut, Autoreset, Batch, StepBuffers};

const ENVS: usize = 4_096;
/// Of each environment, the first ones: to stop at a step instead would favour short games.
const GAMES: usize = 25;
/// Moves of an agent, at most, in a game.
const MOVES: usize = 5;

const FULL: u32 = 0o777;

fn has_line(marks: u32) -> bool {
    [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124].iter().any(|line| marks & line == *line)
}

/// What came of the games in which the agent moved first, or second.
#[derive(Default)]
struct Tally {
    games: f64,
    /// Wins, draws, losses.
    ends: [f64; 3],
    moves: f64,
    squared_moves: f64,
}

impl Tally {
    /// Within four standard errors of shares that are exactly known, and of the mean they imply.
    #[track_caller]
    fn expect(&self, shares: [f64; 3]) {
        for (found, share) in self.ends.iter().zip(shares) {
            let error = (share * (1.0 - share) / self.games).sqrt();
            assert!((found / self.games - share).abs() <= 4.0 * error, "{:?} of {}", self.ends, self.games);
        }
        let mean = shares[0] - shares[2];
        let error = ((shares[0] + shares[2] - mean * mean) / self.games).sqrt();
        let found = (self.ends[0] - self.ends[2]) / self.games;
        assert!((found - mean).abs() <= 4.0 * error, "a mean reward of {found} instead of {mean}");
    }

    #[track_caller]
    fn expect_moves(&self, exact: f64) {
        let mean = self.moves / self.games;
        let error = ((self.squared_moves / self.games - mean * mean) / self.games).sqrt();
        assert!((mean - exact).abs() <= 4.0 * error, "{mean} moves instead of {exact}");
    }
}

/// Own marks and the opponent's, a bit for each cell, of an agent who is to move.
fn marks(board: &[f32]) -> (u32, u32, bool) {
    let of = |mark| (0..9).filter(|cell| board[*cell] == mark).fold(0_u32, |bits, cell| bits | 1 << cell);
    let (x, o) = (of(1.0), of(2.0));
    // X begins, so it is X's turn where both have as many.
    if x.count_ones() == o.count_ones() { (x, o, true) } else { (o, x, false) }
}

/// Plays with actions that `decide` writes for all boards; tallies of moving first and second.
fn play(seed: u64, mut decide: impl FnMut(&mut dyn Batch, &[f32], &mut [i32])) -> [Tally; 2] {
    let mut batch = common::batch("TicTacToe-v0", &common::config(ENVS, seed, Autoreset::SameStep));
    let mut buffers = StepBuffers::new(ENVS, 10);
    batch.observe_into((&mut buffers.obs).into()).unwrap();
    let (mut actions, mut played) = (vec![0; ENVS], vec![0; ENVS]);
    let mut tallies = <[Tally; 2]>::default();
    for _ in 0..GAMES * MOVES {
        let first: Vec<bool> = buffers.obs.chunks_exact(10).map(|board| marks(board).2).collect();
        decide(batch.as_mut(), &buffers.obs, &mut actions);
        batch.step_into(Actions::Discrete(&actions), buffers.out()).unwrap();
        for env in (0..ENVS).filter(|env| buffers.terminated[*env]) {
            played[env] += 1;
            if played[env] > GAMES {
                continue;
            }
            let tally = &mut tallies[usize::from(!first[env])];
            let moves = f64::from(buffers.final_lengths[env]);
            tally.games += 1.0;
            // A reward of 1, 0 or -1, for the last move only.
            assert_eq!(buffers.final_returns[env], buffers.rewards[env]);
            tally.ends[(1.0 - buffers.rewards[env]) as usize] += 1.0;
            tally.moves += moves;
            tally.squared_moves += moves * moves;
        }
    }
    assert!(played.iter().all(|games| *games >= GAMES));
    let [first, second] = &tallies;
    let games = first.games + second.games;
    assert!(games >= 100_000.0 && (first.games - second.games).abs() <= 4.0 * games.sqrt(), "a fair coin");
    tallies
}

#[test]
fn random_play_has_the_exact_shares() {
    let mut rollout = None;
    let [first, second] = play(3, |batch, _, actions| {
        let rollout = rollout.get_or_insert_with(|| common::rollout(batch, "random", &[]));
        batch.decide_into(rollout, ActionsMut::Discrete(actions)).unwrap();
    });
    // Of random games X wins 737 of 1260, O 363, and 160 are drawn: the mean is 0.2968254 for who is X.
    let [x, draw, o] = [737.0, 160.0, 363.0].map(|games| games / 1260.0);
    first.expect([x, draw, o]);
    second.expect([o, draw, x]);
    first.expect_moves(4.169_048);
    second.expect_moves(3.457_143);
}

/// Value and cell of the best move against a random opponent, for every position below.
fn best(own: u32, other: u32, known: &mut HashMap<(u32, u32), (f64, i32)>) -> f64 {
    if let Some((value, _)) = known.get(&(own, other)) {
        return *value;
    }
    let mut best_move = (f64::MIN, 0);
    for cell in (0..9).filter(|cell| (own | other) >> cell & 1 == 0) {
        let own = own | 1 << cell;
        let value = if has_line(own) {
            1.0
        } else if own | other == FULL {
            0.0
        } else {
            let replies: Vec<u32> = (0..9).filter(|cell| (own | other) >> cell & 1 == 0).collect();
            let values = replies.iter().map(|reply| {
                let other = other | 1 << reply;
                match (has_line(other), own | other == FULL) {
                    (true, _) => -1.0,
                    (_, true) => 0.0,
                    _ => best(own, other, known),
                }
            });
            values.sum::<f64>() / replies.len() as f64
        };
        if value > best_move.0 {
            best_move = (value, cell);
        }
    }
    known.insert((own, other), best_move);
    best_move.0
}

/// The published values of optimal play, computed anew and then earned.
#[test]
fn optimal_play_has_the_published_values() {
    let mut known = HashMap::new();
    let first = best(0, 0, &mut known);
    let second = (0..9).map(|cell| best(0, 1 << cell, &mut known)).sum::<f64>() / 9.0;
    assert!((first - 191.0 / 192.0).abs() < 1e-12 && (second - 874.0 / 945.0).abs() < 1e-12);
    let tallies = play(4, |_, boards, actions| {
        for (action, board) in actions.iter_mut().zip(boards.chunks_exact(10)) {
            let (own, other, _) = marks(board);
            *action = known[&(own, other)].1;
        }
    });
    // The published shares, exact to their digits: 5e-6, where a standard error is above 3e-4.
    tallies[0].expect([0.994_79, 0.005_21, 0.0]);
    tallies[1].expect([0.932_28, 0.060_32, 0.007_40]);
}
