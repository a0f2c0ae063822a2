//! TensorBoard's event files: records (TFRecord) of protocol buffers, written by hand since only a few fields are used.
//!
//! ```text
//! record: u64 length | masked CRC-32C of it | event | masked CRC-32C of it
//! Event: 1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary
//! Summary: 1 value*;  Value: 1 tag, 2 simple_value (float), 8 tensor, 9 metadata
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::crc::CRC32C;
use super::files;
use crate::error::{Error, Result};

const PREFIX: &str = "events.out.tfevents.";
/// What every file begins with.
const FILE_VERSION: &str = "brain.Event:2";

/// An event file while it is written.
#[derive(Debug)]
pub struct EventFile {
    path: PathBuf,
    file: File,
    is_first: bool,
}

impl EventFile {
    /// Begins a new file in a run's folder at this time, in seconds since 1970. What files of an earlier part of the
    /// run have after `global_step` is dropped, so that every tag has each step once: 0 for a run that begins.
    pub fn create(folder: &Path, wall_time: f64, global_step: u64) -> Result<Self> {
        let is_first = drop_after(folder, global_step)? == 0;
        for k in 0_u32.. {
            let name = format!("{PREFIX}{:010}.phalanx.{}.{k}", wall_time as u64, std::process::id());
            let path = folder.join(name);
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    let mut events = Self { path, file, is_first };
                    events.write(&event(wall_time, 0, 3, FILE_VERSION.as_bytes()))?;
                    return Ok(events);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::write(&path)(error)),
            }
        }
        unreachable!("the names do not end")
    }

    /// Whether the run had none before.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// Adds the values of tags at a step.
    pub fn scalars(&mut self, global_step: u64, wall_time: f64, values: &[(&str, f64)]) -> Result<()> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut entry = Vec::new();
            put_bytes(&mut entry, 1, tag.as_bytes());
            put_key(&mut entry, 2, FIXED_32);
            entry.extend_from_slice(&(*value as f32).to_le_bytes());
            put_bytes(&mut summary, 1, &entry);
        }
        self.write(&event(wall_time, global_step, 5, &summary))
    }

    /// Adds a text in Markdown under `tag/text_summary`, where TensorBoard looks for it.
    pub fn text(&mut self, global_step: u64, wall_time: f64, tag: &str, text: &str) -> Result<()> {
        const DT_STRING: u64 = 7;
        let mut plugin = Vec::new();
        put_bytes(&mut plugin, 1, b"text");
        let mut metadata = Vec::new();
        put_bytes(&mut metadata, 1, &plugin);
        let mut tensor = Vec::new();
        put_key(&mut tensor, 1, VARINT);
        put_varint(&mut tensor, DT_STRING);
        // One dimension of size 1.
        put_bytes(&mut tensor, 2, &[0x12, 0x02, 0x08, 0x01]);
        put_bytes(&mut tensor, 8, text.as_bytes());
        let mut entry = Vec::new();
        put_bytes(&mut entry, 1, format!("{tag}/text_summary").as_bytes());
        put_bytes(&mut entry, 8, &tensor);
        put_bytes(&mut entry, 9, &metadata);
        let mut summary = Vec::new();
        put_bytes(&mut summary, 1, &entry);
        self.write(&event(wall_time, global_step, 5, &summary))
    }

    /// A whole record in one piece: a killed run leaves at most one torn record, a full disk none.
    fn write(&mut self, event: &[u8]) -> Result<()> {
        let length = (event.len() as u64).to_le_bytes();
        let mut record = Vec::with_capacity(event.len() + 16);
        record.extend_from_slice(&length);
        record.extend_from_slice(&masked_crc(&length).to_le_bytes());
        record.extend_from_slice(event);
        record.extend_from_slice(&masked_crc(event).to_le_bytes());
        let before = self.file.metadata().map_err(Error::write(&self.path))?.len();
        self.file.write_all(&record).map_err(|error| {
            // That this fails, too, is no news.
            let _ = self.file.set_len(before);
            Error::write(&self.path)(error)
        })
    }
}

