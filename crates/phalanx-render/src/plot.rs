//! Measurements as scenes: values over a quantity, with intervals, on linear or logarithmic axes.
//!
//! The legend has rows of its own above the frame, and a label of a value goes where it covers nothing or is left
//! out, so neither hides data.

use crate::axis::Axis;
pub use crate::axis::Scale;
use crate::chart::{GREY, GRID, INK, LARGE, MARGIN, PLOT, SMALL};
use crate::scene::{Anchor, Paint, Point, Scene, Stroke, Text};
use crate::{Colour, font};

/// Colours of series that people with any kind of colour vision can tell apart (after Okabe and Ito), each with the
/// one that stands for it on a dark page.
pub const SERIES: [(Colour, Colour); 6] = [
    (Colour::rgb(0x0072B2), Colour::rgb(0x4DA6E0)),
    (Colour::rgb(0xD55E00), Colour::rgb(0xFF8C42)),
    (Colour::rgb(0x009E73), Colour::rgb(0x2CC79B)),
    (Colour::rgb(0xB0508A), Colour::rgb(0xE29AC4)),
    (Colour::rgb(0xC98A00), Colour::rgb(0xFFC145)),
    (Colour::rgb(0x3FA0D8), Colour::rgb(0x8FD0F5)),
];

/// Every colour of a plot beside those of its series, and the one that stands for it on a dark page.
pub const SURFACES: [(Colour, Colour); 6] = [
    (Colour::WHITE, Colour::rgb(0x16181D)),
    (PLOT, Colour::rgb(0x1C1F26)),
    (GRID, Colour::rgb(0x343A46)),
    (FAINT, Colour::rgb(0x252A33)),
    (GREY, Colour::rgb(0xA3ABBA)),
    (INK, Colour::rgb(0xECEEF2)),
];

/// Grid lines between the ticks of a logarithmic axis.
const FAINT: Colour = Colour::rgb(0xEFF1F4);

/// The colour of the `i`-th series.
pub fn series_colour(i: usize) -> Colour {
    SERIES[i % SERIES.len()].0
}

/// A figure with one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Extent of the scene.
    pub width: f64,
    /// Extent of the scene.
    pub height: f64,
    /// At the top, bold.
    pub title: String,
    /// Below it; empty for none.
    pub note: String,
    /// From left to right.
    pub x: PlotAxis,
    /// From bottom to top.
    pub y: PlotAxis,
    /// What is drawn, the last on top.
    pub layers: Vec<Layer>,
    /// The least distance from the left edge to the frame, so that frames above each other can be aligned.
    pub inset: f64,
}

/// What an axis shows.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotAxis {
    /// Its quantity with the unit.
    pub label: String,
    /// How values are spread.
    pub scale: Scale,
    /// What it shows at least; without it, the data decide.
    pub range: Option<(f64, f64)>,
    /// Ticks by value and text; if empty, round numbers are chosen.
    pub ticks: Vec<(f64, String)>,
    /// Whether the texts of its ticks are turned, for long ones below an x axis.
    pub slanted: bool,
}

impl PlotAxis {
    /// An axis of differences.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, range: None, ticks: vec![], slanted: false }
    }

    /// An axis of ratios.
    pub fn log(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label) }
    }

    /// With a range that is shown at least.
    pub fn range(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }

    /// With these ticks only, turned.
    pub fn slanted_ticks(self, ticks: Vec<(f64, String)>) -> Self {
        Self { ticks, slanted: true, ..self }
    }

    /// With these ticks only.
    pub fn ticks(self, ticks: Vec<(f64, String)>) -> Self {
        Self { ticks, ..self }
    }

    /// The axis for these values, with at most about `count` ticks.
    fn axis(&self, values: impl Iterator<Item = f64>, count: f64) -> Axis {
        let mut axis = match self.scale {
            Scale::Linear => Axis::of(self.range, values, count),
            Scale::Log => Axis::log(self.range, values, count, &short_number),
        };
        if !self.ticks.is_empty() {
            axis.ticks = self.ticks.clone();
            axis.minor.clear();
        } else if self.scale == Scale::Linear {
            axis.ticks.iter_mut().for_each(|(value, text)| *text = short_number(*value));
        }
        axis
    }
}

