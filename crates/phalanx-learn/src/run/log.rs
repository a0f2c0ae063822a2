//! The log of a run read back: the values of a tag over steps and time.

use std::path::{Path, PathBuf};

use phalanx_core::error::Error as EngineError;
use serde_json::{Map, Value};

use super::files;
use crate::error::{Error, Result};

const STEP: &str = "global_step";
const TIME: &str = "wall_time";

/// Events, each with its values by name.
type Rows = Vec<Map<String, Value>>;
type Parser = fn(&str) -> Result<Rows, String>;

/// A value of a tag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Steps of all environments.
    pub global_step: u64,
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The value; always finite.
    pub value: f64,
}

/// The events of a run, from `metrics.jsonl`, or from `metrics.csv` where that was not written.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    path: PathBuf,
    rows: Rows,
}

impl Log {
    /// Reads the log in the folder of a run. A last row that a killed run has left unfinished is passed over.
    ///
    /// # Errors
    /// One sentence, if there is no log or if a row of it is damaged.
    pub fn read(run: &Path) -> Result<Self> {
        let (lines, table) = (run.join("metrics.jsonl"), run.join("metrics.csv"));
        let (path, parse): (_, Parser) = match (lines.exists(), table.exists()) {
            (true, _) => (lines, of_lines),
            (false, true) => (table, of_table),
            (false, false) => {
                let why = "it has neither metrics.jsonl nor metrics.csv (see log.jsonl and log.csv)";
                return Err(Error::damaged(run, "run", why));
            }
        };
        let text = files::read_text(&path)?;
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let rows = parse(whole).map_err(|why| Error::damaged(&path, "log", why))?;
        if rows.is_empty() {
            return Err(Error::damaged(&path, "log", "it is empty"));
        }
        Ok(Self { path, rows })
    }

    /// The values of a tag, in the order of steps; those that are no numbers are left out.
    ///
    /// # Errors
    /// The nearest tags, if there is none of this name.
    pub fn points(&self, tag: &str) -> Result<Vec<Point>> {
        let known = || self.rows.iter().flat_map(|row| row.keys()).filter(|key| *key != STEP && *key != TIME);
        if !known().any(|known| known == tag) {
            let mut tags: Vec<_> = known().collect();
            tags.sort();
            tags.dedup();
            let context = self.path.display().to_string();
            return Err(EngineError::unknown("metric", tag, Some(&context), tags).into());
        }
        let point = |row: &Map<String, Value>| {
            Some(Point {
                global_step: row[STEP].as_u64()?,
                wall_time: row[TIME].as_f64()?,
                value: row.get(tag)?.as_f64()?,
            })
        };
        Ok(self.rows.iter().filter_map(point).collect())
    }

    /// When the first event was logged, in seconds since 1970.
    pub fn start(&self) -> f64 {
        self.rows[0][TIME].as_f64().unwrap_or_default()
    }
}

/// Whether a row has what every row has.
fn is_whole(row: &Map<String, Value>) -> bool {
    row.get(STEP).is_some_and(Value::is_u64) && row.get(TIME).is_some_and(Value::is_number)
}

fn of_lines(text: &str) -> Result<Rows, String> {
    let row = |(number, line): (usize, &str)| {
        let row = serde_json::from_str(line).ok().filter(is_whole);
        row.ok_or_else(|| format!("line {} is no event with {STEP} and {TIME}", number + 1))
    };
    text.lines().enumerate().map(row).collect()
}

fn of_table(text: &str) -> Result<Rows, String> {
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |(number, line): (usize, &str)| {
        let fields: Vec<&str> = line.split(',').collect();
        let value = |text: &str| match text.parse::<u64>() {
            Ok(whole) => Value::from(whole),
            // What is no finite number becomes null, as in the other file.
            Err(_) => Value::from(text.parse::<f64>().unwrap_or(f64::NAN)),
        };
        let given = columns.iter().zip(&fields).filter(|(_, text)| !text.is_empty());
        let row: Map<_, _> = given.map(|(column, text)| ((*column).to_owned(), value(text))).collect();
        let whole = fields.len() == columns.len() && is_whole(&row);
        whole.then_some(row).ok_or_else(|| format!("line {} does not fit its header", number + 2))
    };
    lines.enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::metrics::MetricsLog;
    use super::*;

    /// A folder with a log of three events.
    fn folder(csv: bool, jsonl: bool) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut log = MetricsLog::open(folder.path(), csv, jsonl, 0).unwrap();
        log.log(10, 1.5, &[("losses/td_loss", 0.25)]).unwrap();
        log.log(20, 2.0, &[("eval/return/mean", 9.0), ("losses/td_loss", f64::NAN)]).unwrap();
        log.log(30, 3.5, &[("eval/return/mean", -1e-7), ("losses/td_loss", 3.0)]).unwrap();
        folder
    }

    #[test]
    fn both_files_tell_the_same() {
        let [lines, table] = [(false, true), (true, false)].map(|(csv, jsonl)| {
            let folder = folder(csv, jsonl);
            let log = Log::read(folder.path()).unwrap();
            assert_eq!(log.start(), 1.5);
            [log.points("eval/return/mean").unwrap(), log.points("losses/td_loss").unwrap()]
        });
        assert_eq!(lines, table);
        let [returns, losses] = lines;
        assert_eq!(returns[0], Point { global_step: 20, wall_time: 2.0, value: 9.0 });
        assert_eq!(losses.iter().map(|point| point.value).collect::<Vec<_>>(), [0.25, 3.0], "NaN is no value");
    }

    #[test]
    fn what_is_missing_or_damaged_is_one_sentence() {
        let folder = folder(false, true);
        let path = folder.path().join("metrics.jsonl");
        let message = Log::read(folder.path()).unwrap().points("eval/retrun/mean").unwrap_err().to_string();
        assert!(message.contains("unknown metric") && message.contains("did you mean 'eval/return/mean'"), "{message}");

        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 9]).unwrap();
        let log = Log::read(folder.path()).unwrap();
        assert_eq!(log.points("losses/td_loss").unwrap().len(), 1, "the torn row is passed over");

        fs::write(&path, format!("nonsense\n{whole}")).unwrap();
        let message = Log::read(folder.path()).unwrap_err().to_string();
        assert!(message.ends_with("line 1 is no event with global_step and wall_time"), "{message}");
        fs::write(&path, "").unwrap();
        assert!(Log::read(folder.path()).unwrap_err().to_string().ends_with("it is empty"));
        fs::remove_file(&path).unwrap();
        assert!(Log::read(folder.path()).unwrap_err().to_string().contains("neither metrics.jsonl nor metrics.csv"));
        fs::write(folder.path().join("metrics.csv"), "global_step,wall_time,a\n1,2\n").unwrap();
        assert!(Log::read(folder.path()).unwrap_err().to_string().ends_with("line 2 does not fit its header"));
    }
}
