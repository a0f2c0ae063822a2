//! A checker for the schemas of what the lab stores, as far as these go.
#![allow(dead_code, unreachable_pub)] // each test uses a part

use std::path::Path;

use serde_json::Value;

/// A schema, of lines or of whole documents.
pub struct Schema(Value);

/// Asserts that a stored document is as its schema says, and has no field that the schema does not list.
#[track_caller]
pub fn assert_described(schema: &str, document: &Path) {
    let value: Value = serde_json::from_slice(&std::fs::read(document).unwrap()).unwrap();
    assert_eq!(Schema::of(schema).misfits(&value), [] as [&str; 0], "{} by {schema}: {value}", document.display());
}

impl Schema {
    /// That of records.
    pub fn read() -> Self {
        Self::of("lab-record-v1")
    }

    pub fn of(name: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{name}.schema.json"));
        Self(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    /// What is wrong with a document, and which of its fields are not listed.
    pub fn misfits(&self, document: &Value) -> Vec<String> {
        let mut misfits = Vec::new();
        self.check(document, &self.0, "document", &mut misfits);
        self.compare(document, &self.0, "document", &mut misfits);
        misfits
    }

    /// What is wrong with a line.
    pub fn faults(&self, line: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        match line["type"].as_str().and_then(|name| self.0["$defs"].get(name)) {
            Some(schema) => self.check(line, schema, "line", &mut faults),
            None => faults.push("no such type".to_owned()),
        }
        faults
    }

    /// Fields of a line that the schema does not list, wherever it lists some.
    pub fn unlisted(&self, line: &Value) -> Vec<String> {
        let mut unlisted = Vec::new();
        if let Some(schema) = line["type"].as_str().and_then(|name| self.0["$defs"].get(name)) {
            self.compare(line, schema, "line", &mut unlisted);
        }
        unlisted
    }

    fn compare(&self, value: &Value, schema: &Value, at: &str, unlisted: &mut Vec<String>) {
        let schema = self.resolve(schema);
        for item in value.as_array().into_iter().flatten() {
            self.compare(item, &schema["items"], &format!("an item of {at}"), unlisted);
        }
        let of_others = schema.get("additionalProperties").filter(|of_others| of_others.is_object());
        let listed = schema["properties"].as_object();
        if listed.is_none() && of_others.is_none() {
            return;
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            match listed.and_then(|listed| listed.get(name)).or(of_others) {
                Some(of_field) => self.compare(field, of_field, &format!("{at}.{name}"), unlisted),
                None => unlisted.push(format!("{at}.{name}")),
            }
        }
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
            if value.is_object() && value.get(name).is_none() {
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
