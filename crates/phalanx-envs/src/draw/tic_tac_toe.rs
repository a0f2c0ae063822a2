//! The board of tic-tac-toe, with the last move and a full line marked.
//!
//! Of the state it needs `x` and `o`: masks of nine bits, bit i for cell i, row by row from the top left.

use phalanx_render::{Paint, Point, Scene, Stroke};

use super::View;
use super::stage::{self, BLUE, FAINT, GREEN, HEADER, ORANGE};

const CELL: f64 = 112.0;
const LEFT: f64 = 24.0;
const TOP: f64 = HEADER + 14.0;

const LINES: [u16; 8] = [0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o421, 0o124];

/// The board now.
pub fn draw(view: &View<'_>) -> Scene {
    let (x, o) = (mask(view.state("x")), mask(view.state("o")));
    let full_line = |mask: u16| LINES.into_iter().find(|line| mask & line == *line);
    let win = full_line(x).or_else(|| full_line(o));
    let readings = match (full_line(x), full_line(o)) {
        (Some(_), _) => "X wins",
        (_, Some(_)) => "O wins",
        _ if (x | o) == 0o777 => "draw",
        _ if x.count_ones() > o.count_ones() => "O to move",
        _ => "X to move",
    };
    let side = 3.0 * CELL;
    let mut scene = stage::stage(view, side + 2.0 * LEFT, TOP + side + 36.0, readings);

    // What the last step added; after an opponent's answer that is two cells.
    let before = view.states("x").zip(view.states("o")).rev().nth(1).map_or(0, |(x, o)| mask(x) | mask(o));
    for cell in 0..9 {
        let fresh = view.history.len() > 1 && (x | o) & !before & (1 << cell) != 0;
        let fill = if fresh { stage::GROUND } else { phalanx_render::Colour::WHITE };
        let (cx, cy) = centre(cell);
        let paint = Paint::fill(fill).outlined(Stroke::new(FAINT, 2.0));
        scene.rect((cx - CELL / 2.0, cy - CELL / 2.0), CELL, CELL, paint);
        let arm = 0.27 * CELL;
        if x & (1 << cell) != 0 {
            let stroke = Stroke::new(BLUE, 10.0);
            scene.line([(cx - arm, cy - arm), (cx + arm, cy + arm)], stroke);
            scene.line([(cx - arm, cy + arm), (cx + arm, cy - arm)], stroke);
        }
        if o & (1 << cell) != 0 {
            scene.circle((cx, cy), 1.1 * arm, Paint::outline(Stroke::new(ORANGE, 10.0)));
        }
    }
    if let Some(line) = win {
        let ends = (line.trailing_zeros(), 15 - line.leading_zeros());
        scene.line([centre(ends.0), centre(ends.1)], Stroke::new(GREEN, 6.0).opacity(0.85));
    }
    scene
}

/// Nine bits of a number; none of what is not one.
fn mask(value: f64) -> u16 {
    // The cast takes NaN to 0.
    value as u16 & 0o777
}

fn centre(cell: u32) -> Point {
    (LEFT + (f64::from(cell % 3) + 0.5) * CELL, TOP + (f64::from(cell / 3) + 0.5) * CELL)
}

#[cfg(test)]
mod tests {
    use phalanx_render::Shape;

    use super::*;
    use crate::draw::Moment;

    #[test]
    fn marks_lie_in_their_cells_and_a_full_line_is_struck() {
        let history = [Moment { state: vec![f64::from(0o421), f64::from(0o010)], ..Moment::default() }];
        let view = View { env: "", state_names: &["x", "o"], obs_names: &[], params: &[], history: &history };
        let scene = draw(&view);
        let circles: Vec<_> = scene.shapes.iter().filter(|s| matches!(s, Shape::Circle { .. })).collect();
        assert!(matches!(circles[..], [Shape::Circle { centre: at, .. }] if *at == centre(3)), "{circles:?}");
        let Some(Shape::Line { points, .. }) = scene.shapes.last() else { panic!("no line is struck") };
        assert_eq!(*points, [centre(0), centre(8)]);
    }
}
