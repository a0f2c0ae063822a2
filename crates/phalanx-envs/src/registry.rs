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
    /// What is rewarded, when an episode ends, and what else a player must know.
    pub rules: &'static str,
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
    ($env:ty, $aliases:expr, $draw:expr, $rules:expr) => {
        Entry {
            aliases: $aliases,
            draw: $draw,
            rules: $rules,
            spec: || phalanx_core::env::LaneEnv::spec(&<$env>::default()),
            batch: |config| batch::build(<$env>::default(), config),
            probe: |config, precision| probe::probe(<$env>::default(), config, precision),
        }
    };
}

/// Every environment, in the order `phalanx envs` lists them.
pub static ENTRIES: &[Entry] = &[
    lane!(
        CartPole,
        &["cartpole-control", "cartpole"],
        draw::cartpole::draw,
        "1 for every step; ends when the cart is 2.4 off the middle or the pole 12 degrees off the vertical"
    ),
    lane!(
        Pendulum,
        &["pendulum"],
        draw::pendulum::draw,
        "-(angle² + 0.1 speed² + 0.001 torque²) before the step, angle 0 upright; ends at the limit only"
    ),
    lane!(
        PendulumControl,
        &[],
        draw::pendulum::draw_control,
        "-(angle² + 0.1 speed² + 0.001 torque²) after the step, angle from upright; ends at the limit only"
    ),
    lane!(MountainCar, &["mountain-car"], draw::mountain_car::draw, "-1 for every step; ends at the flag"),
    lane!(
        MountainCarContinuous,
        &["mountain-car-continuous"],
        draw::mountain_car::draw_continuous,
        "-0.1 action² for every step, and 100 at the flag, where it ends"
    ),
    lane!(
        Acrobot,
        &["acrobot"],
        draw::acrobot::draw,
        "-1 for every step but the last; ends when the tip is above the line"
    ),
    Entry {
        aliases: &["gene-circuit", "gene-circuit-v1", "ccas-ccar-control"],
        draw: draw::gene_circuit::draw,
        rules: "-|F - target| after the step, in molecules; action 1 is light; ends at the limit only",
        spec: || phalanx_core::env::LaneEnv::spec(&CcasrGfpControl::<3>::default()),
        batch: ccasr_gfp_control::batch,
        probe: ccasr_gfp_control::probe,
    },
    lane!(
        CcasrGfpSysid,
        &[],
        draw::gene_circuit::draw,
        "always 0: the answer to the light is what is wanted; ends at the limit only"
    ),
    lane!(
        OptoHillSysid,
        &["opto-hill-1d"],
        draw::chart_of_observations,
        "always 0: the answer to the light is what is wanted; ends at the limit only"
    ),
    lane!(
        ChemicalReactor,
        &["chemical-reactor", "cstr"],
        draw::reactor::draw,
        "0.6 quality + 0.2 throughput + 0.2 economy, each from 0 to 1; action: jacket, feed, vent; hard constraints end it"
    ),
    lane!(
        VanDeVusse,
        &["van-de-vusse"],
        draw::chart_of_observations,
        "0.6 quality + 0.2 throughput + 0.2 economy, each from 0 to 1; action: feed, cooling; hard constraints end it"
    ),
    lane!(
        TicTacToe,
        &["tic-tac-toe"],
        draw::tic_tac_toe::draw,
        "1 for a win, -1 for a loss, else 0; a coin decides whether the agent is X (cell value 1, begins) or O (2, the opponent has moved); in self-play the reward is that of the side that has just moved"
    ),
    Entry {
        aliases: &["arc"],
        draw: draw::arc::draw,
        rules: "gain of similarity with the answer, less a step penalty; a bonus or a penalty for submitting; ends with \
                the last attempt (operations and actions by number: docs/arc.md)",
        spec: arc::solo::spec,
        batch: arc::solo::batch,
        // Grids are whole numbers: there is one precision.
        probe: |config, _| arc::solo::probe(config),
    },
    lane!(
        TwoArmedBandit,
        &["two-armed-bandit"],
        draw::two_armed_bandit::draw,
        "the number of the arm; ends after episode_len steps"
    ),
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
