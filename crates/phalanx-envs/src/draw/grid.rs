//! Grids of coloured cells, as in the Abstraction and Reasoning Corpus.
//!
//! A grid is a slice of rows of colours 0 to 9; cells of -1 are padding, right of and below the active area. Only
//! the active area is drawn. Every scene of a kind has the same size, whatever the grid's, so that steps make an
//! animation.

use phalanx_render::ansi::{self, Cell};
use phalanx_render::{Anchor, Colour, Paint, Point, Scene, Stroke, Text, font};

use super::stage::{GREY, INK, PAPER};

/// The ten colours.
pub const PALETTE: [Colour; 10] = [
    Colour::rgb(0x252525),
    Colour::rgb(0x0074D9),
    Colour::rgb(0xFF4136),
    Colour::rgb(0x37D449),
    Colour::rgb(0xFFDC00),
    Colour::rgb(0xE6E6E6),
    Colour::rgb(0xF012BE),
    Colour::rgb(0xFF871E),
    Colour::rgb(0x54D2EB),
    Colour::rgb(0x8D1D2C),
];
/// Of cells that are no part of the grid.
pub const PADDING: Colour = Colour::rgb(0xCCCCCC);

const BORDER: Colour = Colour::rgb(0x111111);
const SELECTION: Colour = Colour::rgb(0x3498DB);
const CHANGED: Colour = Colour::rgb(0xFF6B6B);
const GAIN: Colour = Colour::rgb(0x27AE60);
const LOSS: Colour = Colour::rgb(0xE74C3C);
const NEUTRAL: Colour = Colour::rgb(0x95A5A6);

/// The square that a grid is scaled into.
const FRAME: f64 = 320.0;
/// The largest cell.
const LARGEST: f64 = 64.0;
const MARGIN: f64 = 20.0;

/// The colour of a cell; anything that is no colour is padding.
pub fn colour(cell: i8) -> Colour {
    usize::try_from(cell).ok().and_then(|index| PALETTE.get(index)).copied().unwrap_or(PADDING)
}

/// Height and width of the active area: up to the last row and column that hold a colour.
pub fn active_size(rows: &[&[i8]]) -> (usize, usize) {
    let width_of = |row: &&[i8]| row.iter().rposition(|cell| *cell >= 0).map_or(0, |last| last + 1);
    let height = rows.iter().rposition(|row| width_of(row) > 0).map_or(0, |last| last + 1);
    (height, rows.iter().map(width_of).max().unwrap_or(0))
}

/// One grid with the label `Step n` and its size.
pub fn scene(rows: &[&[i8]], step: Option<u32>) -> Scene {
    let (height, width) = active_size(rows);
    let mut scene = Scene::new(FRAME + 2.0 * MARGIN, FRAME + 2.0 * MARGIN + 28.0, PAPER);
    let baseline = MARGIN + 8.0;
    if let Some(step) = step {
        scene.text(Text::new((MARGIN, baseline), 15.0, format!("Step {step}"), INK).bold());
    }
    let size = Text::new((MARGIN + FRAME, baseline), 12.0, format!("{height}x{width}"), GREY);
    scene.text(size.anchor(Anchor::End));
    Placed::new(rows, (MARGIN, MARGIN + 28.0)).draw(&mut scene);
    scene
}

/// What a step did to a grid.
#[derive(Clone, Copy, Debug)]
pub struct StepView<'a> {
    /// Steps taken, this one included.
    pub step: u32,
    /// The operation's number.
    pub operation: u32,
    /// The operation's name.
    pub operation_name: &'a str,
    /// The grid before the step.
    pub before: &'a [&'a [i8]],
    /// The grid after it.
    pub after: &'a [&'a [i8]],
    /// The cells that were selected; may be smaller than the grid.
    pub selection: &'a [&'a [bool]],
    /// The reward of the step.
    pub reward: f64,
}

