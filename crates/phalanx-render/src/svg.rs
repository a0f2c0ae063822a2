//! Scenes as SVG documents.
//!
//! Every text says how long it is, so that a viewer without the font keeps the layout.

use std::fmt::Write;

use crate::scene::{Anchor, Paint, Point, Scene, Shape, Stroke, Text};
use crate::{Colour, font};

/// An SVG document of the scene, one unit a pixel unless the viewer scales it.
///
/// ```
/// # use phalanx_render::{Colour, Scene, Text, svg};
/// let mut scene = Scene::new(80.0, 20.0, Colour::WHITE);
/// scene.text(Text::new((4.0, 14.0), 12.0, "a < b", Colour::BLACK));
/// assert!(svg::document(&scene).contains("a &lt; b"));
/// ```
pub fn document(scene: &Scene) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n"
    );
    tag(&mut out, "rect", |tag| {
        tag.set("width", &width).set("height", &height).set("fill", scene.background);
    });
    for shape in scene.shapes.iter().filter(|shape| shape.is_finite()) {
        write_shape(&mut out, shape);
    }
    out.push_str("</svg>\n");
    out
}

fn write_shape(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Rect { at, width, height, radius, paint } => tag(out, "rect", |tag| {
            tag.set("x", number(at.0)).set("y", number(at.1));
            tag.set("width", number(width.max(0.0))).set("height", number(height.max(0.0)));
            if *radius > 0.0 {
                tag.set("rx", number(*radius));
            }
            tag.paint(paint);
        }),
        Shape::Circle { centre, radius, paint } => tag(out, "circle", |tag| {
            tag.set("cx", number(centre.0)).set("cy", number(centre.1)).set("r", number(radius.max(0.0))).paint(paint);
        }),
        Shape::Polygon { points, paint } => tag(out, "polygon", |tag| {
            tag.set("points", list(points)).set("stroke-linejoin", "round").paint(paint);
        }),
        Shape::Line { points, stroke } => tag(out, "polyline", |tag| {
            tag.set("points", list(points)).set("fill", "none");
            tag.set("stroke-linejoin", "round").set("stroke-linecap", "round").stroke(stroke);
        }),
        Shape::Text(text) => write_text(out, text),
    }
}

fn write_text(out: &mut String, text: &Text) {
    if text.text.is_empty() {
        return;
    }
    let mut tag = Tag { out };
    tag.out.push_str("<text");
    tag.set("x", number(text.at.0)).set("y", number(text.at.1));
    tag.set("font-family", "'Noto Sans Mono','DejaVu Sans Mono',monospace").set("font-size", number(text.size));
    // Without it, viewers collapse runs of spaces.
    tag.set("xml:space", "preserve");
    tag.set("textLength", number(font::width(&text.text, text.size))).set("lengthAdjust", "spacingAndGlyphs");
    match text.anchor {
        Anchor::Start => {}
        Anchor::Middle => _ = tag.set("text-anchor", "middle"),
        Anchor::End => _ = tag.set("text-anchor", "end"),
    }
    if text.bold {
        tag.set("font-weight", "bold");
    }
    if text.angle != 0.0 {
        let (x, y) = text.at;
        tag.set("transform", format!("rotate({} {} {})", number(text.angle), number(x), number(y)));
    }
    tag.colour("fill", text.colour, text.opacity);
    _ = writeln!(tag.out, ">{}</text>", escaped(&text.text));
}

/// An element without content.
fn tag(out: &mut String, name: &str, attributes: impl FnOnce(&mut Tag<'_>)) {
    out.push('<');
    out.push_str(name);
    attributes(&mut Tag { out });
    out.push_str("/>\n");
}

struct Tag<'a> {
    out: &'a mut String,
}

