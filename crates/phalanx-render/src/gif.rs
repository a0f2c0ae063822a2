//! Animations as GIF files.
//!
//! One palette serves all frames, so colours do not flicker. A frame holds only the rectangle that changed, and in it
//! only the pixels that did; the others are transparent, which packs well.

use crate::palette::{Census, Palette};
use crate::{Error, Image, Result};

/// The bytes of an endless animation that shows each frame for `delay_ms` milliseconds.
///
/// The format counts in hundredths of a second; the delay is rounded to them, and to 20 ms at least, because
/// viewers slow down what claims to be faster.
pub fn encode(frames: &[Image], delay_ms: u32) -> Result<Vec<u8>> {
    encode_with(frames.len(), |frame| Ok(frames[frame].clone()), delay_ms)
}

/// Like [`encode`], with frames that are made when they are needed: each is asked for twice, in order, once for the
/// palette and once to be written. A long animation then needs the memory of two frames.
pub fn encode_with(frames: usize, mut frame: impl FnMut(usize) -> Result<Image>, delay_ms: u32) -> Result<Vec<u8>> {
    let mut census = Census::default();
    let mut size = None;
    for index in 0..frames {
        let image = frame(index)?;
        let this = (image.width(), image.height());
        let first = *size.get_or_insert(this);
        if this != first {
            return Err(Error::FrameSize { frame: index, width: this.0, height: this.1, first });
        }
        census.add(image.pixels());
    }
    let (width, height) = size.ok_or(Error::NoFrames)?;
    let mut palette = census.palette();

    // An image has at most `Image::MAX_SIDE` pixels a side, which fits.
    let mut encoder = ::gif::Encoder::new(Vec::new(), width as u16, height as u16, palette.bytes())?;
    encoder.set_repeat(::gif::Repeat::Infinite)?;
    let delay = ((delay_ms.saturating_add(5)) / 10).clamp(2, u32::from(u16::MAX)) as u16;
    let mut shown: Option<Image> = None;
    for index in 0..frames {
        let image = frame(index)?;
        let changed = shown.as_ref().map_or((0, 0, width, height), |shown| difference(shown, &image));
        encoder.write_frame(&part(shown.as_ref(), &image, changed, &mut palette, delay))?;
        shown = Some(image);
    }
    Ok(encoder.into_inner()?)
}

/// Left, top, width and height of a part of an image.
type Area = (usize, usize, usize, usize);

/// The smallest area outside of which two images are equal; a pixel where there is no difference.
fn difference(old: &Image, new: &Image) -> Area {
    let width = new.width();
    let (mut left, mut right, mut top, mut bottom) = (usize::MAX, 0, usize::MAX, 0);
    let rows = old.pixels().chunks_exact(width).zip(new.pixels().chunks_exact(width));
    for (y, (old, new)) in rows.enumerate() {
        let differs = |x: &usize| old[*x] != new[*x];
        let Some(first) = (0..width).find(differs) else { continue };
        let last = (first..width).rev().find(differs).unwrap_or(first);
        (left, right) = (left.min(first), right.max(last));
        (top, bottom) = (top.min(y), y);
    }
    if left == usize::MAX { (0, 0, 1, 1) } else { (left, top, right - left + 1, bottom - top + 1) }
}

