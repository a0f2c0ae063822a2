//! Time series as scenes: panels above each other over one x axis.
//!
//! Ranges are widened until all data lie within, and margins are computed from the texts they hold, so
//! nothing is clipped.

use crate::axis::Axis;
pub use crate::axis::round_step;
use crate::scene::{Anchor, Paint, Point, Scene, Stroke, Text};
use crate::{Colour, font};

/// Space around everything.
pub(crate) const MARGIN: f64 = 16.0;
/// Font size of ticks, labels and legends.
pub(crate) const SMALL: f64 = 12.0;
/// Font size of the title.
pub(crate) const LARGE: f64 = 15.0;
/// From the top of a panel's label to its frame.
const LABEL_ROW: f64 = 20.0;
/// Between two panels.
const GAP: f64 = 12.0;
/// From a frame to the base line of the tick labels below it.
const TICK_DROP: f64 = 16.0;

pub(crate) const INK: Colour = Colour::rgb(0x22262E);
pub(crate) const GREY: Colour = Colour::rgb(0x5B6270);
pub(crate) const GRID: Colour = Colour::rgb(0xE1E4EA);
pub(crate) const PLOT: Colour = Colour::rgb(0xF8F9FB);

/// A figure of one or more panels.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Extent of the scene.
    pub width: f64,
    /// Extent of the scene; panels share what is left of it.
    pub height: f64,
    /// Top left, bold.
    pub title: String,
    /// Top right.
    pub note: String,
    /// Below the x axis, with its unit.
    pub x_label: String,
    /// What the x axis shows at least.
    pub x_range: (f64, f64),
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// One y axis and what is drawn against it.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Above the axis, with the unit.
    pub label: String,
    /// What the y axis shows at least; without it, the data decide.
    pub range: Option<(f64, f64)>,
    /// Ticks by value and text; if empty, round numbers are chosen.
    pub ticks: Vec<(f64, String)>,
    /// How much of the height it gets, relative to the others.
    pub share: f64,
    /// What is drawn, the last on top.
    pub series: Vec<Series>,
}

impl Panel {
    /// A panel of which only the label and the series are special.
    pub fn new(label: impl Into<String>, series: Vec<Series>) -> Self {
        Self { label: label.into(), range: None, ticks: vec![], share: 1.0, series }
    }

    /// With a range that is shown at least.
    pub fn range(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }

    /// With another share of the height.
    pub fn share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// With these ticks only.
    pub fn ticks(self, ticks: &[(f64, &str)]) -> Self {
        Self { ticks: ticks.iter().map(|(value, text)| (*value, (*text).to_owned())).collect(), ..self }
    }
}

/// Values over x.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend; without one it has no entry.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Places in the order of x; those that are not finite interrupt the line.
    pub points: Vec<Point>,
    /// How they are drawn.
    pub mark: Mark,
    /// Whether the last point has a dot.
    pub dot: bool,
}

/// How a [`Series`] is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line from point to point.
    Line,
    /// The same, thinner and dashed: targets and limits.
    Dashed,
    /// Each value holds until the next point; the area below is tinted.
    Step,
}

impl Series {
    /// A line.
    pub fn line(name: impl Into<String>, colour: Colour, points: Vec<Point>) -> Self {
        Self { name: name.into(), colour, points, mark: Mark::Line, dot: false }
    }

    /// Drawn in another way.
    pub fn mark(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    /// With a dot at the last point.
    pub fn dot(self) -> Self {
        Self { dot: true, ..self }
    }

    fn finite(&self) -> impl Iterator<Item = Point> + Clone + '_ {
        self.points.iter().copied().filter(is_finite)
    }
}

fn is_finite(point: &Point) -> bool {
    point.0.is_finite() && point.1.is_finite()
}

