//! Pictures: lists of shapes, and the formats they are written in.
//!
//! A [`Scene`] is a size, a background and shapes in abstract units. The back ends do not know each other:
//!
//! | module | gives |
//! |---|---|
//! | [`svg`] | an SVG document |
//! | [`raster`] | an [`Image`] of pixels, anti-aliased, with an embedded font |
//! | [`png`], [`gif`] | files from images |
//! | [`ansi`] | true-colour text for a terminal |
//!
//! [`chart`] draws time series as scenes, [`plot`] and [`bars`] draw measurements. Nothing here knows of environments.
//!
//! ```
//! use phalanx_render::{Colour, Paint, Scene, gif, png, raster, svg};
//!
//! # fn main() -> Result<(), phalanx_render::Error> {
//! let mut scene = Scene::new(120.0, 80.0, Colour::WHITE);
//! scene.circle((60.0, 40.0), 25.0, Paint::fill(Colour::rgb(0x2E86AB)));
//!
//! let document = svg::document(&scene);
//! let image = raster::image(&scene, 2.0)?;
//! let still = png::encode(&image)?;
//! let film = gif::encode(&[image], 40)?;
//! # assert!(document.starts_with("<svg") && still.starts_with(b"\x89PNG") && film.starts_with(b"GIF89a"));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod ansi;
mod axis;
pub mod bars;
pub mod chart;
mod colour;
mod error;
pub mod font;
pub mod gif;
mod image;
mod palette;
pub mod plot;
pub mod png;
pub mod raster;
mod scene;
pub mod svg;

pub use colour::Colour;
pub use error::{Error, Result};
pub use image::Image;
pub use scene::{Anchor, Paint, Point, Scene, Shape, Stroke, Text};
