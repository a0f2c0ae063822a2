//! What a picture consists of.
//!
//! Units are abstract; y points down. A shape with a coordinate that is not a finite number is left out by
//! every back end, so that a picture of a state that blew up shows what it can.

use crate::{Colour, font};

/// A place: x to the right, y down.
pub type Point = (f64, f64);

/// A size, a background and shapes, drawn in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// Extent to the right.
    pub width: f64,
    /// Extent down.
    pub height: f64,
    /// Colour of what no shape covers.
    pub background: Colour,
    /// What is drawn, the last on top.
    pub shapes: Vec<Shape>,
}

/// Something to draw.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A rectangle, its corners rounded by `radius`.
    Rect {
        /// Top left corner.
        at: Point,
        /// Extent to the right.
        width: f64,
        /// Extent down.
        height: f64,
        /// Of the corners; 0 is sharp.
        radius: f64,
        /// Inside and outline.
        paint: Paint,
    },
    /// A circle.
    Circle {
        /// Its centre.
        centre: Point,
        /// Its radius.
        radius: f64,
        /// Inside and outline.
        paint: Paint,
    },
    /// A closed polygon that does not cross itself.
    Polygon {
        /// Its corners.
        points: Vec<Point>,
        /// Inside and outline.
        paint: Paint,
    },
    /// Line segments from point to point, with round ends and joins.
    Line {
        /// At least two points.
        points: Vec<Point>,
        /// How it is drawn.
        stroke: Stroke,
    },
    /// A line of text.
    Text(Text),
}

/// The inside and the outline of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paint {
    /// Colour of the inside; none leaves it empty.
    pub fill: Option<Colour>,
    /// How much the inside covers what is below, from 0 to 1.
    pub opacity: f64,
    /// The outline, centred on the edge.
    pub outline: Option<Stroke>,
}

impl Paint {
    /// A filled shape without outline.
    pub const fn fill(colour: Colour) -> Self {
        Self { fill: Some(colour), opacity: 1.0, outline: None }
    }

    /// An outline only.
    pub const fn outline(stroke: Stroke) -> Self {
        Self { fill: None, opacity: 1.0, outline: Some(stroke) }
    }

    /// With another opacity of the inside.
    pub const fn opacity(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }

    /// With an outline.
    pub const fn outlined(self, stroke: Stroke) -> Self {
        Self { outline: Some(stroke), ..self }
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stroke {
    /// Its colour.
    pub colour: Colour,
    /// Its width.
    pub width: f64,
    /// Lengths of dash and gap; the round ends of a dash reach into the gaps.
    pub dash: Option<(f64, f64)>,
    /// How much it covers what is below, from 0 to 1.
    pub opacity: f64,
}

impl Stroke {
    /// A solid line.
    pub const fn new(colour: Colour, width: f64) -> Self {
        Self { colour, width, dash: None, opacity: 1.0 }
    }

    /// With dashes and gaps.
    pub const fn dashed(self, dash: f64, gap: f64) -> Self {
        Self { dash: Some((dash, gap)), ..self }
    }

    /// With another opacity.
    pub const fn opacity(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }
}

/// Which part of a text lies at its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    #[default]
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// A line of text in the fixed-width [`font`].
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Where the anchor lies on the base line.
    pub at: Point,
    /// What it says.
    pub text: String,
    /// The font size; a character is [`font::ADVANCE`] of it wide.
    pub size: f64,
    /// Its colour.
    pub colour: Colour,
    /// Which part lies at `at`.
    pub anchor: Anchor,
    /// Whether it is set in bold.
    pub bold: bool,
    /// How much it covers what is below, from 0 to 1.
    pub opacity: f64,
    /// By how much it is turned around its place, in degrees, clockwise.
    pub angle: f64,
}

impl Text {
    /// Text to the right of a place.
    pub fn new(at: Point, size: f64, text: impl Into<String>, colour: Colour) -> Self {
        Self { at, text: text.into(), size, colour, anchor: Anchor::Start, bold: false, opacity: 1.0, angle: 0.0 }
    }

    /// With another anchor.
    pub fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// In bold.
    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Turned clockwise around its place.
    pub fn turned(self, degrees: f64) -> Self {
        Self { angle: degrees, ..self }
    }

    /// The left end, as if it were not turned.
    pub fn left(&self) -> f64 {
        let share = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => 0.5,
            Anchor::End => 1.0,
        };
        self.at.0 - share * font::width(&self.text, self.size)
    }

    /// Corners of the box around every glyph that the text may have: top left, bottom right.
    pub fn bounds(&self) -> (Point, Point) {
        let (left, width) = (self.left(), font::width(&self.text, self.size));
        let (top, bottom) = (self.at.1 - font::ASCENT * self.size, self.at.1 + font::DESCENT * self.size);
        let corners = [(left, top), (left + width, top), (left + width, bottom), (left, bottom)];
        let turned = corners.map(|corner| self.turn(corner));
        turned.iter().fold((turned[0], turned[0]), |(low, high), p| {
            ((low.0.min(p.0), low.1.min(p.1)), (high.0.max(p.0), high.1.max(p.1)))
        })
    }

