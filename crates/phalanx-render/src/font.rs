//! The one font: Noto Sans Mono, whose glyphs come rasterised with the crate of that name.
//!
//! All characters are equally wide, so that layouts can be computed without a font parser, and an SVG can
//! tell its viewer the length of every text. Characters beyond Latin-1 are drawn as `?` in pixels.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster};

/// Width of a character, in font sizes.
pub const ADVANCE: f64 = 0.6;
/// Height of a capital letter above the base line, in font sizes.
pub const CAPITAL: f64 = 17.0 * CELL;
/// Height of the highest glyph above the base line, in font sizes.
pub const ASCENT: f64 = 24.0 * CELL;
/// Depth of the deepest glyph below the base line, in font sizes.
pub const DESCENT: f64 = 7.0 * CELL;

/// Columns of a rasterised glyph.
const COLUMNS: usize = 14;
/// The row of a rasterised glyph below which the base line lies.
const BASE_ROW: f64 = 25.0;
/// Side of one cell of a rasterised glyph, in font sizes.
const CELL: f64 = ADVANCE / COLUMNS as f64;

/// The width of a text.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * ADVANCE * size
}

/// The text, shortened with `..` if it is wider than `room`.
///
/// ```
/// # use phalanx_render::font::{fit, width};
/// assert_eq!(fit("temperature", 10.0, width("temperature", 10.0)), "temperature");
/// assert_eq!(fit("temperature", 10.0, width("tempera", 10.0)), "tempe..");
/// ```
pub fn fit(text: &str, size: f64, room: f64) -> String {
    // The sum of widths that just fit must fit.
    let columns = ((room / (ADVANCE * size)) + 1e-9).floor().max(0.0) as usize;
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(2)).collect();
    format!("{kept}{}", &".."[..columns.min(2)])
}

/// How much ink a character has at a place relative to its left end on the base line, in font sizes.
pub(crate) struct Glyph(noto_sans_mono_bitmap::RasterizedChar);

impl Glyph {
    pub(crate) fn of(character: char, bold: bool) -> Option<Self> {
        let weight = if bold { FontWeight::Bold } else { FontWeight::Regular };
        let find = |character| get_raster(character, weight, RasterHeight::Size32);
        find(character).or_else(|| find('?')).map(Self)
    }

    /// From 0 to 1, interpolated between the cells.
    pub(crate) fn ink(&self, x: f64, y: f64) -> f64 {
        let (column, row) = (x / CELL - 0.5, y / CELL + BASE_ROW - 0.5);
        let (left, top) = (column.floor(), row.floor());
        let (dx, dy) = (column - left, row - top);
        let cell = |column: f64, row: f64| {
            let inside = column >= 0.0 && row >= 0.0;
            let pixel = if inside { self.0.pixel(column as usize, row as usize) } else { None };
            f64::from(pixel.unwrap_or(0)) / 255.0
        };
        let across = |row: f64| cell(left, row) * (1.0 - dx) + cell(left + 1.0, row) * dx;
        across(top) * (1.0 - dy) + across(top + 1.0) * dy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants above are read off the glyphs; another version of the font must not move them silently.
    #[test]
    fn the_metrics_are_those_of_the_glyphs() {
        let ink_rows = |character| -> (usize, usize) {
            let glyph = get_raster(character, FontWeight::Regular, RasterHeight::Size32).unwrap();
            assert_eq!(glyph.width(), COLUMNS);
            let inked: Vec<_> = (0..).zip(glyph.rows()).filter(|(_, row)| row.iter().any(|i| *i > 0)).collect();
            (inked[0].0, inked.last().unwrap().0 + 1)
        };
        assert_eq!(ink_rows('H'), (25 - 17, 25));
        for character in (' '..='~').chain('¡'..='ÿ').filter(|c| !c.is_whitespace() && *c != '\u{ad}') {
            let (top, bottom) = ink_rows(character);
            assert!(top >= 25 - 24 && bottom <= 25 + 7, "{character} has rows {top} to {bottom}");
        }
        assert!(Glyph::of('H', false).unwrap().ink(2.5 * CELL, -8.0 * CELL) > 0.9);
        assert_eq!(Glyph::of('H', false).unwrap().ink(2.5 * CELL, 1.0 * CELL), 0.0);
        assert!(Glyph::of('θ', true).is_some());
    }
}
