//! `ARC-v0`: the grid before and after each step.

use super::grid::{self, StepView, scene, step_scene};
use super::{Moment, Scene, View};
use crate::arc::ops::NAMES;

/// The working grid at the start; after a step the grids before and after it, with the selection.
pub fn draw(view: &View<'_>) -> Scene {
    let Some(layout) = Layout::of(view) else { return scene(&[], None) };
    let [.., before, now] = view.history else {
        let rows = view.now().map(|now| layout.grid(now)).unwrap_or_default();
        // As wide as the steps that follow, so that all frames have one size.
        let mut page = step_scene(&StepView {
            step: 0,
            operation: 0,
            operation_name: "start",
            before: &slices(&rows),
            after: &slices(&rows),
            selection: &[],
            reward: 0.0,
        });
        page.shapes.truncate(0);
        let picture = scene(&slices(&rows), Some(0));
        let offset = ((page.width - picture.width) / 2.0, ((page.height - picture.height) / 2.0).max(0.0));
        page.place(picture, offset);
        return page;
    };
    let operation = place(view, "operation").and_then(|at| now.state.get(at)).copied().unwrap_or(0.0).max(0.0) as u32;
    let (before, after, selection) = (layout.grid(before), layout.grid(now), layout.selection(now));
    step_scene(&StepView {
        step: now.step,
        operation,
        operation_name: NAMES.get(operation as usize).copied().unwrap_or(""),
        before: &slices(&before),
        after: &slices(&after),
        selection: &slices(&selection),
        reward: now.reward,
    })
}

/// The working grid as coloured text.
pub fn text(view: &View<'_>) -> String {
    let rows = Layout::of(view).zip(view.now()).map(|(layout, now)| layout.grid(now)).unwrap_or_default();
    grid::ansi(&slices(&rows), false)
}

/// Where grid and selection are in a state.
struct Layout {
    cells: usize,
    selection: usize,
    /// Cells of a row of the canvas.
    side: usize,
}

impl Layout {
    fn of(view: &View<'_>) -> Option<Self> {
        let (cells, selection) = (place(view, "grid[0,0]")?, place(view, "selection[0]")?);
        Some(Self { cells, selection, side: view.state_names.len() - selection })
    }

    fn grid(&self, moment: &Moment) -> Vec<Vec<i8>> {
        let cells = moment.state.get(self.cells..self.cells + self.side * self.side).unwrap_or_default();
        cells.chunks(self.side).map(|row| row.iter().map(|cell| *cell as i8).collect()).collect()
    }

    fn selection(&self, moment: &Moment) -> Vec<Vec<bool>> {
        let bits = |row: usize| moment.state.get(self.selection + row).copied().unwrap_or(0.0) as u32;
        (0..self.side).map(|row| (0..self.side).map(|column| bits(row) >> column & 1 == 1).collect()).collect()
    }
}

fn place(view: &View<'_>, name: &str) -> Option<usize> {
    view.state_names.iter().position(|known| *known == name)
}

fn slices<T>(rows: &[Vec<T>]) -> Vec<&[T]> {
    rows.iter().map(Vec::as_slice).collect()
}
