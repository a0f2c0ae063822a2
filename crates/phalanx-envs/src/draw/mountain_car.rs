//! The car in its valley, the flag at the goal and the last push.

use phalanx_render::{Colour, Paint, Point, Scene, Stroke};

use super::View;
use super::stage::{self, FOOTER, ORANGE, RED, STEEL};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 380.0;
const FLOOR: f64 = HEIGHT - FOOTER;
const HILL: Colour = Colour::rgb(0xBFD8C2);
const TURF: Colour = Colour::rgb(0x4E8F5B);
const WHEEL: f64 = 8.0;

/// `MountainCar-v0`: action 0, 1, 2 is a push left, none, right.
pub fn draw(view: &View<'_>) -> Scene {
    draw_with(view, view.action(0) - 1.0)
}

/// `MountainCarContinuous-v0`: the action is the throttle.
pub fn draw_continuous(view: &View<'_>) -> Scene {
    draw_with(view, view.action(0).clamp(-1.0, 1.0))
}

/// Height of the ground; only its slope is part of the environment, through gravity.
fn height(position: f64) -> f64 {
    0.45 * (3.0 * position).sin() + 0.55
}

fn draw_with(view: &View<'_>, push: f64) -> Scene {
    let (low, high) = (view.param("min_position", -1.2), view.param("max_position", 0.6));
    let position = view.state("position");
    let mut readings = format!("position {position:+.3}   velocity {:+.4}", view.state("velocity"));
    if push.is_finite() {
        readings += &format!("   push {push:+.2}");
    }
    let mut scene = stage::stage(view, WIDTH, HEIGHT, &readings);

    let room = 26.0;
    let unit = (WIDTH - 2.0 * room) / (high - low).max(1e-3);
    // The valley may be wider than that of Gymnasium, but not higher.
    let rise = unit.min((FLOOR - 150.0) / 0.9);
    let place = |position: f64| (room + (position - low) * unit, FLOOR - 16.0 - height(position) * rise);
    let ground: Vec<Point> = (0..=150).map(|i| place(low + (f64::from(i) / 75.0 - 0.5) * (high - low))).collect();
    let ends = [ground.last(), ground.first()].into_iter().flatten().map(|(x, _)| (*x, FLOOR));
    let hill: Vec<Point> = ground.iter().copied().chain(ends).collect();
    scene.polygon(hill, Paint::fill(HILL));
    scene.line(ground, Stroke::new(TURF, 4.0));

    let flag = place(view.param("goal_position", 0.5));
    let mast = flag.1 - 52.0;
    scene.line([flag, (flag.0, mast)], Stroke::new(STEEL, 3.0));
    scene.polygon([(flag.0 + 1.0, mast), (flag.0 + 25.0, mast + 9.0), (flag.0 + 1.0, mast + 18.0)], Paint::fill(RED));

    let slope = (1.35 * (3.0 * position).cos() * rise / unit).atan();
    let foot = place(position);
    let body = |points: &[Point]| stage::turned(points, foot, slope);
    let up = -2.0 - WHEEL;
    scene.polygon(
        body(&[
            (-27.0, up),
            (-27.0, up - 10.0),
            (-14.0, up - 12.0),
            (-9.0, up - 22.0),
            (10.0, up - 22.0),
            (17.0, up - 12.0),
            (27.0, up - 9.0),
            (27.0, up),
        ]),
        Paint::fill(STEEL).outlined(Stroke::new(STEEL, 3.0)),
    );
    scene.polygon(
        body(&[(-9.0, up - 12.5), (-6.0, up - 19.5), (8.0, up - 19.5), (12.0, up - 12.5)]),
        Paint::fill(Colour::rgb(0xCFE3EE)),
    );
    for wheel in body(&[(-15.0, -WHEEL - 2.0), (15.0, -WHEEL - 2.0)]) {
        scene.circle(wheel, WHEEL, Paint::fill(stage::INK));
        scene.circle(wheel, 3.0, Paint::fill(stage::FAINT));
    }
    if push.is_finite() && push.abs() > 0.02 {
        let side = push.signum();
        // Above the roof: beside the car it would run into the slope.
        let ends = body(&[(side * -8.0, up - 36.0), (side * (26.0 * push.abs() - 4.0), up - 36.0)]);
        stage::arrow(&mut scene, ends[0], ends[1], ORANGE);
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::testing::{circle, picture};

    #[test]
    fn the_car_stands_on_the_slope() {
        // The hub of the right wheel; at the bottom of the valley the car is level.
        let hub = |position| circle(&picture(draw, &[("velocity", 0.0), ("position", position)]), 3.0);
        let bottom = -std::f64::consts::FRAC_PI_6;
        assert!((hub(bottom).0 - (26.0 + (bottom + 1.2) * 548.0 / 1.8) - 15.0).abs() < 1e-9);
        assert!(hub(0.0).1 < hub(bottom).1 - 60.0 && hub(-1.0).1 < hub(bottom).1 - 60.0);
    }
}
