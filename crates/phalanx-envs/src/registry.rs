//! Environments by name.

use phalanx_core::batch::{self, Batch, BatchConfig};
use phalanx_core::probe::{self, Precision, Probe};
use phalanx_core::space::EnvSpec;
use phalanx_core::{Error, Result};

use crate::gene_circuits::ccasr_gfp_control;
use crate::{
    Acrobot, CartPole, CcasrGfpControl, CcasrGfpSysid, MountainCar, MountainCarContinuous, OptoHillSysid, Pendulum,
    PendulumControl,
};

/// Something that makes a probe: settings, seed, precision.
type MakeProbe = fn(&[(String, String)], u64, Precision) -> Result<Box<dyn Probe>>;

/// A registered environment.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    spec: fn() -> EnvSpec,
    batch: fn(&BatchConfig) -> Result<Box<dyn Batch>>,
    probe: MakeProbe,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.spec().name)
    }
}

/// An entry for a lane environment that has a default.
macro_rules! lane {
    ($env:ty, $aliases:expr) => {
        Entry {
            aliases: $aliases,
            spec: || phalanx_core::env::LaneEnv::spec(&<$env>::default()),
            batch: |config| batch::build(<$env>::default(), config),
            probe: |settings, seed, precision| probe::probe(<$env>::default(), settings, seed, precision),
        }
    };
}

/// Every environment, in the order `phalanx envs` lists them.
pub static ENTRIES: &[Entry] = &[
    lane!(CartPole, &["cartpole-control", "cartpole"]),
    lane!(Pendulum, &["pendulum"]),
    lane!(PendulumControl, &[]),
    lane!(MountainCar, &["mountain-car"]),
    lane!(MountainCarContinuous, &["mountain-car-continuous"]),
    lane!(Acrobot, &["acrobot"]),
    Entry {
        aliases: &["gene-circuit", "gene-circuit-v1", "ccas-ccar-control"],
        spec: || phalanx_core::env::LaneEnv::spec(&CcasrGfpControl::<3>::default()),
        batch: ccasr_gfp_control::batch,
        probe: ccasr_gfp_control::probe,
    },
    lane!(CcasrGfpSysid, &[]),
    lane!(OptoHillSysid, &["opto-hill-1d"]),
];

impl Entry {
    /// Names, spaces and limits.
    pub fn spec(&self) -> EnvSpec {
        (self.spec)()
    }

    /// A batch of this environment.
    pub fn batch(&self, config: &BatchConfig) -> Result<Box<dyn Batch>> {
        (self.batch)(config)
    }

    /// One environment under the microscope.
    pub fn probe(&self, settings: &[(String, String)], seed: u64, precision: Precision) -> Result<Box<dyn Probe>> {
        (self.probe)(settings, seed, precision)
    }
}

/// The environment called `name`, exactly or by an alias.
///
/// ```
/// use phalanx_envs::registry;
/// assert_eq!(registry::find("cartpole-control").unwrap().spec().name, "CartPole-v1");
/// assert!(registry::find("CartPole").unwrap_err().to_string().contains("'CartPole-v1'"));
/// ```
pub fn find(name: &str) -> Result<&'static Entry> {
    let names =
        |entry: &Entry| std::iter::once(entry.spec().name).chain(entry.aliases.iter().copied()).collect::<Vec<_>>();
    ENTRIES
        .iter()
        .find(|entry| names(entry).contains(&name))
        .ok_or_else(|| Error::unknown("environment", name, None, ENTRIES.iter().flat_map(names)))
}

/// For environments whose parameters must be in order.
pub(crate) fn check_order(low_name: &str, low: f64, high_name: &str, high: f64) -> Result<(), String> {
    if low <= high {
        return Ok(());
    }
    Err(format!("{low_name} ({low}) is above {high_name} ({high})"))
}
