//! The cart on its track, to scale, with the limits of position and angle and the last push.

use phalanx_render::{Paint, Scene, Stroke};

use super::View;
use super::stage::{self, FAINT, GROUND, HEADER, ORANGE, RED, STEEL, WOOD};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 300.0;
const GROUND_Y: f64 = 236.0;
const CART: (f64, f64) = (66.0, 30.0);

/// `CartPole-v1`.
pub fn draw(view: &View<'_>) -> Scene {
    let (x, theta) = (view.state("x"), view.state("theta"));
    let limit = view.param("x_threshold", 2.4);
    let angle_limit = view.param("theta_threshold_radians", 0.2095);
    let readings =
        format!("position {x:+.2} m   angle {:+.1}°   speed {:+.2} m/s", theta.to_degrees(), view.state("x_dot"));
    let mut scene = stage::stage(view, WIDTH, HEIGHT, &readings);

    let metre = (WIDTH / 2.0 - 60.0) / limit.max(1e-3);
    let place = |x: f64| WIDTH / 2.0 + x * metre;
    scene.rect((0.0, GROUND_Y), WIDTH, 30.0, Paint::fill(GROUND));
    scene.line([(0.0, GROUND_Y), (WIDTH, GROUND_Y)], Stroke::new(STEEL, 2.0));
    for side in [-limit, limit] {
        let stroke = Stroke::new(RED, 1.5).dashed(4.0, 6.0).opacity(0.7);
        scene.line([(place(side), GROUND_Y - 170.0), (place(side), GROUND_Y + 14.0)], stroke);
    }
    for mark in [-0.5, 0.0, 0.5] {
        scene.line([(place(mark * limit), GROUND_Y), (place(mark * limit), GROUND_Y + 7.0)], Stroke::new(FAINT, 2.0));
    }

    // A cart that was pushed off the picture still shows where it left.
    let centre = place(x).clamp(-CART.0 / 2.0, WIDTH + CART.0 / 2.0);
    let (wheel, top) = (7.0, GROUND_Y - 9.0 - CART.1);
    let axle = (centre, top + 3.0);
    let pole = (2.0 * view.param("length", 0.5) * metre).clamp(24.0, axle.1 - HEADER - 8.0);
    let tip = |angle: f64| (axle.0 + pole * angle.sin(), axle.1 - pole * angle.cos());
    if angle_limit < 1.5 {
        for side in [-angle_limit, angle_limit] {
            scene.line([axle, tip(side)], Stroke::new(FAINT, 1.5).dashed(2.0, 5.0));
        }
    }
    scene.round_rect((centre - CART.0 / 2.0, top), CART.0, CART.1, 6.0, Paint::fill(STEEL));
    for side in [-0.3, 0.3] {
        let paint = Paint::fill(stage::INK).outlined(Stroke::new(stage::PAPER, 2.0));
        scene.circle((centre + side * CART.0, GROUND_Y - wheel), wheel, paint);
    }
    scene.line([axle, tip(theta)], Stroke::new(WOOD, 9.0));
    scene.circle(axle, 4.5, Paint::fill(stage::PAPER));

    let push = view.action(0);
    if push.is_finite() {
        let side = if push > 0.5 { 1.0 } else { -1.0 };
        let from = centre + side * (CART.0 / 2.0 + 8.0);
        let height = top + CART.1 / 2.0;
        stage::arrow(&mut scene, (from, height), (from + side * 24.0, height), ORANGE);
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::testing::{circle, end_of_line, picture};

    #[test]
    fn the_cart_is_where_it_is_and_a_positive_angle_leans_right() {
        let scene = picture(draw, &[("theta", 0.1), ("x", -1.2)]);
        let (axle, tip) = (circle(&scene, 4.5), end_of_line(&scene, 9.0));
        assert_eq!(axle.0, WIDTH / 2.0 - 120.0);
        let pole = (tip.0 - axle.0).hypot(tip.1 - axle.1);
        assert!(((tip.0 - axle.0) / pole - 0.1_f64.sin()).abs() < 1e-9 && tip.1 < axle.1);
        // A metre, as the track has it: 240 units for 2.4 m.
        assert!((pole - 100.0).abs() < 1e-9, "{pole}");
    }
}