impl Chart {
    /// The picture.
    pub fn scene(&self) -> Scene {
        let mut scene = Scene::new(self.width, self.height, Colour::WHITE);
        let bottom = self.height - MARGIN - if self.x_label.is_empty() { 0.0 } else { 18.0 } - TICK_DROP;
        let top = MARGIN + if self.title.is_empty() && self.note.is_empty() { 0.0 } else { 26.0 };
        self.heading(&mut scene);

        let rows = self.panels.len() as f64;
        let room = (bottom - top - rows * LABEL_ROW - (rows - 1.0).max(0.0) * GAP).max(0.0);
        let shares: f64 = self.panels.iter().map(|panel| panel.share.max(0.0)).sum();
        let heights: Vec<f64> = self.panels.iter().map(|panel| room * panel.share.max(0.0) / shares).collect();

        let axes: Vec<Axis> = self.panels.iter().zip(&heights).map(|(panel, height)| axis_of(panel, *height)).collect();
        let widest = axes.iter().flat_map(|axis| &axis.ticks).map(|(_, text)| font::width(text, SMALL));
        let left = MARGIN + widest.fold(0.0, f64::max) + 8.0;
        let mut right = self.width - MARGIN;
        let x_data = self.panels.iter().flat_map(|panel| &panel.series).flat_map(Series::finite).map(|point| point.0);
        let mut x = Axis::of(Some(self.x_range), x_data, (right - left) / 90.0);
        let overhang = x.ticks.last().map_or(0.0, |(_, text)| font::width(text, SMALL) / 2.0);
        right -= (overhang - MARGIN / 2.0).max(0.0);
        (x.from, x.to) = (left, right);

        let mut frame_top = top;
        for ((panel, axis), height) in self.panels.iter().zip(axes).zip(heights) {
            frame_top += LABEL_ROW;
            let y = Axis { from: frame_top + height, to: frame_top, ..axis };
            draw_panel(&mut scene, panel, &x, &y);
            frame_top += height + GAP;
        }
        for (value, text) in &x.ticks {
            let at = (x.place(*value), bottom + TICK_DROP);
            scene.text(Text::new(at, SMALL, text, GREY).anchor(Anchor::Middle));
        }
        let at = ((left + right) / 2.0, self.height - MARGIN + 2.0);
        let label = font::fit(&self.x_label, SMALL, right - left);
        scene.text(Text::new(at, SMALL, label, GREY).anchor(Anchor::Middle));
        scene
    }

    fn heading(&self, scene: &mut Scene) {
        let room = self.width - 2.0 * MARGIN;
        let baseline = MARGIN + LARGE * font::CAPITAL + 2.0;
        let title = font::fit(&self.title, LARGE, room);
        let rest = room - font::width(&title, LARGE) - 2.0 * SMALL;
        scene.text(Text::new((MARGIN, baseline), LARGE, title, INK).bold());
        let note = font::fit(&self.note, SMALL, rest);
        scene.text(Text::new((self.width - MARGIN, baseline), SMALL, note, GREY).anchor(Anchor::End));
    }
}

fn draw_panel(scene: &mut Scene, panel: &Panel, x: &Axis, y: &Axis) {
    let (left, right, top, bottom) = (x.from, x.to, y.to, y.from);
    let legend_left = draw_legend(scene, panel, left, right, top - 6.0);
    let label = font::fit(&panel.label, SMALL, legend_left - left);
    scene.text(Text::new((left, top - 6.0), SMALL, label, INK).bold());

    let grid = Stroke::new(GRID, 1.0);
    scene.rect((left, top), right - left, bottom - top, Paint::fill(PLOT));
    for (value, text) in &y.ticks {
        let height = y.place(*value);
        scene.line([(left, height), (right, height)], grid);
        let baseline = height + SMALL * font::CAPITAL / 2.0;
        scene.text(Text::new((left - 8.0, baseline), SMALL, text, GREY).anchor(Anchor::End));
    }
    for (value, _) in &x.ticks {
        scene.line([(x.place(*value), top), (x.place(*value), bottom)], grid);
    }
    scene.line([(left, top), (left, bottom), (right, bottom)], Stroke::new(GREY, 1.0));
    for series in &panel.series {
        draw_series(scene, series, x, y);
    }
}

fn draw_series(scene: &mut Scene, series: &Series, x: &Axis, y: &Axis) {
    for run in series.points.split(|point| !is_finite(point)).filter(|run| !run.is_empty()) {
        let mut line: Vec<Point> = run.iter().map(|point| (x.place(point.0), y.place(point.1))).collect();
        let stroke = Stroke::new(series.colour, 2.0);
        match series.mark {
            Mark::Line => scene.line(line, stroke),
            Mark::Dashed => scene.line(line, Stroke::new(series.colour, 1.6).dashed(5.0, 5.0)),
            Mark::Step => {
                line = line
                    .windows(2)
                    .flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)])
                    .chain(line.last().copied())
                    .collect();
                if let (Some(first), Some(last)) = (line.first(), line.last()) {
                    let mut area = line.clone();
                    area.extend([(last.0, y.from), (first.0, y.from)]);
                    scene.polygon(area, Paint::fill(series.colour).opacity(0.4));
                }
                scene.line(line, Stroke::new(series.colour, 1.2))
            }
        };
    }
    if let (true, Some(last)) = (series.dot, series.points.last().filter(|point| is_finite(point))) {
        let paint = Paint::fill(series.colour).outlined(Stroke::new(Colour::WHITE, 1.5));
        scene.circle((x.place(last.0), y.place(last.1)), 5.0, paint);
    }
}

