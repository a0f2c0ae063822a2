//! `metrics.csv` and `metrics.jsonl`: a row for each event of the log, `global_step` and `wall_time` before the tags.
//!
//! A row is handed to the system in one piece, so that a killed run leaves whole rows and at most one torn one. A run
//! that goes on first drops what lies beyond its checkpoint: it will write those rows again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::files;
use crate::error::{Error, Result};

const FIRST: [&str; 2] = ["global_step", "wall_time"];

/// The metrics of a run while they are written.
#[derive(Debug, Default)]
pub struct MetricsLog {
    csv: Option<Csv>,
    jsonl: Option<Lines>,
}

impl MetricsLog {
    /// Opens `metrics.csv` and `metrics.jsonl` in a run's folder, those that are wanted. Rows after `global_step` and
    /// a torn last row are dropped: 0 for a run that begins.
    pub fn open(folder: &Path, csv: bool, jsonl: bool, global_step: u64) -> Result<Self> {
        Ok(Self {
            csv: csv.then(|| Csv::open(folder.join("metrics.csv"), global_step)).transpose()?,
            jsonl: jsonl.then(|| Lines::open(folder.join("metrics.jsonl"), global_step)).transpose()?,
        })
    }

    /// What is wrong with the files of a run that has logged up to `global_step`, a sentence each: those that are wanted
    /// and gone, and those that end before.
    pub(crate) fn missing(folder: &Path, csv: bool, jsonl: bool, global_step: u64) -> Vec<String> {
        /// The step of a row.
        type StepOf = fn(&str) -> Option<u64>;
        let of_line: StepOf = |line| serde_json::from_str::<Value>(line).ok()?[FIRST[0]].as_u64();
        let of_row: StepOf = |line| line.split(',').next()?.parse::<u64>().ok();
        let last = |path: &Path, step: StepOf| {
            // What cannot be read is said by who opens it.
            let bytes = files::read(path).ok()?;
            let text = String::from_utf8_lossy(&bytes);
            // A torn last row will be dropped.
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            Some(whole.lines().filter_map(step).max().unwrap_or(0))
        };
        let lacking = |(name, wanted, step): (&str, bool, StepOf)| {
            let path = folder.join(name);
            let end = match (wanted, path.exists()) {
                (false, _) => return None,
                (true, false) => return Some(format!("{} is gone: it begins anew", path.display())),
                (true, true) => last(&path, step)?,
            };
            let gap =
                format!("ends at step {end}, though the run has logged step {global_step}: what is between is lost");
            (end < global_step).then(|| format!("{} {gap}", path.display()))
        };
        let files = [("metrics.csv", csv, of_row), ("metrics.jsonl", jsonl, of_line)];
        files.into_iter().filter_map(lacking).collect()
    }

    /// Adds a row: seconds since 1970 and the values of tags, those of no row before included. It is in all files or in
    /// none.
    pub fn log(&mut self, global_step: u64, wall_time: f64, values: &[(&str, f64)]) -> Result<()> {
        // Earlier rows stay.
        self.files().for_each(|lines| lines.before = None);
        let result = self.try_log(global_step, wall_time, values);
        if result.is_err() {
            self.take_back();
        }
        result
    }

    /// Takes the last row out of all files again, once.
    pub(crate) fn take_back(&mut self) {
        self.files().for_each(Lines::take_back);
    }

    fn files(&mut self) -> impl Iterator<Item = &mut Lines> {
        self.csv.as_mut().map(|csv| &mut csv.lines).into_iter().chain(&mut self.jsonl)
    }

    fn try_log(&mut self, global_step: u64, wall_time: f64, values: &[(&str, f64)]) -> Result<()> {
        if let Some(csv) = &mut self.csv {
            csv.log(global_step, wall_time, values)?;
        }
        if let Some(jsonl) = &mut self.jsonl {
            let mut row = Map::new();
            row.insert(FIRST[0].to_owned(), json!(global_step));
            row.insert(FIRST[1].to_owned(), json!(wall_time));
            // JSON has no NaN: null stands for it.
            row.extend(values.iter().map(|(tag, value)| ((*tag).to_owned(), json!(value))));
            jsonl.append(&format!("{}\n", Value::Object(row)))?;
        }
        Ok(())
    }
}

/// A file that lines are added to.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: File,
    /// How long the file was before the last line, if that may be taken back.
    before: Option<u64>,
}

impl Lines {
    fn new(path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(Error::write(&path))?;
        Ok(Self { path, file, before: None })
    }

    fn open(path: PathBuf, global_step: u64) -> Result<Self> {
        let step = |line: &str| serde_json::from_str::<Value>(line).ok()?[FIRST[0]].as_u64();
        keep(&path, |lines| {
            lines.into_iter().filter(|line| step(line).is_some_and(|step| step <= global_step)).collect()
        })?;
        Self::new(path)
    }

