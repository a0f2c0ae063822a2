//! The stirred-tank reactor: temperature, concentration with its set-point, and pressure over time.
//!
//! Drawn from observations only. Alarm and trip limits are those of the task: 365 and 373.15 K, 8 and 10 bar.

use phalanx_render::chart::{Chart, Mark, Panel, Series};
use phalanx_render::{Colour, Point, Scene};

use super::View;
use super::observations::horizon;
use super::stage::{self, BLUE, GREEN, PLUM, RED};

const ALARM: Colour = Colour::rgb(0xE0A030);

/// The episode so far.
pub fn draw(view: &View<'_>) -> Scene {
    let minutes_per_step = view.param("dt", 0.1);
    let minutes = |step: u32| f64::from(step) * minutes_per_step;
    let series = |name: &str| -> Vec<Point> {
        view.history.iter().zip(view.observations(name)).map(|(m, value)| (minutes(m.step), value)).collect()
    };
    let end = horizon(view, minutes_per_step, 5.0);
    let limit = |name: &str, colour: Colour, value: f64| {
        Series::line(name, colour, vec![(0.0, value), (end, value)]).mark(Mark::Dashed)
    };
    Chart {
        width: 640.0,
        height: 560.0,
        title: view.env.to_owned(),
        note: stage::status_and_end(view),
        x_label: "time (min)".to_owned(),
        x_range: (0.0, end),
        panels: vec![
            Panel::new(
                "temperature (K)",
                vec![
                    limit("trip", RED, 373.15),
                    limit("alarm", ALARM, 365.0),
                    Series::line("T", PLUM, series("temperature")).dot(),
                ],
            )
            .range(310.0, 380.0),
            Panel::new(
                "concentration of A (mol/L)",
                vec![
                    Series::line("set-point", GREEN, series("setpoint")).mark(Mark::Dashed),
                    Series::line("CA", BLUE, series("CA")).dot(),
                ],
            )
            .range(0.5, 1.0),
            Panel::new(
                "pressure (bar)",
                vec![
                    limit("trip", RED, 10.0),
                    limit("alarm", ALARM, 8.0),
                    Series::line("P", stage::STEEL, series("pressure")).dot(),
                ],
            )
            .range(0.0, 11.0),
        ],
    }
    .scene()
}
