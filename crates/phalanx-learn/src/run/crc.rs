//! Cyclic redundancy checks of 32 bits: of zip files (CRC-32) and of TensorBoard's records (CRC-32C).

/// A reflected CRC with initial and final complement, by its reversed polynomial.
pub(crate) struct Crc([u32; 256]);

/// Of zip.
pub(crate) static CRC32: Crc = Crc::new(0xEDB8_8320);
/// Castagnoli's, of TensorBoard.
pub(crate) static CRC32C: Crc = Crc::new(0x82F6_3B78);

impl Crc {
    const fn new(polynomial: u32) -> Self {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut value = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { (value >> 1) ^ polynomial } else { value >> 1 };
                bit += 1;
            }
            table[byte] = value;
            byte += 1;
        }
        Self(table)
    }

    pub(crate) fn of(&self, bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, &byte| (crc >> 8) ^ self.0[usize::from(crc as u8 ^ byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_values_of_the_catalogues() {
        assert_eq!(CRC32.of(b"123456789"), 0xCBF4_3926);
        assert_eq!(CRC32C.of(b"123456789"), 0xE306_9283);
        // RFC 3720, B.4.
        assert_eq!(CRC32C.of(&[0; 32]), 0x8A91_36AA);
        assert_eq!(CRC32C.of(&[0xFF; 32]), 0x62A8_AB43);
    }
}