/// Settings as the table of two columns that readers expect under the tag `hyperparameters`.
pub fn hyperparameters(settings: &[(String, String)]) -> String {
    let escaped = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    let rows = settings.iter().map(|(key, value)| format!("|{}|{}|\n", escaped(key), escaped(value)));
    format!("|param|value|\n|-|-|\n{}", rows.collect::<String>())
}

/// Wire types.
const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

fn event(wall_time: f64, step: u64, field: u64, content: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(content.len() + 32);
    put_key(&mut event, 1, FIXED_64);
    event.extend_from_slice(&wall_time.to_le_bytes());
    // As everywhere in this format, a zero is left out.
    if step > 0 {
        put_key(&mut event, 2, VARINT);
        put_varint(&mut event, step);
    }
    put_bytes(&mut event, field, content);
    event
}

fn put_key(out: &mut Vec<u8>, field: u64, wire: u64) {
    put_varint(out, field << 3 | wire);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_key(out, field, LENGTH);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A checksum of bytes that hold checksums would be weak; the mask is the format's remedy.
fn masked_crc(bytes: &[u8]) -> u32 {
    CRC32C.of(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// Cuts every event file of a folder after its last whole record of a step up to `global_step`.
///
/// Answers how many files have something left.
fn drop_after(folder: &Path, global_step: u64) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder).map_err(Error::read(folder))? {
        let path = entry.map_err(Error::read(folder))?.path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
            continue;
        }
        let bytes = files::read(&path)?;
        let mut kept = 0;
        while let Some((event, end)) = record(&bytes, kept)
            && step_of(event) <= global_step
        {
            kept = end;
        }
        if kept < bytes.len() {
            let cut = || OpenOptions::new().write(true).open(&path)?.set_len(kept as u64);
            cut().map_err(Error::write(&path))?;
        }
        count += usize::from(kept > 0);
    }
    Ok(count)
}

/// The record that begins at a place, and where it ends; `None` if it is not whole.
fn record(bytes: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let head = bytes.get(start..start + 12)?;
    let length = usize::try_from(u64::from_le_bytes(head[..8].try_into().ok()?)).ok()?;
    let end = (start + 16).checked_add(length)?;
    let body = bytes.get(start + 12..end)?;
    let (event, crc) = body.split_at(length);
    let right = head[8..] == masked_crc(&head[..8]).to_le_bytes() && crc == masked_crc(event).to_le_bytes();
    right.then_some((event, end))
}

