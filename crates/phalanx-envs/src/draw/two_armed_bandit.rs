//! Two arms with the number of pulls of each; the arm that was just pulled is marked.
//!
//! Of each moment it needs the action; of the parameters `episode_len`.

use phalanx_render::{Anchor, Colour, Paint, Point, Scene, Stroke, Text};

use super::View;
use super::stage::{self, FAINT, FOOTER, GREEN, GREY, GROUND, HEADER, INK, STEEL};

const BOX: (f64, f64) = (120.0, 96.0);
const GAP: f64 = 40.0;
const TOP: f64 = HEADER + 34.0;

/// The arms now.
pub fn draw(view: &View<'_>) -> Scene {
    let pulls = |arm: f64| view.history.iter().filter(|moment| moment.action.first() == Some(&arm)).count();
    let made = pulls(0.0) + pulls(1.0);
    let readings = format!("pull {made} of {}", view.param("episode_len", f64::NAN));
    let width = 2.0 * BOX.0 + 3.0 * GAP;
    let mut scene = stage::stage(view, width, TOP + BOX.1 + 16.0 + FOOTER, &readings);
    for (i, arm) in [0.0, 1.0].into_iter().enumerate() {
        let pulled = view.action(0) == arm;
        // What pays is green, what does not is not.
        let (fill, ink) = match (pulled, i) {
            (false, _) => (Colour::WHITE, INK),
            (true, 0) => (GROUND, INK),
            (true, _) => (GREEN, Colour::WHITE),
        };
        let left = GAP + i as f64 * (BOX.0 + GAP);
        let middle = left + BOX.0 / 2.0;
        let label = format!("arm {arm} pays {arm}");
        scene.text(Text::new((middle, TOP - 10.0), 12.0, label, GREY).anchor(Anchor::Middle));
        lever(&mut scene, (left + BOX.0, TOP + BOX.1 / 2.0), pulled);
        scene.round_rect((left, TOP), BOX.0, BOX.1, 8.0, Paint::fill(fill).outlined(Stroke::new(FAINT, 2.0)));
        scene.text(Text::new((middle, TOP + 56.0), 26.0, pulls(arm).to_string(), ink).anchor(Anchor::Middle).bold());
    }
    scene
}

/// The lever at the side of a machine: up, or down where it was just pulled.
fn lever(scene: &mut Scene, at: Point, pulled: bool) {
    let end = (at.0 + 16.0, if pulled { at.1 + 28.0 } else { at.1 - 28.0 });
    scene.line([at, (at.0 + 16.0, at.1), end], Stroke::new(STEEL, 4.0));
    scene.circle(end, 6.0, Paint::fill(STEEL));
}

#[cfg(test)]
mod tests {
    use phalanx_render::Shape;

    use super::*;
    use crate::draw::Moment;

    #[test]
    fn pulls_are_counted_and_the_last_arm_is_down() {
        let pull = |action: &[f64]| Moment { action: action.to_vec(), ..Moment::default() };
        let history = [pull(&[]), pull(&[1.0]), pull(&[0.0]), pull(&[1.0])];
        let params = [("episode_len", 10.0)];
        let scene = draw(&View { env: "", state_names: &[], obs_names: &[], params: &params, history: &history });
        let texts = scene.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        let texts: Vec<_> = texts.collect();
        assert!(texts.contains(&"pull 3 of 10") && texts.contains(&"1") && texts.contains(&"2"), "{texts:?}");
        let ends = scene.shapes.iter().filter_map(|shape| match shape {
            Shape::Circle { centre, .. } => Some(centre.1 > TOP + BOX.1 / 2.0),
            _ => None,
        });
        assert_eq!(ends.collect::<Vec<_>>(), [false, true]);
    }
}