    fn append(&mut self, line: &str) -> Result<()> {
        self.before = Some(self.file.metadata().map_err(Error::write(&self.path))?.len());
        self.file.write_all(line.as_bytes()).map_err(Error::write(&self.path))
    }

    /// That this fails, too, is no news.
    fn take_back(&mut self) {
        if let Some(length) = self.before.take() {
            let _ = self.file.set_len(length);
        }
    }
}

/// A table whose columns grow: a new tag is rare, and then the file is written anew.
#[derive(Debug)]
struct Csv {
    /// The columns; `None` before the first row, which brings them.
    tags: Option<Vec<String>>,
    lines: Lines,
}

impl Csv {
    fn open(path: PathBuf, global_step: u64) -> Result<Self> {
        let kept = keep(&path, |lines| {
            let mut lines = lines.into_iter();
            let Some(header) = lines.next().filter(|header| header.starts_with("global_step,wall_time")) else {
                return Vec::new();
            };
            let columns = header.split(',').count();
            let whole = |line: &&str| {
                let step = line.split(',').next().and_then(|step| step.parse::<u64>().ok());
                line.split(',').count() == columns && step.is_some_and(|step| step <= global_step)
            };
            std::iter::once(header).chain(lines.filter(whole)).collect()
        })?;
        let tags = kept.lines().next().map(|header| header.split(',').skip(FIRST.len()).map(str::to_owned).collect());
        Ok(Self { tags, lines: Lines::new(path)? })
    }

    fn log(&mut self, global_step: u64, wall_time: f64, values: &[(&str, f64)]) -> Result<()> {
        let begins = self.tags.is_none();
        let tags = self.tags.get_or_insert_default();
        let known = tags.len();
        for (tag, _) in values {
            debug_assert!(!tag.contains([',', '"', '\n']), "a tag is a plain name: {tag}");
            if !tags.iter().any(|known| known == tag) {
                tags.push((*tag).to_owned());
            }
        }
        let mut row = String::new();
        if begins {
            let columns: Vec<_> = FIRST.into_iter().chain(tags.iter().map(String::as_str)).collect();
            row = columns.join(",") + "\n";
        } else if tags.len() > known {
            self.lines = widen(&self.lines.path, &tags[known..])?;
        }
        row += &format!("{global_step},{wall_time}");
        for tag in tags.iter() {
            row.push(',');
            if let Some((_, value)) = values.iter().find(|(name, _)| name == tag) {
                row.push_str(&value.to_string());
            }
        }
        row.push('\n');
        self.lines.append(&row)
    }
}

/// Adds columns to a table; the rows it has get nothing in them. The file of that name is another one then.
fn widen(path: &Path, tags: &[String]) -> Result<Lines> {
    let text = files::read_text(path)?;
    let names = format!(",{}", tags.join(","));
    let blank = ",".repeat(tags.len());
    let mut wide = String::with_capacity(text.len() * 2);
    for (k, line) in text.lines().enumerate() {
        wide.push_str(line);
        wide.push_str(if k == 0 { &names } else { &blank });
        wide.push('\n');
    }
    files::replace_quickly(path, wide.as_bytes())?;
    Lines::new(path.to_owned())
}

