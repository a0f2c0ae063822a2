//! The pendulum with its torque and the way of its bob.
//!
//! `Pendulum-v1` measures its angle from upright, `pendulum-control` from hanging; both counter-clockwise.

use phalanx_render::{Paint, Point, Scene, Stroke};

use super::View;
use super::stage::{self, FAINT, GREEN, ORANGE, PLUM, RED, STEEL};

const SIDE: f64 = 400.0;
const PIVOT: Point = (200.0, 206.0);

/// `Pendulum-v1`: angle 0 is upright.
pub fn draw(view: &View<'_>) -> Scene {
    draw_from(view, 0.0)
}

/// `pendulum-control`: angle 0 is hanging.
pub fn draw_control(view: &View<'_>) -> Scene {
    draw_from(view, std::f64::consts::PI)
}

fn draw_from(view: &View<'_>, zero: f64) -> Scene {
    let theta = view.state("theta");
    let limit = view.param("max_torque", 2.0);
    let torque = view.action(0).clamp(-limit, limit);
    let from_upright = (theta - zero + 180_f64.to_radians()).rem_euclid(360_f64.to_radians()).to_degrees() - 180.0;
    let speed = view.state("theta_dot");
    let mut readings = format!("from upright {from_upright:+.0}°   {speed:+.2} rad/s");
    if torque.is_finite() {
        readings += &format!("   {torque:+.2} N m");
    }
    let mut scene = stage::stage(view, SIDE, SIDE, &readings);

    let length = 120.0 * view.param("l", 1.0).clamp(0.3, 1.15);
    let bob = |theta: f64| (PIVOT.0 - length * (theta - zero).sin(), PIVOT.1 - length * (theta - zero).cos());
    scene.circle(PIVOT, length, Paint::outline(Stroke::new(stage::GROUND, 2.0)));
    let top = PIVOT.1 - length - 24.0;
    let goal = [(PIVOT.0 - 8.0, top - 6.0), (PIVOT.0 + 8.0, top - 6.0), (PIVOT.0, top + 6.0)];
    scene.polygon(goal, Paint::fill(GREEN));
    stage::trail(&mut scene, view.states("theta").map(bob), PLUM);
    scene.line([PIVOT, bob(theta)], Stroke::new(STEEL, 9.0));
    scene.circle(bob(theta), 17.0, Paint::fill(RED).outlined(Stroke::new(stage::PAPER, 2.5)));
    scene.circle(PIVOT, 9.0, Paint::fill(stage::INK));
    scene.circle(PIVOT, 3.5, Paint::fill(FAINT));
    if torque.is_finite() {
        stage::turning_arrow(&mut scene, PIVOT, 42.0, stage::sweep(torque, limit), ORANGE);
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::testing::{circle, picture};

    #[test]
    fn the_two_zeros_are_opposite_and_angles_run_counter_clockwise() {
        let bob = |draw, theta| circle(&picture(draw, &[("theta_dot", 9.0), ("theta", theta)]), 17.0);
        assert!(bob(draw, 0.0).1 < PIVOT.1 && bob(draw_control, 0.0).1 > PIVOT.1);
        assert!(bob(draw, 0.5).0 < PIVOT.0 && bob(draw_control, 0.5).0 > PIVOT.0);
    }
}
