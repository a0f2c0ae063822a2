//! Scenes as pixels, in software.
//!
//! Insides of polygons are covered by exact area: every edge adds its signed area to the cells it crosses,
//! and a running sum along each row gives the coverage (as in the font rasterisers of Levien and Barrett).
//! Lines and circles are covered by distance: a pixel is inked as far as its centre lies within the width,
//! and the best of all segments counts, so that a line of many short segments does not get darker at its joins.

use crate::font::Glyph;
use crate::scene::{Paint, Point, Scene, Shape, Stroke, Text};
use crate::{Colour, Error, Image, Result, font};

/// The scene in pixels, `scale` of them for each unit.
pub fn image(scene: &Scene, scale: f64) -> Result<Image> {
    let (width, height) = ((scene.width * scale).ceil(), (scene.height * scale).ceil());
    let allowed = 1.0..=Image::MAX_SIDE as f64;
    if !(scale > 0.0 && allowed.contains(&width) && allowed.contains(&height)) {
        return Err(Error::Size { width, height });
    }
    let mut canvas = Canvas { image: Image::new(width as usize, height as usize, scene.background)?, scale };
    for shape in scene.shapes.iter().filter(|shape| shape.is_finite()) {
        canvas.draw(shape);
    }
    Ok(canvas.image)
}

