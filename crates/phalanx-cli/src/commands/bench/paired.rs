//! What commands that compare in pairs share: binaries that nothing changes meanwhile, the plan of looks, the margin.

use std::path::{Path, PathBuf};

use phalanx_lab::budget::MemoryBudget;
use phalanx_lab::calibrations::{self, StoredCalibration};
use phalanx_lab::campaign::{self, PairRun, Plan, Side};
use phalanx_lab::case::CaseSpec;
use phalanx_lab::files;
use phalanx_lab::interrupt::TemporaryFolder;
use phalanx_lab::judgement::{Judgement, Rules};
use phalanx_lab::machine::Machine;
use phalanx_lab::memory_profile::Predicted;
use phalanx_lab::session::Session;
use phalanx_lab::stats::checksum::mix;

use super::options::named_case;
use crate::args::{memory_budget, whole};
use crate::failure::Failure;
use crate::monitoring::Watch;
use crate::workloads;

/// Differences below this are none unless a calibration says more or the user less, in per cent: link order and other
/// accidents of a build move identical code by as much.
pub(super) const MARGIN_PERCENT: f64 = 1.0;

/// The error that all intervals of a run may have together.
const ERROR: f64 = 0.05;

/// How many pairs of what. Many short-lived pairs of samples below a scheduler's time slice: such a sample is seldom
/// interrupted (a process that sleeps in between has its turn at once), and what a pair owes to its addresses averages
/// out over pairs and not over samples.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct PlanArgs {
    /// Pairs of processes before each look
    #[arg(long, value_name = "P", default_value = "24", value_parser = whole::<u16>(2..=1000))]
    pub(super) pairs: u16,
    /// Samples of each process, at least those that show a steady state
    #[arg(long, value_name = "N", default_value = "24", value_parser = whole::<u16>(24..=10_000))]
    pub(super) samples: u16,
    /// Least time of a sample, in milliseconds
    #[arg(long, value_name = "MS", default_value = "3", value_parser = whole::<u32>(1..=60_000))]
    pub(super) sample_ms: u32,
    /// Refuse cases whose two sides need more at once: a share of what is available, or an amount such as 12G
    #[arg(long, value_name = "M", default_value = "0.8", value_parser = memory_budget)]
    memory_budget: MemoryBudget,
}

impl PlanArgs {
    pub(super) fn plan(&self) -> Plan {
        Plan::of(self.pairs, self.samples, self.sample_ms)
    }

    /// Whether there is room for a pair of each case, whose processes live at the same time. Fails as well if a case has
    /// wrong names or values.
    pub(super) fn check_room(&self, cases: &[CaseSpec]) -> Result<(), Failure> {
        let budget = self.memory_budget.bytes();
        for case in cases {
            let Predicted { state_bytes, agent_bytes } = workloads::predicted(case)?;
            let both = Predicted { state_bytes: 2.0 * state_bytes, agent_bytes: 2.0 * agent_bytes };
            workloads::fits(&both, budget)
                .map_err(|why| Failure::input(format!("{}: a pair of processes {why}", case.id())))?;
        }
        Ok(())
    }
}

/// Binaries under paths of one length, which no build can change meanwhile.
#[derive(Debug)]
pub(super) struct Copies {
    _folder: TemporaryFolder,
    pub(super) a: PathBuf,
    pub(super) b: PathBuf,
    of: [PathBuf; 2],
}

impl Copies {
    pub(super) fn new(a: &Path, b: &Path) -> Result<Self, Failure> {
        let folder = TemporaryFolder::new()?;
        let copy = |from: &Path, name: &str| {
            let to = folder.path().join(name);
            std::fs::copy(from, &to)
                .map(|_| to)
                .map_err(|error| Failure::input(format!("cannot read the binary {}: {error}", from.display())))
        };
        let (a_copy, b_copy) = (copy(a, "phalanx-a")?, copy(b, "phalanx-b")?);
        Ok(Self { _folder: folder, a: a_copy, b: b_copy, of: [a.to_owned(), b.to_owned()] })
    }

    /// A failure in the user's words: with the path that was given, not that of the copy.
    fn explained(&self, error: phalanx_lab::Error) -> Failure {
        match error {
            phalanx_lab::Error::Worker { binary, reason } => {
                let of = if binary == self.a { &self.of[0] } else { &self.of[1] };
                phalanx_lab::Error::Worker { binary: of.clone(), reason }.into()
            }
            other => other.into(),
        }
    }
}

/// Pairs under way: what measures them, where they are recorded, who watches.
pub(super) struct PairedMeasurement<'a> {
    pub(super) copies: &'a Copies,
    pub(super) session: &'a mut Session,
    pub(super) watch: Watch<'a>,
    /// The name under which records keep the cases.
    pub(super) suite: &'a str,
}

