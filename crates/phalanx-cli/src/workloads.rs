//! Cases of the lab made real: environments that are stepped as a case says.

use std::sync::Arc;

use phalanx_core::batch::{Actions, Autoreset, Batch, BatchConfig, LaneWidth, ObsElement, Reset, StepBuffers};
use phalanx_core::lanes::BLOCK;
use phalanx_core::policy::Policy;
use phalanx_core::pool::Pool;
use phalanx_core::rollout::{Rollout, TILE};
use phalanx_core::safety::{SafetyConfig, SafetyMode};
use phalanx_core::space::{ActionMask, ActionSpace, Element, EnvSpec};
use phalanx_envs::registry;
use phalanx_lab::Result;
use phalanx_lab::autotune::Tuned;
use phalanx_lab::case::{self, CaseSpec, HOST_API_STRIDE};
use phalanx_lab::format::format_bytes;
use phalanx_lab::memory_profile::Predicted;
use phalanx_lab::record::Kind;
use phalanx_lab::stats::checksum::{self, Checksum, Word};
use phalanx_lab::stats::random::Stream;
use phalanx_lab::workload::{Work, Workload, WorkloadMemory};
use phalanx_workbench::kinds::check_kind;
use phalanx_workbench::{learning, stopped};

use crate::args::{EnvArgs, PolicyArgs};
use crate::commands::autotune;
use crate::failure::Failure;

/// Builds the workload of a case.
pub(crate) fn of(case: &CaseSpec) -> Result<Box<dyn Workload>, Failure> {
    check_kind(case.kind, &case.agent)?;
    if case.kind.learns() {
        return Ok(learning::of(case)?);
    }
    let batch = registry::find(&case.env)?.batch(&config(case)?)?;
    match case.kind {
        Kind::FusedRandomRollout | Kind::PolicyRollout => {
            let rollout = rollout(case, batch.as_ref())?;
            Ok(Box::new(RolloutWork { batch, rollout, chunk: case.scan_chunk_size }))
        }
        Kind::HostApiRandom if batch.spec().action_mask == ActionMask::Binding => Err(Failure::input(format!(
            "{} refuses illegal actions, so {} cannot step it with actions drawn beforehand",
            case.env, case.kind
        ))),
        Kind::HostApiRandom => Ok(match batch.spec().observation.element {
            Element::F32 => Box::new(HostApiWork::<f32>::new(batch, case)),
            Element::I8 => Box::new(HostApiWork::<i8>::new(batch, case)),
        }),
        _ => unreachable!("{} is none that only acts", case.kind),
    }
}

/// Why a case does not fit into a budget, if it does not; without one everything fits.
pub(crate) fn fits(predicted: &Predicted, budget: Option<u64>) -> Result<(), String> {
    match budget.map(|budget| budget as f64).filter(|budget| predicted.total() > *budget) {
        Some(budget) => {
            let (needed, budget) = (format_bytes(predicted.total()), format_bytes(budget));
            Err(format!("needs {needed} of memory, but the budget is {budget}"))
        }
        None => Ok(()),
    }
}

/// The case with the chunk size that is fastest on this machine, measured now or remembered, and with the fastest number of
/// threads unless the user said how many.
pub(crate) fn tuned(case: CaseSpec, threads: Option<usize>, quiet: bool) -> Result<CaseSpec, Failure> {
    let safety = config(&case)?.safety.mode;
    let env = EnvArgs {
        env: case.env.clone(),
        settings: case.settings.clone(),
        tasks: None,
        safety,
        constraints: Vec::new(),
        seed: case.seed,
        config_file: None,
    };
    let policy = PolicyArgs { policy: case.agent.clone(), policy_args: case.agent_args.clone() };
    let tuned = autotune::for_rollout(&env, &policy, case.num_envs, threads, quiet)?;
    let Tuned { scan_chunk_size, threads, tile, .. } = tuned;
    // The usual one is no part of a case's name.
    Ok(CaseSpec { scan_chunk_size, threads, tile: tile.filter(|tile| *tile != TILE).unwrap_or(0), ..case })
}

/// The batch of a case.
pub(crate) fn config(case: &CaseSpec) -> Result<BatchConfig, Failure> {
    let mode = SafetyMode::NAMES.into_iter().find(|(name, _)| *name == case.safety);
    let Some((_, mode)) = mode else {
        return Err(Failure::input(format!("the safety mode is '{}', which does not exist", case.safety)));
    };
    let pool = Pool::try_new(case.threads);
    Ok(BatchConfig {
        num_envs: case.num_envs,
        seed: case.seed,
        autoreset: match case.autoreset {
            case::Autoreset::SameStep => Autoreset::SameStep,
            case::Autoreset::NextStep => Autoreset::NextStep,
        },
        lanes: match case.lanes {
            1 => LaneWidth::One,
            8 => LaneWidth::Eight,
            16 => LaneWidth::Sixteen,
            _ => LaneWidth::Auto,
        },
        pool: Arc::new(
            pool.map_err(|error| Failure::input(format!("cannot start {} threads: {error}", case.threads)))?,
        ),
        settings: case.settings.clone(),
        safety: SafetyConfig { mode, ..SafetyConfig::default() },
        ..BatchConfig::default()
    })
}