struct Canvas {
    image: Image,
    scale: f64,
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Rect { at, width, height, radius, paint } => self.rect(*at, *width, *height, *radius, paint),
            Shape::Circle { centre, radius, paint } => self.circle(*centre, *radius, paint),
            Shape::Polygon { points, paint } => {
                let points = self.scaled(points);
                self.fill(&[&points], paint);
                if let (Some(stroke), [first, ..]) = (&paint.outline, points.as_slice()) {
                    let closed: Vec<_> = points.iter().chain([first]).copied().collect();
                    self.line(&closed, stroke);
                }
            }
            Shape::Line { points, stroke } => self.line(&self.scaled(points), stroke),
            Shape::Text(text) => self.text(text),
        }
    }

    fn scaled(&self, points: &[Point]) -> Vec<Point> {
        points.iter().map(|(x, y)| (x * self.scale, y * self.scale)).collect()
    }

    fn rect(&mut self, (x, y): Point, width: f64, height: f64, radius: f64, paint: &Paint) {
        let outer = |margin: f64| {
            let corner = if radius > 0.0 { radius + margin } else { 0.0 };
            self.scaled(&rectangle((x - margin, y - margin), width + 2.0 * margin, height + 2.0 * margin, corner))
        };
        let inside = outer(0.0);
        let outline = paint.outline.map(|stroke| (stroke, outer(stroke.width / 2.0), outer(-stroke.width / 2.0)));
        self.fill(&[&inside], paint);
        let Some((stroke, outer, mut hole)) = outline else { return };
        if stroke.dash.is_some() {
            let closed: Vec<_> = inside.iter().chain(inside.first()).copied().collect();
            return self.line(&closed, &stroke);
        }
        // As a frame, not as four lines: sharp corners, and exact colours on whole pixels.
        hole.reverse();
        let frame = Paint::fill(stroke.colour).opacity(stroke.opacity);
        let has_hole = width.min(height) > stroke.width;
        let outlines: [&[Point]; 2] = [&outer, &hole];
        self.fill(&outlines[..if has_hole { 2 } else { 1 }], &frame);
    }

    fn circle(&mut self, (x, y): Point, radius: f64, paint: &Paint) {
        let (x, y, radius) = (x * self.scale, y * self.scale, radius.max(0.0) * self.scale);
        let distance = |px: f64, py: f64| (px - x).hypot(py - y);
        if let Some(colour) = paint.fill {
            let mut coverage = Coverage::around(&self.image, (x - radius, y - radius), (x + radius, y + radius), 1.0);
            coverage.raise((x, y), (x, y), radius + 1.0, |px, py| (radius + 0.5 - distance(px, py)).clamp(0.0, 1.0));
            self.blend(&coverage, colour, paint.opacity);
        }
        if let Some(stroke) = paint.outline {
            let (half, strength) = half_width(stroke.width * self.scale);
            let reach = radius + half + 1.0;
            let mut coverage = Coverage::around(&self.image, (x, y), (x, y), reach);
            coverage.raise((x, y), (x, y), reach, |px, py| {
                strength * (half + 0.5 - (distance(px, py) - radius).abs()).clamp(0.0, 1.0)
            });
            self.blend(&coverage, stroke.colour, stroke.opacity);
        }
    }

    /// The area inside of closed outlines; holes run the other way round.
    fn fill(&mut self, outlines: &[&[Point]], paint: &Paint) {
        let Some(colour) = paint.fill else { return };
        let Some((low, high)) = bounds(outlines.iter().flat_map(|outline| outline.iter().copied())) else { return };
        let mut coverage = Coverage::around(&self.image, low, high, 1.0);
        for outline in outlines {
            for (i, from) in outline.iter().enumerate() {
                coverage.edge(*from, outline[(i + 1) % outline.len()]);
            }
        }
        coverage.sum_rows();
        self.blend(&coverage, colour, paint.opacity);
    }

    fn line(&mut self, points: &[Point], stroke: &Stroke) {
        let (half, strength) = half_width(stroke.width * self.scale);
        let dashes = stroke.dash.and_then(|(dash, gap)| dashes(points, dash * self.scale, gap * self.scale));
        let segments = dashes.unwrap_or_else(|| points.windows(2).map(|pair| (pair[0], pair[1])).collect());
        let Some((low, high)) = bounds(segments.iter().flat_map(|(a, b)| [*a, *b])) else { return };
        let mut coverage = Coverage::around(&self.image, low, high, half + 1.0);
        for (a, b) in segments {
            coverage.raise(a, b, half + 1.0, |x, y| {
                strength * (half + 0.5 - distance_to_segment((x, y), a, b)).clamp(0.0, 1.0)
            });
        }
        self.blend(&coverage, stroke.colour, stroke.opacity);
    }

    fn text(&mut self, text: &Text) {
        let size = text.size * self.scale;
        if size <= 0.0 {
            return;
        }
        let (baseline, left) = (text.at.1 * self.scale, text.left() * self.scale);
        let place = (text.at.0 * self.scale, baseline);
        let (sin, cos) = text.angle.to_radians().sin_cos();
        for (i, character) in text.text.chars().enumerate() {
            let Some(glyph) = Glyph::of(character, text.bold) else { continue };
            let x = left + i as f64 * font::ADVANCE * size;
            let (top, bottom) = (baseline - font::ASCENT * size, baseline + font::DESCENT * size);
            let right = x + font::ADVANCE * size;
            let turned = |(px, py): Point| {
                let (x, y) = text.turn((px / self.scale, py / self.scale));
                (x * self.scale, y * self.scale)
            };
            let corners = [(x, top), (right, top), (right, bottom), (x, bottom)].map(turned);
            let Some((low, high)) = bounds(corners.into_iter()) else { continue };
            let mut coverage = Coverage::around(&self.image, low, high, 1.0);
            coverage.raise(low, high, 1.0, |px, py| {
                // Nine samples for each pixel: below the size of the glyph's raster, one would skip cells.
                let mut ink = 0.0;
                for dy in [-1.0 / 3.0, 0.0, 1.0 / 3.0] {
                    for dx in [-1.0 / 3.0, 0.0, 1.0 / 3.0] {
                        // Where the sample lies on the text before it was turned.
                        let (sx, sy) = (px + dx - place.0, py + dy - place.1);
                        let (ux, uy) = (place.0 + sx * cos + sy * sin, sy * cos - sx * sin);
                        ink += glyph.ink((ux - x) / size, uy / size);
                    }
                }
                ink / 9.0
            });
            self.blend(&coverage, text.colour, text.opacity);
        }
    }

    fn blend(&mut self, coverage: &Coverage, colour: Colour, opacity: f64) {
        let opacity = opacity.clamp(0.0, 1.0);
        for (row, cells) in coverage.cells.chunks_exact(coverage.stride).enumerate() {
            let pixels = &mut self.image.row_mut(coverage.top + row)[coverage.left..coverage.left + coverage.width];
            for (pixel, cell) in pixels.iter_mut().zip(cells) {
                let alpha = f64::from(cell.abs().min(1.0)) * opacity;
                if alpha > 0.0 {
                    *pixel = Colour::from(*pixel).towards(colour, alpha).into();
                }
            }
        }
    }
}