impl PairedMeasurement<'_> {
    /// Measures pairs of A on one case and B on another, more of them if there are some. Each is recorded when it ends,
    /// so that what ends the program costs the one at work and no other; whoever calls this records that they are
    /// complete.
    pub(super) fn compare(
        &mut self,
        (a, b): (&CaseSpec, &CaseSpec),
        plan: &Plan,
        same_work: bool,
        mut pairs: Vec<PairRun>,
    ) -> Result<Vec<PairRun>, Failure> {
        let Self { copies, session, watch, suite } = self;
        let after = |so_far: &[PairRun]| {
            watch.pair((a, b), so_far.last().expect("one more"));
            session.record_pairs_progress((a, b), suite, so_far)
        };
        let sides = (Side { binary: &copies.a, case: a }, Side { binary: &copies.b, case: b });
        campaign::compare(sides.0, sides.1, plan, same_work, &mut pairs, after)
            .map_err(|error| copies.explained(error))?;
        Ok(pairs)
    }
}

/// Looks at pairs by a plan that is fixed beforehand, so that looking again does not make false alarms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looks {
    /// Pairs before each look, samples, seed.
    pub(super) plan: Plan,
    /// The most looks.
    pub(super) looks: usize,
    /// Cases that are compared in this run.
    pub(super) cases: usize,
    /// Whether both sides must compute the same results.
    pub(super) same_work: bool,
}

impl Looks {
    /// The confidence of each interval: all of them together keep the error.
    pub(super) fn confidence(&self) -> f64 {
        1.0 - ERROR / (self.looks * self.cases) as f64
    }

    /// Measures and judges until there is an answer or no look is left. `open` says whether a judgement leaves open
    /// what was asked.
    pub(super) fn take(
        &self,
        measurement: &mut PairedMeasurement<'_>,
        case: &CaseSpec,
        margin: &Margin,
        open: impl Fn(&Judgement) -> bool,
    ) -> Result<(Vec<PairRun>, Judgement), Failure> {
        let mut pairs = Vec::new();
        let seed = seed_of(&measurement.session.run.run_id);
        for look in 1.. {
            let plan = Plan { seed: mix(seed ^ look), ..self.plan };
            pairs = measurement.compare((case, case), &plan, self.same_work, pairs)?;
            let guards = measurement.session.guards();
            let rules = Rules {
                theta: margin.theta(),
                confidence: self.confidence(),
                seed,
                guards: &guards,
                calibration: margin.calibration.as_ref().map(|stored| &stored.calibration),
            };
            let judgement = Judgement::of(&pairs, &rules);
            if look == self.looks as u64 || !open(&judgement) {
                return Ok((pairs, judgement));
            }
        }
        unreachable!("there is a last look")
    }
}

/// Differences that mean nothing.
#[derive(Debug, Clone)]
pub(super) struct Margin {
    pub(super) percent: f64,
    /// Why it is what it is.
    pub(super) origin: String,
    pub(super) calibration: Option<StoredCalibration>,
}

impl Margin {
    /// What the user says, else what identical code has shown here, and never less than the default.
    pub(super) fn of(given: Option<f64>, machine: &Machine, case: &CaseSpec, plan: &Plan) -> Self {
        let calibration = calibration_of(machine, case, plan);
        let calibrated = calibration.as_ref().map(|stored| 100.0 * stored.calibration.threshold.exp_m1());
        let (percent, origin) = match (given, calibrated) {
            (Some(percent), _) => (percent, "given".to_owned()),
            (None, Some(percent)) if percent > MARGIN_PERCENT => (percent, "what identical code shows here".to_owned()),
            (None, _) => (MARGIN_PERCENT, "default".to_owned()),
        };
        Self { percent, origin, calibration }
    }

    pub(super) fn theta(&self) -> f64 {
        (self.percent / 100.0).ln_1p()
    }
}

/// The calibration of a case on this machine if it is there, whole and fresh; else why not, on standard error.
pub(super) fn calibration_of(machine: &Machine, case: &CaseSpec, plan: &Plan) -> Option<StoredCalibration> {
    let folder = files::cache_folder()?;
    match calibrations::load(&folder, &machine.fingerprint, case) {
        Ok(Some(stored)) => match stored.stale(plan) {
            None => Some(stored),
            Some(reason) => {
                say!("note: the calibration of {} is not used: {reason}", case.id());
                None
            }
        },
        Ok(None) => None,
        Err(damage) => {
            say!("warning: {}", damage_text(&damage));
            None
        }
    }
}

fn damage_text(damage: &files::Damage) -> String {
    format!("{damage} (bench doctor writes it anew)")
}

/// The cases that a user names.
pub(super) fn cases(texts: &[String]) -> Result<Vec<CaseSpec>, Failure> {
    texts.iter().map(|text| named_case(text)).collect()
}

/// A percentage from 0 to below 100.
pub(super) fn percentage(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
    percent.ok_or_else(|| "a percentage from 0 to below 100 is needed".to_owned())
}

/// A seed for order and resampling that the run id decides, so that a report can be made again.
pub(super) fn seed_of(run_id: &str) -> u64 {
    run_id.bytes().fold(0, |seed, byte| mix(seed ^ u64::from(byte)))
}
