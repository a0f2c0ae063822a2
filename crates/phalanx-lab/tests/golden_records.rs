//! Records of version 1 stay readable for ever, and the schema says of them what the reader does.

mod schema;

use std::path::{Path, PathBuf};

use phalanx_lab::record::{self, Record};
use schema::Schema;
use serde_json::{Map, Value};

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/records_v1.jsonl")
}

fn golden_lines() -> Vec<Value> {
    let text = std::fs::read_to_string(golden_path()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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

#[test]
fn documents_that_lack_a_field_or_have_one_too_many_are_found() {
    let cell = serde_json::json!({
        "schema_version": 1, "runtime": "parallel", "total_steps": 10, "effective_steps": 20, "elapsed_time": 1.5,
        "throughput": 13.3, "step_multiplier": 2, "timestamp": "2026-07-22T13:05:01Z", "num_agents": 2,
        "num_processes": 1, "mpi_rank": 0, "mpi_size": 1, "machine": "m", "git": null, "runs": [1.5], "median": 1.5,
        "min": 1.5, "max": 1.5, "warmup_s": 0.1, "learn_metric": null, "peak_rss_mb": null, "case": "c",
    });
    let schema = Schema::of("tabular-cell-v1");
    assert_eq!(schema.misfits(&cell), [] as [&str; 0]);
    for (field, variant) in with_one_field_less(&cell) {
        // It is written in any case; who reads may do without what can be null.
        assert_eq!(schema.misfits(&variant).is_empty(), cell[&field].is_null(), "without {field}");
    }
    for (field, wrong) in [("schema_version", 2.into()), ("runs", "1.5".into()), ("more", Value::Null)] {
        let mut broken = cell.clone();
        broken[field] = wrong;
        assert_eq!(schema.misfits(&broken).len(), 1, "{field}");
    }
}
