//! Running means and variances, by which observations and rewards are brought to a common size.

use crate::error::Result;
use crate::state::State;

/// Normalised values are cut off here.
const LARGEST: f32 = 10.0;

/// Keeps a division finite where a variance is 0.
const EPSILON: f64 = 1e-8;

/// Mean and variance of each column of all rows seen so far.
#[derive(Clone, Debug)]
pub(super) struct Moments {
    means: Vec<f64>,
    variances: Vec<f64>,
    count: f64,
    /// Shifts and factors in the precision they are used in.
    applied: Vec<(f32, f32)>,
}

impl Moments {
    pub(super) fn new(columns: usize) -> Self {
        // A little faith in mean 0 and variance 1, as in VecNormalize: no division by 0 in the first step.
        let mut new = Self {
            means: vec![0.0; columns],
            variances: vec![1.0; columns],
            count: 1e-4,
            applied: vec![(0.0, 0.0); columns],
        };
        new.prepare();
        new
    }

    /// Takes in rows (Chan's formula for the moments of a union).
    pub(super) fn update(&mut self, rows: &[f32]) {
        let columns = self.means.len();
        let seen = (rows.len() / columns) as f64;
        let total = self.count + seen;
        for column in 0..columns {
            let values = || rows[column..].iter().step_by(columns).map(|x| f64::from(*x));
            let mean = values().sum::<f64>() / seen;
            let variance = values().map(|x| (x - mean) * (x - mean)).sum::<f64>() / seen;
            let distance = mean - self.means[column];
            let squares =
                self.variances[column] * self.count + variance * seen + distance * distance * self.count * seen / total;
            self.means[column] += distance * seen / total;
            self.variances[column] = squares / total;
        }
        self.count = total;
        self.prepare();
    }

    fn prepare(&mut self) {
        for (applied, (mean, variance)) in self.applied.iter_mut().zip(self.means.iter().zip(&self.variances)) {
            *applied = (*mean as f32, (variance + EPSILON).sqrt().recip() as f32);
        }
    }

    /// Writes rows less the means, divided by the spreads.
    pub(super) fn apply(&self, rows: &[f32], out: &mut [f32]) {
        let columns = self.means.len();
        for (row, out) in rows.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
            for ((x, out), (shift, factor)) in row.iter().zip(out).zip(&self.applied) {
                *out = ((x - shift) * factor).clamp(-LARGEST, LARGEST);
            }
        }
    }

    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        state.put("means", &[self.means.len()], &self.means);
        state.put("variances", &[self.means.len()], &self.variances);
        state.put("count", &[1], &[self.count]);
        state
    }

    pub(super) fn restore(&mut self, state: &State) -> Result<()> {
        let shape = [self.means.len()];
        let (means, variances) = (state.get("means", &shape)?, state.get("variances", &shape)?);
        self.count = state.get("count", &[1])?[0];
        self.means.copy_from_slice(means);
        self.variances.copy_from_slice(variances);
        self.prepare();
        Ok(())
    }
}

/// Rewards divided by the spread of the discounted returns so far, as VecNormalize does.
#[derive(Clone, Debug)]
pub(super) struct RewardScale {
    gamma: f32,
    moments: Moments,
    /// The discounted sum of rewards of each environment's episode.
    returns: Vec<f32>,
}

impl RewardScale {
    pub(super) fn new(num_envs: usize, gamma: f64) -> Self {
        Self { gamma: gamma as f32, moments: Moments::new(1), returns: vec![0.0; num_envs] }
    }

    /// Divides the rewards of a step, after which some episodes ended.
    pub(super) fn apply(&mut self, rewards: &mut [f32], ended: impl Fn(usize) -> bool) {
        for (sum, reward) in self.returns.iter_mut().zip(&*rewards) {
            *sum = *sum * self.gamma + reward;
        }
        self.moments.update(&self.returns);
        let factor = self.moments.applied[0].1;
        rewards.iter_mut().for_each(|reward| *reward = (*reward * factor).clamp(-LARGEST, LARGEST));
        self.returns.iter_mut().enumerate().filter(|(env, _)| ended(*env)).for_each(|(_, sum)| *sum = 0.0);
    }

    pub(super) fn save(&self) -> State {
        let mut state = self.moments.save();
        state.put("returns", &[self.returns.len()], &self.returns);
        state
    }

    pub(super) fn restore(&mut self, state: &State) -> Result<()> {
        let returns = state.get("returns", &[self.returns.len()])?;
        self.moments.restore(state)?;
        self.returns.copy_from_slice(returns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_all_rows() {
        let rows: Vec<f32> = (0..60).map(|i| (i * i % 17) as f32 - 3.0).collect();
        let mut moments = Moments::new(2);
        rows.chunks(12).for_each(|part| moments.update(part));
        for column in 0..2 {
            let values: Vec<f64> = rows[column..].iter().step_by(2).map(|x| f64::from(*x)).collect();
            let mean = values.iter().sum::<f64>() / 30.0;
            let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 30.0;
            // The faith of the first moments is worth 1e-4 of a row.
            assert!((moments.means[column] - mean).abs() < 1e-3);
            assert!((moments.variances[column] - variance).abs() < 1e-2);
        }
        let mut out = vec![0.0; 60];
        moments.apply(&rows, &mut out);
        assert!(out.iter().step_by(2).sum::<f32>().abs() < 1e-2);
        let mut again = Moments::new(2);
        again.restore(&moments.save()).unwrap();
        let mut same = vec![0.0; 60];
        again.apply(&rows, &mut same);
        assert_eq!(out, same);
    }

    #[test]
    fn rewards_have_returns_of_spread_one() {
        let mut scale = RewardScale::new(2, 0.9);
        let mut last = [0.0; 2];
        let (mut sums, mut returns) = ([0.0_f64; 2], Vec::new());
        for step in 0..2_000 {
            last = [if step % 10 < 5 { 30.0 } else { -30.0 }, if step % 14 < 7 { -30.0 } else { 30.0 }];
            // The same by hand: discounted sums of all rewards, and their spread.
            sums = [0, 1].map(|env| 0.9 * sums[env] + f64::from(last[env]));
            returns.extend(sums);
            scale.apply(&mut last, |_| false);
        }
        let spread = f64::from(30.0 / last[0].abs());
        let mean = returns.iter().sum::<f64>() / returns.len() as f64;
        let variance = returns.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / returns.len() as f64;
        assert!((spread * spread - variance).abs() < 1e-2 * variance, "{} {variance}", spread * spread);
        scale.apply(&mut last, |env| env == 1);
        assert!(scale.returns[0] != 0.0 && scale.returns[1] == 0.0);
    }
}
