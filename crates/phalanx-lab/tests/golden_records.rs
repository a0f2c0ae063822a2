//! Records of version 1 stay readable for ever, and the schema says of them what the reader does.

use std::path::{Path, PathBuf};

use phalanx_lab::record::{self, Record};
use serde_json::{Map, Value};

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/records_v1.jsonl")
}

fn golden_lines() -> Vec<Value> {
    let text = std::fs::read_to_string(golden_path()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The schema and the part of it that describes a line.
struct Schema(Value);

impl Schema {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/lab-record-v1.schema.json");
        Self(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    /// What is wrong with a line.
    fn faults(&self, line: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        match line["type"].as_str().and_then(|name| self.0["$defs"].get(name)) {
            Some(schema) => self.check(line, schema, "line", &mut faults),
            None => faults.push("no such type".to_owned()),
        }
        faults
    }

    /// Checks what the schema uses to tell records apart: types, required fields, constants and choices.
    fn check(&self, value: &Value, schema: &Value, at: &str, faults: &mut Vec<String>) {
        let schema = self.resolve(schema);
        let types = match &schema["type"] {
            Value::Array(types) => types.iter().collect(),
            Value::Null => Vec::new(),
            single => vec![single],
        };
        if !types.is_empty() && !types.iter().any(|name| has_type(value, name.as_str().unwrap())) {
            faults.push(format!("{at} is not of type {}", schema["type"]));
        }
        if schema.get("const").is_some_and(|only| only != value) {
            faults.push(format!("{at} is not {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|choices| !choices.contains(value)) {
            faults.push(format!("{at} is not one of {}", schema["enum"]));
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.get(name).is_none() {
                faults.push(format!("{at} has no {name}"));
            }
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            let known = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
            if let Some(field_schema) = known {
                self.check(field, field_schema, &format!("{at}.{name}"), faults);
            }
        }
        for item in value.as_array().into_iter().flatten() {
            self.check(item, &schema["items"], &format!("an item of {at}"), faults);
        }
    }

    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.0.pointer(reference.trim_start_matches('#')).unwrap(),
            None => schema,
        }
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the checker does not know the type {other}"),
    }
}

/// The line once for each of its fields at any depth, without that field.
fn with_one_field_less(value: &Value) -> Vec<(String, Value)> {
    let mut variants = Vec::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        let mut fields: Map<String, Value> = value.as_object().unwrap().clone();
        fields.remove(name);
        variants.push((name.clone(), Value::Object(fields.clone())));
        for (inner, variant) in with_one_field_less(field) {
            fields.insert(name.clone(), variant);
            variants.push((format!("{name}.{inner}"), Value::Object(fields.clone())));
        }
    }
    variants
}

#[test]
fn every_golden_line_is_read_and_written_to_the_byte() {
    let read = record::read(&golden_path()).unwrap();
    assert_eq!(read.damaged, []);
    let text: String = read.records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
    assert_eq!(text, std::fs::read_to_string(golden_path()).unwrap());
    let has = |wanted: fn(&Record) -> bool| read.records.iter().any(wanted);
    assert!(has(|record| matches!(record, Record::Run(_))));
    assert!(has(|record| matches!(record, Record::Case(_))));
    assert!(has(|record| matches!(record, Record::Sample(_))));
    assert!(has(|record| matches!(record, Record::Summary(_))));
    assert!(has(|record| matches!(record, Record::Verdict(_))));
}

#[test]
fn every_golden_line_satisfies_the_schema() {
    let schema = Schema::read();
    for line in golden_lines() {
        assert_eq!(schema.faults(&line), [] as [&str; 0], "{line}");
    }
}

#[test]
fn the_schema_requires_what_the_reader_requires() {
    let schema = Schema::read();
    for line in golden_lines() {
        for (field, variant) in with_one_field_less(&line) {
            let readable = serde_json::from_value::<Record>(variant.clone()).is_ok();
            assert_eq!(schema.faults(&variant).is_empty(), readable, "{} without {field}", line["type"]);
        }
    }
}

#[test]
fn the_checker_finds_wrong_values() {
    let schema = Schema::read();
    let sample = &golden_lines()[3];
    for (field, wrong) in [("arm", "C".into()), ("wall_ns", 1.5.into()), ("steady", Value::Null), ("type", "x".into())]
    {
        let mut broken = sample.clone();
        broken[field] = wrong;
        assert!(!schema.faults(&broken).is_empty(), "{field}");
        assert!(serde_json::from_value::<Record>(broken).is_err(), "{field}");
    }
}
