//! Pictures as text for terminals with true colour.

use std::fmt::Write;

use crate::{Colour, Image};

const RESET: &str = "\x1b[0m";

/// The image in `columns` characters a row, two pixels above each other in each character.
///
/// The image is shrunk by averaging; it is never enlarged beyond one pixel a character.
pub fn image(image: &Image, columns: usize) -> String {
    let columns = columns.clamp(1, image.width());
    let scale = image.width() as f64 / columns as f64;
    let rows = ((image.height() as f64 / scale / 2.0).round() as usize).max(1);
    let (mut out, mut pen) = (String::new(), Pen::default());
    for row in 0..rows {
        for column in 0..columns {
            let pixel = |line: usize| {
                let (from, to) = (share(image.height(), line, 2 * rows), share(image.height(), line + 1, 2 * rows));
                mean(
                    image,
                    (share(image.width(), column, columns), share(image.width(), column + 1, columns)),
                    (from, to),
                )
            };
            let (upper, lower) = (pixel(2 * row), pixel(2 * row + 1));
            if upper == lower {
                pen.set(&mut out, None, Some(lower));
                out.push(' ');
            } else {
                pen.set(&mut out, Some(upper), Some(lower));
                out.push('▀');
            }
        }
        pen.end_line(&mut out);
    }
    out
}

/// A cell of [`cells`]: a colour and perhaps a character on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its colour.
    pub colour: Colour,
    /// What is written on it, in black or white.
    pub label: Option<char>,
}

/// A grid of cells as two block characters each, or the label and a space on the cell's colour.
///
/// ```
/// # use phalanx_render::{Colour, ansi::{Cell, cells}};
/// let red = Cell { colour: Colour::rgb(0xFF4136), label: None };
/// assert_eq!(cells([[red, red]]), "\x1b[38;2;255;65;54m████\x1b[0m\n");
/// ```
pub fn cells<Row: IntoIterator<Item = Cell>>(rows: impl IntoIterator<Item = Row>) -> String {
    let (mut out, mut pen) = (String::new(), Pen::default());
    for row in rows {
        for cell in row {
            match cell.label {
                None => {
                    pen.set(&mut out, Some(cell.colour), None);
                    out.push_str("██");
                }
                Some(label) => {
                    pen.set(&mut out, Some(cell.colour.contrast()), Some(cell.colour));
                    out.extend([label, ' ']);
                }
            }
        }
        pen.end_line(&mut out);
    }
    out
}

/// The colours in force, so that escapes are written only where they change.
#[derive(Default)]
struct Pen {
    ink: Option<Colour>,
    paper: Option<Colour>,
}

impl Pen {
    /// Sets what is given; what is not given does not matter for the next character.
    fn set(&mut self, out: &mut String, ink: Option<Colour>, paper: Option<Colour>) {
        for (code, wanted, current) in [(38, ink, &mut self.ink), (48, paper, &mut self.paper)] {
            if let Some(colour) = wanted.filter(|colour| *current != Some(*colour)) {
                *current = wanted;
                // Writing to a string cannot fail.
                _ = write!(out, "\x1b[{code};2;{};{};{}m", colour.r, colour.g, colour.b);
            }
        }
    }

    fn end_line(&mut self, out: &mut String) {
        out.push_str(RESET);
        out.push('\n');
        *self = Self::default();
    }
}

/// Where part `index` of `parts` begins.
fn share(length: usize, index: usize, parts: usize) -> usize {
    length * index / parts
}

/// The mean colour of columns and rows `from..to`, of which at least one is taken.
fn mean(image: &Image, columns: (usize, usize), rows: (usize, usize)) -> Colour {
    let clip = |(from, to): (usize, usize), most: usize| {
        let from = from.min(most - 1);
        from..to.clamp(from + 1, most)
    };
    let (columns, rows) = (clip(columns, image.width()), clip(rows, image.height()));
    let count = columns.len() * rows.len();
    let mut sums = [count / 2; 3];
    for y in rows {
        for x in columns.clone() {
            for (sum, channel) in sums.iter_mut().zip(<[u8; 3]>::from(image.pixel(x, y))) {
                *sum += usize::from(channel);
            }
        }
    }
    sums.map(|sum| (sum / count) as u8).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_shows_two_pixels_in_their_colours() {
        let mut picture = Image::new(4, 4, Colour::rgb(0x0A141E)).unwrap();
        picture.fill(0, 0, 2, 1, Colour::rgb(0xFF0080));
        let upper = "\x1b[38;2;255;0;128m\x1b[48;2;10;20;30m▀▀  \x1b[0m\n";
        assert_eq!(image(&picture, 4), format!("{upper}\x1b[48;2;10;20;30m    \x1b[0m\n"));
        assert_eq!(image(&picture, 1_000), image(&picture, 4));
    }

    #[test]
    fn shrinking_averages() {
        let mut picture = Image::new(8, 8, Colour::BLACK).unwrap();
        picture.fill(0, 0, 4, 8, Colour::rgb(0x646464));
        let shrunk = image(&picture, 1);
        assert_eq!(shrunk, "\x1b[48;2;50;50;50m \x1b[0m\n");
        assert_eq!(image(&picture, 3).lines().count(), 2);
    }

    #[test]
    fn labels_can_be_read() {
        let row = [(0x252525, '0'), (0xE6E6E6, '5')]
            .map(|(colour, label)| Cell { colour: Colour::rgb(colour), label: Some(label) });
        let dark = "\x1b[38;2;255;255;255m\x1b[48;2;37;37;37m0 ";
        assert_eq!(cells([row]), format!("{dark}\x1b[38;2;0;0;0m\x1b[48;2;230;230;230m5 \x1b[0m\n"));
    }
}