/// A number as ticks show it: `0.05`, `250`, `1 K`, `2.5 M`, `1 B`.
///
/// ```
/// # use phalanx_render::plot::short_number;
/// let texts = [0.0, 0.05, 250.0, 1e3, 2.5e6, 1e9, -3e4].map(short_number);
/// assert_eq!(texts, ["0", "0.05", "250", "1 K", "2.5 M", "1 B", "-30 K"]);
/// ```
pub fn short_number(value: f64) -> String {
    let units = [(1e12, " T"), (1e9, " B"), (1e6, " M"), (1e3, " K")];
    let (size, unit) = units.into_iter().find(|(size, _)| value.abs() >= size * 0.999_999).unwrap_or((1.0, ""));
    let scaled = value / size;
    if scaled != 0.0 && scaled.abs() < 1e-4 {
        return format!("{scaled:.0e}");
    }
    // Four significant digits tell the ticks of any axis apart.
    let decimals = if scaled == 0.0 { 0 } else { (3 - scaled.abs().log10().floor() as i32).clamp(0, 8) as usize };
    let text = format!("{scaled:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Values that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// Its name in the legend; without one it has no entry.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// How it is drawn.
    pub form: Form,
    /// What stands at each value.
    pub marker: Marker,
    /// The values in the order of x.
    pub data: Vec<Datum>,
}

/// How the values of a [`Layer`] are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By a line.
    Line,
    /// By a dashed line: what would be perfect, limits, fits.
    Dashed,
    /// Not at all.
    Points,
    /// The intervals are a tinted area.
    Band,
}

/// What stands at a value, so that series can be told apart without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Nothing.
    None,
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle.
    Triangle,
    /// A ring around a value that is marked already.
    Ring,
}

impl Marker {
    /// The marker of the `i`-th series.
    pub fn of_series(i: usize) -> Self {
        [Self::Circle, Self::Square, Self::Diamond, Self::Triangle][i % 4]
    }
}

/// A value with what is known of it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Datum {
    /// Its place on the x axis.
    pub x: f64,
    /// Its place on the y axis.
    pub y: f64,
    /// The interval around it.
    pub interval: Option<(f64, f64)>,
    /// A text beside it, where there is room.
    pub label: String,
}

impl Datum {
    /// A bare value.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }

    /// With an interval.
    pub fn interval(self, interval: Option<(f64, f64)>) -> Self {
        Self { interval, ..self }
    }

    /// With a text beside it.
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }
}

impl Layer {
    /// A line through values that are marked.
    pub fn line(name: impl Into<String>, series: usize, data: Vec<Datum>) -> Self {
        let (colour, marker) = (series_colour(series), Marker::of_series(series));
        Self { name: name.into(), colour, form: Form::Line, marker, data }
    }

    /// A dashed line without marks.
    pub fn dashed(name: impl Into<String>, colour: Colour, data: Vec<Datum>) -> Self {
        Self { name: name.into(), colour, form: Form::Dashed, marker: Marker::None, data }
    }

    /// In another form.
    pub fn form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// With another marker.
    pub fn marker(self, marker: Marker) -> Self {
        Self { marker, ..self }
    }
}

impl Plot {
    /// A figure of the usual size.
    pub fn new(title: impl Into<String>, x: PlotAxis, y: PlotAxis, layers: Vec<Layer>) -> Self {
        Self { width: 800.0, height: 500.0, title: title.into(), note: String::new(), x, y, layers, inset: 0.0 }
    }

    /// With a line below the title.
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// Of another size.
    pub fn size(self, width: f64, height: f64) -> Self {
        Self { width, height, ..self }
    }

