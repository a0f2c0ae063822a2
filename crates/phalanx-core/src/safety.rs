//! Safety: named constraints on what an environment shows, and what follows when one is violated.
//!
//! A [`Constraint`] bounds one signal, a component of the observation, the state or the action. After
//! every step the engine compares the **new** state with all constraints. The number of violated ones is
//! the step's cost. What else follows is the [`SafetyMode`]'s business.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::lanes::{BLOCK, Lanes, Line, Mask, Real, Uint};
use crate::space::{ActionSpace, Element, EnvSpec};

/// The most constraints an environment can have: a word has a bit for each.
pub const MAX_CONSTRAINTS: usize = 32;

/// What follows from a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SafetyMode {
    /// Penalties, and the end of the episode where a constraint says so.
    #[default]
    Enforce,
    /// Penalties only.
    Penalize,
    /// Costs and violations are reported; rewards and episodes are as without constraints.
    Monitor,
    /// Constraints are not looked at.
    Off,
}

impl SafetyMode {
    /// The modes by name.
    pub const NAMES: [(&'static str, Self); 4] =
        [("enforce", Self::Enforce), ("penalize", Self::Penalize), ("monitor", Self::Monitor), ("off", Self::Off)];

    /// The mode of this name.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::NAMES.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, mode)| mode).ok_or_else(|| Error::unknown("mode", name, None, Self::NAMES.map(|(name, _)| name)))
    }
}

impl std::fmt::Display for SafetyMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, _) = Self::NAMES.iter().find(|(_, mode)| mode == self).expect("every mode has a name");
        f.write_str(name)
    }
}

/// How a violation counts in the reward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The penalty takes the reward's place.
    Hard,
    /// The penalty is added to the reward.
    Soft,
}

/// A bound of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The limit.
    pub value: f64,
    /// Whether the limit itself is already a violation.
    pub strict: bool,
}

/// Bounds on a signal, and what a violation costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Constraint {
    /// Its name in reports.
    pub name: Cow<'static, str>,
    /// The component that it bounds: of the observation, else of the state, else of the action, if several have one
    /// of that name.
    pub signal: Cow<'static, str>,
    /// The lower bound, if any.
    pub low: Option<Bound>,
    /// The upper bound, if any.
    pub high: Option<Bound>,
    /// How a violation counts in the reward.
    pub severity: Severity,
    /// What is put in the reward's place or added to it; not positive.
    pub penalty: f64,
    /// Whether a violation ends the episode.
    pub terminates: bool,
}

/// The reward of a step that violates a hard constraint.
const HARD_PENALTY: f64 = -100.0;
/// What a violated soft constraint adds to the reward.
const SOFT_PENALTY: f64 = -1.0;

impl Constraint {
    /// `low <= signal <= high`; a violation ends the episode with a reward of -100. Infinite bounds bound
    /// nothing.
    pub fn hard(name: &'static str, signal: &'static str, low: f64, high: f64) -> Self {
        Self::named(name, signal, (low, high), Severity::Hard)
    }

    /// `low <= signal <= high`; a violation costs a reward of 1. Infinite bounds bound nothing.
    pub fn soft(name: &'static str, signal: &'static str, low: f64, high: f64) -> Self {
        Self::named(name, signal, (low, high), Severity::Soft)
    }

    fn named(name: &'static str, signal: &'static str, (low, high): (f64, f64), severity: Severity) -> Self {
        let bound = |value: f64| value.is_finite().then_some(Bound { value, strict: false });
        Self { low: bound(low), high: bound(high), ..Self::unbounded(name.into(), signal.into(), severity) }
    }

    fn unbounded(name: Cow<'static, str>, signal: Cow<'static, str>, severity: Severity) -> Self {
        let (penalty, terminates) = match severity {
            Severity::Hard => (HARD_PENALTY, true),
            Severity::Soft => (SOFT_PENALTY, false),
        };
        Self { name, signal, low: None, high: None, severity, penalty, terminates }
    }

