//! Episodes as `.npz` files: `.npy` arrays in a zip archive without compression, as NumPy writes them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::crc::CRC32;
use super::files;
use crate::error::Result;

/// An episode, step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// Numbers of a row of observations: what the agent saw, with its stacked past and actions if it sees those.
    pub observation_size: usize,
    /// Where in a row the environment's own newest observation begins.
    pub newest: usize,
    /// Observations row by row, the one after the last step included.
    pub observations: Vec<f32>,
    /// The actions.
    pub actions: Actions,
    /// The rewards.
    pub rewards: Vec<f32>,
    /// Whether its last step ended it by the environment's rules.
    pub terminated: bool,
    /// Whether its last step reached a limit.
    pub truncated: bool,
}

/// Where an episode comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Steps of all environments that the agent had learnt from.
    pub global_step: u64,
    /// What the randomness of its environments came from; the number of the episode is that of its environment.
    pub seed: u64,
}

/// The actions of an episode.
#[derive(Clone, Debug, PartialEq)]
pub enum Actions {
    /// A number for each step.
    Discrete(Vec<i64>),
    /// A row of choices for each step.
    MultiDiscrete {
        /// Choices of a row.
        size: usize,
        /// All rows.
        choices: Vec<i64>,
    },
    /// A row of numbers for each step.
    Continuous {
        /// Numbers of a row.
        size: usize,
        /// All rows.
        values: Vec<f32>,
    },
}

impl Episode {
    /// Its steps.
    pub fn length(&self) -> usize {
        self.rewards.len()
    }

    /// The sum of its rewards.
    pub fn episode_return(&self) -> f64 {
        self.rewards.iter().map(|reward| f64::from(*reward)).sum()
    }

    /// Writes it to `episode_%04d.npz` in a folder, which is made if need be.
    pub fn write(&self, folder: &Path, number: usize, origin: Origin) -> Result<PathBuf> {
        files::make_folder(folder)?;
        let path = folder.join(format!("episode_{number:04}.npz"));
        files::replace(&path, |file| self.write_to(file, origin))?;
        Ok(path)
    }

    /// # Panics
    /// If its parts are not of the same length.
    fn write_to(&self, file: &mut dyn Write, origin: Origin) -> io::Result<()> {
        let length = self.length();
        assert_eq!(self.observations.len(), (length + 1) * self.observation_size, "a row more than steps");
        let at_the_end =
            |flag: bool| npy("|b1", &[length], (1..=length).map(|step| [u8::from(flag && step == length)]));
        let floats =
            |shape: &[usize], values: &[f32]| npy("<f4", shape, values.iter().map(|value| value.to_le_bytes()));
        let whole = |shape: &[usize], values: &[i64]| npy("<i8", shape, values.iter().map(|value| value.to_le_bytes()));
        let number = |value: u64| npy("<u8", &[], [value.to_le_bytes()]);
        let actions = match &self.actions {
            Actions::Discrete(actions) => whole(&[length], actions),
            Actions::MultiDiscrete { size, choices } => whole(&[length, *size], choices),
            Actions::Continuous { size, values } => floats(&[length, *size], values),
        };
        let members = [
            ("observations", floats(&[length + 1, self.observation_size], &self.observations)),
            ("actions", actions),
            ("rewards", floats(&[length], &self.rewards)),
            ("dones", at_the_end(self.terminated | self.truncated)),
            ("terminated", at_the_end(self.terminated)),
            ("truncated", at_the_end(self.truncated)),
            ("episode_length", number(length as u64)),
            ("episode_return", npy("<f8", &[], [self.episode_return().to_le_bytes()])),
            ("global_step", number(origin.global_step)),
            ("seed", number(origin.seed)),
        ];
        file.write_all(&zip(&members)?)
    }
}