/// The step of an event that this module wrote: right after its time, or 0.
fn step_of(event: &[u8]) -> u64 {
    match event.get(9) {
        Some(0x10) => {
            let bytes = event[10..].iter().take(10).enumerate();
            let mut step = 0;
            for (k, byte) in bytes {
                step |= u64::from(byte & 0x7F) << (7 * k);
                if byte & 0x80 == 0 {
                    break;
                }
            }
            step
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of a message, as any reader of protocol buffers sees it.
    #[derive(Debug, PartialEq)]
    enum Field {
        Varint(u64),
        Double(f64),
        Float(f32),
        Bytes(Vec<u8>),
    }

    /// An independent reader: knows the wire format and none of the fields.
    fn message(mut bytes: &[u8]) -> Vec<(u64, Field)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
            let (number, rest) = bytes.split_at(length);
            *bytes = rest;
            number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7F))
        }
        fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
            let (taken, rest) = bytes.split_at(length);
            *bytes = rest;
            taken
        }
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Varint(varint(&mut bytes)),
                1 => Field::Double(f64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    Field::Bytes(take(&mut bytes, length).to_vec())
                }
                5 => Field::Float(f32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap())),
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        fields
    }

    fn inner(fields: &[(u64, Field)], number: u64) -> Vec<u8> {
        match &fields.iter().find(|(field, _)| *field == number).unwrap().1 {
            Field::Bytes(bytes) => bytes.clone(),
            other => panic!("{other:?} is no message"),
        }
    }

    /// The events of all files of a folder, in the order of their names.
    fn events(folder: &Path) -> Vec<Vec<(u64, Field)>> {
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let mut events = Vec::new();
        for path in paths {
            let bytes = fs::read(path).unwrap();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
                // The CRCs are checked bit by bit, without the table of the writer.
                let crc = |bytes: &[u8]| {
                    let mut crc = !0_u32;
                    for bit in bytes.iter().flat_map(|byte| (0..8).map(move |k| u32::from(byte >> k & 1))) {
                        let odd = (crc ^ bit) & 1 == 1;
                        crc = (crc >> 1) ^ if odd { 0x82F6_3B78 } else { 0 };
                    }
                    let crc = !crc;
                    crc.rotate_right(15).wrapping_add(0xA282_EAD8).to_le_bytes()
                };
                assert_eq!(rest[8..12], crc(&rest[..8]));
                assert_eq!(rest[12 + length..16 + length], crc(&rest[12..12 + length]));
                events.push(message(&rest[12..12 + length]));
                rest = &rest[16 + length..];
            }
        }
        events
    }

    #[test]
    fn a_file_begins_as_every_event_file_does() {
        let folder = tempfile::tempdir().unwrap();
        let file = EventFile::create(folder.path(), 1.7e9, 0).unwrap();
        assert!(
            file.path.file_name().unwrap().to_str().unwrap().starts_with("events.out.tfevents.1700000000.phalanx.")
        );
        let bytes = fs::read(&file.path).unwrap();
        // The first bytes of event files everywhere: the length 24 with its masked CRC.
        assert_eq!(bytes[..13], [0x18, 0, 0, 0, 0, 0, 0, 0, 0xA3, 0x7F, 0x4B, 0x22, 0x09]);
        assert_eq!(bytes[13..21], 1.7e9_f64.to_le_bytes());
        assert_eq!(bytes[21..36], *b"\x1a\x0dbrain.Event:2");
        assert_eq!(bytes.len(), 40);
        let other = EventFile::create(folder.path(), 1.7e9, 0).unwrap();
        assert_ne!(other.path, file.path, "no file is overwritten");
    }

    #[test]
    fn an_independent_reader_finds_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = EventFile::create(folder.path(), 10.0, 0).unwrap();
        file.scalars(300, 12.5, &[("charts/SPS", 1e6), ("losses/td_loss", 0.25)]).unwrap();
        let table = hyperparameters(&[("run.seed".into(), "1".into()), ("env.x".into(), "a|b".into())]);
        assert_eq!(table, "|param|value|\n|-|-|\n|run.seed|1|\n|env.x|a\\|b|\n");
        file.text(0, 13.0, "hyperparameters", &table).unwrap();

        let events = events(folder.path());
        assert_eq!(events[0], [(1, Field::Double(10.0)), (3, Field::Bytes(b"brain.Event:2".to_vec()))]);
        assert_eq!(events[1][..2], [(1, Field::Double(12.5)), (2, Field::Varint(300))]);
        let values = message(&inner(&events[1], 5));
        let Field::Bytes(second) = &values[1].1 else { panic!("not a message") };
        assert_eq!(message(second), [(1, Field::Bytes(b"losses/td_loss".to_vec())), (2, Field::Float(0.25))]);
        let text = message(&inner(&message(&inner(&events[2], 5)), 1));
        assert_eq!(inner(&text, 1), b"hyperparameters/text_summary");
        assert_eq!(inner(&message(&inner(&message(&inner(&text, 9)), 1)), 1), b"text");
        let tensor = message(&inner(&text, 8));
        assert_eq!(tensor[0], (1, Field::Varint(7)));
        assert_eq!(message(&inner(&message(&inner(&tensor, 2)), 2)), [(1, Field::Varint(1))]);
        assert_eq!(inner(&tensor, 8), table.as_bytes());
    }

    #[test]
    fn a_resumed_run_has_every_step_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = EventFile::create(folder.path(), 1.0, 0).unwrap();
        for step in [100, 200, 300] {
            file.scalars(step, 2.0, &[("charts/SPS", 1.0)]).unwrap();
        }
        file.file.write_all(&[0x18, 0, 0]).unwrap(); // torn
        let mut file = EventFile::create(folder.path(), 3.0, 200).unwrap();
        file.scalars(300, 4.0, &[("charts/SPS", 2.0)]).unwrap();
        let steps: Vec<_> = events(folder.path())
            .iter()
            .map(|event| match event[1] {
                (2, Field::Varint(step)) => step,
                _ => 0,
            })
            .collect();
        assert_eq!(steps, [0, 100, 200, 0, 300]);
    }
}