    /// The picture.
    pub fn scene(&self) -> Scene {
        const SLANT: f64 = -35.0;
        let mut scene = Scene::new(self.width, self.height, Colour::WHITE);
        let mut top = heading(&mut scene, &self.title, &self.note);
        top = legend(&mut scene, &self.layers, top);
        // The label of the y axis stands above it, where it can be read without turning the page.
        let y_label = font::fit(&self.y.label, SMALL, self.width - 2.0 * MARGIN);
        scene.text(Text::new((MARGIN, top + SMALL), SMALL, y_label, INK).bold());
        top += if self.y.label.is_empty() { 6.0 } else { 26.0 };

        let data = || self.layers.iter().flat_map(|layer| &layer.data);
        let mut ys: Vec<f64> = data().map(|datum| datum.y).collect();
        ys.extend(data().filter_map(|datum| datum.interval).flat_map(|(low, high)| [low, high]));
        if self.y.scale == Scale::Log {
            // Room for the labels of the highest values.
            ys.push(1.3 * ys.iter().copied().filter(|y| y.is_finite()).fold(0.0, f64::max));
        }
        let mut y = self.y.axis(ys.into_iter(), (self.height - top - 60.0) / 40.0);
        let widest = y.ticks.iter().map(|(_, text)| font::width(text, SMALL)).fold(0.0, f64::max);
        let mut left = (MARGIN + widest + 8.0).max(self.inset);
        let mut x = self.x.axis(data().map(|d| d.x), (self.width - left) / 80.0);
        let tick = |text: &str| Text::new((0.0, 0.0), SMALL, text, GREY);
        let below = if self.x.slanted {
            let turned = x.ticks.iter().map(|(_, text)| tick(text).anchor(Anchor::End).turned(SLANT).bounds());
            turned.fold(0.0, |depth: f64, (_, (_, bottom))| depth.max(bottom)) + 10.0
        } else {
            SMALL + 6.0
        };
        let bottom = self.height - MARGIN - if self.x.label.is_empty() { 0.0 } else { 20.0 } - below;
        let right_text = x.ticks.last().filter(|_| !self.x.slanted).map_or(0.0, |(_, t)| font::width(t, SMALL) / 2.0);
        let right = self.width - MARGIN - (right_text - MARGIN / 2.0).max(4.0);
        if let (true, Some((_, first))) = (self.x.slanted, x.ticks.first()) {
            // A slanted text reaches to the left of its tick.
            let ((reach, _), _) = tick(first).anchor(Anchor::End).turned(SLANT).bounds();
            left = left.max(MARGIN - reach);
        }
        (x.from, x.to, y.from, y.to) = (left, right, bottom, top);

        frame(&mut scene, &x, &y);
        for (value, text) in &y.ticks {
            let baseline = y.place(*value) + SMALL * font::CAPITAL / 2.0;
            scene.text(Text::new((left - 8.0, baseline), SMALL, text, GREY).anchor(Anchor::End));
        }
        for (value, text) in &x.ticks {
            let at = x.place(*value);
            scene.text(match self.x.slanted {
                true => Text::new((at + 4.0, bottom + 12.0), SMALL, text, GREY).anchor(Anchor::End).turned(SLANT),
                false => Text::new((at, bottom + SMALL + 5.0), SMALL, text, GREY).anchor(Anchor::Middle),
            });
        }
        let x_label = font::fit(&self.x.label, SMALL, right - left);
        let at = ((left + right) / 2.0, self.height - MARGIN);
        scene.text(Text::new(at, SMALL, x_label, INK).anchor(Anchor::Middle).bold());

        let mut room = Room { frame: ((left, top), (right, bottom)), taken: vec![] };
        self.layers.iter().for_each(|layer| draw_layer(&mut scene, layer, &x, &y, &mut room));
        for layer in &self.layers {
            for datum in layer.data.iter().filter(|datum| !datum.label.is_empty()) {
                room.label(&mut scene, &datum.label, (x.place(datum.x), y.place(datum.y)), layer.colour);
            }
        }
        scene
    }
}

/// Title and note; answers where the room below them begins.
pub(crate) fn heading(scene: &mut Scene, title: &str, note: &str) -> f64 {
    let room = scene.width - 2.0 * MARGIN;
    let mut top = MARGIN;
    if !title.is_empty() {
        let baseline = top + LARGE * font::CAPITAL + 2.0;
        scene.text(Text::new((MARGIN, baseline), LARGE, font::fit(title, LARGE, room), INK).bold());
        top = baseline + 8.0;
    }
    if !note.is_empty() {
        let baseline = top + SMALL;
        scene.text(Text::new((MARGIN, baseline), SMALL, font::fit(note, SMALL, room), GREY));
        top = baseline + 6.0;
    }
    top + 6.0
}

