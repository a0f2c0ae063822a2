//! What can go wrong with a picture.

use crate::Image;

/// An error of a back end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A picture without pixels, or with too many.
    #[error("a picture of {width} x {height} pixels was asked for, but each side must have 1 to {}", Image::MAX_SIDE)]
    Size {
        /// Pixels across.
        width: f64,
        /// Pixels down.
        height: f64,
    },
    /// An animation without frames.
    #[error("an animation needs at least one frame")]
    NoFrames,
    /// A frame of another size than the first.
    #[error("frame {frame} has {width} x {height} pixels, but the first has {} x {}", .first.0, .first.1)]
    FrameSize {
        /// Its index.
        frame: usize,
        /// Its width.
        width: usize,
        /// Its height.
        height: usize,
        /// Width and height of the first frame.
        first: (usize, usize),
    },
    /// The PNG encoder refused or could not write.
    #[error("the PNG could not be written: {0}")]
    Png(#[from] png::EncodingError),
    /// The GIF encoder refused or could not write.
    #[error("the GIF could not be written: {0}")]
    Gif(#[from] gif::EncodingError),
}

/// The result of drawing.
pub type Result<T, E = Error> = std::result::Result<T, E>;