    /// Reads what a user wrote, such as `temperature<=350:hard` or
    /// `0.5<CA<=0.9:soft:penalty=-2:terminate=true:name=band`. Without a word on it, a constraint is hard.
    ///
    /// ```
    /// use phalanx_core::safety::{Constraint, Severity};
    /// let constraint = Constraint::parse("temperature<=350:soft:penalty=-2").unwrap();
    /// assert_eq!((constraint.signal.as_ref(), constraint.high.unwrap().value), ("temperature", 350.0));
    /// assert_eq!((constraint.severity, constraint.penalty), (Severity::Soft, -2.0));
    /// ```
    ///
    /// # Errors
    ///
    /// One sentence that names what is not understood.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str, allowed: &str| {
            Error::out_of_range(format!("{what} of constraint '{text}'"), "not understood", allowed)
        };
        let mut parts = text.split(':').map(str::trim);
        let bounds = parts.next().unwrap_or_default();
        let (mut severity, mut penalty, mut terminates, mut name) = (None, None, None, None);
        for part in parts {
            let repeated =
                match part.split_once('=').map_or((part, None), |(key, value)| (key.trim(), Some(value.trim()))) {
                    ("hard", None) => severity.replace(Severity::Hard).is_some(),
                    ("soft", None) => severity.replace(Severity::Soft).is_some(),
                    ("penalty", Some(value)) => {
                        let number = value.parse().ok().filter(|p: &f64| p.is_finite() && *p <= 0.0);
                        let number =
                            number.ok_or_else(|| wrong("the penalty", "a finite number that is not positive"))?;
                        penalty.replace(number).is_some()
                    }
                    ("terminate", Some("true")) => terminates.replace(true).is_some(),
                    ("terminate", Some("false")) => terminates.replace(false).is_some(),
                    ("name", Some(value)) if !value.is_empty() && !value.contains(char::is_control) => {
                        name.replace(value.to_owned()).is_some()
                    }
                    _ => {
                        let allowed = "hard, soft, penalty=NUMBER, terminate=true, terminate=false or name=NAME";
                        return Err(wrong(&format!("the part ':{part}'"), allowed));
                    }
                };
            if repeated {
                let what = format!("the part ':{part}' of constraint '{text}'");
                return Err(Error::out_of_range(what, "the second of its kind", "the only one"));
            }
        }
        let (signal, low, high) = parse_bounds(bounds)
            .ok_or_else(|| wrong("the bounds", "such as temperature<=350, pressure>0 or 273<=temperature<=373"))?;
        let name = name.unwrap_or_else(|| bounds.to_owned());
        let constraint = Self::unbounded(name.into(), signal.into(), severity.unwrap_or(Severity::Hard));
        Ok(Self {
            low,
            high,
            penalty: penalty.unwrap_or(constraint.penalty),
            terminates: terminates.unwrap_or(constraint.terminates),
            ..constraint
        })
    }
}

impl std::fmt::Display for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = |bound: &Bound| if bound.strict { "<" } else { "<=" };
        write!(f, "{}: ", self.name)?;
        if let Some(low) = &self.low {
            write!(f, "{} {} ", low.value, sign(low))?;
        }
        f.write_str(&self.signal)?;
        if let Some(high) = &self.high {
            write!(f, " {} {}", sign(high), high.value)?;
        }
        let kind = match self.severity {
            Severity::Hard => "hard, the reward becomes",
            Severity::Soft => "soft, adds to the reward",
        };
        let end = if self.terminates { " and ends the episode" } else { "" };
        write!(f, " ({kind} {}{end})", self.penalty)
    }
}

