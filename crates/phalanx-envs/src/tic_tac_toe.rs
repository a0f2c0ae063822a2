//! `TicTacToe-v0`: noughts and crosses on bitboards, against a random, a perfect or no opponent.
//!
//! Cells are numbered row by row, 0 to 8; a player's marks are a mask of nine bits. X moves first. A coin
//! at the start of an episode decides whether the agent is X or O; if it is O, the opponent has already made
//! a random move. A number drawn then, the state's `luck`, decides all further moves of a random opponent. A
//! step is the agent's move, then, if that did not end the game, the opponent's. The reward is 1 for a win of
//! the agent, −1 for one of the opponent, else 0.
//!
//! With `opponent=self_play` the agent moves for both sides in turn, X first, and the reward is that of the
//! side that has just moved.
//!
//! Only empty cells are legal. An illegal move is an error; with `illegal=lose` it loses the game instead. The mask of a
//! finished game has its empty cells as well: nobody moves there, since the next call starts a game or is refused, and
//! no learner asks, since what follows a terminated step is worth 0.
//!
//! The observation is the nine cells, 0 empty, 1 X, 2 O, and the index Σ cell(i) 3^(8−i).

use std::sync::LazyLock;

use phalanx_core::env::{Discrete, LaneEnv, Step};
use phalanx_core::lane_struct;
use phalanx_core::lanes::{LaneValue, Real, Uint};
use phalanx_core::rng::{self, Draws};
use phalanx_core::space::{ActionMask, ActionSpace, EnvSpec, ObservationSpace, OptionInfo};

/// Who answers the agent's moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Opponent {
    /// Uniform over the empty cells.
    #[default]
    Random,
    /// Never loses; of equally good moves it takes the one of the lowest cell.
    Perfect,
    /// Nobody: the agent moves for both.
    SelfPlay,
}

const OPPONENTS: [(&str, Opponent); 3] =
    [("random", Opponent::Random), ("perfect", Opponent::Perfect), ("self_play", Opponent::SelfPlay)];

/// The environment and its options.
#[derive(Clone, Debug, Default)]
pub struct TicTacToe {
    opponent: Opponent,
    illegal_loses: bool,
}

lane_struct! {
    /// The board.
    pub struct State<R> {
        /// Cells with an X, a bit each.
        x: R::Uint,
        /// Cells with an O, a bit each.
        o: R::Uint,
        /// 0 if the agent's next mark is an X, 1 if it is an O.
        side: R::Uint,
        /// Decides all moves of the random opponent: below [`LUCK`], uniform at the start of a game.
        luck: R::Uint,
    }
}

const FULL: u32 = 0o777;
const CELLS: u32 = 9;

/// Two players' marks in one word.
const OTHER: u32 = 16;

/// A bit for each line of a player, and above bit [`OTHER`] for each of the other, if there is one.
#[inline(always)]
fn lines<U: Uint>(marks: U) -> U {
    // A bit survives where a line starts: three in a row (cells 0, 3, 6), in a column (0, 1, 2), and the
    // two diagonals.
    let along = |by: u32, starts: u32| marks.shr(by) & marks.shr(2 * by) & U::splat(starts | starts << OTHER);
    marks & (along(1, 0o111) | along(3, 0o007) | along(4, 0o001) | along(2, 0o004))
}

/// Where a player has a line.
#[inline(always)]
fn has_line<U: Uint>(marks: U) -> U::Mask {
    !lines(marks).eq(U::splat(0))
}

/// Σ 3^(8−i) over the set bits.
#[inline(always)]
fn ternary<U: Uint>(cells: U) -> U {
    (0..CELLS).fold(U::splat(0), |sum, cell| {
        sum.wrapping_add((cells.shr(cell) & U::splat(1)).mul_low(U::splat(3_u32.pow(8 - cell))))
    })
}

/// The least common multiple of 8·6·4·2 and 9·7·5·3: the ways in which an opponent who moves second, or
/// first, can choose among the empty cells all through a game.
const LUCK: u32 = 120_960;

/// Shares `luck` out among `count` choices: which of them it is, and the luck that remains.
///
/// Luck that is uniform over the multiples of m below [`LUCK`] makes the choice uniform and leaves, whatever
/// the choice, luck that is uniform over the multiples of m·`count`, if that divides [`LUCK`].
#[inline(always)]
fn share<U: Uint>(luck: U, count: U) -> (U, U) {
    let product = luck.mul_low(count);
    // `product / LUCK` for up to nine choices; LUCK is 128 · 945.
    let choice = product.shr(7).mul_low(U::splat(17_754)).shr(24);
    (choice, product.wrapping_sub(choice.mul_low(U::splat(LUCK))))
}