/// The corners of the box around points, if there are any.
fn bounds(mut points: impl Iterator<Item = Point>) -> Option<(Point, Point)> {
    let first = points.next()?;
    Some(
        points.fold((first, first), |(low, high), p| {
            ((low.0.min(p.0), low.1.min(p.1)), (high.0.max(p.0), high.1.max(p.1)))
        }),
    )
}

/// Half the width of a line, and its strength: lines below one pixel are drawn one wide, but fainter.
fn half_width(width: f64) -> (f64, f64) {
    (width.max(1.0) / 2.0, width.clamp(0.0, 1.0))
}

fn distance_to_segment((x, y): Point, a: Point, b: Point) -> f64 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length = dx * dx + dy * dy;
    let along = if length > 0.0 { (((x - a.0) * dx + (y - a.1) * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
    (x - a.0 - along * dx).hypot(y - a.1 - along * dy)
}

/// The dashes of a line; none if the pattern is empty or so fine that a solid line looks the same.
fn dashes(points: &[Point], dash: f64, gap: f64) -> Option<Vec<(Point, Point)>> {
    const MOST: f64 = 100_000.0;
    let length: f64 = points.windows(2).map(|p| (p[1].0 - p[0].0).hypot(p[1].1 - p[0].1)).sum();
    if !(dash >= 0.0 && gap > 0.0 && length / (dash + gap) < MOST) {
        return None;
    }
    let mut out = Vec::new();
    let (mut inked, mut left) = (true, dash);
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let place = |t: f64| (from.0 + (to.0 - from.0) * t / length, from.1 + (to.1 - from.1) * t / length);
        let mut at = 0.0;
        while at < length {
            let next = (at + left).min(length);
            if inked {
                out.push((place(at), place(next)));
            }
            left -= next - at;
            at = next;
            if left <= 1e-9 {
                inked = !inked;
                left = if inked { dash } else { gap };
            }
        }
    }
    Some(out)
}

/// A rectangle as a polygon, clockwise on the screen.
fn rectangle((x, y): Point, width: f64, height: f64, radius: f64) -> Vec<Point> {
    const QUARTER: usize = 12;
    let (width, height) = (width.max(0.0), height.max(0.0));
    let (right, bottom) = (x + width, y + height);
    let radius = radius.min(width / 2.0).min(height / 2.0);
    if radius <= 0.0 {
        return vec![(x, y), (right, y), (right, bottom), (x, bottom)];
    }
    let centres = [
        (right - radius, y + radius),
        (right - radius, bottom - radius),
        (x + radius, bottom - radius),
        (x + radius, y + radius),
    ];
    let corner = |(i, (cx, cy)): (usize, Point)| {
        (0..=QUARTER).map(move |k| {
            let angle = (i as f64 - 1.0 + k as f64 / QUARTER as f64) * std::f64::consts::FRAC_PI_2;
            (cx + radius * angle.cos(), cy + radius * angle.sin())
        })
    };
    centres.into_iter().enumerate().flat_map(corner).collect()
}

/// How much of each pixel is covered, for a rectangle of pixels within an image.
struct Coverage {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
    /// One more than the width: an edge writes to the cell right of it, too.
    stride: usize,
    cells: Vec<f32>,
}

impl Coverage {
    /// For everything between two corners and `margin` around them.
    fn around(image: &Image, low: Point, high: Point, margin: f64) -> Self {
        let clip = |from: f64, to: f64, most: usize| {
            // The casts saturate, so that a shape far away is merely empty.
            let start = ((from - margin).floor().max(0.0) as usize).min(most);
            (start, ((to + margin).ceil().max(0.0) as usize).clamp(start, most))
        };
        let (left, right) = clip(low.0, high.0, image.width());
        let (top, bottom) = clip(low.1, high.1, image.height());
        let (width, height) = (right - left, bottom - top);
        Self { left, top, width, height, stride: width + 1, cells: vec![0.0; (width + 1) * height] }
    }

    /// Raises the cells within `reach` of the box around two points to what `ink` gives at their centres.
    fn raise(&mut self, a: Point, b: Point, reach: f64, ink: impl Fn(f64, f64) -> f64) {
        let span = |a: f64, b: f64, start: usize, count: usize| {
            let from = (a.min(b) - reach - start as f64).floor().max(0.0) as usize;
            let to = (a.max(b) + reach - start as f64).ceil().max(0.0) as usize;
            from.min(count)..to.min(count)
        };
        for row in span(a.1, b.1, self.top, self.height) {
            for column in span(a.0, b.0, self.left, self.width) {
                let cell = &mut self.cells[row * self.stride + column];
                let value = ink((self.left + column) as f64 + 0.5, (self.top + row) as f64 + 0.5);
                *cell = cell.max(value as f32);
            }
        }
    }

    /// Adds the signed area right of an edge; what lies left of the rectangle counts in its first column.
    fn edge(&mut self, from: Point, to: Point) {
        let (width, height) = (self.width as f64, self.height as f64);
        let local = |p: Point| (p.0 - self.left as f64, p.1 - self.top as f64);
        let (mut a, mut b) = (local(from), local(to));
        if a.1 == b.1 {
            return;
        }
        let sign = if a.1 < b.1 { 1.0 } else { -1.0 };
        if sign < 0.0 {
            std::mem::swap(&mut a, &mut b);
        }
        let slope = (b.0 - a.0) / (b.1 - a.1);
        let x_at = |y: f64| a.0 + (y - a.1) * slope;
        let (top, bottom) = (a.1.max(0.0), b.1.min(height));
        if top >= bottom || self.width == 0 {
            return;
        }
        // Cut where the edge crosses the sides, so that each piece lies wholly in or out.
        let mut cuts = [top, bottom, top, top];
        for (cut, side) in cuts[2..].iter_mut().zip([0.0, width]) {
            let y = a.1 + (side - a.0) / slope;
            if y > top && y < bottom {
                *cut = y;
            }
        }
        cuts.sort_by(f64::total_cmp);
        for piece in cuts.windows(2).filter(|piece| piece[0] < piece[1]) {
            let middle = x_at((piece[0] + piece[1]) / 2.0);
            if middle <= 0.0 {
                self.piece((0.0, piece[0]), (0.0, piece[1]), sign);
            } else if middle < width {
                let inside = |y: f64| (x_at(y).clamp(0.0, width), y);
                self.piece(inside(piece[0]), inside(piece[1]), sign);
            }
        }
    }

    /// A downward piece of an edge that lies within the rectangle.
    fn piece(&mut self, a: Point, b: Point, sign: f64) {
        let slope = (b.0 - a.0) / (b.1 - a.1);
        let mut y = a.1;
        while y < b.1 {
            let row = y.floor();
            let next = (row + 1.0).min(b.1);
            let (from, to) = (a.0 + (y - a.1) * slope, a.0 + (next - a.1) * slope);
            let (left, right) = (from.min(to).max(0.0), from.max(to).min(self.width as f64));
            let height = sign * (next - y);
            let cells = &mut self.cells[row as usize * self.stride..][..self.stride];
            // Each column gets its share of the height, of which the part right of the edge lies in it.
            let mut x = left;
            loop {
                let column = (x.floor() as usize).min(self.width.saturating_sub(1));
                let end = (column as f64 + 1.0).min(right);
                let share = if right > left { height * (end - x) / (right - left) } else { height };
                let inside = share * (column as f64 + 1.0 - (x + end) / 2.0);
                cells[column] += inside as f32;
                cells[column + 1] += (share - inside) as f32;
                x = end;
                if x >= right {
                    break;
                }
            }
            y = next;
        }
    }

    /// Turns areas right of edges into coverage.
    fn sum_rows(&mut self) {
        for row in self.cells.chunks_exact_mut(self.stride) {
            let mut sum = 0.0;
            for cell in row {
                sum += *cell;
                // Rounding must not tint what is outside.
                *cell = if sum.abs() < 1e-4 { 0.0 } else { sum };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::scene::Anchor;

    /// Sum of coverage of a black drawing on white, in pixels.
    fn ink(image: &Image) -> f64 {
        image.pixels().iter().map(|p| 1.0 - f64::from(p[0]) / 255.0).sum()
    }

    fn drawn(width: f64, height: f64, scale: f64, draw: impl FnOnce(&mut Scene)) -> Image {
        let mut scene = Scene::new(width, height, Colour::WHITE);
        draw(&mut scene);
        image(&scene, scale).unwrap()
    }

    const BLACK: Paint = Paint::fill(Colour::BLACK);

    #[test]
    fn areas_are_those_of_geometry() {
        for (radius, scale) in [(10.0, 1.0), (3.3, 2.0), (20.0, 0.5)] {
            let circle = drawn(50.0, 50.0, scale, |s| _ = s.circle((25.2, 24.7), radius, BLACK));
            let expected = PI * (radius * scale).powi(2);
            assert!((ink(&circle) / expected - 1.0).abs() < 0.01, "r = {radius}: {} of {expected}", ink(&circle));
        }
        let triangle = drawn(40.0, 40.0, 1.0, |s| _ = s.polygon([(3.3, 2.1), (35.7, 8.4), (12.2, 37.9)], BLACK));
        let expected = ((35.7 - 3.3) * (37.9 - 2.1) - (12.2 - 3.3) * (8.4 - 2.1)) / 2.0;
        assert!((ink(&triangle) - expected).abs() < 0.5, "{} of {expected}", ink(&triangle));
        let backwards = drawn(40.0, 40.0, 1.0, |s| _ = s.polygon([(12.2, 37.9), (35.7, 8.4), (3.3, 2.1)], BLACK));
        assert_eq!(triangle, backwards);
        let line = drawn(40.0, 40.0, 1.0, |s| {
            s.line([(5.0, 5.0), (35.0, 27.5)], Stroke::new(Colour::BLACK, 3.0));
        });
        let expected = 37.5 * 3.0 + PI * 1.5 * 1.5;
        assert!((ink(&line) / expected - 1.0).abs() < 0.02, "{} of {expected}", ink(&line));
        let round = drawn(40.0, 40.0, 1.0, |s| _ = s.round_rect((5.0, 5.0), 30.0, 20.0, 6.0, BLACK));
        let expected = 600.0 - (4.0 - PI) * 36.0;
        assert!((ink(&round) - expected).abs() < 1.0, "{} of {expected}", ink(&round));
    }

    #[test]
    fn whole_pixels_have_exact_colours() {
        let red = Colour::rgb(0xE74C3C);
        let image = drawn(8.0, 6.0, 2.0, |s| {
            s.rect((1.0, 1.0), 6.0, 4.0, Paint::fill(red).outlined(Stroke::new(Colour::BLACK, 1.0)));
        });
        for y in 0..12 {
            for x in 0..16 {
                let within = |margin: usize| (margin..16 - margin).contains(&x) && (margin..12 - margin).contains(&y);
                let expected = match (within(1), within(3)) {
                    (_, true) => red,
                    (true, false) => Colour::BLACK,
                    (false, _) => Colour::WHITE,
                };
                assert_eq!(image.pixel(x, y), expected, "{x}, {y}");
            }
        }
        let half = drawn(4.0, 4.0, 1.0, |s| _ = s.rect((0.0, 0.0), 4.0, 1.5, BLACK));
        assert_eq!([0, 1, 2].map(|y| half.pixel(2, y).r), [0, 128, 255]);
        let faint = drawn(4.0, 4.0, 1.0, |s| _ = s.rect((0.0, 0.0), 4.0, 4.0, BLACK.opacity(0.3)));
        assert!(faint.pixels().iter().all(|p| *p == [179; 3]), "{:?}", faint.pixel(0, 0));
    }

    #[test]
    fn shapes_may_lie_across_or_beyond_the_edges() {
        let image = drawn(10.0, 10.0, 1.0, |s| {
            s.polygon([(-1e9, 5.0), (1e9, 5.0), (1e9, 1e9), (-1e9, 1e9)], BLACK);
            s.circle((1e12, -1e12), 5.0, BLACK).rect((-9.0, -9.0), 3.0, 3.0, BLACK);
            s.line([(-1e300, 1e300), (-1e300, 1e301)], Stroke::new(Colour::BLACK, 2.0));
            s.text(Text::new((-500.0, 3.0), 10.0, "beyond", Colour::BLACK));
        });
        assert_eq!(ink(&image), 50.0);
        let slanted = drawn(10.0, 10.0, 1.0, |s| _ = s.polygon([(-10.0, 0.0), (20.0, 10.0), (-10.0, 10.0)], BLACK));
        assert!((ink(&slanted) - 50.0).abs() < 0.5, "{}", ink(&slanted));
    }

    #[test]
    fn dashes_ink_their_share() {
        let line = |stroke: Stroke| drawn(130.0, 10.0, 1.0, |s| _ = s.line([(5.0, 5.0), (125.0, 5.0)], stroke));
        let solid = ink(&line(Stroke::new(Colour::BLACK, 1.0)));
        let dashed = ink(&line(Stroke::new(Colour::BLACK, 1.0).dashed(5.0, 5.0)));
        assert!((0.45..0.65).contains(&(dashed / solid)), "{dashed} of {solid}");
        let nothing = line(Stroke::new(Colour::BLACK, 1.0).dashed(0.0, 0.0));
        assert_eq!(ink(&nothing), solid);
    }

    #[test]
    fn text_lies_within_its_bounds_and_leans_on_its_anchor() {
        for (anchor, place) in [(Anchor::Start, 20.0), (Anchor::Middle, 100.0), (Anchor::End, 180.0)] {
            let text = Text::new((place, 40.0), 20.0, "Åg|HÅg|H", Colour::BLACK).anchor(anchor);
            let ((left, top), (right, bottom)) = text.bounds();
            let image = drawn(200.0, 60.0, 1.0, |s| _ = s.text(text));
            let (mut inside, mut outside) = (0.0, 0.0);
            for (i, pixel) in image.pixels().iter().enumerate() {
                let (x, y) = ((i % 200) as f64 + 0.5, (i / 200) as f64 + 0.5);
                let within = (left - 1.0..right + 1.0).contains(&x) && (top - 1.0..bottom + 1.0).contains(&y);
                *(if within { &mut inside } else { &mut outside }) += 1.0 - f64::from(pixel[0]) / 255.0;
            }
            assert!(inside > 200.0 && outside == 0.0, "{anchor:?}: {inside} inside, {outside} outside");
        }
    }

    #[test]
    fn turned_text_lies_within_its_bounds() {
        for angle in [-90.0, -35.0, 20.0, 180.0] {
            let text = Text::new((100.0, 100.0), 20.0, "Åg|H", Colour::BLACK).anchor(Anchor::End).turned(angle);
            let ((left, top), (right, bottom)) = text.bounds();
            let image = drawn(200.0, 200.0, 1.0, |s| _ = s.text(text));
            let outside = image.pixels().iter().enumerate().filter(|(i, pixel)| {
                let (x, y) = ((i % 200) as f64 + 0.5, (i / 200) as f64 + 0.5);
                let within = (left - 1.0..right + 1.0).contains(&x) && (top - 1.0..bottom + 1.0).contains(&y);
                !within && pixel[0] < 255
            });
            assert_eq!(outside.count(), 0, "{angle}");
            assert!(ink(&image) > 100.0, "{angle}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for (width, scale) in [(0.0, 1.0), (10.0, 0.0), (f64::NAN, 1.0), (10.0, 1e9), (10.0, -1.0)] {
            let refused = image(&Scene::new(width, 10.0, Colour::WHITE), scale);
            assert!(matches!(refused, Err(Error::Size { .. })), "{width} at {scale}");
        }
    }
}