/// The name and the bounds of `a <= name <= b` and its relatives.
fn parse_bounds(text: &str) -> Option<(String, Option<Bound>, Option<Bound>)> {
    // Operands and the operators between them.
    let (mut operands, mut operators) = (vec![], vec![]);
    let mut rest = text;
    while let Some(at) = rest.find(['<', '>']) {
        let wide = rest[at + 1..].starts_with('=');
        operands.push(rest[..at].trim());
        operators.push((rest[at..].starts_with('<'), !wide));
        rest = &rest[at + 1 + usize::from(wide)..];
    }
    operands.push(rest.trim());
    let is_name = |text: &str| text.starts_with(|c: char| c.is_alphabetic() || c == '_') && number(text).is_none();
    let number_bound = |text: &str, strict: bool| number(text).map(|value| Bound { value, strict });
    let (name, low, high) = match (operands.as_slice(), operators.as_slice()) {
        ([name, bound], [(true, strict)]) if is_name(name) => (name, None, Some(number_bound(bound, *strict)?)),
        ([name, bound], [(false, strict)]) if is_name(name) => (name, Some(number_bound(bound, *strict)?), None),
        ([bound, name], [(true, strict)]) => (name, Some(number_bound(bound, *strict)?), None),
        ([bound, name], [(false, strict)]) => (name, None, Some(number_bound(bound, *strict)?)),
        ([low, name, high], [(true, low_strict), (true, high_strict)]) => {
            (name, Some(number_bound(low, *low_strict)?), Some(number_bound(high, *high_strict)?))
        }
        ([high, name, low], [(false, high_strict), (false, low_strict)]) => {
            (name, Some(number_bound(low, *low_strict)?), Some(number_bound(high, *high_strict)?))
        }
        _ => return None,
    };
    is_name(name).then(|| ((*name).to_owned(), low, high))
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// The safety layer of a batch, as a user sets it up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SafetyConfig {
    /// What follows from a violation.
    pub mode: SafetyMode,
    /// Constraints beside the environment's own; one with the name of another takes its place.
    pub constraints: Vec<Constraint>,
}

/// Where a constraint finds its signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Signal {
    Observation(usize),
    State(usize),
    Action(usize),
}

impl Signal {
    /// The place among the signals of its kind.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        let (Self::Observation(at) | Self::State(at) | Self::Action(at)) = self;
        at
    }
}

/// A constraint, ready to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    signal: Signal,
    /// The smallest and the largest safe value in double precision.
    range: (f64, f64),
    /// The same in single precision, in every lane, and the penalty.
    lines: Limits<Line>,
    severity: Severity,
    penalty: f64,
    terminates: bool,
}

impl Rule {
    fn new(constraint: &Constraint, signal: Signal) -> Self {
        let Constraint { low, high, severity, penalty, terminates, .. } = *constraint;
        let range = (
            low.map_or(f64::NEG_INFINITY, |b| if b.strict { b.value.next_up() } else { b.value }),
            high.map_or(f64::INFINITY, |b| if b.strict { b.value.next_down() } else { b.value }),
        );
        let single = |bound: Option<Bound>, none: f32, nudged: fn(f32) -> f32| {
            let value = bound.map_or(none, |b| if b.strict { nudged(b.value as f32) } else { b.value as f32 });
            Line([value.to_bits(); BLOCK])
        };
        let lines = Limits {
            low: single(low, f32::NEG_INFINITY, f32::next_up),
            high: single(high, f32::INFINITY, f32::next_down),
            penalty: Line([(penalty as f32).to_bits(); BLOCK]),
        };
        Self { signal, range, lines, severity, penalty, terminates }
    }

    /// Whether no number is safe, as in `1 < x < 1`.
    fn is_empty(&self) -> bool {
        let Limits { low, high, .. } = self.limits::<f32>();
        low > high
    }