    /// Where a place of the text that is not turned lies.
    pub(crate) fn turn(&self, (x, y): Point) -> Point {
        let (sin, cos) = self.angle.to_radians().sin_cos();
        let (dx, dy) = (x - self.at.0, y - self.at.1);
        (self.at.0 + dx * cos - dy * sin, self.at.1 + dx * sin + dy * cos)
    }
}

impl Scene {
    /// An empty scene.
    pub fn new(width: f64, height: f64, background: Colour) -> Self {
        Self { width, height, background, shapes: Vec::new() }
    }

    /// Texts that reach beyond the edge, which cuts them off.
    pub fn clipped_texts(&self) -> Vec<&Text> {
        let texts =
            self.shapes.iter().filter_map(|shape| if let Shape::Text(text) = shape { Some(text) } else { None });
        let clipped = |text: &&Text| {
            let ((left, top), (right, bottom)) = text.bounds();
            !(left >= 0.0 && top >= 0.0 && right <= self.width && bottom <= self.height)
        };
        texts.filter(clipped).collect()
    }

    /// Adds a rectangle with sharp corners.
    pub fn rect(&mut self, at: Point, width: f64, height: f64, paint: Paint) -> &mut Self {
        self.round_rect(at, width, height, 0.0, paint)
    }

    /// Adds a rectangle with round corners.
    pub fn round_rect(&mut self, at: Point, width: f64, height: f64, radius: f64, paint: Paint) -> &mut Self {
        self.push(Shape::Rect { at, width, height, radius, paint })
    }

    /// Adds a circle.
    pub fn circle(&mut self, centre: Point, radius: f64, paint: Paint) -> &mut Self {
        self.push(Shape::Circle { centre, radius, paint })
    }

    /// Adds a polygon.
    pub fn polygon(&mut self, points: impl Into<Vec<Point>>, paint: Paint) -> &mut Self {
        self.push(Shape::Polygon { points: points.into(), paint })
    }

    /// Adds a line through points.
    pub fn line(&mut self, points: impl Into<Vec<Point>>, stroke: Stroke) -> &mut Self {
        self.push(Shape::Line { points: points.into(), stroke })
    }

    /// Adds text.
    pub fn text(&mut self, text: Text) -> &mut Self {
        self.push(Shape::Text(text))
    }

    /// Adds the shapes of another scene, moved by `offset`.
    pub fn place(&mut self, other: Scene, offset: Point) -> &mut Self {
        self.shapes.extend(other.shapes.into_iter().map(|shape| shape.moved(offset)));
        self
    }

    fn push(&mut self, shape: Shape) -> &mut Self {
        self.shapes.push(shape);
        self
    }
}

impl Shape {
    /// Whether every number in it is finite, so that it can be drawn.
    pub fn is_finite(&self) -> bool {
        let places = |points: &[Point]| points.iter().all(|p| p.0.is_finite() && p.1.is_finite());
        let stroke = |s: &Stroke| {
            s.width.is_finite() && s.opacity.is_finite() && s.dash.is_none_or(|d| d.0.is_finite() && d.1.is_finite())
        };
        let painted = |p: &Paint| p.opacity.is_finite() && p.outline.as_ref().is_none_or(stroke);
        match self {
            Self::Rect { at, width, height, radius, paint } => {
                places(&[*at, (*width, *height)]) && radius.is_finite() && painted(paint)
            }
            Self::Circle { centre, radius, paint } => places(&[*centre]) && radius.is_finite() && painted(paint),
            Self::Polygon { points, paint } => places(points) && painted(paint),
            Self::Line { points, stroke: s } => places(points) && stroke(s),
            Self::Text(text) => places(&[text.at, (text.size, text.angle)]) && text.opacity.is_finite(),
        }
    }

    fn moved(mut self, (dx, dy): Point) -> Self {
        let shift = |point: &mut Point| *point = (point.0 + dx, point.1 + dy);
        match &mut self {
            Self::Rect { at, .. } => shift(at),
            Self::Circle { centre, .. } => shift(centre),
            Self::Polygon { points, .. } | Self::Line { points, .. } => points.iter_mut().for_each(shift),
            Self::Text(text) => shift(&mut text.at),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_beyond_any_edge_are_clipped() {
        let mut scene = Scene::new(100.0, 50.0, Colour::WHITE);
        let places = [("left", -1.0, 25.0), ("right", 95.0, 25.0), ("top", 40.0, 3.0), ("bottom", 40.0, 50.0)];
        for (name, x, y) in places.into_iter().chain([("inside", 40.0, 25.0)]) {
            scene.text(Text::new((x, y), 10.0, name, Colour::WHITE));
        }
        scene.text(Text::new((99.0, 45.0), 10.0, "flush", Colour::WHITE).anchor(Anchor::End));
        let clipped: Vec<&str> = scene.clipped_texts().iter().map(|text| text.text.as_str()).collect();
        assert_eq!(clipped, ["left", "right", "top", "bottom"]);
        scene.text(Text::new((50.0, 45.0), 10.0, "a long text upright", Colour::WHITE).turned(-90.0));
        assert_eq!(scene.clipped_texts().len(), 5);
    }
}
