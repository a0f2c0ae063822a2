//! Colours.

/// An opaque colour: red, green and blue from 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Colour {
    /// Red.
    pub r: u8,
    /// Green.
    pub g: u8,
    /// Blue.
    pub b: u8,
}

impl Colour {
    /// Black.
    pub const BLACK: Self = Self::rgb(0x000000);
    /// White.
    pub const WHITE: Self = Self::rgb(0xFFFFFF);

    /// From a literal such as `0x2E86AB`; bits above the lowest 24 are ignored.
    pub const fn rgb(value: u32) -> Self {
        let [_, r, g, b] = value.to_be_bytes();
        Self { r, g, b }
    }

    /// From text such as `2E86AB` or `#2e86ab`; anything else is `None`.
    ///
    /// ```
    /// # use phalanx_render::Colour;
    /// const BLUE: Option<Colour> = Colour::parse("#2e86ab");
    /// assert_eq!(BLUE, Some(Colour::rgb(0x2E86AB)));
    /// assert_eq!(Colour::parse("2e86a"), None);
    /// ```
    pub const fn parse(text: &str) -> Option<Self> {
        let digits = match text.as_bytes() {
            [b'#', digits @ ..] | digits => digits,
        };
        if digits.len() != 6 {
            return None;
        }
        let (mut value, mut i) = (0, 0);
        while i < 6 {
            let Some(digit) = (digits[i] as char).to_digit(16) else { return None };
            value = value * 16 + digit;
            i += 1;
        }
        Some(Self::rgb(value))
    }

    /// The colour `share` of the way to `other`; a share of 0 is `self`, of 1 exactly `other`.
    pub fn towards(self, other: Self, share: f64) -> Self {
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
        Self { r: mix(self.r, other.r), g: mix(self.g, other.g), b: mix(self.b, other.b) }
    }

    /// Black or white, whichever can be read on this colour.
    pub fn contrast(self) -> Self {
        let luma = 0.299 * f64::from(self.r) + 0.587 * f64::from(self.g) + 0.114 * f64::from(self.b);
        if luma > 140.0 { Self::BLACK } else { Self::WHITE }
    }
}

/// As in SVG: `#2e86ab`.
impl std::fmt::Display for Colour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.r, self.g, self.b)
    }
}

impl From<[u8; 3]> for Colour {
    fn from([r, g, b]: [u8; 3]) -> Self {
        Self { r, g, b }
    }
}

impl From<Colour> for [u8; 3] {
    fn from(colour: Colour) -> Self {
        [colour.r, colour.g, colour.b]
    }
}

#[cfg(test)]
mod tests {
    use super::Colour;

    #[test]
    fn text_comes_back_and_nonsense_does_not() {
        let colour = Colour { r: 1, g: 0xab, b: 0xff };
        assert_eq!(Colour::parse(&colour.to_string()), Some(colour));
        for wrong in ["", "#", "12345", "1234567", "12345g", "##12345", "é1234"] {
            assert_eq!(Colour::parse(wrong), None, "{wrong}");
        }
    }
}