impl Tag<'_> {
    /// `value` must not need escapes; none of ours does.
    fn set(&mut self, name: &str, value: impl std::fmt::Display) -> &mut Self {
        // Writing to a string cannot fail.
        _ = write!(self.out, " {name}=\"{value}\"");
        self
    }

    fn colour(&mut self, name: &str, colour: Colour, opacity: f64) -> &mut Self {
        self.set(name, colour);
        if opacity < 1.0 {
            self.set(&format!("{name}-opacity"), number(opacity.max(0.0)));
        }
        self
    }

    fn paint(&mut self, paint: &Paint) -> &mut Self {
        match paint.fill {
            Some(colour) => self.colour("fill", colour, paint.opacity),
            None => self.set("fill", "none"),
        };
        if let Some(stroke) = &paint.outline {
            self.stroke(stroke);
        }
        self
    }

    fn stroke(&mut self, stroke: &Stroke) -> &mut Self {
        self.colour("stroke", stroke.colour, stroke.opacity).set("stroke-width", number(stroke.width.max(0.0)));
        if let Some((dash, gap)) = stroke.dash {
            self.set("stroke-dasharray", format!("{} {}", number(dash.max(0.0)), number(gap.max(0.0))));
        }
        self
    }
}

fn list(points: &[Point]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect::<Vec<_>>().join(" ")
}

/// At most three decimals: a thousandth of a pixel is below what anybody sees.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text as XML allows it; control characters have no form there and become a space.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> roxmltree::Document<'_> {
        roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    #[test]
    fn every_shape_is_a_well_formed_element_with_its_numbers() {
        let stroke = Stroke::new(Colour::rgb(0x112233), 1.5).dashed(4.0, 2.0).opacity(0.5);
        let mut scene = Scene::new(100.0, 50.25, Colour::rgb(0xFAFAFA));
        scene.round_rect((1.0, 2.0), 3.0, 4.0, 0.5, Paint::fill(Colour::BLACK).opacity(0.3));
        scene.circle((10.0, 20.0), 5.0, Paint::outline(stroke));
        scene.polygon([(0.0, 0.0), (1.0 / 3.0, 0.0), (0.0, -0.0001)], Paint::fill(Colour::WHITE).outlined(stroke));
        scene.line([(0.0, 0.0), (9.0, 9.0)], stroke);
        scene.text(Text::new((50.0, 25.0), 10.0, "T & \"p\" < 3\u{1}", Colour::BLACK).anchor(Anchor::End).bold());
        let document = document(&scene);
        let xml = parsed(&document);
        let root = xml.root_element();
        assert_eq!((root.attribute("width"), root.attribute("viewBox")), (Some("100"), Some("0 0 100 50.25")));
        let children: Vec<_> = root.children().filter(roxmltree::Node::is_element).collect();
        let names: Vec<_> = children.iter().map(|node| node.tag_name().name()).collect();
        assert_eq!(names, ["rect", "rect", "circle", "polygon", "polyline", "text"]);
        assert_eq!(children[0].attribute("fill"), Some("#fafafa"));
        assert_eq!((children[1].attribute("rx"), children[1].attribute("fill-opacity")), (Some("0.5"), Some("0.3")));
        assert_eq!(
            (children[2].attribute("fill"), children[2].attribute("stroke-opacity")),
            (Some("none"), Some("0.5"))
        );
        assert_eq!(children[3].attribute("points"), Some("0,0 0.333,0 0,0"));
        assert_eq!(children[4].attribute("stroke-dasharray"), Some("4 2"));
        assert_eq!(children[5].text(), Some("T & \"p\" < 3 "));
        assert_eq!(children[5].attribute("textLength"), Some("72"));
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        let mut scene = Scene::new(10.0, 10.0, Colour::WHITE);
        scene.circle((f64::NAN, 1.0), 1.0, Paint::fill(Colour::BLACK));
        scene.line([(0.0, 0.0), (f64::INFINITY, 0.0)], Stroke::new(Colour::BLACK, 1.0));
        let document = document(&scene);
        assert_eq!(parsed(&document).root_element().children().filter(roxmltree::Node::is_element).count(), 1);
        assert!(!document.contains("NaN") && !document.contains("inf"));
    }
}