/// Before and after a step: the selection over the former, changed cells outlined in the latter.
pub fn step_scene(view: &StepView<'_>) -> Scene {
    const GUTTER: f64 = 60.0;
    const TOP: f64 = 78.0;
    let width = 2.0 * FRAME + GUTTER + 2.0 * MARGIN;
    let mut scene = Scene::new(width, TOP + FRAME + MARGIN, PAPER);
    let reward_colour = match view.reward {
        reward if reward > 0.0 => GAIN,
        reward if reward < 0.0 => LOSS,
        _ => NEUTRAL,
    };
    let reward = Text::new((width - MARGIN, 32.0), 15.0, format!("reward {:+.3}", view.reward), reward_colour);
    let room = reward.left() - 2.0 * MARGIN;
    scene.text(reward.anchor(Anchor::End).bold());
    let title = format!("Step {} - Op {}: {}", view.step, view.operation, view.operation_name);
    scene.text(Text::new((MARGIN, 32.0), 15.0, font::fit(&title, 15.0, room), INK).bold());

    let lefts = [MARGIN, MARGIN + FRAME + GUTTER];
    for ((name, rows), left) in [("before", view.before), ("after", view.after)].into_iter().zip(lefts) {
        let (height, width) = active_size(rows);
        scene.text(Text::new((left, TOP - 12.0), 12.0, format!("{name} {height}x{width}"), GREY));
    }
    let middle = (MARGIN + FRAME + GUTTER / 2.0, TOP + FRAME / 2.0);
    let tip = [(middle.0 - 9.0, middle.1 - 12.0), (middle.0 + 11.0, middle.1), (middle.0 - 9.0, middle.1 + 12.0)];
    scene.polygon(tip, Paint::fill(NEUTRAL));

    let before = Placed::new(view.before, (lefts[0], TOP));
    before.draw(&mut scene);
    for (row, column) in before.cells() {
        if view.selection.get(row).and_then(|row| row.get(column)).is_some_and(|selected| *selected) {
            let side = before.cell;
            scene.rect(before.corner(row, column), side, side, Paint::fill(SELECTION).opacity(0.3));
        }
    }
    let after = Placed::new(view.after, (lefts[1], TOP));
    after.draw(&mut scene);
    let changed =
        after.cells().filter(|(row, column)| cell(view.before, *row, *column) != cell(view.after, *row, *column));
    for (row, column) in changed {
        let (x, y) = after.corner(row, column);
        let line = (after.cell / 10.0).clamp(1.5, 4.0);
        let paint = Paint::outline(Stroke::new(CHANGED, line));
        scene.rect((x + line / 2.0, y + line / 2.0), after.cell - line, after.cell - line, paint);
    }
    scene
}

/// The active area as true-colour text, two characters a cell, with the colours' digits if wanted.
pub fn ansi(rows: &[&[i8]], digits: bool) -> String {
    let (height, width) = active_size(rows);
    let label = |value: i8| u32::try_from(value).ok().filter(|_| digits).and_then(|value| char::from_digit(value, 10));
    let text = ansi::cells((0..height).map(|row| {
        (0..width).map(move |column| {
            let value = cell(rows, row, column);
            Cell { colour: colour(value), label: label(value) }
        })
    }));
    format!("Grid {height}x{width}\n{text}")
}

/// A cell; padding outside of the rows.
fn cell(rows: &[&[i8]], row: usize, column: usize) -> i8 {
    rows.get(row).and_then(|row| row.get(column)).copied().unwrap_or(-1)
}

/// A grid scaled into a square frame.
struct Placed<'a> {
    rows: &'a [&'a [i8]],
    size: (usize, usize),
    /// Top left corner of the first cell.
    at: Point,
    cell: f64,
}

