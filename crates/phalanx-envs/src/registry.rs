//! Environments by name: ours, and those that others register.

use std::sync::{PoisonError, RwLock};

use phalanx_core::batch::{self, Batch, BatchConfig};
use phalanx_core::env::LaneEnv;
use phalanx_core::probe::{self, Precision, Probe};
use phalanx_core::space::EnvSpec;
use phalanx_core::{Error, Result};

use crate::arc;
use crate::draw::{self, Draw, DrawText};
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
    /// Its picture in a terminal, where a picture of so few characters would blur what is to be seen.
    pub text: Option<DrawText>,
    /// What is rewarded, when an episode ends, and what else a player must know.
    pub rules: &'static str,
    spec: fn() -> EnvSpec,
    batch: MakeBatch,
    probe: MakeProbe,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entry({})", self.spec().name)
    }
}

/// Every environment of ours, in the order `phalanx envs` lists them.
pub static ENTRIES: &[Entry] = &[
    Entry::lane::<CartPole>(
        &["cartpole-control", "cartpole"],
        draw::cartpole::draw,
        "1 for every step; ends when the cart is 2.4 off the middle or the pole 12 degrees off the vertical",
    ),
    Entry::lane::<Pendulum>(
        &["pendulum"],
        draw::pendulum::draw,
        "-(angle² + 0.1 speed² + 0.001 torque²) before the step, angle 0 upright; ends at the limit only",
    ),
    Entry::lane::<PendulumControl>(
        &[],
        draw::pendulum::draw_control,
        "-(angle² + 0.1 speed² + 0.001 torque²) after the step, angle from upright; ends at the limit only",
    ),
    Entry::lane::<MountainCar>(&["mountain-car"], draw::mountain_car::draw, "-1 for every step; ends at the flag"),
    Entry::lane::<MountainCarContinuous>(
        &["mountain-car-continuous"],
        draw::mountain_car::draw_continuous,
        "-0.1 action² for every step, and 100 at the flag, where it ends",
    ),
    Entry::lane::<Acrobot>(
        &["acrobot"],
        draw::acrobot::draw,
        "-1 for every step but the last; ends when the tip is above the line",
    ),
    Entry {
        aliases: &["gene-circuit", "gene-circuit-v1", "ccas-ccar-control"],
        draw: draw::gene_circuit::draw,
        text: None,
        rules: "-|F - target| after the step, in molecules; action 1 is light; ends at the limit only",
        spec: || CcasrGfpControl::<3>::default().spec(),
        batch: ccasr_gfp_control::batch,
        probe: ccasr_gfp_control::probe,
    },
    Entry::lane::<CcasrGfpSysid>(
        &[],
        draw::gene_circuit::draw,
        "always 0: the answer to the light is what is wanted; ends at the limit only",
    ),
    Entry::lane::<OptoHillSysid>(
        &["opto-hill-1d"],
        draw::gene_circuit::draw_opto,
        "always 0: the answer to the light is what is wanted; ends at the limit only",
    ),
    Entry::lane::<ChemicalReactor>(
        &["chemical-reactor", "cstr"],
        draw::reactor::draw,
        "0.6 quality + 0.2 throughput + 0.2 economy, each from 0 to 1; action: jacket, feed, vent; hard constraints end it",
    ),
    Entry::lane::<VanDeVusse>(
        &["van-de-vusse"],
        draw::chart_of_observations,
        "0.6 quality + 0.2 throughput + 0.2 economy, each from 0 to 1; action: feed, cooling; hard constraints end it",
    ),
    Entry::lane::<TicTacToe>(
        &["tic-tac-toe"],
        draw::tic_tac_toe::draw,
        "1 for a win, -1 for a loss, else 0; a coin decides whether the agent is X (cell value 1, begins) or O (2, the opponent has moved); in self-play the reward is that of the side that has just moved",
    ),
    Entry {
        aliases: &["arc"],
        draw: draw::arc::draw,
        text: Some(draw::arc::text),
        rules: "gain of similarity with the answer, less a step penalty; a bonus or a penalty for submitting; ends with \
                the last attempt (operations and actions by number: docs/arc.md)",
        spec: arc::solo::spec,
        batch: arc::solo::batch,
        // Grids are whole numbers: there is one precision.
        probe: |config, _| arc::solo::probe(config),
    },
    Entry::lane::<TwoArmedBandit>(
        &["two-armed-bandit"],
        draw::two_armed_bandit::draw,
        "the number of the arm; ends after episode_len steps",
    ),
];

