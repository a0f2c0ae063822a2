//! One task from JSON, strictly.
//!
//! Checks go over the whole task in this order, and the first fault found is reported: structure and
//! equal lengths of rows (`true` and `1.0` are no whole numbers), sizes, colours, number of pairs.

use serde_json::Value;

use super::problem::{Fault, Place, Problem};
use crate::arc::grid::COLOURS;
use crate::arc::task::{Grid, Pair, Task};

/// What a task may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Smallest height and width. Default 1 x 1.
    pub min_size: (u32, u32),
    /// Largest height and width. Default 30 x 30.
    pub max_size: (u32, u32),
    /// Number of colours. Default 10.
    pub colours: u8,
    /// Most training pairs. Default any number.
    pub max_train: Option<usize>,
    /// Most test pairs. Default any number.
    pub max_test: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { min_size: (1, 1), max_size: (30, 30), colours: COLOURS, max_train: None, max_test: None }
    }
}

type Rows = Vec<Vec<i64>>;

/// A pair whose structure is known to be right, but not its values.
struct RawPair {
    input: Rows,
    output: Option<Rows>,
    /// Whether the output comes from the file of solutions.
    solved: bool,
}

type Check<T> = Result<T, (Place, Fault)>;

/// Parses the text of a task file.
pub fn parse_text(file: &str, id: &str, text: &str, limits: &Limits) -> Result<Task, Problem> {
    let value = parse_json(file, text)?;
    parse_value(file, id, &value, None, limits)
}

/// Parses any JSON.
pub(super) fn parse_json(file: &str, text: &str) -> Result<Value, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    serde_json::from_str(text).map_err(|error| Problem {
        file: file.to_owned(),
        place: Place::default(),
        fault: Fault::Syntax(error.to_string()),
    })
}

/// Parses a task, with its solutions and the name of their file if they are in another one.
pub fn parse_value(
    file: &str,
    id: &str,
    value: &Value,
    solutions: Option<(&str, &Value)>,
    limits: &Limits,
) -> Result<Task, Problem> {
    let problem = |file: &str| {
        let file = file.to_owned();
        move |(place, fault)| Problem { file, place, fault }
    };
    let (train, mut test) = raw_pairs(value).map_err(problem(file))?;
    if let Some((file, solutions)) = solutions {
        add_solutions(&mut test, solutions).map_err(problem(file))?;
    }
    task(id, train, test, limits).map_err(|(solved, place, fault)| {
        let file = solutions.filter(|_| solved).map_or(file, |(file, _)| file);
        problem(file)((place, fault))
    })
}

/// The training and the test pairs.
fn raw_pairs(value: &Value) -> Check<(Vec<RawPair>, Vec<RawPair>)> {
    let nowhere = Place::default();
    let object = value.as_object().ok_or((nowhere, wrong_type("an object", value)))?;
    let part = |name: &'static str| -> Check<Vec<RawPair>> {
        let list = object.get(name).ok_or((nowhere, Fault::Missing(name)))?;
        let list = list.as_array().ok_or_else(|| {
            (nowhere, Fault::Type { expected: "a list of pairs", found: format!("\"{name}\" is {}", describe(list)) })
        })?;
        if list.is_empty() {
            return Err((nowhere, Fault::NoPairs(name)));
        }
        list.iter().enumerate().map(|(number, pair)| raw_pair(name, number, pair)).collect()
    };
    Ok((part("train")?, part("test")?))
}

