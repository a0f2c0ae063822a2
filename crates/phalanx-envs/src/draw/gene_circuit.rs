//! Light-driven gene circuits: the count of a protein, and its target, against minutes, and the light below.
//!
//! Drawn from observations and actions only, so that recorded episodes look like live ones. Observations are
//! divided by `F_obs_normalizer` or `X_obs_normalizer`, 80 and 100 unless the environment has such a parameter.

use phalanx_render::chart::{Chart, Mark, Panel, Series};
use phalanx_render::{Anchor, Colour, Paint, Point, Scene, Stroke, Text};

use super::View;
use super::observations::horizon;
use super::stage::{self, BLUE, GREY, INK, ORANGE, PLUM};

/// The range of molecule counts that is always shown.
const F_RANGE: (f64, f64) = (0.0, 96.0);

/// The episode so far.
pub fn draw(view: &View<'_>) -> Scene {
    let unit = view.param("F_obs_normalizer", 80.0);
    chart(view, &Protein { name: "F", unit, range: F_RANGE, light: [(0.0, "off"), (1.0, "on")] })
}

/// The same for a gene with one product, X, and light of any strength.
pub fn draw_opto(view: &View<'_>) -> Scene {
    let unit = view.param("X_obs_normalizer", 100.0);
    chart(view, &Protein { name: "X", unit, range: (0.0, 150.0), light: [(0.0, "0"), (1.0, "1")] })
}

