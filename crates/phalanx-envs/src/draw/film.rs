//! An episode as pictures, one for each moment.

use phalanx_core::space::EnvSpec;

use super::{Draw, Moment, Scene, View};

/// Draws an episode moment by moment, with what went before in view.
#[derive(Debug)]
pub struct Film {
    draw: Draw,
    env: &'static str,
    state_names: &'static [&'static str],
    obs_names: &'static [&'static str],
    params: Vec<(&'static str, f64)>,
    history: Vec<Moment>,
}

impl Film {
    /// Of an environment with these parameters.
    pub fn new(draw: Draw, spec: &EnvSpec, params: Vec<(&'static str, f64)>) -> Self {
        let (env, state_names, obs_names) = (spec.name, spec.state_names, spec.observation.names);
        Self { draw, env, state_names, obs_names, params, history: Vec::new() }
    }

    /// The picture of the next moment; one at step 0 begins a new episode.
    pub fn scene(&mut self, moment: Moment) -> Scene {
        (self.draw)(&self.view(moment))
    }

    /// What a picture of the next moment may show, for one who draws in a way of their own.
    pub fn view(&mut self, moment: Moment) -> View<'_> {
        if moment.step == 0 {
            self.history.clear();
        }
        self.history.push(moment);
        View {
            env: self.env,
            state_names: self.state_names,
            obs_names: self.obs_names,
            params: &self.params,
            history: &self.history,
        }
    }
}
