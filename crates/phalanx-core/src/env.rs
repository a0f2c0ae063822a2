//! The environment trait over lanes, and the small structs it is made of.
//!
//! To add an environment, write one file with one `impl` of [`LaneEnv`]; `CONTRIBUTING.md` walks
//! through it.

use wide::f32x4;

use crate::batch::Actions;
use crate::error::Result;
use crate::lanes::{BLOCK, LaneValue, Lanes, Line, Real, Uint};
use crate::policy::{Decision, LanePolicy};
use crate::rng::Draws;
use crate::safety::{Constraint, SafetyMode};
use crate::space::{EnvSpec, ParamInfo};

/// A plain struct of lanes; [`lane_struct!`](crate::lane_struct) implements it.
pub trait LaneStruct<R: Real>: Copy + std::fmt::Debug + Send + Sync {
    /// The fields' names, in order.
    const NAMES: &'static [&'static str];
    /// Field by field `if_true` where the mask holds, `if_false` elsewhere.
    fn select(mask: R::Mask, if_true: Self, if_false: Self) -> Self;
    /// Builds the struct from `value(field, lane)`.
    fn from_values(value: impl Fn(usize, usize) -> f64) -> Self;
    /// One lane of one field.
    fn value(&self, field: usize, lane: usize) -> f64;
    /// Reads the fields from one line each.
    fn load(lines: &[Line], lane: usize) -> Self
    where
        R: Lanes;
    /// Reads field `i` from `line(i)`.
    fn load_from<'a>(line: impl Fn(usize) -> &'a Line, lane: usize) -> Self
    where
        R: Lanes;
    /// Writes the fields to one line each.
    fn store(&self, lines: &mut [Line], lane: usize)
    where
        R: Lanes;
}

/// A policy without memory, an environment without parameters.
impl<R: Real> LaneStruct<R> for () {
    const NAMES: &'static [&'static str] = &[];
    #[inline(always)]
    fn select(_mask: R::Mask, _if_true: Self, _if_false: Self) -> Self {}
    fn from_values(_value: impl Fn(usize, usize) -> f64) -> Self {}
    fn value(&self, field: usize, _lane: usize) -> f64 {
        panic!("() has no field {field}")
    }
    #[inline(always)]
    fn load(_lines: &[Line], _lane: usize) -> Self
    where
        R: Lanes,
    {
    }
    #[inline(always)]
    fn load_from<'a>(_line: impl Fn(usize) -> &'a Line, _lane: usize) -> Self
    where
        R: Lanes,
    {
    }
    #[inline(always)]
    fn store(&self, _lines: &mut [Line], _lane: usize)
    where
        R: Lanes,
    {
    }
}

