//! What is wrong with a task file, and where.

use std::fmt::{self, Display};

/// A reason not to use a task; the rest of its directory is not affected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{file}: {place}{fault}")]
pub struct Problem {
    /// The file, and for a file of many tasks the task's name.
    pub file: String,
    /// Where in the file.
    pub place: Place,
    /// What is wrong there.
    pub fault: Fault,
}

/// A place in a task; everything counts from 0, as in actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// `train` or `test`, and which pair.
    pub pair: Option<(&'static str, u32)>,
    /// `input` or `output`.
    pub side: Option<&'static str>,
    /// Row of the grid.
    pub row: Option<u32>,
    /// Column of the grid.
    pub column: Option<u32>,
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The file cannot be read.
    Unreadable(String),
    /// The file is no JSON.
    Syntax(String),
    /// Something has another type.
    Type {
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A key is missing.
    Missing(&'static str),
    /// There is no pair.
    NoPairs(&'static str),
    /// A grid has no rows, or a row no cells.
    Empty,
    /// A row has another length than the first.
    Ragged {
        /// Cells it has.
        found: usize,
        /// Cells of the first row.
        expected: usize,
    },
    /// A grid is too small or too large.
    Size {
        /// Its height and width.
        found: (u32, u32),
        /// The smallest height and width.
        min: (u32, u32),
        /// The largest height and width.
        max: (u32, u32),
    },
    /// A colour that does not exist.
    Colour {
        /// The colour.
        found: i64,
        /// The number of colours.
        colours: u8,
    },
    /// More pairs than the data set has.
    TooManyPairs {
        /// `train` or `test`.
        part: &'static str,
        /// Pairs there are.
        found: usize,
        /// Pairs there may be.
        max: usize,
    },
    /// Another number of solutions than of test pairs.
    Solutions {
        /// Solutions.
        found: usize,
        /// Test pairs.
        expected: usize,
    },
    /// The same task is in another file already.
    Duplicate(String),
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.pair.map(|(part, pair)| format!("{part} pair {pair}")),
            self.side.map(str::to_owned),
            self.row.map(|row| format!("row {row}")),
            self.column.map(|column| format!("column {column}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { Ok(()) } else { write!(f, "{}: ", parts.join(", ")) }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Syntax(why) => write!(f, "is no JSON: {why}"),
            Self::Type { expected, found } => write!(f, "{found} where {expected} is needed"),
            Self::Missing(key) => write!(f, "has no \"{key}\""),
            Self::NoPairs(part) => write!(f, "has no {part} pair, but needs at least 1"),
            Self::Empty => write!(f, "is empty"),
            Self::Ragged { found, expected } => write!(f, "has {found} cells, but row 0 has {expected}"),
            Self::Size { found, min, max } => {
                let size = |(height, width): &(u32, u32)| format!("{height}x{width}");
                write!(f, "is {}, but must be from {} to {}", size(found), size(min), size(max))
            }
            Self::Colour { found, colours } => write!(f, "colour {found} is not from 0 to {}", colours - 1),
            Self::TooManyPairs { part, found, max } => {
                write!(f, "has {found} {part} pairs, but at most {max} are allowed")
            }
            Self::Solutions { found, expected } => {
                write!(f, "has {found} solutions for {expected} test pairs")
            }
            Self::Duplicate(other) => write!(f, "is already in {other}"),
        }
    }
}
