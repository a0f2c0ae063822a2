//! Identities as 16 hex digits of xxh3: JSON numbers would lose 64-bit integers.

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// The hash of bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

/// The hash of a value as JSON; `None` if it cannot be written as JSON, as with maps whose keys are no strings.
pub fn of_value(value: &impl Serialize) -> Option<String> {
    serde_json::to_vec(value).ok().map(|json| of_bytes(&json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_have_sixteen_digits_and_never_change() {
        // The value for no bytes is part of the definition of xxh3; stored fingerprints rely on it.
        assert_eq!(of_bytes(b""), "2d06800538d394c2");
        assert_eq!(of_value(&["a"]), Some(of_bytes(br#"["a"]"#)));
    }
}
