//! Environments that repeat every action some times, and show only what came of it.
//!
//! All environments go through a repetition together. One whose episode ends within it cannot wait for the others, so it
//! plays on in an episode that nobody hears of; that one is dropped, and the next one begins, when the repetition is over.
//! Episodes are drawn by their number, so the dropped one changes no other.

use super::{Actions, Autoreset, Batch, ObsMut, Reset, StepBuffers, StepOut};
use crate::error::{Error, Result};
use crate::rollout::Rollout;
use crate::space::{ActionMask, Element, EnvSpec};

/// A batch, each of whose steps is several of another one.
///
/// Rewards are summed, violations joined. Lengths of episodes, the step limit and the time of a step are those of
/// decisions; costs of episodes count every single step, and so do the batch's own statistics.
struct Repeating {
    /// Leaves the start of new episodes to its caller.
    inner: Box<dyn Batch>,
    spec: EnvSpec,
    times: u32,
    /// One of the steps.
    single: StepBuffers,
    /// Where the episode has ended within this repetition.
    over: Vec<bool>,
    /// Where the episode of this step has, be it one that nobody hears of.
    ended: Vec<bool>,
}

/// The environments of `inner`, which does not start new episodes itself, with every action repeated.
pub(super) fn repeating(inner: Box<dyn Batch>, times: u32, autoreset: Autoreset) -> Result<Box<dyn Batch>> {
    let mut spec = inner.spec().clone();
    let refuse = |why: &str| Err(Error::Setup(format!("{} cannot repeat actions: {why}", spec.name)));
    if autoreset != Autoreset::SameStep {
        return refuse("that needs new episodes that start in the same step");
    }
    if spec.action_mask != ActionMask::None {
        return refuse("what is legal once may not be legal again");
    }
    if spec.observation.element != Element::F32 {
        return refuse("its observations are bytes");
    }
    spec.max_steps = spec.max_steps.div_ceil(times);
    spec.dt = spec.dt.map(|dt| dt * f64::from(times));
    let num_envs = inner.num_envs();
    let single = StepBuffers::new(num_envs, spec.observation.dim());
    Ok(Box::new(Repeating { inner, spec, times, single, over: vec![false; num_envs], ended: vec![false; num_envs] }))
}

impl Batch for Repeating {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn autoreset(&self) -> Autoreset {
        Autoreset::SameStep
    }

    fn step_into(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()> {
        let dim = self.spec.observation.dim();
        let out: StepOut<'_, &mut [f32]> = out.typed(self.spec.name)?;
        out.check(self.over.len(), dim, !out.violations.is_empty())?;
        self.over.fill(false);
        for time in 0..self.times {
            // Actions of a wrong kind or number are refused here the first time, when nothing has changed yet.
            self.inner.step_into(actions, self.single.out())?;
            let single = &self.single;
            if time == 0 {
                out.rewards.fill(0.0);
                out.violations.fill(0);
                out.terminated.fill(false);
                out.truncated.fill(false);
            }
            for env in 0..self.over.len() {
                self.ended[env] = single.terminated[env] | single.truncated[env];
                if self.over[env] {
                    continue;
                }
                out.rewards[env] += single.rewards[env];
                if let Some(violations) = out.violations.get_mut(env) {
                    *violations |= single.violations[env];
                }
                if self.ended[env] {
                    self.over[env] = true;
                    out.terminated[env] = single.terminated[env];
                    out.truncated[env] = single.truncated[env];
                    let row = env * dim..(env + 1) * dim;
                    out.final_obs[row.clone()].copy_from_slice(&single.final_obs[row]);
                    out.final_returns[env] = single.final_returns[env];
                    out.final_lengths[env] = single.final_lengths[env].div_ceil(self.times);
                    if let Some(cost) = out.final_costs.get_mut(env) {
                        *cost = single.final_costs[env];
                    }
                }
            }
            let is_last = time + 1 == self.times;
            let restarted = if is_last { &self.over } else { &self.ended };
            if restarted.contains(&true) {
                self.inner.reset_into(Reset::Mask(restarted), ObsMut::F32(&mut self.single.obs))?;
            }
        }
        out.obs.copy_from_slice(&self.single.obs);
        Ok(())
    }

    fn advance(&mut self, _: &mut Rollout, _: usize) -> Result<()> {
        Err(Error::Setup("roll-outs in chunks do not repeat actions".to_owned()))
    }

    crate::delegate_batch!(inner);
}