/// Rewrites a file with those of its whole lines that are chosen, and answers with them.
fn keep(path: &Path, choose: impl FnOnce(Vec<&str>) -> Vec<&str>) -> Result<String> {
    if !path.exists() {
        return Ok(String::new());
    }
    let bytes = files::read(path)?;
    // What a crash tore may end within a character.
    let text = String::from_utf8_lossy(&bytes);
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut kept: String = choose(whole.lines().collect()).join("\n");
    if !kept.is_empty() {
        kept.push('\n');
    }
    if kept.as_bytes() != bytes {
        files::replace_quickly(path, kept.as_bytes())?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const LOSS: &str = "losses/td_loss";
    const RETURN: &str = "eval/return/mean";

    fn folder() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (csv, jsonl) = (folder.path().join("metrics.csv"), folder.path().join("metrics.jsonl"));
        (folder, csv, jsonl)
    }

    #[test]
    fn a_new_tag_is_a_new_column() {
        let (folder, csv, jsonl) = folder();
        let mut log = MetricsLog::open(folder.path(), true, true, 0).unwrap();
        log.log(10, 1.5, &[(LOSS, 0.25)]).unwrap();
        log.log(20, 2.5, &[(RETURN, 9.0), (LOSS, f64::NAN)]).unwrap();
        log.log(30, 3.5, &[(RETURN, 1e-7)]).unwrap();
        assert_eq!(
            fs::read_to_string(csv).unwrap(),
            "global_step,wall_time,losses/td_loss,eval/return/mean\n10,1.5,0.25,\n20,2.5,NaN,9\n30,3.5,,0.0000001\n"
        );
        let rows: Vec<Value> =
            fs::read_to_string(jsonl).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            rows[1],
            json!({"global_step": 20, "wall_time": 2.5, "eval/return/mean": 9.0, "losses/td_loss": null})
        );
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn a_resumed_run_writes_on_as_if_it_had_not_stopped() {
        let row = |log: &mut MetricsLog, step| log.log(step, step as f64, &[(LOSS, 1.0 / step as f64)]).unwrap();
        let (straight, straight_csv, straight_jsonl) = folder();
        let mut log = MetricsLog::open(straight.path(), true, true, 0).unwrap();
        (1..=6).for_each(|step| row(&mut log, step));

        let (broken, csv, jsonl) = folder();
        let mut log = MetricsLog::open(broken.path(), true, true, 0).unwrap();
        (1..=5).for_each(|step| row(&mut log, step));
        drop(log);
        for path in [&csv, &jsonl] {
            let mut bytes = fs::read(path).unwrap();
            bytes.truncate(bytes.len() - 3); // the row of step 5 is torn
            fs::write(path, bytes).unwrap();
        }
        let mut log = MetricsLog::open(broken.path(), true, true, 3).unwrap();
        assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 1 + 3);
        (4..=6).for_each(|step| row(&mut log, step));
        assert_eq!(fs::read(csv).unwrap(), fs::read(straight_csv).unwrap());
        assert_eq!(fs::read(jsonl).unwrap(), fs::read(straight_jsonl).unwrap());
    }

    /// As where the third file of a row is on a full disk.
    #[test]
    fn a_row_that_is_taken_back_was_never_there() {
        let (folder, csv, jsonl) = folder();
        let mut log = MetricsLog::open(folder.path(), true, true, 0).unwrap();
        let files = || [fs::read_to_string(&csv).unwrap(), fs::read_to_string(&jsonl).unwrap()];
        log.log(1, 1.0, &[(LOSS, 0.5)]).unwrap();
        let before = files();
        log.log(2, 2.0, &[(LOSS, 0.25)]).unwrap();
        assert_ne!(files(), before);
        log.take_back();
        assert_eq!(files(), before);
        // Once: the row before is no part of what failed.
        log.take_back();
        assert_eq!(files(), before);
        // A file that cannot be written takes the row out of the other one.
        log.jsonl.as_mut().unwrap().file = File::open(&jsonl).unwrap();
        assert!(log.log(2, 2.0, &[(LOSS, 0.25)]).is_err());
        assert_eq!(files(), before);
    }

    #[test]
    fn what_is_missing_of_a_log_is_said() {
        let (folder, csv, jsonl) = folder();
        let mut log = MetricsLog::open(folder.path(), true, true, 0).unwrap();
        (1..=5).for_each(|step| log.log(step, 1.0, &[(LOSS, 0.5)]).unwrap());
        let missing = || MetricsLog::missing(folder.path(), true, true, 5);
        assert!(missing().is_empty(), "{:?}", missing());
        fs::remove_file(csv).unwrap();
        let rows = fs::read_to_string(&jsonl).unwrap();
        fs::write(&jsonl, &rows[..rows.len() - 3]).unwrap();
        let found = missing();
        assert!(found[0].ends_with("metrics.csv is gone: it begins anew"), "{found:?}");
        assert!(found[1].contains("metrics.jsonl ends at step 4, though the run has logged step 5"), "{found:?}");
        assert!(MetricsLog::missing(folder.path(), false, false, 5).is_empty());
    }

    #[test]
    fn a_run_may_stop_before_its_first_row() {
        let (folder, csv, jsonl) = folder();
        for torn in ["", "global_st", "\u{1}binary"] {
            fs::write(&csv, torn).unwrap();
            fs::write(&jsonl, "{\"glob").unwrap();
            MetricsLog::open(folder.path(), true, true, 0).unwrap().log(1, 1.0, &[(LOSS, 2.0)]).unwrap();
            assert_eq!(fs::read_to_string(&csv).unwrap(), "global_step,wall_time,losses/td_loss\n1,1,2\n");
            assert_eq!(fs::read_to_string(&jsonl).unwrap().lines().count(), 1);
        }
    }

    #[test]
    fn what_is_not_wanted_is_not_written() {
        let (folder, csv, jsonl) = folder();
        MetricsLog::open(folder.path(), false, true, 0).unwrap().log(1, 1.0, &[]).unwrap();
        assert!(!csv.exists() && jsonl.exists());
    }
}
