//! What the pictures share: colours, the line of text above and below, arrows.

use std::f64::consts::{FRAC_PI_2, PI};

use phalanx_render::{Anchor, Colour, Paint, Point, Scene, Stroke, Text, font};

use super::View;

pub(super) const PAPER: Colour = Colour::rgb(0xF7F8FA);
pub(super) const GROUND: Colour = Colour::rgb(0xE4E7EC);
pub(super) const FAINT: Colour = Colour::rgb(0xB9C0CB);
pub(super) const GREY: Colour = Colour::rgb(0x5B6270);
pub(super) const INK: Colour = Colour::rgb(0x22262E);
pub(super) const STEEL: Colour = Colour::rgb(0x3D4757);
pub(super) const BLUE: Colour = Colour::rgb(0x2E86AB);
pub(super) const PLUM: Colour = Colour::rgb(0xA23B72);
pub(super) const ORANGE: Colour = Colour::rgb(0xFF6B35);
pub(super) const GREEN: Colour = Colour::rgb(0x27AE60);
pub(super) const RED: Colour = Colour::rgb(0xE74C3C);
pub(super) const WOOD: Colour = Colour::rgb(0xD0894A);

/// Height of the line above the picture.
pub(super) const HEADER: f64 = 40.0;
/// Height of the line below it.
pub(super) const FOOTER: f64 = 30.0;

const MARGIN: f64 = 16.0;

/// An empty stage: name and state of the episode above, `readings` below.
pub(super) fn stage(view: &View<'_>, width: f64, height: f64, readings: &str) -> Scene {
    let mut scene = Scene::new(width, height, PAPER);
    heading(&mut scene, view);
    let readings = font::fit(readings, 12.0, width - 2.0 * MARGIN);
    scene.text(Text::new((width / 2.0, height - 11.0), 12.0, readings, GREY).anchor(Anchor::Middle));
    scene
}

/// Name, step, return, and whether the episode has ended.
fn heading(scene: &mut Scene, view: &View<'_>) {
    let room = scene.width - 2.0 * MARGIN;
    let title = font::fit(view.env, 15.0, room);
    let used = font::width(&title, 15.0);
    scene.text(Text::new((MARGIN, 26.0), 15.0, title, INK).bold());
    let status = font::fit(&status(view), 12.0, room - used - MARGIN);
    let right = scene.width - MARGIN;
    scene.text(Text::new((right, 26.0), 12.0, status, GREY).anchor(Anchor::End));
    scene.text(Text::new((right, 43.0), 12.0, end(view), RED).anchor(Anchor::End).bold());
}

/// `step 17  return -17.0`.
pub(super) fn status(view: &View<'_>) -> String {
    view.now().map_or_else(String::new, |now| format!("step {}  return {}", now.step, reading(view.episode_return())))
}

/// The same with the way the episode ended, for the single line above a chart.
pub(super) fn status_and_end(view: &View<'_>) -> String {
    format!("{}  {}", status(view), end(view)).trim_end().to_owned()
}

/// How the episode ended, if it did.
fn end(view: &View<'_>) -> &'static str {
    match view.now() {
        Some(now) if now.terminated => "terminated",
        Some(now) if now.truncated => "truncated",
        _ => "",
    }
}

/// A number in few characters.
pub(super) fn reading(value: f64) -> String {
    let places = if value.abs() >= 1_000.0 { 0 } else { 1 };
    let text = format!("{value:.places$}");
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// A straight arrow with a head.
pub(super) fn arrow(scene: &mut Scene, from: Point, to: Point, colour: Colour) {
    scene.line([from, to], Stroke::new(colour, 4.0));
    head(scene, to, (to.1 - from.1).atan2(to.0 - from.0), colour);
}

/// An arrow around `centre` that starts at the top and runs by `sweep` radians, counter-clockwise if positive.
pub(super) fn turning_arrow(scene: &mut Scene, centre: Point, radius: f64, sweep: f64, colour: Colour) {
    let sweep = sweep.clamp(-0.9 * PI, 0.9 * PI);
    if sweep.abs() < 0.05 {
        return;
    }
    let place = |angle: f64| (centre.0 - radius * angle.sin(), centre.1 - radius * angle.cos());
    let arc: Vec<Point> = (0..=24).map(|i| place(sweep * f64::from(i) / 24.0)).collect();
    scene.line(arc, Stroke::new(colour, 4.0));
    // Counter-clockwise, the direction at the top is to the left; on the screen angles grow clockwise.
    let direction = if sweep > 0.0 { PI - sweep } else { -sweep };
    head(scene, place(sweep), direction, colour);
}

/// The head of an arrow; the direction is clockwise from the right.
fn head(scene: &mut Scene, at: Point, direction: f64, colour: Colour) {
    let place = |along: f64, aside: f64| {
        let (sin, cos) = direction.sin_cos();
        (at.0 + along * cos - aside * sin, at.1 + along * sin + aside * cos)
    };
    scene.polygon([place(12.0, 0.0), place(-3.0, 8.0), place(-3.0, -8.0)], Paint::fill(colour));
}

/// The way of a point over the last moments, fading towards the past.
pub(super) fn trail(scene: &mut Scene, points: impl DoubleEndedIterator<Item = Point>, colour: Colour) {
    const LENGTH: usize = 24;
    let recent: Vec<Point> = points.rev().take(LENGTH + 1).collect();
    for (age, pair) in recent.windows(2).enumerate().rev() {
        // Faded by colour, not by opacity: transparent ends would add up to dots where they meet.
        let faded = PAPER.towards(colour, 0.5 * (1.0 - age as f64 / LENGTH as f64));
        scene.line([pair[0], pair[1]], Stroke::new(faded, 3.0));
    }
}

/// Points of a polygon around `centre`, turned counter-clockwise.
pub(super) fn turned(points: &[Point], centre: Point, angle: f64) -> Vec<Point> {
    let (sin, cos) = angle.sin_cos();
    points.iter().map(|(x, y)| (centre.0 + x * cos + y * sin, centre.1 - x * sin + y * cos)).collect()
}

/// The part of a full turn for a torque: a right angle and a half at its limit.
pub(super) fn sweep(torque: f64, limit: f64) -> f64 {
    if limit > 0.0 { (torque / limit).clamp(-1.0, 1.0) * 1.5 * FRAC_PI_2 } else { 0.0 }
}