/// A random cell of those that are empty, as a bit, and the luck that remains; no meaning if none is.
#[inline(always)]
fn random_move<U: Uint>(empty: U, luck: U) -> (U, U) {
    let (rank, luck) = share(luck, rng::count_bits(empty, CELLS));
    (rng::ranked_bit(empty, rank, CELLS).bit(), luck)
}

/// The best answer on every board, as a bit, by the board's index; 0 where the game is over.
static PERFECT: LazyLock<Vec<u16>> = LazyLock::new(|| {
    let mut moves = vec![0; 3_usize.pow(CELLS)];
    solve(0, 0, &mut moves, &mut vec![None; 3_usize.pow(CELLS)]);
    moves
});

/// The best answer on a board; none on what is no board.
fn best(index: u32) -> u16 {
    PERFECT.get(index as usize).copied().unwrap_or(0)
}

/// The value of a position for the player to move (`own`), noting the best move of every position below it.
fn solve(own: u32, other: u32, moves: &mut [u16], known: &mut [Option<i8>]) -> i8 {
    let x_to_move = own.count_ones() == other.count_ones();
    let (x, o) = if x_to_move { (own, other) } else { (other, own) };
    let index = (ternary(x) + 2 * ternary(o)) as usize;
    if let Some(value) = known[index] {
        return value;
    }
    let value = if has_line(other) {
        -1
    } else if own | other == FULL {
        0
    } else {
        let mut best = -2;
        for cell in (0..CELLS).filter(|cell| (own | other) >> cell & 1 == 0) {
            let value = -solve(other, own | 1 << cell, moves, known);
            if value > best {
                best = value;
                moves[index] = 1 << cell;
            }
        }
        best
    };
    known[index] = Some(value);
    value
}

impl TicTacToe {
    /// The opponent's move, as a bit, and the luck that remains; `board` tells the marks of X and O.
    #[inline(always)]
    fn answer<U: Uint>(&self, empty: U, luck: U, board: impl Fn() -> (U, U)) -> (U, U) {
        match self.opponent {
            Opponent::Random => random_move(empty, luck),
            Opponent::Perfect => {
                let (x, o) = board();
                let index = ternary(x).wrapping_add(ternary(o).shl(1));
                (U::from_lanes(|lane| f64::from(best(index.lane(lane)))), luck)
            }
            Opponent::SelfPlay => (U::splat(0), luck),
        }
    }
}

impl LaneEnv for TicTacToe {
    type State<R: Real> = State<R>;
    type Params<R: Real> = ();
    type Action<R: Real> = Discrete<R>;
    type Obs<R: Real> = [R; 10];

    fn spec(&self) -> EnvSpec {
        const NAMES: &[&str] =
            &["cell_0", "cell_1", "cell_2", "cell_3", "cell_4", "cell_5", "cell_6", "cell_7", "cell_8", "index"];
        let mut high = vec![2.0; 9];
        high.push(19_682.0);
        let opponent = OPPONENTS.iter().find(|(_, opponent)| *opponent == self.opponent).expect("listed").0;
        EnvSpec {
            options: vec![
                OptionInfo::choice(
                    "opponent",
                    opponent,
                    &["random", "perfect", "self_play"],
                    "who answers: a random player, a perfect one, or the agent itself",
                ),
                OptionInfo::choice(
                    "illegal",
                    if self.illegal_loses { "lose" } else { "error" },
                    &["error", "lose"],
                    "whether a move to a taken cell is an error or loses the game",
                ),
            ],
            action_mask: if self.illegal_loses { ActionMask::Advisory } else { ActionMask::Binding },
            reward_threshold: (self.opponent == Opponent::Random).then_some(0.95),
            ..EnvSpec::of::<Self>(
                "TicTacToe-v0",
                "three in a row against an opponent; the action is the cell, 0 to 8 row by row",
                ObservationSpace::vector(NAMES, vec![0.0; 10], high),
                ActionSpace::Discrete { n: CELLS },
                // A game has nine moves at most.
                10,
            )
        }
    }

