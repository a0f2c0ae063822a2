//! Files of records: only ever appended to, one file per run; damaged lines cost themselves and no others.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{Record, SCHEMA_VERSION};
use crate::files::{self, Damage};
use crate::format::excerpt;
use crate::timestamp::Timestamp;
use crate::{Error, Result, json};

const EXTENSION: &str = "jsonl";

/// A file of records that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Makes a new file in `folder` named after `prefix` and the time. A file that exists is never written to.
    pub fn create(folder: &Path, prefix: &str, time: Timestamp) -> Result<Self> {
        let (file, path) = files::create_new(folder, &format!("{prefix}_{}", time.compact()), EXTENSION)?;
        Ok(Self { file, path })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line, in one write: whoever reads meanwhile, or after a crash, sees whole lines but for the last.
    pub fn append(&mut self, record: &Record) -> Result<()> {
        let line = json::line("record", record)?;
        self.file.write_all(line.as_bytes()).map_err(Error::write(&self.path))
    }
}

/// What files of records contain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Records {
    /// The records, in the order of the files and lines.
    pub records: Vec<Record>,
    /// What had to be skipped.
    pub damaged: Vec<Damage>,
}

/// Reads a file of records. Fails only if the file as a whole cannot be read.
pub fn read(path: &Path) -> Result<Records> {
    let bytes = files::read_regular(path).map_err(Error::read(path))?;
    let mut read = Records::default();
    let mut newer = false;
    for (i, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match decode(line) {
            Ok(record) => {
                newer &= !matches!(record, Record::Run(_));
                // The lines of a newer run may look like ours and mean something else.
                if !newer {
                    read.records.push(record);
                }
            }
            Err(_) if newer && !starts_run(line) => {}
            Err(damage) => {
                newer |= matches!(damage, LineDamage::Newer { .. });
                let reason = damage.to_string();
                read.damaged.push(Damage { path: path.to_owned(), line: Some(i + 1), reason });
            }
        }
    }
    Ok(read)
}

/// Reads all files of records in a folder, sorted by name; none if there is no such folder.
pub fn read_folder(folder: &Path) -> Result<Records> {
    let mut all = Records::default();
    for path in files::list(folder, EXTENSION)? {
        match read(&path) {
            Ok(Records { records, damaged }) => {
                all.records.extend(records);
                all.damaged.extend(damaged);
            }
            Err(error) => all.damaged.push(Damage { path, line: None, reason: error.to_string() }),
        }
    }
    Ok(all)
}

/// Why a line was skipped.
#[derive(Debug, thiserror::Error)]
enum LineDamage {
    #[error("it is not JSON: {0}")]
    NotJson(serde_json::Error),
    #[error(
        "schema_version {found} is newer than {SCHEMA_VERSION}, which this program reads: nothing of this run is used"
    )]
    Newer { found: u64 },
    #[error("schema_version is {}, but must be a whole number from 1", excerpt(&.0.to_string()))]
    BadVersion(Value),
    #[error("it is not a record: {}", json::reason(.0))]
    NotARecord(serde_json::Error),
}

fn decode(line: &[u8]) -> Result<Record, LineDamage> {
    let value: Value = serde_json::from_slice(line).map_err(LineDamage::NotJson)?;
    if let Some(version) = value.get("schema_version") {
        match version.as_u64() {
            Some(1..=SCHEMA_VERSION) => {}
            Some(found) if found > SCHEMA_VERSION => return Err(LineDamage::Newer { found }),
            _ => return Err(LineDamage::BadVersion(version.clone())),
        }
    }
    Record::deserialize(value).map_err(LineDamage::NotARecord)
}

fn starts_run(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|value| value["type"] == "run")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::record::Verdict;

    const VERDICT: &str = concat!(
        r#"{"type":"verdict","case_id":"c","tier":1,"method":"student","#,
        r#""verdict":"improved","reason":"r","exit_code":0}"#
    );

    fn verdict() -> Verdict {
        match serde_json::from_str(VERDICT).unwrap() {
            Record::Verdict(verdict) => verdict,
            other => panic!("{other:?}"),
        }
    }

    fn read_text(text: &[u8]) -> Records {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        fs::write(&path, text).unwrap();
        read(&path).unwrap()
    }

    #[test]
    fn two_runs_of_one_second_write_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let time = Timestamp::from_unix_seconds(1e9).unwrap();
        let mut journals = [(); 2].map(|()| Journal::create(folder.path(), "records", time).unwrap());
        for journal in &mut journals {
            journal.append(&Record::Verdict(verdict())).unwrap();
            journal.append(&Record::Verdict(verdict())).unwrap();
        }
        let names = journals.each_ref().map(|journal| journal.path().file_name().unwrap());
        assert_eq!(names, ["records_20010909_014640.jsonl", "records_20010909_014640_1.jsonl"]);
        let all = read_folder(folder.path()).unwrap();
        assert_eq!((all.records.len(), all.damaged.len()), (4, 0));
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path(), "records", Timestamp::now()).unwrap();
        let line = r#"{"type":"summary","case_id":"c","arm":"A","n_processes":1,"n_samples":1,"discarded":0,
            "warmup_class":"flat","t_median":1.0,"t_mean":1.0,"outliers":{"mild":0,"severe":0},"memory":{}}"#;
        let Record::Summary(mut summary) = serde_json::from_str(line).unwrap() else { panic!("a summary") };
        summary.t_mean = f64::INFINITY;
        assert!(matches!(journal.append(&Record::Summary(summary)), Err(Error::NotRecordable { .. })));
        assert_eq!(fs::read(journal.path()).unwrap(), b"");
    }

    #[test]
    fn damaged_lines_are_skipped_and_reported() {
        let text = [VERDICT, "{\"type\":\"verd", "", "[1]", r#"{"type":"dream"}"#, VERDICT, "\u{0}"].join("\n");
        let mut text = text.into_bytes();
        text.extend(b"\n\xff\xfe\n");
        let read = read_text(&text);
        assert_eq!(read.records.len(), 2);
        assert_eq!(read.damaged.iter().map(|damage| damage.line).collect::<Vec<_>>(), [2, 4, 5, 7, 8].map(Some));
        let message = read.damaged[2].to_string();
        assert!(message.contains("a.jsonl:5: skipped, it is not a record: unknown variant `dream`"), "{message}");
    }

    #[test]
    fn a_newer_run_is_reported_once_and_its_lines_left_alone() {
        let newer = r#"{"type":"run","schema_version":2,"run_id":"r"}"#;
        let damaged_run = r#"{"type":"run","schema_version":0}"#;
        let read = read_text([VERDICT, newer, VERDICT, "{\"type\":\"new\"}", damaged_run].join("\n").as_bytes());
        assert_eq!(read.records.len(), 1);
        let reasons: Vec<_> = read.damaged.iter().map(|damage| damage.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [
                "schema_version 2 is newer than 1, which this program reads: nothing of this run is used",
                "schema_version is 0, but must be a whole number from 1"
            ]
        );
    }

    #[test]
    fn a_missing_file_is_an_error_and_a_missing_folder_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(&folder.path().join("a.jsonl")), Err(Error::Read { .. })));
        assert_eq!(read_folder(&folder.path().join("missing")).unwrap(), Records::default());
    }
}
