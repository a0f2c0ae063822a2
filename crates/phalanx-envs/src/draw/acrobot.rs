//! The two links, the line that the tip must cross, the torque on the middle joint and the way of the tip.

use phalanx_render::{Paint, Point, Scene, Stroke};

use super::View;
use super::stage::{self, BLUE, FAINT, GREEN, ORANGE, PLUM, STEEL};

const SIDE: f64 = 400.0;
const PIVOT: Point = (200.0, 204.0);
/// What the stretched links have.
const REACH: f64 = 146.0;

/// `Acrobot-v1`.
pub fn draw(view: &View<'_>) -> Scene {
    let (first, second) = (view.state("theta1"), view.state("theta2"));
    let lengths = (view.param("link_length_1", 1.0), view.param("link_length_2", 1.0));
    let metre = REACH / (lengths.0 + lengths.1).max(1e-3);
    let joint = |a: f64| (PIVOT.0 + metre * lengths.0 * a.sin(), PIVOT.1 + metre * lengths.0 * a.cos());
    let tip = |a: f64, b: f64| {
        let (x, y) = joint(a);
        (x + metre * lengths.1 * (a + b).sin(), y + metre * lengths.1 * (a + b).cos())
    };
    // What the task compares with 1.
    let height = -first.cos() - (first + second).cos();
    let mut readings = format!("height {height:+.2} of 1");
    let torque = view.action(0) - 1.0;
    if torque.is_finite() {
        readings += &format!("   torque {:+.1} N m", torque * view.param("torque", 1.0));
    }
    let mut scene = stage::stage(view, SIDE, SIDE, &readings);

    let goal = PIVOT.1 - metre * lengths.0;
    scene.line([(24.0, goal), (SIDE - 24.0, goal)], Stroke::new(GREEN, 2.0).dashed(6.0, 6.0));
    stage::trail(&mut scene, view.states("theta1").zip(view.states("theta2")).map(|(a, b)| tip(a, b)), PLUM);
    scene.line([PIVOT, joint(first)], Stroke::new(STEEL, 13.0));
    scene.line([joint(first), tip(first, second)], Stroke::new(stage::PAPER, 17.0));
    scene.line([joint(first), tip(first, second)], Stroke::new(BLUE, 13.0));
    scene.circle(PIVOT, 9.0, Paint::fill(stage::INK));
    scene.circle(PIVOT, 3.5, Paint::fill(FAINT));
    scene.circle(joint(first), 8.0, Paint::fill(stage::INK));
    scene.circle(tip(first, second), 5.0, Paint::fill(PLUM));
    if torque.is_finite() {
        stage::turning_arrow(&mut scene, joint(first), 24.0, stage::sweep(torque, 1.0), ORANGE);
    }
    scene
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::testing::{circle, picture};

    #[test]
    fn links_hang_at_zero_and_the_second_angle_is_relative() {
        let tip = |first, second| circle(&picture(draw, &[("theta1", first), ("theta2", second)]), 5.0);
        assert_eq!(tip(0.0, 0.0), (PIVOT.0, PIVOT.1 + REACH));
        let quarter = std::f64::consts::FRAC_PI_2;
        let (x, y) = tip(quarter, quarter);
        assert!((x - PIVOT.0 - REACH / 2.0).abs() < 1e-9 && (y - PIVOT.1 + REACH / 2.0).abs() < 1e-9, "{x}, {y}");
    }
}
