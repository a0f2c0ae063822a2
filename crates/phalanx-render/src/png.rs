//! Images as PNG files.

use crate::{Image, Result};

/// The bytes of a PNG file.
pub fn encode(image: &Image) -> Result<Vec<u8>> {
    encode_with_density(image, None)
}

/// The bytes of a PNG file that says how many of its pixels are an inch, so that it prints at its size.
pub fn encode_at(image: &Image, dots_per_inch: f64) -> Result<Vec<u8>> {
    encode_with_density(image, Some(dots_per_inch))
}

fn encode_with_density(image: &Image, dots_per_inch: Option<f64>) -> Result<Vec<u8>> {
    const INCHES_PER_METRE: f64 = 1.0 / 0.0254;
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, image.width() as u32, image.height() as u32);
    encoder.set_color(::png::ColorType::Rgb);
    encoder.set_depth(::png::BitDepth::Eight);
    let density = dots_per_inch.map(|density| (density * INCHES_PER_METRE).round() as u32);
    encoder.set_pixel_dims(density.map(|density| ::png::PixelDimensions {
        xppu: density,
        yppu: density,
        unit: ::png::Unit::Meter,
    }));
    let mut writer = encoder.write_header()?;
    writer.write_image_data(image.bytes())?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Colour, Paint, Scene, raster};

    #[test]
    fn decoding_gives_the_pixels_back() {
        let mut scene = Scene::new(33.0, 17.0, Colour::rgb(0x0074D9));
        scene.circle((15.0, 8.0), 6.5, Paint::fill(Colour::rgb(0xFF4136)).opacity(0.7));
        let image = raster::image(&scene, 1.0).unwrap();
        let mut reader = ::png::Decoder::new(std::io::Cursor::new(encode(&image).unwrap())).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.width, info.height, info.color_type), (33, 17, ::png::ColorType::Rgb));
        assert_eq!(&bytes[..info.buffer_size()], image.bytes());
    }
}
