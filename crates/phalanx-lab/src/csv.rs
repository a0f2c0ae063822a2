//! Tables of comma-separated values (RFC 4180), with their columns in alphabetical order when we write them.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde::Serialize;
use serde_json::Value;

use crate::format::excerpt;
use crate::{Error, Result};

/// A table of text: every row has one cell per column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns, put in alphabetical order; repeated names count once.
    pub fn new<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Self {
        let mut columns: Vec<String> = columns.into_iter().map(Into::into).collect();
        columns.sort();
        columns.dedup();
        Self { columns, rows: Vec::new() }
    }

    /// A table with a row for each of `rows`, which are structs: their fields are the columns. What a row does not have
    /// stays empty; so does null.
    pub fn of<T: Serialize>(rows: &[T]) -> Result<Self> {
        let refuse = |row: usize, why: String| Error::Csv { line: row + 2, why };
        let mut objects = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            match serde_json::to_value(row) {
                Ok(Value::Object(object)) => objects.push(object),
                Ok(other) => return Err(refuse(i, format!("{other} is no row: it has no fields"))),
                Err(error) => return Err(refuse(i, error.to_string())),
            }
        }
        let mut table = Self::new(objects.iter().flat_map(|object| object.keys().cloned()));
        for object in &objects {
            let text = |value: &Value| match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            table.push(object.iter().map(|(column, value)| (column.as_str(), text(value))))?;
        }
        Ok(table)
    }

    /// Adds a row; columns that are not given stay empty.
    pub fn push<'a>(&mut self, cells: impl IntoIterator<Item = (&'a str, String)>) -> Result<()> {
        let mut row = vec![String::new(); self.columns.len()];
        for (column, text) in cells {
            row[self.position(column)?] = text;
        }
        self.rows.push(row);
        Ok(())
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows, each in the order of the columns.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The cells of a column, from top to bottom.
    pub fn column(&self, name: &str) -> Result<impl Iterator<Item = &str>> {
        let position = self.position(name)?;
        Ok(self.rows.iter().map(move |row| row[position].as_str()))
    }

    /// Reads a table whose first line names the columns; they stay in the order of the text.
    pub fn parse(text: &str) -> Result<Self> {
        let mut records = Records { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
        let refuse = |line, why: String| Error::Csv { line, why };
        let (line, columns) = records.next().transpose()?.ok_or_else(|| refuse(1, "there is no header".to_owned()))?;
        let mut seen = BTreeSet::new();
        if let Some(repeated) = columns.iter().find(|name| !seen.insert(*name)) {
            return Err(refuse(line, format!("the column '{}' is there twice", excerpt(repeated))));
        }
        let mut rows = Vec::new();
        for record in records {
            let (line, row) = record?;
            if row.len() != columns.len() {
                let why = format!("the row has {} cells, but there are {} columns", row.len(), columns.len());
                return Err(refuse(line, why));
            }
            rows.push(row);
        }
        Ok(Self { columns, rows })
    }

    fn position(&self, column: &str) -> Result<usize> {
        self.columns
            .iter()
            .position(|name| name == column)
            .ok_or_else(|| Error::UnknownColumn { column: column.to_owned(), known: self.columns.clone() })
    }
}

/// The table as text. Lines end in `\n` rather than `\r\n`, which every reader accepts and line tools prefer.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            for (i, cell) in row.iter().enumerate() {
                if i > 0 {
                    f.write_char(',')?;
                }
                // A lone empty cell would be an empty line, which readers skip.
                if cell.contains([',', '"', '\n', '\r']) || (cell.is_empty() && row.len() == 1) {
                    write!(f, "\"{}\"", cell.replace('"', "\"\""))?;
                } else {
                    f.write_str(cell)?;
                }
            }
            f.write_char('\n')?;
        }
        Ok(())
    }
}

/// Splits text into records, each with the line on which it begins; empty lines are skipped.
struct Records<'a> {
    rest: &'a str,
    line: usize,
}