/// The task, if its values are right; else whether the fault lies in the file of solutions.
fn task(id: &str, train: Vec<RawPair>, test: Vec<RawPair>, limits: &Limits) -> Result<Task, (bool, Place, Fault)> {
    let all = || {
        let pairs = |name, pairs: &[RawPair]| (0..pairs.len() as u32).map(move |i| (name, i)).collect::<Vec<_>>();
        let places = pairs("train", &train).into_iter().chain(pairs("test", &test));
        places.zip(train.iter().chain(&test)).flat_map(|(pair, raw)| {
            let place = |side| Place { pair: Some(pair), side: Some(side), ..Place::default() };
            let input = Some((false, place("input"), &raw.input));
            input.into_iter().chain(raw.output.as_ref().map(|output| (raw.solved, place("output"), output)))
        })
    };
    for (solved, place, rows) in all() {
        let (found, min, max) = ((rows.len() as u32, rows[0].len() as u32), limits.min_size, limits.max_size);
        if found.0 < min.0 || found.1 < min.1 || found.0 > max.0 || found.1 > max.1 {
            return Err((solved, place, Fault::Size { found, min, max }));
        }
    }
    for (solved, place, rows) in all() {
        for (row, cells) in rows.iter().enumerate() {
            if let Some(column) = cells.iter().position(|colour| !(0..i64::from(limits.colours)).contains(colour)) {
                let place = Place { row: Some(row as u32), column: Some(column as u32), ..place };
                return Err((solved, place, Fault::Colour { found: cells[column], colours: limits.colours }));
            }
        }
    }
    for (part, found, max) in [("train", train.len(), limits.max_train), ("test", test.len(), limits.max_test)] {
        if let Some(max) = max.filter(|max| found > *max) {
            return Err((false, Place::default(), Fault::TooManyPairs { part, found, max }));
        }
    }
    let pairs = |raw: Vec<RawPair>| {
        raw.into_iter()
            .map(|pair| Pair { input: grid(&pair.input), output: pair.output.as_deref().map(grid) })
            .collect()
    };
    Ok(Task { id: id.to_owned(), train: pairs(train), test: pairs(test) })
}

fn raw_pair(part: &'static str, number: usize, value: &Value) -> Check<RawPair> {
    let place = Place { pair: Some((part, number as u32)), ..Place::default() };
    let object = value.as_object().ok_or_else(|| (place, wrong_type("an object", value)))?;
    let side = |name: &'static str| match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(grid) => rows(Place { side: Some(name), ..place }, grid).map(Some),
    };
    let input = side("input")?.ok_or((place, Fault::Missing("input")))?;
    let output = side("output")?;
    if part == "train" && output.is_none() {
        return Err((place, Fault::Missing("output")));
    }
    Ok(RawPair { input, output, solved: false })
}

fn rows(place: Place, value: &Value) -> Check<Rows> {
    let list = value.as_array().ok_or_else(|| (place, wrong_type("a list of rows", value)))?;
    if list.is_empty() {
        return Err((place, Fault::Empty));
    }
    let mut rows: Rows = Vec::with_capacity(list.len());
    for (number, row) in list.iter().enumerate() {
        let place = Place { row: Some(number as u32), ..place };
        let cells = row.as_array().ok_or_else(|| (place, wrong_type("a list of colours", row)))?;
        if cells.is_empty() {
            return Err((place, Fault::Empty));
        }
        let colours = cells.iter().enumerate().map(|(column, cell)| {
            whole_number(cell)
                .ok_or_else(|| (Place { column: Some(column as u32), ..place }, wrong_type("a whole number", cell)))
        });
        let colours = colours.collect::<Check<Vec<i64>>>()?;
        let expected = rows.first().map_or(colours.len(), Vec::len);
        if colours.len() != expected {
            return Err((place, Fault::Ragged { found: colours.len(), expected }));
        }
        rows.push(colours);
    }
    Ok(rows)
}

/// A number written without fraction or exponent; those beyond the range are as wrong as any colour.
fn whole_number(value: &Value) -> Option<i64> {
    value.as_i64().or(value.as_u64().map(|_| i64::MAX))
}

