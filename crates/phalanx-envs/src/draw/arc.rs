//! `ARC-v0`: the grid before and after each step.

use super::grid::{StepView, scene, step_scene};
use super::{Moment, Scene, View};
use crate::arc::ops::NAMES;

/// The working grid at the start; after a step the grids before and after it, with the selection.
pub fn draw(view: &View<'_>) -> Scene {
    let place = |name: &str| view.state_names.iter().position(|known| *known == name);
    let (Some(cells), Some(rows)) = (place("grid[0,0]"), place("selection[0]")) else { return scene(&[], None) };
    let side = view.state_names.len() - rows;
    let grid = |moment: &Moment| -> Vec<Vec<i8>> {
        let cells = moment.state.get(cells..cells + side * side).unwrap_or_default();
        cells.chunks(side.max(1)).map(|row| row.iter().map(|cell| *cell as i8).collect()).collect()
    };
    let [.., before, now] = view.history else {
        let rows = view.now().map(grid).unwrap_or_default();
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
    let selection: Vec<Vec<bool>> = (0..side)
        .map(|row| {
            let bits = now.state.get(rows + row).copied().unwrap_or(0.0) as u32;
            (0..side).map(|column| bits >> column & 1 == 1).collect()
        })
        .collect();
    let operation = place("operation").and_then(|at| now.state.get(at)).copied().unwrap_or(0.0).max(0.0) as u32;
    let (before, after) = (grid(before), grid(now));
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

fn slices<T>(rows: &[Vec<T>]) -> Vec<&[T]> {
    rows.iter().map(Vec::as_slice).collect()
}
