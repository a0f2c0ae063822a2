//! The byte format of snapshots: a kind, a JSON header, raw words, a hash over everything.
//!
//! ```text
//! "PHALANX\0"  version u32  header length u32  header  payload length u64  payload  hash u64
//! ```
//!
//! All integers are little-endian. A truncated, damaged or foreign snapshot is told apart by the length
//! fields, the hash and the kind.

use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

#[cfg(not(target_endian = "little"))]
compile_error!("snapshots and lines are laid out for little-endian machines");

const MAGIC: &[u8; 8] = b"PHALANX\0";
const VERSION: u32 = 3;

/// Packs a header and a payload given in parts.
pub fn encode(kind: &str, header: &impl Serialize, payload: &[&[u8]]) -> Vec<u8> {
    let header = serde_json::to_vec(&(kind, header)).expect("headers are plain data");
    let length: usize = payload.iter().map(|part| part.len()).sum();
    let mut bytes = Vec::with_capacity(8 + 4 + 4 + header.len() + 8 + length + 8);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    payload.iter().for_each(|part| bytes.extend_from_slice(part));
    let hash = hash(&bytes);
    bytes.extend_from_slice(&hash.to_le_bytes());
    bytes
}

/// Takes a snapshot apart.
///
/// # Errors
///
/// [`Error::Snapshot`] for bytes that are no snapshot, truncated, damaged, of another version or of
/// another kind.
pub fn decode<'a, H: DeserializeOwned>(kind: &str, bytes: &'a [u8]) -> Result<(H, &'a [u8])> {
    let fail = |why: &str| Err(Error::Snapshot(why.to_owned()));
    let mut rest = bytes;
    let mut take = |n: usize| -> Result<&'a [u8]> {
        let (taken, left) = rest.split_at_checked(n).ok_or_else(|| Error::Snapshot("is truncated".to_owned()))?;
        rest = left;
        Ok(taken)
    };
    if bytes.is_empty() {
        return fail("is empty");
    }
    if take(8).is_ok_and(|magic| magic != MAGIC) {
        return fail("is not one of Phalanx");
    }
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let long = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let version = word(take(4)?);
    if version != VERSION {
        return fail(&format!("has format version {version}, but this program reads version {VERSION}"));
    }
    let header_length = word(take(4)?) as usize;
    let header = take(header_length)?;
    let payload_length = usize::try_from(long(take(8)?)).unwrap_or(usize::MAX);
    let payload = take(payload_length)?;
    let expected = long(take(8)?);
    if !rest.is_empty() || hash(&bytes[..bytes.len() - 8]) != expected {
        return fail("is damaged: its contents do not match its checksum");
    }
    let (found, _): (String, serde_json::Value) = parse(header)?;
    if found != kind {
        return fail(&format!("holds a {found}, not a {kind}"));
    }
    let (_, header): (String, H) = parse(header)?;
    Ok((header, payload))
}

fn parse<T: DeserializeOwned>(header: &[u8]) -> Result<T> {
    serde_json::from_slice(header).map_err(|error| Error::Snapshot(format!("has an unreadable header: {error}")))
}

/// Refuses a snapshot whose `what` differs from ours.
pub fn check_equal<T: PartialEq + Display + ?Sized>(what: &str, snapshot: &T, ours: &T) -> Result<()> {
    if snapshot == ours {
        return Ok(());
    }
    Err(Error::Snapshot(format!("has {what} {snapshot}, but {what} {ours} is in use here")))
}

/// A fast non-cryptographic hash, eight bytes at a time.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        state ^= state >> 32;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        encode("test", &(7, "seven"), &[&[1, 2, 3], &[4]])
    }

    #[test]
    fn round_trip() {
        let bytes = sample();
        let (header, payload): ((i32, String), _) = decode("test", &bytes).unwrap();
        assert_eq!((header, payload), ((7, "seven".to_owned()), &[1, 2, 3, 4][..]));
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_refused() {
        let bytes = sample();
        for len in 0..bytes.len() {
            assert!(decode::<(i32, String)>("test", &bytes[..len]).is_err(), "cut at {len}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(decode::<(i32, String)>("test", &damaged).is_err(), "flipped at {at}");
        }
        let wrong_kind = decode::<(i32, String)>("batch", &bytes).unwrap_err().to_string();
        assert_eq!(wrong_kind, "snapshot holds a test, not a batch");
    }
}
