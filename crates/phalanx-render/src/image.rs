//! Pixels.

use crate::{Colour, Error, Result};

/// A rectangle of opaque pixels, row by row from the top left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 3]>,
}

impl Image {
    /// The most pixels a side may have; a GIF cannot hold more than 65 535.
    pub const MAX_SIDE: usize = 16_384;

    /// An image of one colour.
    pub fn new(width: usize, height: usize, background: Colour) -> Result<Self> {
        let allowed = 1..=Self::MAX_SIDE;
        if !allowed.contains(&width) || !allowed.contains(&height) {
            return Err(Error::Size { width: width as f64, height: height as f64 });
        }
        Ok(Self { width, height, pixels: vec![background.into(); width * height] })
    }

    /// Pixels across.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Pixels down.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Every pixel, row by row.
    pub fn pixels(&self) -> &[[u8; 3]] {
        &self.pixels
    }

    /// Every channel of every pixel: `height * width * 3` bytes.
    pub fn bytes(&self) -> &[u8] {
        self.pixels.as_flattened()
    }

    /// The pixel in column `x` of row `y`.
    ///
    /// # Panics
    /// Outside of the image.
    pub fn pixel(&self, x: usize, y: usize) -> Colour {
        assert!(x < self.width, "column {x} of {}", self.width);
        self.pixels[y * self.width + x].into()
    }

    /// One row, to draw on.
    pub(crate) fn row_mut(&mut self, y: usize) -> &mut [[u8; 3]] {
        &mut self.pixels[y * self.width..(y + 1) * self.width]
    }

    /// Fills the part of a rectangle of pixels that lies within the image.
    pub fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: Colour) {
        let (left, right) = (x.min(self.width), x.saturating_add(width).min(self.width));
        for row in y.min(self.height)..y.saturating_add(height).min(self.height) {
            self.row_mut(row)[left..right].fill(colour.into());
        }
    }
}