    fn set_option(&mut self, name: &str, value: &str) {
        match name {
            "opponent" => {
                self.opponent = OPPONENTS.iter().find(|(name, _)| *name == value).expect("a known opponent").1;
            }
            "illegal" => self.illegal_loses = value == "lose",
            _ => unreachable!("no option {name} in the spec"),
        }
    }

    fn check_state(&self, &State { x, o, side, luck }: &State<f64>) -> Result<(), String> {
        let (board, of) = (x | o, |marks: u32| marks.count_ones());
        if board > FULL {
            return Err(format!("x ({x}) and o ({o}) must be below 512, a bit for each cell"));
        }
        if x & o != 0 {
            return Err(format!("x ({x}) and o ({o}) have a cell in common"));
        }
        if side > 1 || luck >= LUCK {
            return Err(format!("side ({side}) must be 0 or 1 and luck ({luck}) below {LUCK}"));
        }
        if has_line(x) || has_line(o) || board == FULL {
            return Err("the game is over, which only a snapshot can bring back".to_owned());
        }
        if of(x) != of(o) + side {
            let (who, more) = if side == 0 { ("X", "as many marks as") } else { ("O", "one mark less than") };
            return Err(format!(
                "{who} moves next and must have {more} the other, but x has {} and o {}",
                of(x),
                of(o)
            ));
        }
        Ok(())
    }

    #[inline(always)]
    fn reset<R: Real>(&self, (): &(), draws: &mut Draws<R>) -> State<R> {
        let zero = R::Uint::splat(0);
        if self.opponent == Opponent::SelfPlay {
            return State { x: zero, o: zero, side: zero, luck: zero };
        }
        let second = draws.bernoulli(R::splat(0.5));
        let luck = draws.below(LUCK);
        let (opening, remaining) = share(luck, R::Uint::splat(CELLS));
        State {
            x: opening.bit().keep(second),
            o: zero,
            side: R::Uint::masked(second, 1),
            luck: LaneValue::select(second, remaining, luck),
        }
    }

    #[inline(always)]
    fn step<R: Real>(&self, (): &(), state: &State<R>, cell: Discrete<R>, _: &mut Draws<R>) -> Step<State<R>, R> {
        // Bits rather than masks wherever possible: masks that meet other masks are expensive.
        let is_none = |bits: R::Uint| bits.eq(R::Uint::splat(0));
        let as_x = is_none(state.side);
        let select = <R::Uint as LaneValue>::select;
        let (own, other) = (select(as_x, state.x, state.o), select(as_x, state.o, state.x));
        let empty = (own | other) ^ R::Uint::splat(FULL);
        let mark = cell.0.bit();
        let illegal = mark & (own | other);
        let own = own | (mark & empty);
        let empty = empty ^ (mark & empty);

        // The answer to a move that has ended the game is made, and then not counted.
        let sides = |other| (select(as_x, own, other), select(as_x, other, own));
        let (reply, luck) = self.answer(empty, state.luck, || sides(other));
        let reply = reply & empty;
        let lines = lines(own | (other | reply).shl(OTHER));
        let over = illegal | (lines & R::Uint::splat(FULL));
        let goes_on = is_none(over);
        let other = other | reply.keep(goes_on);
        let loses = select(goes_on, lines.shr(OTHER), illegal);
        let reward = R::select(is_none(loses), R::splat(1.0).keep(!goes_on), R::splat(-1.0));
        let left = (empty ^ reply).keep(is_none(over | loses));
        let terminated = is_none(left);
        let side = if self.opponent == Opponent::SelfPlay { state.side ^ R::Uint::splat(1) } else { state.side };
        let (x, o) = sides(other);
        let state = State { x, o, side, luck };
        Step { state, reward, terminated }
    }

    #[inline(always)]
    fn observe<R: Real>(&self, (): &(), state: &State<R>) -> [R; 10] {
        let mut seen = [R::splat(0.0); 10];
        // Four bits for each cell but one, in an order of their own.
        let cells = rng::fan_out(state.x) | rng::fan_out(state.o).shl(1);
        for i in 0..8 {
            seen[4 * i % 9] = R::from_uint(cells.shr(4 * i as u32) & R::Uint::splat(3));
        }
        let one = R::Uint::splat(1);
        seen[5] = R::from_uint((state.x.shr(5) & one) | (state.o.shr(4) & one.shl(1)));
        seen[9] = seen[..9].iter().fold(R::splat(0.0), |index, cell| index.mul_add(R::splat(3.0), *cell));
        seen
    }

