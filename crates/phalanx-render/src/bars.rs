//! Bars that lie: one row for each thing measured, with its name to the left and its value to the right.
//!
//! Names of libraries and cases are long, and rows have room for them where columns have not.

use crate::axis::{Axis, Scale};
use crate::chart::{GREY, GRID, INK, MARGIN, PLOT, SMALL};
use crate::plot::{error_bar, heading, short_number};
use crate::scene::{Anchor, Paint, Scene, Stroke, Text};
use crate::{Colour, font};

const ROW: f64 = 30.0;
const HEAD: f64 = 28.0;
const BAR: f64 = 18.0;

/// Groups of bars over one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Extent of the scene; its height follows from the rows.
    pub width: f64,
    /// At the top, bold.
    pub title: String,
    /// Below it; empty for none.
    pub note: String,
    /// The quantity with its unit.
    pub label: String,
    /// How values are spread. On a logarithmic axis the bars begin at the power of ten below the least.
    pub scale: Scale,
    /// From top to bottom.
    pub groups: Vec<Group>,
}

/// Bars that may be compared with each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Above them; empty for none.
    pub name: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What was measured.
    pub name: String,
    /// How much; none draws only the text.
    pub value: Option<f64>,
    /// The interval around it.
    pub interval: Option<(f64, f64)>,
    /// To the right of the bar.
    pub text: String,
    /// Its colour.
    pub colour: Colour,
}

impl Bars {
    /// The picture.
    pub fn scene(&self) -> Scene {
        let heads = self.groups.iter().filter(|group| !group.name.is_empty()).count() as f64;
        let rows = self.groups.iter().map(|group| group.bars.len()).sum::<usize>() as f64;
        let extent = rows * ROW + heads * HEAD;
        let mut scene = Scene::new(self.width, 10_000.0, Colour::WHITE);
        let top = heading(&mut scene, &self.title, &self.note);
        let bottom = top + extent.max(ROW);
        scene.height = bottom + SMALL + 8.0 + if self.label.is_empty() { 0.0 } else { 20.0 } + MARGIN;

        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let widest_name = bars().map(|bar| font::width(&bar.name, SMALL)).fold(0.0, f64::max);
        // A third of the width for names, a third for texts; longer ones are shortened.
        let third = self.width / 3.0;
        let left = MARGIN + widest_name.min(third) + 10.0;
        // Texts without a bar have the whole row.
        let texts = bars().filter(|bar| bar.value.is_some()).map(|bar| font::width(&bar.text, SMALL));
        let text_room = texts.fold(0.0, f64::max).min(third);
        let right = self.width - MARGIN - text_room - 12.0;
        let values = bars().flat_map(|bar| [bar.value, bar.interval.map(|i| i.1)]).flatten();
        let mut axis = self.axis(values, (right - left) / 56.0);
        (axis.from, axis.to) = (left, right);

        scene.rect((left, top), right - left, bottom - top, Paint::fill(PLOT));
        for (value, text) in &axis.ticks {
            let x = axis.place(*value);
            scene.line([(x, top), (x, bottom)], Stroke::new(GRID, 1.0));
            scene.text(Text::new((x, bottom + SMALL + 5.0), SMALL, text, GREY).anchor(Anchor::Middle));
        }
        let label = font::fit(&self.label, SMALL, right - left);
        let at = ((left + right) / 2.0, scene.height - MARGIN);
        scene.text(Text::new(at, SMALL, label, INK).anchor(Anchor::Middle).bold());

        scene.line([(left, top), (left, bottom), (right, bottom)], Stroke::new(GREY, 1.0));
        let mut y = top;
        for group in &self.groups {
            if !group.name.is_empty() {
                let name = font::fit(&group.name, SMALL, self.width - 2.0 * MARGIN);
                // Over the frame, not over the grid.
                scene.rect((MARGIN, y), self.width - 2.0 * MARGIN, HEAD, Paint::fill(Colour::WHITE));
                scene.text(Text::new((MARGIN, y + HEAD - 9.0), SMALL, name, INK).bold());
                y += HEAD;
            }
            for bar in &group.bars {
                draw_bar(&mut scene, bar, &axis, y + ROW / 2.0);
                y += ROW;
            }
        }

        scene
    }

    fn axis(&self, values: impl Iterator<Item = f64> + Clone, count: f64) -> Axis {
        match self.scale {
            Scale::Linear => {
                let mut axis = Axis::of(Some((0.0, 0.0)), values, count);
                axis.ticks.iter_mut().for_each(|(value, text)| *text = short_number(*value));
                axis
            }
            Scale::Log => {
                let positive = values.clone().filter(|value| *value > 0.0);
                let least = positive.fold(f64::INFINITY, f64::min);
                // Half a decade at least: the shortest bar must be one.
                let floor = 10_f64.powf((least / 3.0).log10().floor());
                Axis::log(Some((floor, floor * 10.0)).filter(|_| least.is_finite()), values, count, &short_number)
            }
        }
    }
}

fn draw_bar(scene: &mut Scene, bar: &Bar, axis: &Axis, middle: f64) {
    let baseline = middle + SMALL * font::CAPITAL / 2.0;
    let name = font::fit(&bar.name, SMALL, axis.from - MARGIN - 8.0);
    scene.text(Text::new((axis.from - 8.0, baseline), SMALL, name, INK).anchor(Anchor::End));
    let mut end = axis.from;
    if let Some(x) = bar.value.map(|value| axis.place(value)).filter(|x| x.is_finite()) {
        end = x.max(axis.from);
        scene.rect((axis.from, middle - BAR / 2.0), end - axis.from, BAR, Paint::fill(bar.colour));
    }
    let interval = bar.interval.map(|(low, high)| (axis.place(low), axis.place(high)));
    if let Some((low, high)) = interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
        error_bar(scene, (low.max(axis.from), middle), (high, middle), INK);
        end = end.max(high);
    }
    let text = font::fit(&bar.text, SMALL, scene.width - MARGIN - end - 8.0);
    scene.text(Text::new((end + 8.0, baseline), SMALL, text, if bar.value.is_some() { INK } else { GREY }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Shape;

    #[test]
    fn texts_stay_within_the_picture() {
        let bar = |name: &str, value: Option<f64>| Bar {
            name: name.to_owned(),
            value,
            interval: value.map(|v| (v * 0.9, v * 1.1)),
            text: value.map_or("not installed: pip install gymnax".to_owned(), |v| format!("{v:.3e}  120x")),
            colour: Colour::rgb(0x0072B2),
        };
        for scale in [Scale::Linear, Scale::Log] {
            for bars in [
                vec![],
                vec![bar("a", None)],
                vec![bar("a name that is long ".repeat(5).as_str(), Some(6e8)), bar("b", Some(7e4))],
            ] {
                let group = |name: &str| Group { name: name.to_owned(), bars: bars.clone() };
                let picture = Bars {
                    width: 800.0,
                    title: "libraries".into(),
                    note: String::new(),
                    label: "steps per second".into(),
                    scale,
                    groups: vec![group("fused"), group("")],
                };
                let scene = picture.scene();
                assert!(scene.shapes.iter().all(Shape::is_finite));
                assert!(scene.clipped_texts().is_empty(), "{:?}", scene.clipped_texts());
            }
        }
    }
}