impl<'a> Placed<'a> {
    /// `frame` is the top left corner of the frame.
    fn new(rows: &'a [&'a [i8]], frame: Point) -> Self {
        let size = active_size(rows);
        // Whole units, so that cells are whole pixels and colours exact.
        let cell = (FRAME / size.0.max(size.1).max(1) as f64).floor().min(LARGEST);
        Self { rows, size, at: frame, cell }
    }

    fn corner(&self, row: usize, column: usize) -> Point {
        (self.at.0 + column as f64 * self.cell, self.at.1 + row as f64 * self.cell)
    }

    fn cells(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (height, width) = self.size;
        (0..height).flat_map(move |row| (0..width).map(move |column| (row, column)))
    }

    /// A dark border, and cells with a gap of one unit.
    fn draw(&self, scene: &mut Scene) {
        let (height, width) = (self.size.0 as f64 * self.cell, self.size.1 as f64 * self.cell);
        let border = 2.0;
        let corner = (self.at.0 - border, self.at.1 - border);
        scene.rect(corner, width + 2.0 * border - 1.0, height + 2.0 * border - 1.0, Paint::fill(BORDER));
        for (row, column) in self.cells() {
            let fill = Paint::fill(colour(cell(self.rows, row, column)));
            scene.rect(self.corner(row, column), self.cell - 1.0, self.cell - 1.0, fill);
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_render::{Shape, raster};

    use super::*;

    const GRID: [&[i8]; 4] = [&[0, 1, 2, -1], &[3, 4, 5, -1], &[-1; 4], &[-1; 4]];

    #[test]
    fn the_active_area_is_what_holds_colours() {
        assert_eq!(active_size(&GRID), (2, 3));
        assert_eq!(active_size(&[]), (0, 0));
        assert_eq!(active_size(&[&[-1, -1]]), (0, 0));
    }

    #[test]
    fn text_has_a_title_and_two_characters_a_cell() {
        let blocks = ansi(&GRID, false);
        assert!(blocks.starts_with("Grid 2x3\n\x1b[38;2;37;37;37m██\x1b[38;2;0;116;217m██"), "{blocks:?}");
        assert!(ansi(&GRID, true).contains("\x1b[48;2;230;230;230m5 \x1b[0m"));
    }

    #[test]
    fn a_scene_has_one_size_for_every_grid_and_exact_colours() {
        let large = vec![[7_i8; 30]; 30];
        let large: Vec<&[i8]> = large.iter().map(|row| row.as_slice()).collect();
        let scenes = [scene(&GRID, Some(3)), scene(&large, None), scene(&[], Some(1))];
        assert!(scenes.windows(2).all(|pair| (pair[0].width, pair[0].height) == (pair[1].width, pair[1].height)));
        let image = raster::image(&scenes[0], 1.0).unwrap();
        for wanted in [0, 1, 2, 3, 4, 5] {
            let count = image.pixels().iter().filter(|p| Colour::from(**p) == colour(wanted)).count();
            assert_eq!(count, 63 * 63, "colour {wanted}");
        }
    }

    #[test]
    fn a_step_shows_what_was_selected_and_what_changed() {
        let after: [&[i8]; 2] = [&[0, 1, 2], &[3, 4, 9]];
        let selection: [&[bool]; 2] = [&[true, false, false], &[true]];
        let view = StepView {
            step: 4,
            operation: 9,
            operation_name: "fill 9",
            before: &GRID,
            after: &after,
            selection: &selection,
            reward: -0.01,
        };
        let scene = step_scene(&view);
        let rects = |wanted: fn(&Paint) -> bool| {
            scene.shapes.iter().filter(|s| matches!(s, Shape::Rect { paint, .. } if wanted(paint))).count()
        };
        assert_eq!(rects(|paint| paint.fill == Some(SELECTION) && paint.opacity == 0.3), 2);
        assert_eq!(rects(|paint| paint.outline.is_some_and(|line| line.colour == CHANGED)), 1);
        let texts: Vec<_> =
            scene.shapes.iter().filter_map(|s| if let Shape::Text(t) = s { Some(t) } else { None }).collect();
        assert!(texts.iter().any(|text| text.text == "Step 4 - Op 9: fill 9"));
        assert!(texts.iter().any(|text| text.text == "reward -0.010" && text.colour == LOSS));
    }
}