    const MASKED: bool = true;

    #[inline(always)]
    fn legal<R: Real>(&self, (): &(), state: &State<R>) -> R::Uint {
        (state.x | state.o) ^ R::Uint::splat(FULL)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::golden::exact;

    /// The eight lines.
    const LINES: [u32; 8] = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];

    /// All positions reachable from a board, and the number of games below it, by playing every move.
    fn explore(x: u32, o: u32, seen: &mut HashSet<(u32, u32)>) -> (u64, [u64; 3]) {
        seen.insert((x, o));
        let over = [has_line(x), has_line(o), x | o == FULL];
        if let Some(how) = over.iter().position(|over| *over) {
            let mut ends = [0; 3];
            ends[how] = 1;
            return (1, ends);
        }
        let x_moves = x.count_ones() == o.count_ones();
        let (mut games, mut ends) = (0, [0; 3]);
        for cell in (0..CELLS).filter(|cell| (x | o) >> cell & 1 == 0) {
            let mark = 1 << cell;
            let (more, new) = if x_moves { explore(x | mark, o, seen) } else { explore(x, o | mark, seen) };
            games += more;
            ends.iter_mut().zip(new).for_each(|(sum, n)| *sum += n);
        }
        (games, ends)
    }

    #[test]
    fn the_whole_game_has_the_known_size() {
        let mut seen = HashSet::new();
        let (games, ends) = explore(0, 0, &mut seen);
        assert_eq!((seen.len(), games), (5_478, 255_168));
        assert_eq!(ends, [131_184, 77_904, 46_080]);
        let over = |&&(x, o): &&(u32, u32)| has_line(x) || has_line(o) || x | o == FULL;
        assert_eq!(seen.iter().filter(over).count(), 958);
    }

    #[test]
    fn lines_are_found_on_every_mask() {
        for marks in 0..=FULL {
            assert_eq!(has_line(marks), LINES.iter().any(|line| marks & line == *line), "{marks:o}");
        }
    }

    /// Over all luck, every series of choices that a game can ask for comes equally often.
    #[test]
    fn luck_decides_a_whole_game_without_bias() {
        for counts in [[8, 6, 4, 2], [9, 7, 5, 3]] {
            let mut series = HashMap::new();
            for start in 0..LUCK {
                let mut luck = start;
                let choices = counts.map(|count| {
                    let (choice, left) = share(luck, count);
                    assert_eq!((choice, left), (luck * count / LUCK, luck * count % LUCK));
                    luck = left;
                    choice
                });
                *series.entry(choices).or_insert(0) += 1;
            }
            let all: u32 = counts.iter().product();
            assert_eq!(series.len(), all as usize);
            assert!(series.values().all(|often| *often == LUCK / all));
        }
    }

    #[test]
    fn every_empty_cell_is_as_likely() {
        for empty in 1..=FULL {
            let mut often = HashMap::new();
            // A multiple of every number of cells.
            (0..LUCK).step_by(48).for_each(|luck| *often.entry(random_move(empty, luck).0).or_insert(0) += 1);
            assert_eq!(often.keys().fold(0, |cells, cell| cells | cell), empty);
            assert_eq!(often.len() as u32, empty.count_ones());
            assert!(often.values().all(|n| *n == 2_520 / empty.count_ones()), "{empty:o}");
        }
    }