impl Iterator for Records<'_> {
    type Item = Result<(usize, Vec<String>)>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(rest) = strip_line_end(self.rest) {
            (self.rest, self.line) = (rest, self.line + 1);
        }
        if self.rest.is_empty() {
            return None;
        }
        let first_line = self.line;
        let mut cells = Vec::new();
        loop {
            match self.cell() {
                Ok(cell) => cells.push(cell),
                Err(error) => {
                    // Where the next record begins is anybody's guess.
                    self.rest = "";
                    return Some(Err(error));
                }
            }
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None => return Some(Ok((first_line, cells))),
            }
        }
    }
}

impl Records<'_> {
    /// One cell, up to the comma or the end of the line after it.
    fn cell(&mut self) -> Result<String> {
        let Some(mut quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find([',', '\n', '\r']).unwrap_or(self.rest.len());
            let (cell, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Ok(cell.to_owned());
        };
        let first_line = self.line;
        let mut cell = String::new();
        loop {
            let Some((text, rest)) = quoted.split_once('"') else {
                return Err(Error::Csv { line: first_line, why: "a quoted cell does not end".to_owned() });
            };
            self.line += text.matches('\n').count();
            cell.push_str(text);
            match rest.strip_prefix('"') {
                Some(rest) => {
                    cell.push('"');
                    quoted = rest;
                }
                None => {
                    self.rest = rest;
                    break;
                }
            }
        }
        if self.rest.is_empty() || self.rest.starts_with([',', '\n', '\r']) {
            Ok(cell)
        } else {
            Err(Error::Csv { line: self.line, why: "text follows the closing quote of a cell".to_owned() })
        }
    }
}

fn strip_line_end(text: &str) -> Option<&str> {
    text.strip_prefix("\r\n").or_else(|| text.strip_prefix(['\n', '\r']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_alphabetical_and_cells_quoted_when_needed() {
        let mut table = Table::new(["success", "device", "error"]);
        table.push([("success", "true".to_owned()), ("device", "cpu".to_owned())]).unwrap();
        table.push([("error", "no, \"really\"\nnot".to_owned())]).unwrap();
        let text = table.to_string();
        assert_eq!(text, "device,error,success\ncpu,,true\n,\"no, \"\"really\"\"\nnot\",\n");
        assert_eq!(Table::parse(&text).unwrap(), table);
        let error = table.push([("speed", String::new())]).unwrap_err();
        assert_eq!(error.to_string(), "the table has no column 'speed', only device, error, success");
    }

    #[test]
    fn structs_become_rows() {
        #[derive(Serialize)]
        struct Row {
            success: bool,
            error: Option<&'static str>,
            time_s: f64,
        }
        let rows = [(true, None, 0.5), (false, Some("no, none"), f64::NAN)];
        let table = Table::of(&rows.map(|(success, error, time_s)| Row { success, error, time_s })).unwrap();
        assert_eq!(table.to_string(), "error,success,time_s\n,true,0.5\n\"no, none\",false,\n");
        assert_eq!(Table::of(&[1]).unwrap_err().to_string(), "line 2: 1 is no row: it has no fields");
    }

    #[test]
    fn a_table_of_others_keeps_its_order() {
        let table = Table::parse("\u{feff}b,a\r\n1,\"x,\r\ny\"\r\n\r\n2,").unwrap();
        assert_eq!(table.columns(), ["b", "a"]);
        assert_eq!(table.rows(), [["1", "x,\r\ny"], ["2", ""]]);
        assert_eq!(table.column("b").unwrap().collect::<Vec<_>>(), ["1", "2"]);
        assert!(table.column("c").is_err());
    }

    #[test]
    fn one_column_with_an_empty_cell_comes_back() {
        let mut table = Table::new(["a"]);
        table.push([]).unwrap();
        assert_eq!(Table::parse(&table.to_string()).unwrap(), table);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        for (text, message) in [
            ("", "line 1: there is no header"),
            ("a,b\n\n1\n", "line 3: the row has 1 cells, but there are 2 columns"),
            ("a,a\n", "line 1: the column 'a' is there twice"),
            ("a\n\"x\n", "line 2: a quoted cell does not end"),
            ("a\n\"x\ny\"z\n", "line 3: text follows the closing quote of a cell"),
        ] {
            assert_eq!(Table::parse(text).unwrap_err().to_string(), message);
        }
    }
}
