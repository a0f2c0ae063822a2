//! Pictures of environments, with what went before in view.

use phalanx_core::batch::Batch;
use phalanx_envs::draw::{Draw, Moment, View};
use phalanx_render::{Image, raster};

/// The episodes so far, for environments that will be drawn.
#[derive(Debug)]
pub(crate) struct Pictures {
    draw: Draw,
    histories: Vec<Vec<Moment>>,
}

impl Pictures {
    pub(crate) fn new(draw: Draw, num_envs: usize) -> Self {
        Self { draw, histories: vec![Vec::new(); num_envs] }
    }

    /// Forgets an episode: the next moment is a first one.
    pub(crate) fn forget(&mut self, env: usize) {
        self.histories[env].clear();
    }

    /// Notes where an environment is now; `moment` has what the environment itself does not know.
    pub(crate) fn note(&mut self, env: usize, batch: &dyn Batch, moment: Moment) -> phalanx_core::Result<()> {
        let step = self.histories[env].len() as u32;
        self.histories[env].push(Moment { step, state: batch.state(env)?, ..moment });
        Ok(())
    }

    pub(crate) fn picture(&self, env: usize, batch: &dyn Batch) -> phalanx_core::Result<phalanx_render::Result<Image>> {
        let spec = batch.spec();
        let params = spec.params.iter().map(|param| Ok((param.name, batch.param(param.name, env)?)));
        let params = params.collect::<phalanx_core::Result<Vec<_>>>()?;
        let scene = (self.draw)(&View {
            env: spec.name,
            state_names: spec.state_names,
            obs_names: spec.observation.names,
            params: &params,
            history: &self.histories[env],
        });
        Ok(raster::image(&scene, 1.0))
    }
}