/// What is seen of a circuit.
struct Protein {
    name: &'static str,
    /// Molecules in an observation of 1.
    unit: f64,
    range: (f64, f64),
    /// What the ends of the light's range are called.
    light: [(f64, &'static str); 2],
}

fn chart(view: &View<'_>, protein: &Protein) -> Scene {
    let Protein { name: protein, unit, range, light: ticks } = *protein;
    let minutes_per_step = view.param("timestep_minutes", 5.0);
    let minutes = |step: u32| f64::from(step) * minutes_per_step;
    let series = |name: &str| -> Vec<Point> {
        view.history.iter().zip(view.observations(name)).map(|(m, value)| (minutes(m.step), value * unit)).collect()
    };
    let count = series(&format!("{protein}_normalized"));
    // The task of system identification has no target.
    let target = if view.obs_names.contains(&"F_target") { series("F_target") } else { Vec::new() };
    // An action holds during the step that it led through.
    let mut light: Vec<Point> =
        (view.history.windows(2)).filter_map(|pair| Some((minutes(pair[0].step), *pair[1].action.first()?))).collect();
    if let (Some(now), Some(last)) = (view.now(), light.last()) {
        light.push((minutes(now.step), last.1));
    }
    let note = match (count.last(), target.last()) {
        (Some((time, count)), Some((_, target))) => {
            format!("t = {time:.0} min   {protein} = {count:.0}   error {:+.1}", count - target)
        }
        (Some((time, count)), None) => format!("t = {time:.0} min   {protein} = {count:.0}"),
        _ => String::new(),
    };
    let mut counts = vec![Series::line(protein, BLUE, count).dot()];
    if !target.is_empty() {
        counts.push(Series::line("target", PLUM, target).mark(Mark::Dashed));
    }
    Chart {
        width: 640.0,
        height: 420.0,
        title: view.env.to_owned(),
        note,
        x_label: "time (min)".to_owned(),
        x_range: (0.0, horizon(view, minutes_per_step, 200.0)),
        panels: vec![
            Panel::new(format!("{protein} (molecules)"), counts).range(range.0, range.1).share(4.0),
            Panel::new("light", vec![Series::line("", ORANGE, light).mark(Mark::Step)]).range(0.0, 1.0).ticks(&ticks),
        ],
    }
    .scene()
}

/// Many circuits at one instant: a nearly square map of molecule counts, with a dot where the light is on.
pub fn population(title: &str, counts: &[f64], lights: &[bool]) -> Scene {
    const SIDE: f64 = 400.0;
    const LEFT: f64 = 20.0;
    const TOP: f64 = 48.0;
    let columns = (counts.len() as f64).sqrt().ceil().max(1.0);
    let rows = (counts.len() as f64 / columns).ceil().max(1.0);
    let cell = SIDE / columns;
    let mut scene = Scene::new(SIDE + 2.0 * LEFT, TOP + rows * cell + 64.0, Colour::WHITE);
    let on = lights.iter().filter(|on| **on).count();
    let title = phalanx_render::font::fit(title, 15.0, SIDE);
    scene.text(Text::new((LEFT, 30.0), 15.0, title, INK).bold());
    for (i, count) in counts.iter().enumerate() {
        let (row, column) = ((i as f64 / columns).floor(), i as f64 % columns);
        let (x, y) = (LEFT + column * cell, TOP + row * cell);
        scene.rect((x, y), cell, cell, Paint::fill(heat(*count)));
        if lights.get(i).is_some_and(|on| *on) {
            let dot = Paint::fill(ORANGE).outlined(Stroke::new(Colour::WHITE, cell * 0.03));
            scene.circle((x + cell / 2.0, y + cell / 2.0), cell * 0.16, dot);
        }
    }
    let (baseline, scale) = (TOP + rows * cell + 40.0, 96_u32);
    for i in 0..scale {
        let at = (LEFT + 24.0 + f64::from(i), baseline - 12.0);
        scene.rect(at, 1.0, 14.0, Paint::fill(heat(f64::from(i) / f64::from(scale) * F_RANGE.1)));
    }
    scene.text(Text::new((LEFT + 16.0, baseline), 12.0, "0", GREY).anchor(Anchor::End));
    scene.text(Text::new((LEFT + 128.0, baseline), 12.0, "96 molecules", GREY));
    let legend = format!("light on {on}, off {}", lights.len() - on);
    scene.text(Text::new((LEFT + SIDE, baseline), 12.0, legend, ORANGE).anchor(Anchor::End));
    scene
}

/// From dark blue over green to yellow.
fn heat(count: f64) -> Colour {
    const STOPS: [Colour; 5] = [
        Colour::rgb(0x2B1B4D),
        Colour::rgb(0x31558D),
        Colour::rgb(0x228A8D),
        Colour::rgb(0x6CCB5F),
        Colour::rgb(0xFDE725),
    ];
    if !count.is_finite() {
        return stage::GROUND;
    }
    let place = ((count - F_RANGE.0) / (F_RANGE.1 - F_RANGE.0)).clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let below = (place as usize).min(STOPS.len() - 2);
    STOPS[below].towards(STOPS[below + 1], place - below as f64)
}

#[cfg(test)]
mod tests {
    use phalanx_render::{Shape, raster, svg};

    use super::*;
    use crate::draw::Moment;

    /// From observations and actions alone, the last moment included.
    #[test]
    fn a_record_without_states_shows_the_final_count_and_the_light() {
        let counts = [0.0, 10.0, 48.0];
        let history: Vec<Moment> = (0..3)
            .zip(counts)
            .map(|(step, count)| Moment {
                step,
                observation: vec![count / 80.0, 25.0 / 80.0, 25.0 / 80.0],
                action: if step == 0 { vec![] } else { vec![f64::from(step - 1)] },
                ..Moment::default()
            })
            .collect();
        let names = ["F_normalized", "F_target", "F_target_1"];
        let view = View { env: "gene-circuit", state_names: &[], obs_names: &names, params: &[], history: &history };
        let scene = draw(&view);
        assert!(svg::document(&scene).contains("t = 10 min   F = 48   error +23.0"));
        let dots: Vec<_> = scene.shapes.iter().filter(|shape| matches!(shape, Shape::Circle { .. })).collect();
        assert_eq!(dots.len(), 1, "one current point");
        // Off for the first five minutes, on for the second: half of the strip is tinted.
        let areas = scene.shapes.iter().find_map(|shape| match shape {
            Shape::Polygon { points, .. } => Some(points),
            _ => None,
        });
        let area = areas.expect("the light's area");
        let (off, on) = (area.iter().map(|p| p.1).fold(0.0, f64::max), area.iter().map(|p| p.1).fold(1e9, f64::min));
        assert!(off > on && area[0].1 == off && area[2].1 == on, "{area:?}");
    }

    #[test]
    fn a_gene_under_light_of_any_strength_has_a_scale_and_a_strip_of_its_own() {
        let history = [0, 1, 2].map(|step| Moment {
            step,
            observation: vec![0.375 * step as f32],
            action: if step == 0 { vec![] } else { vec![0.5] },
            ..Moment::default()
        });
        let names = ["X_normalized"];
        let view = View { env: "opto", state_names: &[], obs_names: &names, params: &[], history: &history };
        let scene = draw_opto(&view);
        let document = svg::document(&scene);
        assert!(document.contains("t = 10 min   X = 75") && document.contains("X (molecules)"), "{document}");
        // 75 of 150 molecules are as high up as 48 of 96 of the other circuit.
        let dot = |scene: &Scene| {
            let dots = scene.shapes.iter().filter_map(|shape| match shape {
                Shape::Circle { centre, .. } => Some(*centre),
                _ => None,
            });
            dots.into_iter().next_back().expect("the current point")
        };
        let half = history.clone().map(|m| Moment { observation: vec![0.3 * m.step as f32], ..m });
        let other = draw(&View { obs_names: &["F_normalized"], history: &half, ..view });
        assert!((dot(&scene).1 - dot(&other).1).abs() < 1e-3, "{:?}, {:?}", dot(&scene), dot(&other));
        let strip = scene.shapes.iter().filter(|shape| matches!(shape, Shape::Polygon { .. })).count();
        assert_eq!(strip, 1, "the light's area");
    }

    #[test]
    fn a_population_counts_its_lights() {
        let counts: Vec<f64> = (0..10).map(|i| f64::from(i) * 10.0).collect();
        let scene = population("ten circuits", &counts, &[true, false, true]);
        assert!(svg::document(&scene).contains("light on 2, off 1"));
        assert!(raster::image(&scene, 1.0).is_ok());
        assert!(raster::image(&population("", &[], &[]), 1.0).is_ok());
    }
}