    /// What the rule compares with, for any number type.
    pub(crate) fn limits<R: Real>(&self) -> Limits<R> {
        let penalty = R::splat(self.penalty);
        if R::PARITY {
            return Limits { low: R::splat(self.range.0), high: R::splat(self.range.1), penalty };
        }
        // The least strict number beyond a bound is another one in single precision.
        let single = |line: &Line| R::splat(f64::from(f32::from_bits(line.0[0])));
        Limits { low: single(&self.lines.low), high: single(&self.lines.high), penalty }
    }

    /// The same for lanes, from memory: a broadcast in every step would cost as much as the comparison.
    #[inline(always)]
    pub(crate) fn lanes<R: Lanes>(&self) -> Limits<R> {
        self.lines.load()
    }
}

/// What a rule compares with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits<T> {
    /// The smallest and the largest safe value.
    low: T,
    high: T,
    penalty: T,
}

impl Limits<Line> {
    #[inline(always)]
    fn load<R: Lanes>(&self) -> Limits<R> {
        Limits { low: R::load(&self.low, 0), high: R::load(&self.high, 0), penalty: R::load(&self.penalty, 0) }
    }

    /// Keeps what is safe by another rule, too.
    fn narrow(&mut self, other: &Self) {
        let both = |ours: &Line, theirs: &Line, of: fn(f32, f32) -> f32| {
            Line([of(f32::from_bits(ours.0[0]), f32::from_bits(theirs.0[0])).to_bits(); BLOCK])
        };
        self.low = both(&self.low, &other.low, f32::max);
        self.high = both(&self.high, &other.high, f32::min);
    }
}

impl<R: Real> Limits<R> {
    #[inline(always)]
    fn contain(&self, value: R) -> R::Mask {
        // NaN satisfies no comparison, so it violates.
        self.low.le(value) & value.le(self.high)
    }
}

/// Constraints mostly look at the first signals of an observation. What is found by its number must be in
/// memory, and storing these is cheaper than storing all.
pub(crate) const HEAD: usize = 4;

/// What is safe of the first signals of an observation, unless a rule looks at any other signal.
fn head_of(rules: &[Rule]) -> Option<[Limits<Line>; HEAD]> {
    let line = |value: f32| Line([value.to_bits(); BLOCK]);
    let mut head = [Limits { low: line(f32::NEG_INFINITY), high: line(f32::INFINITY), penalty: line(0.0) }; HEAD];
    for rule in rules {
        match rule.signal {
            Signal::Observation(at) if at < HEAD => head[at].narrow(&rule.lines),
            _ => return None,
        }
    }
    Some(head)
}

/// The number of a rule, and what it compares with.
type Numbered = (usize, Limits<Line>);

/// The constraints of a batch, ready to be compared with states.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    mode: SafetyMode,
    rules: Vec<Rule>,
    /// What is safe of the first signals of an observation, if no rule looks at any other signal.
    head: Option<[Limits<Line>; HEAD]>,
    /// Of each of these signals the rules, if violations are but counted.
    counted: Option<[Vec<Numbered>; HEAD]>,
    /// Mode and constraints in words.
    text: String,
}

/// What the guard says of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict<R: Real> {
    /// The number of violated constraints.
    pub(crate) cost: R::Uint,
    /// The reward with its penalties.
    pub(crate) reward: R,
    /// Where a violation ends the episode.
    pub(crate) terminates: R::Mask,
}