/// A roll-out inside the engine; an iteration is a chunk.
struct RolloutWork {
    batch: Box<dyn Batch>,
    rollout: Rollout,
    chunk: usize,
}

impl Workload for RolloutWork {
    fn run(&mut self, iterations: u64) -> Result<Work> {
        let steps = self.chunk * iterations as usize;
        self.rollout.run(self.batch.as_mut(), steps, self.chunk, |_| true).map_err(stopped)?;
        Ok(Work { steps: (steps * self.batch.num_envs()) as u64, checksum: self.rollout.checksum() })
    }

    fn memory(&self) -> WorkloadMemory {
        let bytes_per_env = self.batch.bytes_per_env() + self.rollout.bytes_per_env();
        let array_bytes = (bytes_per_env * self.batch.num_envs() as f64) as u64;
        WorkloadMemory { array_bytes: Some(array_bytes), bytes_per_env: Some(bytes_per_env) }
    }
}

/// Steps that a host program asks for one by one, with actions drawn beforehand; an iteration is a step of all.
struct HostApiWork<T> {
    batch: Box<dyn Batch>,
    buffers: StepBuffers<T>,
    actions: DrawnActions,
    next_step: bool,
    /// Environments whose next step only resets.
    ended: u64,
    calls: u64,
    checksums: Vec<Checksum>,
}

/// Actions of [`ACTION_ROWS`] steps, after which they repeat.
enum DrawnActions {
    Discrete(Vec<i32>),
    Continuous(Vec<f32>),
}

const ACTION_ROWS: usize = 64;

impl DrawnActions {
    fn new(space: &ActionSpace, num_envs: usize, seed: u64) -> Self {
        let mut random = Stream::new(seed, 0);
        let rows = 0..ACTION_ROWS * num_envs;
        let mut index = |n: &u32| random.below(*n as usize) as i32;
        match space {
            ActionSpace::Discrete { n } => Self::Discrete(rows.map(|_| index(n)).collect()),
            ActionSpace::MultiDiscrete { sizes } => {
                Self::Discrete(rows.flat_map(|_| sizes.iter()).map(index).collect())
            }
            ActionSpace::Box { low, high } => {
                let bounds = rows.flat_map(|_| low.iter().zip(high));
                Self::Continuous(bounds.map(|(low, high)| low + (high - low) * random.unit() as f32).collect())
            }
        }
    }

    /// The actions of a step.
    fn row(&self, step: u64) -> Actions<'_> {
        fn part<T>(all: &[T], step: u64) -> &[T] {
            let size = all.len() / ACTION_ROWS;
            let first = step as usize % ACTION_ROWS * size;
            &all[first..first + size]
        }
        match self {
            Self::Discrete(all) => Actions::Discrete(part(all, step)),
            Self::Continuous(all) => Actions::Continuous(part(all, step)),
        }
    }
}

impl<T: ObsElement + Word> HostApiWork<T> {
    fn new(batch: Box<dyn Batch>, case: &CaseSpec) -> Self {
        Self {
            buffers: StepBuffers::of(case.num_envs, batch.spec().observation.low.len()),
            actions: DrawnActions::new(&batch.spec().action, case.num_envs, case.seed),
            next_step: case.autoreset == case::Autoreset::NextStep,
            ended: 0,
            calls: 0,
            checksums: (0..case.num_envs as u64).map(Checksum::new).collect(),
            batch,
        }
    }
}

impl<T: ObsElement + Word> Workload for HostApiWork<T> {
    fn run(&mut self, iterations: u64) -> Result<Work> {
        let mut resets = 0;
        for i in 1..=iterations {
            let actions = self.actions.row(self.calls);
            self.batch.step_into(actions, self.buffers.out()).map_err(stopped)?;
            self.calls += 1;
            let StepBuffers { obs, rewards, terminated, truncated, .. } = &self.buffers;
            if self.next_step {
                resets += self.ended;
                let over = terminated.iter().zip(truncated).filter(|(end, cut)| **end | **cut);
                self.ended = over.count() as u64;
            }
            if self.calls.is_multiple_of(HOST_API_STRIDE) || i == iterations {
                let rows = obs.chunks_exact(obs.len() / rewards.len());
                for (i, (checksum, row)) in self.checksums.iter_mut().zip(rows).enumerate() {
                    checksum.step(row, rewards[i], terminated[i], truncated[i]);
                }
            }
        }
        Ok(Work {
            steps: iterations * self.batch.num_envs() as u64 - resets,
            checksum: checksum::total(self.checksums.iter().copied()),
        })
    }

