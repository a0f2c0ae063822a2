//! Pictures of environments, one file for each family.
//!
//! A picture is a function from what is known of an episode, a [`View`], to a
//! [`Scene`]; it works from recorded episodes as well as from live ones and never fails: what is missing or
//! not finite is left out. All frames of an environment have one size, so that they make an animation. An
//! environment without a picture of its own gets [`chart_of_observations`].

pub mod acrobot;
pub mod arc;
pub mod cartpole;
pub mod gene_circuit;
pub mod grid;
pub mod mountain_car;
pub mod pendulum;
pub mod reactor;
pub mod tic_tac_toe;
pub mod two_armed_bandit;

mod film;
mod observations;
mod stage;

pub use film::Film;
pub use observations::chart_of_observations;
pub use phalanx_render::Scene;

/// One instant of an episode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// Steps taken since the start.
    pub step: u32,
    /// The state after the step, in the order of the state's names; may be empty for a recorded episode.
    pub state: Vec<f64>,
    /// The observation after the step.
    pub observation: Vec<f32>,
    /// The action that led here; empty at the start.
    pub action: Vec<f64>,
    /// The reward of the step; 0 at the start.
    pub reward: f64,
    /// Whether the task itself ended here.
    pub terminated: bool,
    /// Whether the step limit was reached here.
    pub truncated: bool,
}

/// What a picture may show.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Name of the environment.
    pub env: &'a str,
    /// Names of the state's fields.
    pub state_names: &'a [&'static str],
    /// Names of the observation's components.
    pub obs_names: &'a [&'a str],
    /// Names and values of the parameters.
    pub params: &'a [(&'static str, f64)],
    /// The episode so far; the last moment is now.
    pub history: &'a [Moment],
}

/// How an environment is drawn.
pub type Draw = fn(&View<'_>) -> Scene;

/// How an environment is drawn as lines of text for a terminal, with colours as escapes.
pub type DrawText = fn(&View<'_>) -> String;

impl<'a> View<'a> {
    /// The last moment, if there is one.
    pub fn now(&self) -> Option<&'a Moment> {
        self.history.last()
    }

    /// A field of the state now; NaN, with which nothing is drawn, if there is none of that name.
    pub fn state(&self, name: &str) -> f64 {
        self.states(name).next_back().unwrap_or(f64::NAN)
    }

    /// A field of the state at each moment.
    pub fn states(&self, name: &str) -> impl DoubleEndedIterator<Item = f64> + ExactSizeIterator + use<'a> {
        let index = position(self.state_names, name);
        self.history.iter().map(move |moment| moment.state.get(index).copied().unwrap_or(f64::NAN))
    }

    /// A component of the observation now; NaN if there is none of that name.
    pub fn observation(&self, name: &str) -> f64 {
        self.observations(name).next_back().unwrap_or(f64::NAN)
    }

    /// A component of the observation at each moment.
    pub fn observations(&self, name: &str) -> impl DoubleEndedIterator<Item = f64> + ExactSizeIterator + use<'a> {
        let index = position(self.obs_names, name);
        self.history.iter().map(move |moment| moment.observation.get(index).map_or(f64::NAN, |value| f64::from(*value)))
    }

    /// A parameter, or `default` if there is none of that name.
    pub fn param(&self, name: &str, default: f64) -> f64 {
        self.params.iter().find(|(param, _)| *param == name).map_or(default, |(_, value)| *value)
    }

    /// A component of the action that led to now; NaN at the start.
    pub fn action(&self, component: usize) -> f64 {
        self.now().and_then(|now| now.action.get(component)).copied().unwrap_or(f64::NAN)
    }

    /// The sum of rewards so far.
    pub fn episode_return(&self) -> f64 {
        self.history.iter().map(|moment| moment.reward).sum()
    }
}

/// Where a name is; beyond any vector if it is not there.
fn position(names: &[&str], name: &str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or(usize::MAX)
}

/// What the tests of pictures share.
#[cfg(test)]
mod testing {
    use phalanx_render::{Point, Scene, Shape};

    use super::{Draw, Moment, View};

    /// The picture of one state.
    pub(super) fn picture(draw: Draw, state: &[(&'static str, f64)]) -> Scene {
        let (names, values): (Vec<_>, Vec<_>) = state.iter().copied().unzip();
        let history = [Moment { state: values, ..Moment::default() }];
        draw(&View { env: "", state_names: &names, obs_names: &[], params: &[], history: &history })
    }

    /// The last end of the last solid line of a width.
    pub(super) fn end_of_line(scene: &Scene, width: f64) -> Point {
        let ends = scene.shapes.iter().filter_map(|shape| match shape {
            Shape::Line { points, stroke } if stroke.width == width => points.last(),
            _ => None,
        });
        *ends.into_iter().next_back().expect("such a line")
    }

    /// The centre of the last circle of a radius.
    pub(super) fn circle(scene: &Scene, radius: f64) -> Point {
        let centres = scene.shapes.iter().filter_map(|shape| match shape {
            Shape::Circle { centre, radius: r, .. } if *r == radius => Some(*centre),
            _ => None,
        });
        centres.into_iter().next_back().expect("such a circle")
    }
}
