//! The picture of an environment that has no picture: its observation over the steps.

use phalanx_render::chart::{Chart, Panel, Series};
use phalanx_render::{Colour, Scene};

use super::{View, stage};

/// The most components that are shown.
const MOST: usize = 6;

const COLOURS: [Colour; MOST] =
    [stage::BLUE, stage::PLUM, stage::ORANGE, stage::GREEN, Colour::rgb(0x6C5CE7), Colour::rgb(0xB8860B)];

/// A panel for each of the first six components of the observation.
pub fn chart_of_observations(view: &View<'_>) -> Scene {
    let names = &view.obs_names[..view.obs_names.len().min(MOST)];
    let panels = names.iter().zip(COLOURS).map(|(name, colour)| {
        let steps = view.history.iter().map(|moment| f64::from(moment.step));
        Panel::new(*name, vec![Series::line("", colour, steps.zip(view.observations(name)).collect()).dot()])
    });
    let mut note = stage::status_and_end(view);
    if names.len() < view.obs_names.len() {
        note += &format!("  ({} of {} observations)", names.len(), view.obs_names.len());
    }
    Chart {
        width: 640.0,
        height: 110.0 + 92.0 * names.len().max(2) as f64,
        title: view.env.to_owned(),
        note,
        x_label: "step".to_owned(),
        x_range: (0.0, horizon(view, 1.0, 20.0)),
        panels: panels.collect(),
    }
    .scene()
}

/// The end of the time axis: round, so that it does not move with every frame, and `least` at least.
pub(super) fn horizon(view: &View<'_>, time_per_step: f64, least: f64) -> f64 {
    let now = view.now().map_or(0.0, |now| f64::from(now.step) * time_per_step);
    let (now, power) = (now.max(least), 10.0_f64.powf(now.max(least).log10().floor()));
    [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5].map(|m| m * power).into_iter().find(|end| *end >= now).unwrap_or(10.0 * power)
}