/// The names of the series from right to left; returns where the room to their left ends.
fn draw_legend(scene: &mut Scene, panel: &Panel, left: f64, right: f64, baseline: f64) -> f64 {
    const SAMPLE: f64 = 18.0;
    let mut end = right;
    for series in panel.series.iter().rev().filter(|series| !series.name.is_empty()) {
        let start = end - font::width(&series.name, SMALL);
        if start - SAMPLE - 6.0 < left {
            break;
        }
        scene.text(Text::new((end, baseline), SMALL, &series.name, GREY).anchor(Anchor::End));
        let height = baseline - SMALL * font::CAPITAL / 2.0;
        let stroke = Stroke::new(series.colour, 2.0);
        let stroke = if series.mark == Mark::Dashed { stroke.dashed(4.0, 4.0) } else { stroke };
        scene.line([(start - SAMPLE - 6.0, height), (start - 6.0, height)], stroke);
        end = start - SAMPLE - 6.0 - 14.0;
    }
    end
}

fn axis_of(panel: &Panel, height: f64) -> Axis {
    let values = panel.series.iter().flat_map(|series| series.finite().map(|point| point.1));
    let axis = Axis::of(panel.range, values, height / 36.0);
    if panel.ticks.is_empty() { axis } else { Axis { ticks: panel.ticks.clone(), ..axis } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Shape;

    fn texts(scene: &Scene) -> Vec<&Text> {
        scene.shapes.iter().filter_map(|s| if let Shape::Text(text) = s { Some(text) } else { None }).collect()
    }

    fn chart(points: Vec<Point>) -> Chart {
        let blue = Colour::rgb(0x2E86AB);
        Chart {
            width: 400.0,
            height: 300.0,
            title: "a title that is much too long for the width of such a small figure".into(),
            note: "note".into(),
            x_label: "time (min)".into(),
            x_range: (0.0, 1440.0),
            panels: vec![
                Panel::new("F (molecules)", vec![Series::line("F", blue, points).dot()]).range(0.0, 96.0).share(4.0),
                Panel::new(
                    "light, a label that is by far too long to fit",
                    vec![Series::line("light", blue, vec![(0.0, 1.0), (700.0, 0.0), (1440.0, 0.0)]).mark(Mark::Step)],
                )
                .range(0.0, 1.0)
                .ticks(&[(0.0, "off"), (1.0, "on")]),
            ],
        }
    }

    #[test]
    fn no_text_is_clipped_whatever_the_data() {
        for scale in [1.0, 1e-7, 1e3, 1e9, 1e-3, 0.0, -123.4] {
            let scene = chart((0..50).map(|i| (f64::from(i) * 29.0, f64::from(i * i) * scale)).collect()).scene();
            assert_eq!(scene.clipped_texts(), [] as [&Text; 0], "scale {scale}");
        }
    }

    #[test]
    fn every_point_lies_in_its_frame() {
        let scene = chart(vec![(0.0, -500.0), (10.0, 3_000.0), (2_000.0, 1.0)]).scene();
        for shape in &scene.shapes {
            if let Shape::Line { points, .. } = shape {
                assert!(
                    points.iter().all(|p| (0.0..=400.0).contains(&p.0) && (0.0..=300.0).contains(&p.1)),
                    "{points:?}"
                );
            }
        }
        let shown: Vec<_> = texts(&scene).iter().map(|text| text.text.as_str()).collect();
        assert!(shown.contains(&"off") && shown.contains(&"on") && shown.contains(&"2000"), "{shown:?}");
    }

    #[test]
    fn nothing_to_show_is_still_a_picture() {
        let empty = Chart { panels: vec![], ..chart(vec![]) }.scene();
        assert!(crate::raster::image(&empty, 1.0).is_ok());
        let gaps = chart(vec![(0.0, f64::NAN), (f64::INFINITY, 1.0)]).scene();
        assert!(gaps.shapes.iter().all(Shape::is_finite));
    }
}