/// Declares a struct of lanes and implements [`LaneStruct`](crate::env::LaneStruct) for it.
///
/// A field is a real, `R`, or an integer, `R::Uint`.
///
/// ```
/// use phalanx_core::{env::LaneStruct, lane_struct};
///
/// lane_struct! {
///     /// A ball.
///     pub struct Ball<R> {
///         /// m
///         height: R,
///         /// m/s
///         speed: R,
///         bounces: R::Uint,
///     }
/// }
/// assert_eq!(<Ball<f32> as LaneStruct<f32>>::NAMES, ["height", "speed", "bounces"]);
/// ```
#[macro_export]
macro_rules! lane_struct {
    ($(#[$meta:meta])* $vis:vis struct $name:ident<R> {
        $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name<R: $crate::lanes::Real> {
            $($(#[$field_meta])* #[allow(missing_docs)] pub $field: $type,)*
        }

        impl<R: $crate::lanes::Real> $crate::env::LaneStruct<R> for $name<R> {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];
            #[inline(always)]
            fn select(mask: R::Mask, if_true: Self, if_false: Self) -> Self {
                Self { $($field: $crate::lanes::LaneValue::select(mask, if_true.$field, if_false.$field),)* }
            }
            #[inline(always)]
            fn from_values(value: impl Fn(usize, usize) -> f64) -> Self {
                let mut field = 0..;
                let mut next = || field.next().expect("endless");
                Self { $($field: { let i = next(); $crate::lanes::LaneValue::from_lanes(|lane| value(i, lane)) },)* }
            }
            fn value(&self, field: usize, lane: usize) -> f64 {
                [$($crate::lanes::LaneValue::lane_f64(self.$field, lane)),*][field]
            }
            #[inline(always)]
            fn load(lines: &[$crate::lanes::Line], lane: usize) -> Self
            where
                R: $crate::lanes::Lanes,
            {
                let [$($field),*] = lines else { panic!("a line per field") };
                Self { $($field: $crate::lanes::Stored::load($field, lane),)* }
            }
            #[inline(always)]
            fn load_from<'a>(line: impl Fn(usize) -> &'a $crate::lanes::Line, lane: usize) -> Self
            where
                R: $crate::lanes::Lanes,
            {
                let mut field = 0..;
                let mut next = || line(field.next().expect("endless"));
                Self { $($field: $crate::lanes::Stored::load(next(), lane),)* }
            }
            #[inline(always)]
            fn store(&self, lines: &mut [$crate::lanes::Line], lane: usize)
            where
                R: $crate::lanes::Lanes,
            {
                let [$($field),*] = lines else { panic!("a line per field") };
                $($crate::lanes::Stored::store(self.$field, $field, lane);)*
            }
        }
    };
}

/// Declares an environment's parameters: a [`lane_struct!`](crate::lane_struct) of reals plus the table
/// that gives each its default, its allowed range and its meaning.
#[macro_export]
macro_rules! lane_params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($field:ident = $default:expr, $min:expr => $max:expr, $description:literal;)*
    }) => {
        $crate::lane_struct! {
            $(#[$meta])* $vis struct $name<R> { $(#[doc = $description] $field: R),* }
        }
        impl<R: $crate::lanes::Real> $crate::env::LaneParams<R> for $name<R> {
            const INFO: &'static [$crate::space::ParamInfo] = &[$($crate::space::ParamInfo {
                name: stringify!($field),
                default: $default,
                min: $min,
                max: $max,
                description: $description,
            }),*];
        }
    };
}

/// Parameters of an environment; [`lane_params!`](crate::lane_params) implements it.
pub trait LaneParams<R: Real>: LaneStruct<R> {
    /// Name, default, range and meaning of each field, in order.
    const INFO: &'static [ParamInfo];
}

impl<R: Real> LaneParams<R> for () {
    const INFO: &'static [ParamInfo] = &[];
}

/// An observation: an array of lanes.
pub trait LaneArray<R: Real>: Copy + Send + Sync + AsRef<[R]> {
    /// Component by component `if_true` where the mask holds, `if_false` elsewhere.
    fn select(mask: R::Mask, if_true: Self, if_false: Self) -> Self;
    /// Writes the first `rows` lanes as rows of a row-major array.
    fn write_rows(&self, rows: usize, out: &mut [f32])
    where
        R: Lanes;
}

impl<R: Real, const N: usize> LaneArray<R> for [R; N] {
    #[inline(always)]
    fn select(mask: R::Mask, if_true: Self, if_false: Self) -> Self {
        std::array::from_fn(|i| R::select(mask, if_true[i], if_false[i]))
    }

    #[inline(always)]
    fn write_rows(&self, rows: usize, out: &mut [f32])
    where
        R: Lanes,
    {
        let mut columns = [[0.0; BLOCK]; N];
        for (column, value) in columns.iter_mut().zip(self) {
            value.write_to(column);
        }
        if N == 4 && rows == R::LANES && rows >= 4 {
            // Four columns are common; left to itself the compiler moves them one scalar at a time.
            for (lane, out) in (0..R::LANES).step_by(4).zip(out.chunks_exact_mut(16)) {
                let quarter = |k: usize| f32x4::new(columns[k][lane..lane + 4].try_into().expect("four lanes"));
                let rows = f32x4::transpose([quarter(0), quarter(1), quarter(2), quarter(3)]);
                out.copy_from_slice(bytemuck::cast_slice(&rows));
            }
            return;
        }
        for (lane, row) in out.chunks_exact_mut(N).take(rows).enumerate() {
            for (cell, column) in row.iter_mut().zip(&columns) {
                *cell = column[lane];
            }
        }
    }
}

