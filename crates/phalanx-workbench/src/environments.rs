//! Environments of the registry as learning takes them: made, and drawn.

use phalanx_core::batch::{Batch, BatchConfig};
use phalanx_core::probe::Precision;
use phalanx_envs::draw::{self, Moment};
use phalanx_envs::registry::{self, Entry};
use phalanx_learn::Environments;
use phalanx_learn::environments::{Draw, Film};
use phalanx_learn::run::episodes::Actions;
use phalanx_render::{gif, raster};

use crate::error::Result;

/// One environment of the registry.
pub struct Registered {
    entry: &'static Entry,
    draw: Box<Draw<'static>>,
}

impl Registered {
    /// The environment called `name`, exactly or by an alias.
    pub fn find(name: &str) -> Result<Self> {
        let entry = registry::find(name)?;
        Ok(Self { entry, draw: Box::new(move |film| gif_of(entry, film)) })
    }
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registered({})", self.entry.spec().name)
    }
}

impl Environments for Registered {
    fn batch(&self, config: &BatchConfig) -> phalanx_core::error::Result<Box<dyn Batch>> {
        self.entry.batch(config)
    }

    fn film(&self) -> Option<&Draw<'_>> {
        Some(&*self.draw)
    }
}

fn gif_of(entry: &Entry, film: &Film<'_>) -> phalanx_learn::Result<Vec<u8>> {
    let probe = entry.probe(film.config, Precision::F32)?;
    let mut pictures = draw::Film::new(entry.draw, probe.spec(), probe.params());
    let (episode, steps) = (film.episode, film.episode.length());
    let action = |step: usize| match &episode.actions {
        Actions::Discrete(actions) => vec![actions[step] as f64],
        Actions::MultiDiscrete { size, choices } => choices[step * size..][..*size].iter().map(|c| *c as f64).collect(),
        Actions::Continuous { size, values } => values[step * size..][..*size].iter().map(|v| f64::from(*v)).collect(),
    };
    let dim = probe.spec().observation.dim();
    let scenes: Vec<_> = (0..=steps)
        .map(|t| {
            let row = &episode.observations[t * episode.observation_size..][..episode.observation_size];
            pictures.scene(Moment {
                step: t as u32,
                state: film.states[t].clone(),
                observation: row[episode.newest..][..dim].to_vec(),
                action: t.checked_sub(1).map(action).unwrap_or_default(),
                reward: t.checked_sub(1).map_or(0.0, |step| f64::from(episode.rewards[step])),
                terminated: t == steps && episode.terminated,
                truncated: t == steps && episode.truncated,
            })
        })
        .collect();
    gif::encode_with(scenes.len(), |frame| raster::image(&scenes[frame], 1.0), 1_000 / film.fps)
        .map_err(|error| phalanx_learn::Error::Picture { why: error.to_string() })
}