fn part(
    shown: Option<&Image>,
    image: &Image,
    (left, top, width, height): Area,
    palette: &mut Palette,
    delay: u16,
) -> ::gif::Frame<'static> {
    let mut buffer = Vec::with_capacity(width * height);
    for start in (top..top + height).map(|row| row * image.width() + left) {
        let new = &image.pixels()[start..start + width];
        for (i, pixel) in new.iter().enumerate() {
            let same = shown.is_some_and(|shown| shown.pixels()[start + i] == *pixel);
            buffer.push(if same { palette.unchanged() } else { palette.index(*pixel) });
        }
    }
    ::gif::Frame {
        left: left as u16,
        top: top as u16,
        width: width as u16,
        height: height as u16,
        delay,
        transparent: shown.map(|_| palette.unchanged()),
        dispose: ::gif::DisposalMethod::Keep,
        buffer: buffer.into(),
        ..::gif::Frame::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Colour, Paint, Scene, Stroke, raster};

    /// Frames as a viewer composes them, and their delays.
    fn decoded(bytes: &[u8]) -> Vec<(Vec<[u8; 3]>, u16)> {
        let mut options = ::gif::DecodeOptions::new();
        options.set_color_output(::gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(bytes).unwrap();
        let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
        let mut canvas = vec![[0; 3]; width * height];
        let mut out = Vec::new();
        while let Some(frame) = decoder.read_next_frame().unwrap() {
            assert_eq!(frame.dispose, ::gif::DisposalMethod::Keep);
            for (i, pixel) in frame.buffer.chunks_exact(4).enumerate() {
                let (x, y) = (i % usize::from(frame.width), i / usize::from(frame.width));
                if pixel[3] == 255 {
                    canvas[(usize::from(frame.top) + y) * width + usize::from(frame.left) + x] =
                        [pixel[0], pixel[1], pixel[2]];
                }
            }
            out.push((canvas.clone(), frame.delay));
        }
        out
    }

    #[test]
    fn flat_scenes_come_back_exactly() {
        let frames: Vec<_> = (0..6_u32)
            .map(|i| {
                let mut scene = Scene::new(20.0, 10.0, Colour::rgb(0xCCCCCC));
                scene.rect((f64::from(i), 2.0), 5.0, 5.0, Paint::fill(Colour::rgb(0x37D449 + i)));
                raster::image(&scene, 2.0).unwrap()
            })
            .collect();
        let film = decoded(&encode(&[&frames[..], &frames[5..]].concat(), 70).unwrap());
        assert_eq!(film.len(), 7);
        for ((pixels, delay), frame) in film.iter().zip(frames.iter().chain(&frames[5..])) {
            assert_eq!((pixels.as_slice(), *delay), (frame.pixels(), 7));
        }
    }

    #[test]
    fn of_many_colours_the_flat_ones_stay_exact_and_the_edges_near() {
        let paper = Colour::rgb(0xFDFDFB);
        let flat = std::array::from_fn::<_, 8, _>(|k| Colour::rgb(0x2E86AB + 0x0F_1A07 * k as u32));
        let frames: Vec<_> = (0..12_u32)
            .map(|i| {
                let mut scene = Scene::new(120.0, 80.0, paper);
                for (k, colour) in flat.iter().enumerate() {
                    let centre = (15.0 * k as f64 + 6.3, 20.0 + 3.1 * f64::from(i));
                    scene.circle(centre, 11.4, Paint::fill(*colour));
                }
                scene.line([(0.0, 70.0), (120.0, 9.0)], Stroke::new(Colour::rgb(0xA23B72), 1.7));
                raster::image(&scene, 1.5).unwrap()
            })
            .collect();
        let colours: std::collections::HashSet<_> = frames.iter().flat_map(|f| f.pixels()).collect();
        assert!(colours.len() > 256, "{} colours do not test the reduction", colours.len());
        let film = decoded(&encode(&frames, 1).unwrap());
        for ((pixels, delay), frame) in film.iter().zip(&frames) {
            assert_eq!(*delay, 2);
            let same = pixels.iter().zip(frame.pixels()).filter(|(a, b)| a == b).count();
            assert!(same * 100 > pixels.len() * 95, "{same} of {} pixels are exact", pixels.len());
            let far = |(a, b): (&[u8; 3], &[u8; 3])| a.iter().zip(b).any(|(a, b)| a.abs_diff(*b) > 40);
            assert_eq!(pixels.iter().zip(frame.pixels()).filter(|pair| far(*pair)).count(), 0);
            let is_flat = |pixel: &[u8; 3]| Colour::from(*pixel) == paper || flat.contains(&Colour::from(*pixel));
            assert!(pixels.iter().zip(frame.pixels()).all(|(a, b)| !is_flat(b) || a == b));
        }
    }

    #[test]
    fn frames_must_exist_and_be_of_one_size() {
        assert!(matches!(encode(&[], 50), Err(Error::NoFrames)));
        let frame = |width| Image::new(width, 4, Colour::WHITE).unwrap();
        let refused = encode(&[frame(4), frame(5)], 50).unwrap_err();
        assert_eq!(refused.to_string(), "frame 1 has 5 x 4 pixels, but the first has 4 x 4");
    }
}