/// The beginning of a `.npy` file of version 1.0, after which the elements follow.
pub(crate) fn npy_header(kind: &str, shape: &[usize]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size},")).collect();
    // A tuple of one has a comma at its end, one of several need not: Python takes either.
    let dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // The data begins at a multiple of 64 bytes; magic, version and length take 10, the line's end 1.
    let spaces = (dictionary.len() + 11).next_multiple_of(64) - (dictionary.len() + 11);
    let header = format!("{dictionary}{}\n", " ".repeat(spaces));
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes
}

/// An array as a `.npy` file.
fn npy<const W: usize>(kind: &str, shape: &[usize], elements: impl IntoIterator<Item = [u8; W]>) -> Vec<u8> {
    let mut bytes = npy_header(kind, shape);
    let start = bytes.len();
    elements.into_iter().for_each(|element| bytes.extend_from_slice(&element));
    let count: usize = shape.iter().product();
    assert_eq!(bytes.len() - start, count * W, "the shape is that of the data");
    bytes
}

/// A zip archive of stored members, all of 1980-01-01, so that equal episodes are equal files.
fn zip(members: &[(&str, Vec<u8>)]) -> io::Result<Vec<u8>> {
    const TOO_LARGE: &str = "an episode of 4 GiB or more does not fit a zip archive";
    const MIDNIGHT: u16 = 0;
    const FIRST_DAY: u16 = 1 << 5 | 1;
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let name = format!("{name}.npy");
        let size = u32::try_from(content.len()).map_err(|_| io::Error::other(TOO_LARGE))?;
        let offset = u32::try_from(archive.len()).map_err(|_| io::Error::other(TOO_LARGE))?;
        // Version 2.0, no flags, stored: the same in both places where a member is described.
        let mut common = Vec::new();
        for field in [20_u16, 0, 0, MIDNIGHT, FIRST_DAY] {
            common.extend_from_slice(&field.to_le_bytes());
        }
        for field in [CRC32.of(content), size, size] {
            common.extend_from_slice(&field.to_le_bytes());
        }
        common.extend_from_slice(&(name.len() as u16).to_le_bytes());
        common.extend_from_slice(&[0; 2]); // no extra field

        archive.extend_from_slice(b"PK\x03\x04");
        archive.extend_from_slice(&common);
        archive.extend_from_slice(name.as_bytes());
        archive.extend_from_slice(content);

        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&20_u16.to_le_bytes()); // made by version 2.0
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&[0; 10]); // no comment, first disk, no attributes
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let start = u32::try_from(archive.len()).map_err(|_| io::Error::other(TOO_LARGE))?;
    let count = (members.len() as u16).to_le_bytes();
    archive.extend_from_slice(&directory);
    archive.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    archive.extend_from_slice(&[count, count].concat());
    archive.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    archive.extend_from_slice(&start.to_le_bytes());
    archive.extend_from_slice(&[0; 2]); // no comment
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn episode() -> Episode {
        Episode {
            observation_size: 2,
            newest: 0,
            observations: vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -7.5],
            actions: Actions::Discrete(vec![1, 0, 2]),
            rewards: vec![1.0, 0.5, -0.25],
            terminated: false,
            truncated: true,
        }
    }

    const ORIGIN: Origin = Origin { global_step: 500_000, seed: u64::MAX };

    /// A member as a reader finds it: type, shape, data.
    type Found = BTreeMap<String, (String, String, Vec<u8>)>;

    /// Reads an archive from its end, as zip readers do.
    fn read(bytes: &[u8]) -> Found {
        let u16_at = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let end = bytes.len() - 22;
        assert_eq!(bytes[end..end + 4], *b"PK\x05\x06");
        let (count, mut at) = (u16_at(end + 10), u32_at(end + 16));
        assert_eq!(at + u32_at(end + 12), end);
        let mut found = Found::new();
        for _ in 0..count {
            assert_eq!(bytes[at..at + 4], *b"PK\x01\x02");
            assert_eq!(u16_at(at + 10), 0, "stored");
            let (crc, size, name_length) = (u32_at(at + 16), u32_at(at + 24), u16_at(at + 28));
            let (offset, name) = (u32_at(at + 42), &bytes[at + 46..at + 46 + name_length]);
            assert_eq!(bytes[offset..offset + 4], *b"PK\x03\x04");
            assert_eq!(bytes[offset + 30..offset + 30 + name_length], *name);
            assert_eq!((u32_at(offset + 14), u32_at(offset + 22)), (crc, size));
            let start = offset + 30 + u16_at(offset + 26) + u16_at(offset + 28);
            let content = &bytes[start..start + size];
            assert_eq!(CRC32.of(content) as usize, crc);
            assert_eq!(content[..8], *b"\x93NUMPY\x01\x00");
            let header_length = usize::from(u16::from_le_bytes(content[8..10].try_into().unwrap()));
            assert_eq!((10 + header_length) % 64, 0);
            let header = std::str::from_utf8(&content[10..10 + header_length]).unwrap();
            assert!(header.ends_with('\n') && header.contains("'fortran_order': False"));
            let between =
                |open: &str, close: &str| header.split(open).nth(1).unwrap().split(close).next().unwrap().to_owned();
            let name = String::from_utf8(name.to_vec()).unwrap();
            let array =
                (between("'descr': '", "'"), between("'shape': (", ")"), content[10 + header_length..].to_vec());
            found.insert(name, array);
            at += 46 + name_length;
        }
        assert_eq!(at, end);
        found
    }

    fn bytes<const W: usize>(elements: impl IntoIterator<Item = [u8; W]>) -> Vec<u8> {
        elements.into_iter().flatten().collect()
    }

    #[test]
    fn a_reader_of_its_own_finds_every_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = episode().write(&folder.path().join("episodes/step_00000001"), 3, ORIGIN).unwrap();
        assert!(path.ends_with("episodes/step_00000001/episode_0003.npz"));
        let found = read(&std::fs::read(path).unwrap());
        let expected = [
            ("observations", "<f4", "4,2,", bytes(episode().observations.iter().map(|v| v.to_le_bytes()))),
            ("actions", "<i8", "3,", bytes([1_i64, 0, 2].map(i64::to_le_bytes))),
            ("rewards", "<f4", "3,", bytes([1.0_f32, 0.5, -0.25].map(f32::to_le_bytes))),
            ("dones", "|b1", "3,", vec![0, 0, 1]),
            ("terminated", "|b1", "3,", vec![0, 0, 0]),
            ("truncated", "|b1", "3,", vec![0, 0, 1]),
            ("episode_length", "<u8", "", bytes([3_u64.to_le_bytes()])),
            ("episode_return", "<f8", "", bytes([1.25_f64.to_le_bytes()])),
            ("global_step", "<u8", "", bytes([500_000_u64.to_le_bytes()])),
            ("seed", "<u8", "", vec![0xFF; 8]),
        ];
        assert_eq!(found.len(), expected.len());
        for (name, kind, shape, data) in expected {
            assert_eq!(found[&format!("{name}.npy")], (kind.to_owned(), shape.to_owned(), data), "{name}");
        }
    }

    #[test]
    fn continuous_actions_are_rows() {
        let actions = Actions::Continuous { size: 2, values: vec![0.5; 6] };
        let mut archive = Vec::new();
        Episode { actions, ..episode() }.write_to(&mut archive, ORIGIN).unwrap();
        let (kind, shape, _) = &read(&archive)["actions.npy"];
        assert_eq!((kind.as_str(), shape.as_str()), ("<f4", "3,2,"));
    }

    #[test]
    #[should_panic(expected = "a row more than steps")]
    fn an_observation_too_few_is_a_fault() {
        let mut episode = episode();
        episode.observations.truncate(6);
        episode.write_to(&mut Vec::new(), ORIGIN).unwrap();
    }
}