/// Puts the outputs of a solutions file into test pairs that have none.
fn add_solutions(test: &mut [RawPair], solutions: &Value) -> Check<()> {
    let list = solutions.as_array().ok_or_else(|| (Place::default(), wrong_type("a list of solutions", solutions)))?;
    if list.len() != test.len() {
        return Err((Place::default(), Fault::Solutions { found: list.len(), expected: test.len() }));
    }
    for (number, (pair, solution)) in test.iter_mut().zip(list).enumerate() {
        let place = Place { pair: Some(("test", number as u32)), side: Some("output"), ..Place::default() };
        let output = rows(place, solution)?;
        if pair.output.is_none() {
            (pair.output, pair.solved) = (Some(output), true);
        }
    }
    Ok(())
}

fn grid(rows: impl AsRef<[Vec<i64>]>) -> Grid {
    let rows = rows.as_ref();
    // Checked to be colours, which are below 128.
    Grid::from_fn(rows.len(), rows[0].len(), |r, c| rows[r][c] as i8)
}

fn wrong_type(expected: &'static str, found: &Value) -> Fault {
    Fault::Type { expected, found: describe(found) }
}

/// A value in a few words.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().count() > 20 => "a text".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        let limits = Limits { max_size: (3, 4), max_train: Some(2), max_test: Some(1), ..Limits::default() };
        parse_text("x.json", "x", text, &limits).unwrap_err().to_string()
    }

    /// A task whose only training input is the text.
    fn with_input(grid: &str) -> String {
        format!(r#"{{"train": [{{"input": {grid}, "output": [[1]]}}], "test": [{{"input": [[1]]}}]}}"#)
    }

    #[test]
    fn every_fault_has_its_place() {
        for (grid, expected) in [
            ("[[1, true]]", "row 0, column 1: true where a whole number is needed"),
            ("[[1], [2.0]]", "row 1, column 0: 2.0 where a whole number is needed"),
            ("[[1], [1e0]]", "row 1, column 0: 1.0 where a whole number is needed"),
            ("[[null]]", "row 0, column 0: null where a whole number is needed"),
            ("[[\"1\"]]", "row 0, column 0: \"1\" where a whole number is needed"),
            ("[[[1]]]", "row 0, column 0: a list where a whole number is needed"),
            ("[[1, 2], [3]]", "row 1: has 1 cells, but row 0 has 2"),
            ("[[1], [2, 3]]", "row 1: has 2 cells, but row 0 has 1"),
            ("[[1], 2]", "row 1: 2 where a list of colours is needed"),
            ("[[]]", "row 0: is empty"),
            ("[[0, 10]]", "row 0, column 1: colour 10 is not from 0 to 9"),
            ("[[0], [-1]]", "row 1, column 0: colour -1 is not from 0 to 9"),
            ("[[18446744073709551615]]", "row 0, column 0: colour 9223372036854775807 is not from 0 to 9"),
        ] {
            assert_eq!(message(&with_input(grid)), format!("x.json: train pair 0, input, {expected}"), "{grid}");
        }
        for (grid, expected) in [
            ("[]", "is empty"),
            ("{}", "an object where a list of rows is needed"),
            ("[[1], [1], [1], [1]]", "is 4x1, but must be from 1x1 to 3x4"),
            ("[[1, 1, 1, 1, 1]]", "is 1x5, but must be from 1x1 to 3x4"),
        ] {
            assert_eq!(message(&with_input(grid)), format!("x.json: train pair 0, input: {expected}"), "{grid}");
        }
        for (text, expected) in [
            ("[]", "a list where an object is needed"),
            ("{}", "has no \"train\""),
            (r#"{"train": [], "test": []}"#, "has no train pair, but needs at least 1"),
            (r#"{"train": 7, "test": []}"#, "\"train\" is 7 where a list of pairs is needed"),
            (r#"{"train": [3], "test": []}"#, "train pair 0: 3 where an object is needed"),
            (r#"{"train": [{"output": [[1]]}], "test": []}"#, "train pair 0: has no \"input\""),
            (r#"{"train": [{"input": [[1]]}], "test": []}"#, "train pair 0: has no \"output\""),
            (r#"{"train": [{"input": [[1]], "output": null}], "test": []}"#, "train pair 0: has no \"output\""),
            (r#"{"train": [{"input": [[1]], "output": [[1]]}]}"#, "has no \"test\""),
            (r#"{"train": [{"input": [[1]], "output": [[1]]}], "test": []}"#, "has no test pair, but needs at least 1"),
        ] {
            assert_eq!(message(text), format!("x.json: {expected}"), "{text}");
        }
        assert!(message("{").starts_with("x.json: is no JSON: EOF while parsing an object at line 1 column 1"));
    }

    #[test]
    fn faults_come_in_the_order_of_the_checks() {
        let pair = |input: &str| format!(r#"{{"input": {input}, "output": [[1]]}}"#);
        let task = |inputs: &[&str]| {
            let train = inputs.iter().map(|input| pair(input)).collect::<Vec<_>>().join(",");
            format!(r#"{{"train": [{train}], "test": [{{"input": [[1]]}}]}}"#)
        };
        let all = ["[[10]]", "[[1, 1, 1, 1, 1]]", "[[1], [1, 1]]"];
        assert_eq!(message(&task(&all)), "x.json: train pair 2, input, row 1: has 2 cells, but row 0 has 1");
        let sizes = ["[[10]]", "[[1, 1, 1, 1, 1]]", "[[1]]"];
        assert_eq!(message(&task(&sizes)), "x.json: train pair 1, input: is 1x5, but must be from 1x1 to 3x4");
        let colours = ["[[1]]", "[[10]]", "[[1]]"];
        assert_eq!(
            message(&task(&colours)),
            "x.json: train pair 1, input, row 0, column 0: colour 10 is not from 0 to 9"
        );
        let many = ["[[1]]", "[[1]]", "[[1]]"];
        assert_eq!(message(&task(&many)), "x.json: has 3 train pairs, but at most 2 are allowed");
        let test = r#"{"train": [{"input": [[1]], "output": [[1]]}], "test": [{"input": [[1]]}, {"input": [[1]]}]}"#;
        assert_eq!(message(test), "x.json: has 2 test pairs, but at most 1 are allowed");
    }

    #[test]
    fn unknown_keys_and_unknown_answers_are_no_fault() {
        let text = r#"{"name": "n", "train": [{"input": [[1, 2]], "output": [[3]], "note": 1}],
                       "test": [{"input": [[4]], "output": null}, {"input": [[5]], "output": [[6], [7]]}]}"#;
        let task = parse_text("x.json", "x", text, &Limits::default()).unwrap();
        assert_eq!(task.id, "x");
        assert_eq!(task.train[0].input, Grid { height: 1, width: 2, cells: vec![1, 2] });
        assert_eq!(task.test[0].output, None);
        assert_eq!(task.test[1].output, Some(Grid { height: 2, width: 1, cells: vec![6, 7] }));
    }

    #[test]
    fn solutions_of_another_file_fill_the_gaps() {
        let task: Value = serde_json::from_str(
            r#"{"train": [{"input": [[1]], "output": [[1]]}], "test": [{"input": [[1]]}, {"input": [[2]]}]}"#,
        )
        .unwrap();
        let parse = |solutions: &str| {
            let solutions = serde_json::from_str(solutions).unwrap();
            parse_value("c.json, task t", "t", &task, Some(("s.json, task t", &solutions)), &Limits::default())
        };
        let outputs: Vec<_> =
            parse("[[[3]], [[4]]]").unwrap().test.into_iter().map(|pair| pair.output.unwrap().cells).collect();
        assert_eq!(outputs, [[3], [4]]);
        assert_eq!(parse("[[[3]]]").unwrap_err().to_string(), "s.json, task t: has 1 solutions for 2 test pairs");
        assert_eq!(
            parse("[[[3]], [[11]]]").unwrap_err().to_string(),
            "s.json, task t: test pair 1, output, row 0, column 0: colour 11 is not from 0 to 9"
        );
    }
}