impl Guard {
    /// The guard that a user wants for an environment; `spec` then has the constraints in force.
    pub(crate) fn new(config: &SafetyConfig, spec: &mut EnvSpec) -> Result<Self> {
        for (i, own) in config.constraints.iter().enumerate() {
            if config.constraints[..i].iter().any(|other| other.name == own.name) {
                return Err(Error::out_of_range("the name of a constraint", &own.name, "given once (see name=)"));
            }
            match spec.constraints.iter_mut().find(|c| c.name == own.name) {
                Some(constraint) => *constraint = own.clone(),
                None => spec.constraints.push(own.clone()),
            }
        }
        for constraint in &spec.constraints {
            if constraint.penalty.is_nan() || constraint.penalty > 0.0 {
                let what = format!("the penalty of constraint '{}'", constraint.name);
                return Err(Error::out_of_range(what, constraint.penalty, "a number that is not positive"));
            }
        }
        for constraint in &spec.constraints {
            // Batches compute in single precision.
            let bounds = [constraint.low, constraint.high].into_iter().flatten().map(|bound| bound.value);
            if let Some(value) = bounds.chain([constraint.penalty]).find(|value| !(*value as f32).is_finite()) {
                let what = format!("a number of constraint '{}'", constraint.name);
                return Err(Error::out_of_range(what, value, "at most 3.4e38 in size"));
            }
        }
        if spec.constraints.len() > MAX_CONSTRAINTS {
            let allowed = format!("at most {MAX_CONSTRAINTS}");
            return Err(Error::out_of_range("the number of constraints", spec.constraints.len(), allowed));
        }
        let rules =
            spec.constraints.iter().map(|constraint| Ok(Rule::new(constraint, find_signal(spec, &constraint.signal)?)));
        let rules = rules.collect::<Result<Vec<_>>>()?;
        if let Some((constraint, _)) = spec.constraints.iter().zip(&rules).find(|(_, rule)| rule.is_empty()) {
            let what = format!("the range of constraint '{}'", constraint.name);
            return Err(Error::out_of_range(what, "empty", "one that a number in single precision can lie in"));
        }
        if config.mode == SafetyMode::Off {
            spec.constraints.clear();
        }
        let words: Vec<_> = spec.constraints.iter().map(ToString::to_string).collect();
        let text = if words.is_empty() { "none".to_owned() } else { format!("{} {}", config.mode, words.join("; ")) };
        let rules = if words.is_empty() { Vec::new() } else { rules };
        let head = head_of(&rules);
        let of_signal = |at: usize| {
            let looks = |(_, rule): &(usize, &Rule)| rule.signal == Signal::Observation(at);
            rules.iter().enumerate().filter(looks).map(|(i, rule)| (i, rule.lines)).collect()
        };
        let counted = (head.is_some() && config.mode == SafetyMode::Monitor).then(|| std::array::from_fn(of_signal));
        Ok(Self { mode: config.mode, rules, head, counted, text })
    }

    /// Whether all constraints look at the first [`HEAD`] signals of the observation.
    #[inline(always)]
    pub(crate) fn head_only(&self) -> bool {
        self.head.is_some()
    }

    /// [`judge`](Self::judge) for guards that but count what happens to the first [`HEAD`] signals of the observation;
    /// `None` from all others.
    ///
    /// Signal by signal, so that none need be in memory to be found by its number.
    #[inline(always)]
    pub(crate) fn count<R: Lanes>(&self, obs: &[R], mut hear: impl FnMut(usize, R::Uint)) -> Option<R::Uint> {
        let mut cost = R::Uint::splat(0);
        for (rules, value) in self.counted.as_ref()?.iter().zip(obs) {
            for (i, limits) in rules {
                let one = R::Uint::masked(!limits.load::<R>().contain(*value), 1);
                hear(*i, one);
                cost = cost.wrapping_add(one);
            }
        }
        Some(cost)
    }

    /// Whether a step needs no judgement: nothing is watched, or all that is watched is safe and in this mode it
    /// pays to ask; `obs` is what is seen.
    ///
    /// The question is a branch on data. It pays where a judgement means penalties, too. Where violations are but
    /// counted it does not ([`judge`](Self::judge)).
    #[inline(always)]
    pub(crate) fn passes<R: Lanes>(&self, obs: &[R]) -> bool {
        if self.rules.is_empty() {
            return true;
        }
        let Some(head) = self.head.as_ref().filter(|_| self.penalizes()) else { return false };
        let safe = |all: R::Mask, (limits, value): (&Limits<Line>, &R)| all & limits.load().contain(*value);
        head.iter().zip(obs).fold(R::Mask::splat(true), safe).all()
    }