/// The names of the layers in as many rows as they need; answers where the room below them begins.
fn legend(scene: &mut Scene, layers: &[Layer], top: f64) -> f64 {
    const SAMPLE: f64 = 26.0;
    let (mut x, mut baseline) = (MARGIN, top + SMALL);
    let mut any = false;
    for layer in layers.iter().filter(|layer| !layer.name.is_empty()) {
        let name = font::fit(&layer.name, SMALL, scene.width - 2.0 * MARGIN - SAMPLE - 6.0);
        let width = SAMPLE + 6.0 + font::width(&name, SMALL);
        if x > MARGIN && x + width > scene.width - MARGIN {
            (x, baseline) = (MARGIN, baseline + 20.0);
        }
        let height = baseline - SMALL * font::CAPITAL / 2.0;
        let (from, to) = ((x, height), (x + SAMPLE, height));
        match layer.form {
            Form::Line => _ = scene.line([from, to], Stroke::new(layer.colour, 2.0)),
            Form::Dashed => _ = scene.line([from, to], Stroke::new(layer.colour, 1.6).dashed(5.0, 5.0)),
            Form::Band => _ = scene.rect((x, height - 6.0), SAMPLE, 12.0, Paint::fill(layer.colour).opacity(0.2)),
            Form::Points => {}
        }
        draw_marker(scene, layer.marker, (x + SAMPLE / 2.0, height), layer.colour);
        scene.text(Text::new((x + SAMPLE + 6.0, baseline), SMALL, name, INK));
        x += width + 22.0;
        any = true;
    }
    if any { baseline + 14.0 } else { top }
}

/// The area of the data with its grid.
fn frame(scene: &mut Scene, x: &Axis, y: &Axis) {
    let (left, right, top, bottom) = (x.from, x.to, y.to, y.from);
    scene.rect((left, top), right - left, bottom - top, Paint::fill(PLOT));
    let mut across = |value: f64, colour| {
        scene.line([(left, y.place(value)), (right, y.place(value))], Stroke::new(colour, 1.0));
    };
    y.minor.iter().for_each(|value| across(*value, FAINT));
    y.ticks.iter().for_each(|(value, _)| across(*value, GRID));
    let mut down = |value: f64, colour| {
        scene.line([(x.place(value), top), (x.place(value), bottom)], Stroke::new(colour, 1.0));
    };
    x.minor.iter().for_each(|value| down(*value, FAINT));
    x.ticks.iter().for_each(|(value, _)| down(*value, GRID));
    scene.line([(left, top), (left, bottom), (right, bottom)], Stroke::new(GREY, 1.0));
    for (value, _) in &y.ticks {
        scene.line([(left - 4.0, y.place(*value)), (left, y.place(*value))], Stroke::new(GREY, 1.0));
    }
    for (value, _) in &x.ticks {
        scene.line([(x.place(*value), bottom), (x.place(*value), bottom + 4.0)], Stroke::new(GREY, 1.0));
    }
}

