//! Constraints from the command line, and what they cost.

mod common;

use common::{json, phalanx, stdout};
use serde_json::Value;

fn rollout(more: &[&str]) -> Value {
    let base = ["rollout", "--env", "CartPole-v1", "--num-envs", "500", "--steps", "500", "--json", "--quiet"];
    json(&[&base[..], more].concat())
}

const LEAN: [&str; 2] = ["--constraint", "-0.05<=theta<=0.05:soft:penalty=-2:name=lean"];

#[test]
fn modes_differ_in_returns_and_ends_but_not_in_what_they_see() {
    let with = |mode: &'static str| rollout(&[&LEAN[..], &["--safety", mode]].concat());
    let (penalize, monitor, off) = (with("penalize"), with("monitor"), with("off"));
    let plain = rollout(&[]);
    assert_eq!((&monitor["checksum"], &monitor["return"]), (&plain["checksum"], &plain["return"]));
    assert_eq!((&off["checksum"], &off["safety"]), (&plain["checksum"], &Value::Null));
    assert_eq!(penalize["safety"]["violations"], monitor["safety"]["violations"]);
    assert_eq!(penalize["safety"]["cost"], monitor["safety"]["cost"]);
    let (cost, mean) = (&penalize["safety"]["cost"]["mean"], |run: &Value| run["return"]["mean"].as_f64().unwrap());
    assert!((mean(&plain) - 2.0 * cost.as_f64().unwrap() - mean(&penalize)).abs() < 1e-6);
    let hard = rollout(&["--constraint", "theta<0.1"]);
    assert!(hard["length"]["mean"].as_f64().unwrap() < plain["length"]["mean"].as_f64().unwrap());
    assert!(hard["safety"]["violations"]["theta<0.1"].as_u64().unwrap() > 100);
    assert!(stdout(&["rollout", "--env", "CartPole-v1", "--constraint", "x<=1:soft"]).contains("violating steps"));
}

#[test]
fn trace_shows_cost_and_violations() {
    let trace = ["trace", "--env", "CartPole-v1", "--state", "0,0,0.045,0.5", "--actions", "random:8"];
    let text = stdout(&[&trace[..], &LEAN].concat());
    let mut lines = text.lines();
    assert!(lines.next().unwrap().ends_with("reward,terminated,truncated,cost,cost.lean"));
    assert!(lines.clone().skip(1).any(|line| line.ends_with(",-1,false,false,1,1")), "{text}");
    let drawn = stdout(&[&trace[..], &LEAN, &["--render", "ansi"]].concat());
    assert!(drawn.lines().any(|line| line.starts_with("episode") && line.contains("  cost 1 (")), "{drawn}");
    let quoted = stdout(&[&trace[..], &["--constraint", "theta<=1:name=\"so\", he said"]].concat());
    assert!(quoted.lines().next().unwrap().ends_with(",\"cost.\"\"so\"\", he said\""), "{quoted}");
    let document = json(&[&trace[..], &LEAN, &["--format", "json"]].concat());
    assert_eq!(document["constraints"][0], "lean");
    let steps = document["steps"].as_array().unwrap();
    assert!(steps[0].get("cost").is_none() && steps[1..].iter().any(|s| s["cost"] == 1 && s["violated"][0] == "lean"));
}

#[test]
fn wrong_constraints_are_refused_in_one_sentence() {
    for (constraint, part) in [
        ("thta<=1", "did you mean 'theta'"),
        ("theta", "the bounds of constraint 'theta'"),
        ("theta<=x", "the bounds"),
        ("theta<=1:firm", "':firm'"),
        ("theta<=1:hard:soft", "the part ':soft' of constraint 'theta<=1:hard:soft' is the second of its kind"),
        ("5<theta<3", "the range of constraint '5<theta<3' is empty"),
        ("theta<1:name=a\nb", "NAME"),
        ("1<theta<1", "the range of constraint '1<theta<1' is empty"),
        ("theta<=1:penalty=3", "not positive"),
        ("theta<=1e39", "3.4e38"),
        ("theta<=1:soft:penalty=-1e300", "3.4e38"),
    ] {
        let output = phalanx(&["rollout", "--env", "CartPole-v1", "--constraint", constraint]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.lines().count() == 1 && message.contains(part), "{constraint}: {message}");
    }
    let output = phalanx(&["rollout", "--env", "CartPole-v1", "--safety", "enforc"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && message.contains("did you mean 'enforce'"), "{message}");
}
