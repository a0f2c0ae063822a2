//! What actions turned out to be worth: generalised advantages and λ-returns over a roll-out.
//!
//! A roll-out is a table of steps by environments, the steps one after the other. Values of next states are those of
//! the true next observation, before any new episode. Only `terminated` ends the future: a time limit does not mean
//! that nothing would have followed, so a truncated step is worth its reward and the value of what it led to. No
//! recursion goes on from one episode to the next, whatever the reason for the end.

use crate::nn::Scalar;

/// A roll-out as the recursions need it; all slices have steps times environments elements.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a, T> {
    /// Environments, the elements of one step.
    pub num_envs: usize,
    /// Rewards.
    pub rewards: &'a [T],
    /// Values of the next states.
    pub next_values: &'a [T],
    /// Where an episode came to its end.
    pub terminated: &'a [bool],
    /// Where an episode was cut off.
    pub truncated: &'a [bool],
    /// The discount factor.
    pub gamma: T,
    /// How much later steps count: 0 for one step only, 1 for all of them.
    pub lambda: T,
}

impl<T: Scalar> Steps<'_, T> {
    /// Writes generalised advantages, given the values of the states that the steps began in.
    pub fn advantages(&self, values: &[T], out: &mut [T]) {
        let decay = self.gamma * self.lambda;
        self.backwards(out, |i, later| {
            let surprise = self.rewards[i] + self.gamma * self.future(i) - values[i];
            surprise + later.map_or(T::zero(), |later| decay * later)
        });
    }

    /// Writes λ-returns: mixtures of the returns of one, two, three... steps.
    pub fn lambda_returns(&self, out: &mut [T]) {
        self.backwards(out, |i, later| {
            let future = self.future(i);
            let mixed = later.map_or(future, |later| (T::one() - self.lambda) * future + self.lambda * later);
            self.rewards[i] + self.gamma * mixed
        });
    }

    /// What follows a step by the next state's value alone.
    fn future(&self, i: usize) -> T {
        if self.terminated[i] { T::zero() } else { self.next_values[i] }
    }

    /// Fills `out` from the last step to the first; `value` is told what the next step of the same episode has, if
    /// there is one.
    fn backwards(&self, out: &mut [T], value: impl Fn(usize, Option<T>) -> T) {
        assert!(
            [self.next_values.len(), self.terminated.len(), self.truncated.len(), out.len()]
                .iter()
                .all(|len| *len == self.rewards.len()),
            "as many of each as there are rewards"
        );
        for i in (0..out.len()).rev() {
            let ended = self.terminated[i] || self.truncated[i];
            let later = out.get(i + self.num_envs).copied().filter(|_| !ended);
            out[i] = value(i, later);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [f64; 4] = [9.0, 10.0, 20.0, 30.0];
    const NEXT: [f64; 4] = [10.0, 20.0, 30.0, 40.0];

    #[track_caller]
    fn assert_near(found: &[f64], expected: &[f64]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} instead of {expected:?}");
    }

    fn run(terminated: [bool; 4], truncated: [bool; 4]) -> (Vec<f64>, Vec<f64>) {
        // Two environments side by side, which know nothing of each other.
        let twice = |values: [f64; 4], other: f64| values.iter().flat_map(|x| [*x, other]).collect::<Vec<_>>();
        let flags = |flags: [bool; 4]| flags.iter().flat_map(|x| [*x, !*x]).collect::<Vec<_>>();
        let (rewards, next, states) = (twice([1.0; 4], -5.0), twice(NEXT, 77.0), twice(STATES, -3.0));
        let (terminated, truncated) = (flags(terminated), flags(truncated));
        let steps = |lambda| Steps {
            num_envs: 2,
            rewards: &rewards,
            next_values: &next,
            terminated: &terminated,
            truncated: &truncated,
            gamma: 0.99,
            lambda,
        };
        let mut out = vec![f64::NAN; 8];
        let mut first = |work: &dyn Fn(&mut [f64])| {
            work(&mut out);
            out.iter().step_by(2).copied().collect::<Vec<_>>()
        };
        (first(&|out| steps(0.95).advantages(&states, out)), first(&|out| steps(0.65).lambda_returns(out)))
    }

    #[test]
    fn ends_of_both_kinds() {
        let (advantages, returns) = run([false, true, false, false], [false, false, true, false]);
        assert_near(&advantages, &[-6.5645, -9.0, 10.7, 10.6]);
        assert_near(&returns, &[5.1085, 1.0, 30.7, 40.6]);
    }

    #[test]
    fn no_ends() {
        let (advantages, returns) = run([false; 4], [false; 4]);
        assert_near(&advantages, &[30.340_228, 30.239_477, 20.6693, 10.6]);
        assert_near(&returns, &[25.105_152, 32.074_828, 37.5211, 40.6]);
    }

    /// A state that pays 1 for ever is worth 1/(1 - gamma), however often it is cut off; as if cut off were the end,
    /// the same iteration finds less.
    #[test]
    fn a_time_limit_is_not_the_end() {
        let fixed_point = |treat_as_end: bool| {
            let (mut value, length) = (0.0, 10);
            for _ in 0..500 {
                let cut: Vec<bool> = (1..=length).map(|step| step == length).collect();
                let none = vec![false; length];
                let steps = Steps {
                    num_envs: 1,
                    rewards: &vec![1.0; length],
                    next_values: &vec![value; length],
                    terminated: if treat_as_end { &cut } else { &none },
                    truncated: &cut,
                    gamma: 0.9,
                    lambda: 0.0,
                };
                let mut returns = vec![0.0; length];
                steps.lambda_returns(&mut returns);
                value = returns.iter().sum::<f64>() / length as f64;
            }
            value
        };
        assert!((fixed_point(false) - 10.0).abs() < 1e-9);
        // One step in ten loses its future: v = 1 + 0.9 * 0.9 v.
        assert!((fixed_point(true) - 1.0 / (1.0 - 0.81)).abs() < 1e-9);
    }
}