fn draw_layer(scene: &mut Scene, layer: &Layer, x: &Axis, y: &Axis, room: &mut Room) {
    let place = |px: f64, py: f64| Some((x.place(px), y.place(py))).filter(|p| p.0.is_finite() && p.1.is_finite());
    let line: Vec<Point> = layer.data.iter().filter_map(|d| place(d.x, d.y)).collect();
    match layer.form {
        Form::Band => {
            let bound = |of: fn((f64, f64)) -> f64| {
                layer.data.iter().filter_map(move |d| d.interval.and_then(|interval| place(d.x, of(interval))))
            };
            let mut area: Vec<Point> = bound(|interval| interval.0).collect();
            let mut upper: Vec<Point> = bound(|interval| interval.1).collect();
            upper.reverse();
            area.extend(upper);
            if area.len() > 2 {
                scene.polygon(area, Paint::fill(layer.colour).opacity(0.2));
            }
            return;
        }
        Form::Line if line.len() > 1 => _ = scene.line(line.clone(), Stroke::new(layer.colour, 2.0)),
        Form::Dashed if line.len() > 1 => {
            scene.line(line.clone(), Stroke::new(layer.colour, 1.6).dashed(5.0, 5.0));
        }
        Form::Line | Form::Dashed | Form::Points => {}
    }
    if layer.form != Form::Points {
        room.take_line(&line);
    }
    for datum in &layer.data {
        let Some(at) = place(datum.x, datum.y) else { continue };
        let ends = datum.interval.map(|(low, high)| (place(datum.x, low), place(datum.x, high)));
        if let Some((Some(low), Some(high))) = ends {
            error_bar(scene, low, high, layer.colour);
            room.take((at.0 - 5.0, high.1.min(low.1)), (at.0 + 5.0, low.1.max(high.1)));
        }
        draw_marker(scene, layer.marker, at, layer.colour);
        let reach = match layer.marker {
            Marker::None => continue,
            Marker::Ring => 10.0,
            _ => 5.0,
        };
        room.take((at.0 - reach, at.1 - reach), (at.0 + reach, at.1 + reach));
    }
}

/// A line from `low` to `high` with a stroke across at both ends.
pub(crate) fn error_bar(scene: &mut Scene, low: Point, high: Point, colour: Colour) {
    let (dx, dy) = (high.0 - low.0, high.1 - low.1);
    // Shorter than its marker, it would only blur it.
    if dx.hypot(dy) < 1.0 {
        return;
    }
    let across = if dx.abs() > dy.abs() { (0.0, 5.0) } else { (5.0, 0.0) };
    let stroke = Stroke::new(colour, 1.4);
    scene.line([low, high], stroke);
    for (x, y) in [low, high] {
        scene.line([(x - across.0, y - across.1), (x + across.0, y + across.1)], stroke);
    }
}

fn draw_marker(scene: &mut Scene, marker: Marker, (x, y): Point, colour: Colour) {
    let paint = Paint::fill(colour).outlined(Stroke::new(Colour::WHITE, 1.0));
    match marker {
        Marker::None => {}
        Marker::Circle => _ = scene.circle((x, y), 4.5, paint),
        Marker::Square => _ = scene.rect((x - 4.2, y - 4.2), 8.4, 8.4, paint),
        Marker::Diamond => {
            scene.polygon([(x, y - 5.8), (x + 5.8, y), (x, y + 5.8), (x - 5.8, y)], paint);
        }
        Marker::Triangle => {
            scene.polygon([(x, y - 5.6), (x + 5.2, y + 3.8), (x - 5.2, y + 3.8)], paint);
        }
        Marker::Ring => _ = scene.circle((x, y), 9.0, Paint::outline(Stroke::new(colour, 2.0))),
    }
}

/// What of a frame is covered already, so that texts can keep clear of it.
struct Room {
    frame: (Point, Point),
    taken: Vec<(Point, Point)>,
}

impl Room {
    fn take(&mut self, low: Point, high: Point) {
        self.taken.push((low, high));
    }

    /// Takes a narrow strip along a line.
    fn take_line(&mut self, points: &[Point]) {
        const STRIDE: f64 = 5.0;
        for pair in points.windows(2) {
            let length = (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1);
            let count = (length / STRIDE).ceil().clamp(1.0, 2_000.0);
            for i in 0..=count as usize {
                let share = i as f64 / count;
                let at = |a: f64, b: f64| a + (b - a) * share;
                let (x, y) = (at(pair[0].0, pair[1].0), at(pair[0].1, pair[1].1));
                self.take((x - 1.5, y - 1.5), (x + 1.5, y + 1.5));
            }
        }
    }

    fn is_free(&self, (low, high): (Point, Point)) -> bool {
        let ((left, top), (right, bottom)) = self.frame;
        let inside = low.0 >= left + 2.0 && low.1 >= top + 2.0 && high.0 <= right - 2.0 && high.1 <= bottom - 2.0;
        inside && self.taken.iter().all(|(l, h)| high.0 < l.0 || low.0 > h.0 || high.1 < l.1 || low.1 > h.1)
    }