    fn memory(&self) -> WorkloadMemory {
        let StepBuffers { obs, rewards, terminated, truncated, violations, .. } = &self.buffers;
        let StepBuffers { final_obs, final_returns, final_lengths, final_costs, .. } = &self.buffers;
        let outputs = [obs, final_obs].map(|rows| size_of_val(rows.as_slice())).iter().sum::<usize>()
            + [rewards, final_returns].map(|reals| size_of_val(reals.as_slice())).iter().sum::<usize>()
            + [violations, final_lengths, final_costs].map(|words| size_of_val(words.as_slice())).iter().sum::<usize>()
            + [terminated, truncated].map(|flags| size_of_val(flags.as_slice())).iter().sum::<usize>();
        let actions = match &self.actions {
            DrawnActions::Discrete(all) => size_of_val(all.as_slice()),
            DrawnActions::Continuous(all) => size_of_val(all.as_slice()),
        };
        let host = outputs + actions + size_of_val(self.checksums.as_slice());
        let num_envs = self.batch.num_envs() as f64;
        let bytes = self.batch.bytes_per_env() * num_envs + host as f64;
        WorkloadMemory { array_bytes: Some(bytes as u64), bytes_per_env: Some(bytes / num_envs) }
    }
}

/// Bytes that a case will take, without taking them: a whole block shows what an environment takes. Building it checks
/// the names and values of the case as well.
pub(crate) fn predicted(case: &CaseSpec) -> Result<Predicted, Failure> {
    if case.kind.learns() {
        return Ok(learning::predicted(case)?);
    }
    let block = CaseSpec { num_envs: BLOCK, threads: 1, ..case.clone() };
    let total = of(&block)?.memory().bytes_per_env.unwrap_or(0.0);
    let state = registry::find(&case.env)?.batch(&config(&block)?)?.bytes_per_env();
    let num_envs = case.num_envs as f64;
    Ok(Predicted { state_bytes: state * num_envs, agent_bytes: (total - state).max(0.0) * num_envs })
}

/// The spec of a case's environment with its options in force.
pub(crate) fn spec(case: &CaseSpec) -> Result<EnvSpec, Failure> {
    let one = CaseSpec { num_envs: 1, threads: 1, ..case.clone() };
    Ok(registry::find(&case.env)?.batch(&config(&one)?)?.spec().clone())
}

/// The checksum of `steps` steps of a case from its seed; neither the chunk size nor the threads change it.
pub(crate) fn checksum_of_run(case: &CaseSpec, steps: usize) -> Result<u64, Failure> {
    if case.kind == Kind::HostApiRandom {
        return Ok(of(case)?.run(steps as u64)?.checksum);
    }
    let mut batch = registry::find(&case.env)?.batch(&config(case)?)?;
    let mut rollout = rollout(case, batch.as_ref())?;
    rollout.run(batch.as_mut(), steps, case.scan_chunk_size, |_| true)?;
    Ok(rollout.checksum())
}

fn rollout(case: &CaseSpec, batch: &dyn Batch) -> Result<Rollout, Failure> {
    let arguments: Vec<_> = case.agent_args.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut rollout = Rollout::new(Policy::parse(&case.agent, &arguments, batch.spec())?, batch);
    if case.tile > 0 {
        rollout.set_tile(case.tile)?;
    }
    Ok(rollout)
}

/// Resets of a whole batch; an iteration is one, and so is a step.
pub(crate) fn resets(case: &CaseSpec) -> Result<Box<dyn Workload>, Failure> {
    let batch = registry::find(&case.env)?.batch(&config(case)?)?;
    Ok(match batch.spec().observation.element {
        Element::F32 => Box::new(ResetWork::<f32>::new(batch)),
        Element::I8 => Box::new(ResetWork::<i8>::new(batch)),
    })
}

struct ResetWork<T> {
    batch: Box<dyn Batch>,
    obs: Vec<T>,
    checksum: Checksum,
}

impl<T: ObsElement> ResetWork<T> {
    fn new(batch: Box<dyn Batch>) -> Self {
        let obs = vec![T::default(); batch.num_envs() * batch.spec().observation.low.len()];
        Self { batch, obs, checksum: Checksum::new(0) }
    }
}

impl<T: ObsElement + Word> Workload for ResetWork<T> {
    fn run(&mut self, iterations: u64) -> Result<Work> {
        for _ in 0..iterations {
            self.batch.reset_into(Reset::All, T::wrap(&mut self.obs)).map_err(stopped)?;
        }
        // One row is enough: the others were written by the same loop.
        let row = self.obs.len() / self.batch.num_envs();
        self.checksum.step(&self.obs[..row], 0.0, false, false);
        Ok(Work { steps: iterations, checksum: checksum::total([self.checksum]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_only_reset_are_no_steps() {
        // Every step ends an episode, so that every other call only resets.
        let short = CaseSpec {
            settings: vec![("max_steps".to_owned(), "1".to_owned())],
            ..CaseSpec::host_api("CartPole-v1", 3)
        };
        let mut work = of(&short).unwrap_or_else(|error| panic!("{error}"));
        let mut steps = |iterations| work.run(iterations).unwrap().steps;
        assert_eq!(steps(5), 9);
        assert_eq!(steps(1), 0, "the step before it ended all episodes");
        assert_eq!(steps(2), 3);
    }
}