    #[inline(always)]
    fn penalizes(&self) -> bool {
        matches!(self.mode, SafetyMode::Enforce | SafetyMode::Penalize)
    }

    /// Whether there is anything to look at.
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Compares a step's results with all constraints; `limits` is [`Rule::limits`] or [`Rule::lanes`], and
    /// `hear` is told of each constraint, with 1 where it is violated and 0 elsewhere.
    ///
    /// No branch on data: in every third step of sixteen reactors something is violated, as good as at random, and
    /// to ask first whether anything is cost more than to judge always.
    #[inline(always)]
    pub(crate) fn judge<R: Real>(
        &self,
        reward: R,
        limits: impl Fn(&Rule) -> Limits<R>,
        signal: impl Fn(Signal) -> R,
        mut hear: impl FnMut(usize, R::Uint),
    ) -> Verdict<R> {
        let mut cost = R::Uint::splat(0);
        let penalize = self.penalizes();
        let mut penalties = Penalties::none();
        for (i, rule) in self.rules.iter().enumerate() {
            let limits = limits(rule);
            let broken = !limits.contain(signal(rule.signal));
            let one = R::Uint::masked(broken, 1);
            hear(i, one);
            cost = cost.wrapping_add(one);
            if penalize {
                penalties.add(rule, limits.penalty, broken);
            }
        }
        let reward = if penalize { penalties.applied_to(reward) } else { reward };
        let ends = self.mode == SafetyMode::Enforce;
        let terminates = if ends { penalties.terminates } else { R::Mask::splat(false) };
        Verdict { cost, reward, terminates }
    }

    /// [`judge`](Self::judge), and bit `i` where constraint `i` is violated.
    #[inline(always)]
    pub(crate) fn judge_bits<R: Real>(
        &self,
        reward: R,
        limits: impl Fn(&Rule) -> Limits<R>,
        signal: impl Fn(Signal) -> R,
    ) -> (Verdict<R>, R::Uint) {
        let mut violated = R::Uint::splat(0);
        let verdict = self.judge(reward, limits, signal, |i, one| violated = violated | one.shl(i as u32));
        (verdict, violated)
    }

    /// The number of constraints.
    #[inline(always)]
    pub(crate) fn constraints(&self) -> usize {
        self.rules.len()
    }

    /// A line for snapshots, which only fit a batch that has the same constraints.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// What violations do to a reward.
struct Penalties<R: Real> {
    hard: R::Mask,
    soft: R::Mask,
    terminates: R::Mask,
    hard_reward: R,
    soft_penalty: R,
}

impl<R: Real> Penalties<R> {
    fn none() -> Self {
        let (no, zero) = (R::Mask::splat(false), R::splat(0.0));
        Self { hard: no, soft: no, terminates: no, hard_reward: zero, soft_penalty: zero }
    }

    #[inline(always)]
    fn add(&mut self, rule: &Rule, penalty: R, broken: R::Mask) {
        match rule.severity {
            Severity::Hard => {
                self.hard_reward = self.hard_reward.min(penalty.keep(broken));
                self.hard = self.hard | broken;
            }
            Severity::Soft => {
                self.soft_penalty = self.soft_penalty + penalty.keep(broken);
                self.soft = self.soft | broken;
            }
        }
        if rule.terminates {
            self.terminates = self.terminates | broken;
        }
    }