    /// Writes a text near a place, where it covers nothing; nowhere if everything is covered.
    fn label(&mut self, scene: &mut Scene, text: &str, (x, y): Point, colour: Colour) {
        const SIZE: f64 = 11.0;
        let (height, half) = (SIZE * font::CAPITAL, font::width(text, SIZE) / 2.0);
        let above = [9.0, 15.0, 22.0].into_iter().flat_map(|gap| {
            let up = [(0.0, -gap), (-half, -gap), (half, -gap)];
            let down = [(0.0, gap + height), (half, gap + height), (-half, gap + height)];
            up.into_iter().chain(down)
        });
        let beside = [(half + 10.0, height / 2.0), (-half - 10.0, height / 2.0)];
        for (dx, dy) in above.chain(beside) {
            let text = Text::new((x + dx, y + dy), SIZE, text, colour).anchor(Anchor::Middle);
            let tight =
                ((text.left() - 1.0, text.at.1 - height - 1.0), (text.left() + 2.0 * half + 1.0, text.at.1 + 2.0));
            if self.is_free(tight) {
                self.take(tight.0, tight.1);
                scene.text(text);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::Shape;

    fn plot(scale: f64) -> Plot {
        let data = |factor: f64| {
            [1e2, 1e3, 1e4, 1e5, 1e6].map(|x| {
                let y = scale * factor * x / (1.0 + x / 3e4);
                Datum::new(x, y).interval(Some((y * 0.9, y * 1.1))).label(short_number(y))
            })
        };
        let layers =
            (0..4).map(|i| Layer::line(format!("a series with a long name {i}"), i, data(1.0 + i as f64).into()));
        Plot::new(
            "title ".repeat(30),
            PlotAxis::log("environments"),
            PlotAxis::log("steps per second"),
            layers.collect(),
        )
        .note("note ".repeat(50))
    }

    fn check(scene: &Scene) {
        assert_eq!(scene.clipped_texts(), [] as [&Text; 0]);
    }

    #[test]
    fn no_text_is_clipped_and_no_label_covers_another() {
        for scale in [1.0, 1e-9, 1e6, 0.0, -1.0] {
            check(&plot(scale).scene());
            check(&plot(scale).size(320.0, 400.0).scene());
            let linear = Plot { y: PlotAxis::linear("steps per second"), ..plot(scale) };
            check(&linear.scene());
        }
        let scene = plot(1.0).scene();
        let labels: Vec<_> = scene
            .shapes
            .iter()
            .filter_map(|shape| if let Shape::Text(text) = shape { Some(text) } else { None })
            .filter(|text| text.size == 11.0)
            .map(Text::bounds)
            .collect();
        assert!(labels.len() >= 10, "{}", labels.len());
        for (i, (low, high)) in labels.iter().enumerate() {
            for (l, h) in &labels[..i] {
                let apart = high.0 <= l.0 || low.0 >= h.0 || high.1 <= l.1 + 8.0 || low.1 + 8.0 >= h.1;
                assert!(apart, "{low:?} {high:?} covers {l:?} {h:?}");
            }
        }
    }

    #[test]
    fn slanted_ticks_have_room() {
        let ticks = (0..8).map(|i| (f64::from(i), format!("2026-07-{:02} 13:05", i + 1))).collect();
        let data = (0..8).map(|i| Datum::new(f64::from(i), 1.0 + f64::from(i))).collect();
        let x = PlotAxis::linear("date").slanted_ticks(ticks);
        check(&Plot::new("trend", x, PlotAxis::linear("steps/s"), vec![Layer::line("a", 0, data)]).scene());
    }

    #[test]
    fn nothing_to_show_is_still_a_picture() {
        let empty = Plot::new("", PlotAxis::log(""), PlotAxis::linear(""), vec![]);
        assert!(crate::raster::image(&empty.scene(), 1.0).is_ok());
        let odd = vec![Datum::new(f64::NAN, 1.0), Datum::new(0.0, -1.0).interval(Some((f64::NAN, f64::INFINITY)))];
        let odd = Plot::new("", PlotAxis::log(""), PlotAxis::log(""), vec![Layer::line("odd", 0, odd)]);
        assert!(odd.scene().shapes.iter().all(Shape::is_finite));
    }
}
