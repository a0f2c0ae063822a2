//! Images as PNG files.

use crate::{Image, Result};

/// The bytes of a PNG file.
pub fn encode(image: &Image) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, image.width() as u32, image.height() as u32);
    encoder.set_color(::png::ColorType::Rgb);
    encoder.set_depth(::png::BitDepth::Eight);
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