    /// Masks, observations, rewards and ends on every reachable position and every cell, through the probe.
    #[test]
    fn self_play_follows_the_rules_everywhere() {
        let mut seen = HashSet::new();
        explore(0, 0, &mut seen);
        let mut probe = exact(TicTacToe::default(), &[("opponent", "self_play")]);
        let mut losing = exact(TicTacToe::default(), &[("opponent", "self_play"), ("illegal", "lose")]);
        let empty_cells = |x: u32, o: u32| (0..CELLS).map(move |cell| (x | o) >> cell & 1 == 0).collect::<Vec<_>>();
        let mut finished = HashSet::new();
        for (x, o) in seen {
            if has_line(x) || has_line(o) || x | o == FULL {
                continue;
            }
            let side = u32::from(x.count_ones() > o.count_ones());
            let state = [x, o, side, 0].map(f64::from);
            probe.set_state(&state).unwrap();
            let empty = empty_cells(x, o);
            assert_eq!(probe.action_mask(), empty);
            let digits = (0..CELLS).map(|cell| (x >> cell & 1) + 2 * (o >> cell & 1));
            let index = digits.clone().fold(0, |index, digit| 3 * index + digit);
            let expected: Vec<_> = digits.chain([index]).map(|value| value as f32).collect();
            assert_eq!(probe.observation(), expected);
            for cell in 0..CELLS {
                probe.set_state(&state).unwrap();
                losing.set_state(&state).unwrap();
                if !empty[cell as usize] {
                    assert!(probe.step(&[f64::from(cell)]).is_err());
                    let step = losing.step(&[f64::from(cell)]).unwrap();
                    assert!(step.terminated && step.reward == -1.0);
                    assert_eq!(losing.state()[..2], state[..2]);
                    continue;
                }
                let step = probe.step(&[f64::from(cell)]).unwrap();
                let (x, o) = if side == 0 { (x | 1 << cell, o) } else { (x, o | 1 << cell) };
                let won = LINES.iter().any(|line| x & line == *line || o & line == *line);
                assert_eq!(step.reward, f64::from(u8::from(won)));
                assert_eq!(step.terminated, won || x | o == FULL);
                assert_eq!(probe.state(), [x, o, 1 - side, 0].map(f64::from));
                // Finished games can only be reached by playing.
                assert_eq!(probe.action_mask(), empty_cells(x, o));
                if step.terminated {
                    finished.insert((x, o));
                }
            }
        }
        assert_eq!(finished.len(), 958);
    }

    #[test]
    fn impossible_boards_are_refused() {
        let mut probe = exact(TicTacToe::default(), &[]);
        for (state, part) in [
            ([512.0, 0.0, 0.0, 0.0], "below 512"),
            ([3.0, 6.0, 0.0, 0.0], "a cell in common"),
            ([1.0, 2.0, 2.0, 0.0], "side (2) must be 0 or 1"),
            ([1.0, 2.0, 0.0, 120_960.0], "luck (120960) below 120960"),
            ([1.0, 0.0, 0.0, 0.0], "X moves next and must have as many marks as the other, but x has 1 and o 0"),
            ([1.0, 2.0, 1.0, 0.0], "O moves next and must have one mark less than the other"),
            ([7.0, 24.0, 1.0, 0.0], "the game is over, which only a snapshot can bring back"),
            // The agent has just won, so that nobody moves next.
            ([7.0, 24.0, 0.0, 0.0], "the game is over"),
            ([1.5, 2.0, 0.0, 0.0], "x of the state is 1.5, but must be a whole number"),
            ([-1.0, 2.0, 0.0, 0.0], "x of the state is -1, but must be a whole number"),
        ] {
            let message = probe.set_state(&state).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        probe.set_state(&[1.0, 2.0, 0.0, 7.0]).unwrap();
    }

    #[test]
    fn perfect_play_never_loses() {
        // Against every line of play of the other side, moving first and second.
        fn worst(own: u32, other: u32, own_turn: bool) -> i8 {
            if has_line(own) {
                return 1;
            }
            if has_line(other) {
                return -1;
            }
            if own | other == FULL {
                return 0;
            }
            if own_turn {
                let x_moves = own.count_ones() == other.count_ones();
                let (x, o) = if x_moves { (own, other) } else { (other, own) };
                let reply = u32::from(PERFECT[(ternary(x) + 2 * ternary(o)) as usize]);
                assert!(reply.is_power_of_two() && reply & (own | other) == 0);
                return worst(own | reply, other, false);
            }
            let cells = (0..CELLS).filter(|cell| (own | other) >> cell & 1 == 0);
            cells.map(|cell| worst(own, other | 1 << cell, true)).min().expect("a free cell")
        }
        assert_eq!((worst(0, 0, true), worst(0, 0, false)), (0, 0));
        // Whatever the agent does, the environment's perfect opponent does not lose either.
        let mut probe = exact(TicTacToe::default(), &[("opponent", "perfect")]);
        for game in 0..500 {
            let mut choice: u32 = game;
            loop {
                let legal: Vec<_> = (0..9).filter(|cell| probe.action_mask()[*cell]).collect();
                let cell = legal[choice as usize % legal.len()];
                choice = choice.wrapping_mul(0x9e37_79b1) >> 3;
                let step = probe.step(&[cell as f64]).unwrap();
                assert!(step.reward <= 0.0);
                if step.terminated {
                    break;
                }
            }
            probe.next_episode();
        }
    }
}
