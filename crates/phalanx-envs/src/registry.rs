//! Environments by name.

use phalanx_core::batch::{self, Batch, BatchConfig};
use phalanx_core::probe::{self, Precision, Probe};
use phalanx_core::space::EnvSpec;
use phalanx_core::{Error, Result};

use crate::arc;
use crate::draw::{self, Draw};
use crate::gene_circuits::ccasr_gfp_control;
use crate::{
    Acrobot, CartPole, CcasrGfpControl, CcasrGfpSysid, ChemicalReactor, MountainCar, MountainCarContinuous,
    OptoHillSysid, Pendulum, PendulumControl, TicTacToe, TwoArmedBandit, VanDeVusse,
};

/// A registered environment.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// Its picture.
    pub draw: Draw,
    spec: fn() -> EnvSpec,
    batch: fn(&BatchConfig) -> Result<Box<dyn Batch>>,
    probe: fn(&BatchConfig, Precision) -> Result<Box<dyn Probe>>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.spec().name)
    }
}

/// An entry for a lane environment that has a default; without a picture, `draw::chart_of_observations`.
macro_rules! lane {
    ($env:ty, $aliases:expr, $draw:expr) => {
        Entry {
            aliases: $aliases,
            draw: $draw,
            spec: || phalanx_core::env::LaneEnv::spec(&<$env>::default()),
            batch: |config| batch::build(<$env>::default(), config),
            probe: |config, precision| probe::probe(<$env>::default(), config, precision),
        }
    };
}

/// Every environment, in the order `phalanx envs` lists them.
pub static ENTRIES: &[Entry] = &[
    lane!(CartPole, &["cartpole-control", "cartpole"], draw::cartpole::draw),
    lane!(Pendulum, &["pendulum"], draw::pendulum::draw),
    lane!(PendulumControl, &[], draw::pendulum::draw_control),
    lane!(MountainCar, &["mountain-car"], draw::mountain_car::draw),
    lane!(MountainCarContinuous, &["mountain-car-continuous"], draw::mountain_car::draw_continuous),
    lane!(Acrobot, &["acrobot"], draw::acrobot::draw),
    Entry {
        aliases: &["gene-circuit", "gene-circuit-v1", "ccas-ccar-control"],
        draw: draw::gene_circuit::draw,
        spec: || phalanx_core::env::LaneEnv::spec(&CcasrGfpControl::<3>::default()),
        batch: ccasr_gfp_control::batch,
        probe: ccasr_gfp_control::probe,
    },
    lane!(CcasrGfpSysid, &[], draw::gene_circuit::draw),
    lane!(OptoHillSysid, &["opto-hill-1d"], draw::chart_of_observations),
    lane!(ChemicalReactor, &["chemical-reactor", "cstr"], draw::reactor::draw),
    lane!(VanDeVusse, &["van-de-vusse"], draw::chart_of_observations),
    lane!(TicTacToe, &["tic-tac-toe"], draw::tic_tac_toe::draw),
    Entry {
        aliases: &["arc"],
        draw: draw::arc::draw,
        spec: arc::solo::spec,
        batch: arc::solo::batch,
        // Grids are whole numbers: there is one precision.
        probe: |config, _| arc::solo::probe(config),
    },
    lane!(TwoArmedBandit, &["two-armed-bandit"], draw::two_armed_bandit::draw),
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

    /// One environment under the microscope: the first of the batch that `config` describes.
    pub fn probe(&self, config: &BatchConfig, precision: Precision) -> Result<Box<dyn Probe>> {
        (self.probe)(config, precision)
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