/// An action in lanes: [`Discrete`] or an array of reals.
pub trait LaneAction<R: Real>: Copy {
    /// What a policy decided, as an action.
    fn from_decision<P: LanePolicy>(decision: &mut Decision<'_, P, R>) -> Self;
    /// The actions of `rows` environments from `env` on.
    fn gather(actions: &Actions<'_>, env: usize, rows: usize) -> Self
    where
        R: Lanes;
    /// The same action in every lane, from one value per component.
    fn from_components(components: &[f64]) -> Self;
    /// One component as a real number.
    fn component(&self, k: usize) -> R;
}

/// The index of a discrete action.
#[derive(Clone, Copy, Debug)]
pub struct Discrete<R: Real>(pub R::Uint);

impl<R: Real> Discrete<R> {
    /// Where the action is `index`.
    #[inline(always)]
    pub fn is(self, index: u32) -> R::Mask {
        self.0.eq(R::Uint::splat(index))
    }

    /// The index as a real number.
    #[inline(always)]
    pub fn to_real(self) -> R {
        R::from_uint(self.0)
    }
}

impl<R: Real> LaneAction<R> for Discrete<R> {
    #[inline(always)]
    fn from_decision<P: LanePolicy>(decision: &mut Decision<'_, P, R>) -> Self {
        Self(decision.index())
    }

    #[inline(always)]
    fn gather(actions: &Actions<'_>, env: usize, rows: usize) -> Self
    where
        R: Lanes,
    {
        let Actions::Discrete(indices) = actions else { unreachable!("checked at the door") };
        let mut line = Line::default();
        if rows == R::LANES {
            line.0[..R::LANES].copy_from_slice(bytemuck::cast_slice(&indices[env..env + R::LANES]));
        } else {
            line.0[..rows].copy_from_slice(bytemuck::cast_slice(&indices[env..env + rows]));
        }
        Self(crate::lanes::Stored::load(&line, 0))
    }

    fn from_components(components: &[f64]) -> Self {
        Self(R::Uint::splat(components[0] as u32))
    }

    #[inline(always)]
    fn component(&self, _k: usize) -> R {
        self.to_real()
    }
}

impl<R: Real, const K: usize> LaneAction<R> for [R; K] {
    #[inline(always)]
    fn from_decision<P: LanePolicy>(decision: &mut Decision<'_, P, R>) -> Self {
        // A plain loop: the closure of `from_fn` was not inlined, and a call in a roll-out spills the whole group.
        let mut action = [R::splat(0.0); K];
        for (k, component) in action.iter_mut().enumerate() {
            *component = decision.component(k);
        }
        action
    }

    #[inline(always)]
    fn gather(actions: &Actions<'_>, env: usize, rows: usize) -> Self
    where
        R: Lanes,
    {
        let Actions::Continuous(values) = actions else { unreachable!("checked at the door") };
        if K == 1 && rows == R::LANES {
            return [R::from_slice(&values[env..env + R::LANES]); K];
        }
        let rows = &values[env * K..(env + rows) * K];
        std::array::from_fn(|k| {
            let mut column = [0.0; BLOCK];
            for (cell, row) in column.iter_mut().zip(rows.chunks_exact(K)) {
                *cell = row[k];
            }
            R::from_slice(&column)
        })
    }

    fn from_components(components: &[f64]) -> Self {
        std::array::from_fn(|k| R::splat(components[k]))
    }

    #[inline(always)]
    fn component(&self, k: usize) -> R {
        self[k]
    }
}

/// What a step gives: the new state, the reward, and whether the task itself ended.
///
/// The engine adds what is the same for all environments: the step limit, autoreset, statistics.
#[derive(Clone, Copy, Debug)]
pub struct Step<S, R: Real> {
    /// The state after the step.
    pub state: S,
    /// The reward of the step.
    pub reward: R,
    /// Where the task ended.
    pub terminated: R::Mask,
}

/// An environment as pure functions over lanes.
///
/// The same functions serve one environment in `f64` and sixteen in a pair of SIMD registers. They
/// never branch on data; they compare to a mask and select.
pub trait LaneEnv: Clone + Send + Sync + 'static {
    /// What changes from step to step.
    type State<R: Real>: LaneStruct<R>;
    /// Constants, one set for all environments or one for each.
    type Params<R: Real>: LaneParams<R>;
    /// [`Discrete`], or `[R; K]` for a box.
    type Action<R: Real>: LaneAction<R>;
    /// `[R; N]`.
    type Obs<R: Real>: LaneArray<R>;

    /// Names, spaces and limits.
    fn spec(&self) -> EnvSpec;

    /// Makes a batch-wide choice; `name` and `value` are already known to be in [`EnvSpec::options`].
    fn set_option(&mut self, name: &str, value: &str) {
        unreachable!("no option {name} = {value} in the spec");
    }

    /// Hears of the constraints in force, its own and the user's, and what follows from a violation. The
    /// engine compares and penalises; this is for what happens inside of a step.
    fn set_safety(&mut self, _mode: SafetyMode, _constraints: &[Constraint]) {}

    /// Checks what a range per parameter cannot say, such as one bound lying below another.
    fn check_params(&self, _params: &Self::Params<f64>) -> Result<(), String> {
        Ok(())
    }

    /// Checks that a state which a user sets can come about; its numbers are finite, and whole where they are
    /// integers.
    fn check_state(&self, _state: &Self::State<f64>) -> Result<(), String> {
        Ok(())
    }

    /// A start state.
    fn reset<R: Real>(&self, params: &Self::Params<R>, draws: &mut Draws<R>) -> Self::State<R>;

    /// One step.
    fn step<R: Real>(
        &self,
        params: &Self::Params<R>,
        state: &Self::State<R>,
        action: Self::Action<R>,
        draws: &mut Draws<R>,
    ) -> Step<Self::State<R>, R>;

    /// [`step`](Self::step) from a state whose observation is at hand, as in every roll-out: an environment that
    /// observes what its step needs, such as a sine, need not compute it again. Gives the same bits.
    #[inline(always)]
    fn step_seen<R: Real>(
        &self,
        params: &Self::Params<R>,
        state: &Self::State<R>,
        _seen: &Self::Obs<R>,
        action: Self::Action<R>,
        draws: &mut Draws<R>,
    ) -> Step<Self::State<R>, R> {
        self.step(params, state, action, draws)
    }

    /// What a policy sees of a state.
    fn observe<R: Real>(&self, params: &Self::Params<R>, state: &Self::State<R>) -> Self::Obs<R>;

    /// Whether [`LaneEnv::legal`] says anything; if not, it costs nothing.
    const MASKED: bool = false;

    /// The legal actions of a state, action `i` as bit `i`; for discrete spaces of at most 32 actions.
    #[inline(always)]
    fn legal<R: Real>(&self, _params: &Self::Params<R>, _state: &Self::State<R>) -> R::Uint {
        R::Uint::splat(u32::MAX)
    }

    /// Whether episodes last for hundreds of steps, so that a roll-out gains by asking first whether any has ended.
    ///
    /// Asking costs more than it saves where one of sixteen environments ends every few steps, as good as at random.
    const LONG_EPISODES: bool = false;

    /// Whether [`LaneEnv::counts`] says anything; if not, it costs nothing.
    const COUNTS: bool = false;

    /// What happened in the step that led to this state, as numbers that a run adds up. Their names are
    /// [`EnvSpec::counters`].
    #[inline(always)]
    fn counts<R: Real>(&self, _state: &Self::State<R>) -> [R::Uint; COUNTERS] {
        [R::Uint::splat(0); COUNTERS]
    }
}

/// Numbers that an environment may count.
pub const COUNTERS: usize = 2;

/// For [`LaneEnv::check_params`]: one parameter must not be above another. They are compared in single precision, in which
/// values of single environments are kept: 0.6 for all is not below 0.6 for each.
pub fn check_order(low_name: &str, low: f64, high_name: &str, high: f64) -> Result<(), String> {
    if low as f32 <= high as f32 {
        return Ok(());
    }
    Err(format!("{low_name} ({low}) is above {high_name} ({high})"))
}

/// `value` in every lane of `R`.
#[inline(always)]
pub(crate) fn broadcast<R: LaneValue>(value: f32) -> R {
    R::from_f64(f64::from(value))
}