    #[inline(always)]
    fn applied_to(&self, reward: R) -> R {
        // Selected, not added everywhere: -0.0 + 0.0 is 0.0, and a safe step's reward keeps its bits.
        R::select(self.hard, self.hard_reward, R::select(self.soft, reward + self.soft_penalty, reward))
    }
}

/// The names of an action's components.
pub fn action_names(space: &ActionSpace) -> Vec<String> {
    match space.components() {
        1 => vec!["action".to_owned()],
        components => (0..components).map(|k| format!("action.{k}")).collect(),
    }
}

fn find_signal(spec: &EnvSpec, name: &str) -> Result<Signal> {
    // An observation of bytes has no names, and an array's cells are no signals.
    let observed = if spec.observation.element == Element::F32 { spec.observation.names } else { &[] };
    let actions = action_names(&spec.action);
    if let Some(at) = observed.iter().position(|n| *n == name) {
        return Ok(Signal::Observation(at));
    }
    if let Some(at) = spec.state_names.iter().position(|n| *n == name) {
        return Ok(Signal::State(at));
    }
    if let Some(at) = actions.iter().position(|n| n == name) {
        return Ok(Signal::Action(at));
    }
    let mut known: Vec<_> = observed.iter().chain(spec.state_names).map(|n| (*n).to_owned()).chain(actions).collect();
    let mut seen = std::collections::HashSet::new();
    known.retain(|name| seen.insert(name.clone()));
    Err(Error::unknown("signal", name, Some(&format!("a constraint on {}", spec.name)), known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::ObservationSpace;

    fn spec() -> EnvSpec {
        EnvSpec {
            constraints: vec![
                Constraint::hard("trip", "t", 0.0, 10.0),
                Constraint::soft("alarm", "t", f64::NEG_INFINITY, 8.0),
            ],
            state_names: &["hidden"],
            ..EnvSpec::new(
                "Kettle-v0",
                "",
                ObservationSpace::symmetric(&["t", "p"], &[1.0, 1.0]),
                ActionSpace::Box { low: vec![-1.0], high: vec![1.0] },
                10,
            )
        }
    }

    fn judge(mode: SafetyMode, t: f64) -> (u32, u32, f64, bool) {
        let guard = Guard::new(&SafetyConfig { mode, constraints: vec![] }, &mut spec()).unwrap();
        let (verdict, violated) = guard.judge_bits(0.5, Rule::limits, |_| t);
        (violated, verdict.cost, verdict.reward, verdict.terminates)
    }

    #[test]
    fn the_modes_differ_in_what_follows() {
        use SafetyMode::{Enforce, Monitor, Off, Penalize};
        assert_eq!(judge(Enforce, 8.0), (0, 0, 0.5, false));
        assert_eq!(judge(Enforce, 9.0), (2, 1, -0.5, false));
        assert_eq!(judge(Enforce, 11.0), (3, 2, -100.0, true));
        assert_eq!(judge(Enforce, -1.0), (1, 1, -100.0, true));
        assert_eq!(judge(Penalize, 11.0), (3, 2, -100.0, false));
        assert_eq!(judge(Monitor, 11.0), (3, 2, 0.5, false));
        assert_eq!(judge(Off, 11.0), (0, 0, 0.5, false));
        assert_eq!(judge(Enforce, f64::NAN).0, 3);
        let guard = Guard::new(&SafetyConfig::default(), &mut spec()).unwrap();
        assert!(
            guard.judge_bits(-0.0_f64, Rule::limits, |_| 5.0).0.reward.is_sign_negative(),
            "a safe step's reward keeps its bits"
        );
    }

    /// A bound itself is safe or not, in either precision.
    #[test]
    fn strict_bounds_exclude_the_bound() {
        for (text, safe) in [("t<=1", true), ("t<1", false), ("t>=1", true), ("t>1", false)] {
            let config = SafetyConfig { constraints: vec![Constraint::parse(text).unwrap()], ..Default::default() };
            let mut spec = EnvSpec { constraints: vec![], ..spec() };
            let guard = Guard::new(&config, &mut spec).unwrap();
            let violated = [
                guard.judge_bits(0.0_f64, Rule::limits, |_| 1.0).1,
                guard.judge_bits(0.0_f32, Rule::limits, |_| 1.0).1,
                guard.judge_bits(0.0_f32, Rule::lanes, |_| 1.0).1,
            ];
            assert_eq!(violated, [u32::from(!safe); 3], "{text}");
        }
    }

    #[test]
    fn constraints_read_as_they_are_written() {
        let bound = |value, strict| Some(Bound { value, strict });
        for (text, signal, low, high) in [
            ("t<=350", "t", None, bound(350.0, false)),
            ("t < 350:soft", "t", None, bound(350.0, true)),
            ("t>=-1e3", "t", bound(-1e3, false), None),
            ("5>t", "t", None, bound(5.0, true)),
            ("273.15<=t<373.15", "t", bound(273.15, false), bound(373.15, true)),
            ("9>=action.0>-2", "action.0", bound(-2.0, true), bound(9.0, false)),
        ] {
            let constraint = Constraint::parse(text).unwrap();
            assert_eq!((constraint.signal.as_ref(), constraint.low, constraint.high), (signal, low, high), "{text}");
        }
        let full = Constraint::parse("t<=3:soft:penalty=-7:terminate=true:name=hot").unwrap();
        assert_eq!(
            (full.name.as_ref(), full.severity, full.penalty, full.terminates),
            ("hot", Severity::Soft, -7.0, true)
        );
        for (text, part) in [
            ("t", "bounds"),
            ("t<=", "bounds"),
            ("<=3", "bounds"),
            ("t<=inf", "bounds"),
            ("3<=4", "bounds"),
            ("1<t>2", "bounds"),
            ("t<=3:hadr", "':hadr'"),
            ("t<=3:hard:soft", "':soft'"),
            ("t<=3:soft:soft", "the second of its kind"),
            ("t<=3:penalty=-1:name=a:penalty=-2", "':penalty=-2'"),
            ("t<=3:penalty=5", "penalty"),
            ("t<=3:terminate=maybe", "':terminate=maybe'"),
        ] {
            let message = Constraint::parse(text).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains(text), "{text}: {message}");
        }
    }

    #[test]
    fn an_empty_range_is_refused() {
        for (text, empty) in
            [("1<t<1", true), ("1<=t<1", true), ("1<t<=1", true), ("1<=t<=1", false), ("1<t<1.00000001", true)]
        {
            let config = SafetyConfig { constraints: vec![Constraint::parse(text).unwrap()], ..Default::default() };
            let found = Guard::new(&config, &mut EnvSpec { constraints: vec![], ..spec() });
            match found.map(|_| ()) {
                Err(error) => assert!(empty && error.to_string().contains("is empty, but must be"), "{text}: {error}"),
                Ok(()) => assert!(!empty, "{text}"),
            }
        }
    }

    #[test]
    fn a_users_constraint_joins_or_replaces() {
        let parsed = |text: &str| Constraint::parse(text).unwrap();
        let config =
            SafetyConfig { constraints: vec![parsed("t<=7:name=alarm"), parsed("hidden<1")], ..Default::default() };
        let mut spec = spec();
        let guard = Guard::new(&config, &mut spec).unwrap();
        let names: Vec<_> = spec.constraints.iter().map(|c| c.name.as_ref()).collect();
        assert_eq!(names, ["trip", "alarm", "hidden<1"]);
        assert_eq!(guard.rules[2].signal, Signal::State(0));
        assert_eq!(guard.rules[1].severity, Severity::Hard);
        let config = SafetyConfig { constraints: vec![parsed("t<=7:name=a"), parsed("t<=6:name=a")], ..config };
        let message = Guard::new(&config, &mut spec.clone()).unwrap_err().to_string();
        assert!(message.contains("the name of a constraint is a, but must be given once"), "{message}");
        let config = SafetyConfig { constraints: vec![parsed("temperature<=7")], ..Default::default() };
        let message = Guard::new(&config, &mut spec).unwrap_err().to_string();
        assert!(message.contains("'temperature'") && message.contains("'action'"), "{message}");
    }
}