/// Those that others have added.
static OWN: RwLock<Vec<&'static Entry>> = RwLock::new(Vec::new());

/// How an environment is made.
pub type MakeBatch = fn(&BatchConfig) -> Result<Box<dyn Batch>>;

/// How one of them is looked at closely.
pub type MakeProbe = fn(&BatchConfig, Precision) -> Result<Box<dyn Probe>>;

impl Entry {
    /// An entry for an environment in lanes that has a default. Without a picture of its own it is drawn by
    /// [`draw::chart_of_observations`].
    pub const fn lane<E: LaneEnv + Default>(aliases: &'static [&'static str], draw: Draw, rules: &'static str) -> Self {
        Self {
            aliases,
            draw,
            text: None,
            rules,
            spec: || E::default().spec(),
            batch: |config| batch::build(E::default(), config),
            probe: |config, precision| probe::probe(E::default(), config, precision),
        }
    }

    /// An entry for an environment that is made in a way of its own.
    pub const fn new(
        aliases: &'static [&'static str],
        draw: Draw,
        rules: &'static str,
        spec: fn() -> EnvSpec,
        batch: MakeBatch,
        probe: MakeProbe,
    ) -> Self {
        Self { aliases, draw, text: None, rules, spec, batch, probe }
    }

    /// All names it answers to.
    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.spec().name).chain(self.aliases.iter().copied())
    }

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

/// Every environment: ours, and those that were [registered](register).
pub fn all() -> Vec<&'static Entry> {
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner);
    ENTRIES.iter().chain(own.iter().copied()).collect()
}

/// Adds an environment of one's own, so that everything that finds environments by name finds it too: it lasts as long
/// as the process.
///
/// # Errors
/// If a name of it is taken.
///
/// ```
/// use phalanx_envs::registry::{self, Entry};
/// use phalanx_envs::{MountainCar, draw};
///
/// let taken = Entry::lane::<MountainCar>(&[], draw::chart_of_observations, "the same again");
/// assert!(registry::register(taken).unwrap_err().to_string().contains("MountainCar-v0"));
/// ```
pub fn register(entry: Entry) -> Result<()> {
    let mut own = OWN.write().unwrap_or_else(PoisonError::into_inner);
    let taken: Vec<_> = ENTRIES.iter().chain(own.iter().copied()).flat_map(Entry::names).collect();
    if let Some(name) = entry.names().find(|name| taken.contains(name)) {
        return Err(Error::Setup(format!("there is an environment called '{name}' already: choose another name")));
    }
    own.push(Box::leak(Box::new(entry)));
    Ok(())
}

/// The environment called `name`, exactly or by an alias.
///
/// ```
/// use phalanx_envs::registry;
/// assert_eq!(registry::find("cartpole-control").unwrap().spec().name, "CartPole-v1");
/// assert!(registry::find("CartPole").unwrap_err().to_string().contains("'CartPole-v1'"));
/// ```
pub fn find(name: &str) -> Result<&'static Entry> {
    let all = all();
    let found = all.iter().find(|entry| entry.names().any(|known| known == name)).copied();
    found.ok_or_else(|| Error::unknown("environment", name, None, all.iter().flat_map(|entry| entry.names())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_of_ones_own_is_found_and_its_names_are_taken() {
        let entry = |spec: fn() -> EnvSpec, aliases| Entry { spec, aliases, ..ENTRIES[0] };
        let own = || EnvSpec { name: "Own-v0", ..ENTRIES[0].spec() };
        register(entry(own, &["own"])).unwrap();
        assert_eq!(find("own").unwrap().spec().name, "Own-v0");
        assert_eq!(all().len(), ENTRIES.len() + 1);
        let other = || EnvSpec { name: "Other-v0", ..ENTRIES[0].spec() };
        for (taken, refused) in [("Own-v0", entry(own, &[])), ("cartpole", entry(other, &["cartpole"]))] {
            let message = register(refused).unwrap_err().to_string();
            assert!(message.contains(taken), "{message}");
        }
    }
}
