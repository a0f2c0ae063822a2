//! `--config FILE`: the same as flags, which come after it.

mod common;

use common::{json, phalanx, stdout};

/// A file with this content, as long as the first value lives.
fn file(content: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    std::fs::write(&path, content).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

const RUN: &str = r#"
env = "CartPole-v1"
num_envs = "1k"
steps = 300
policy = "pid"
seed = 7
quiet = true
json = true
fps = 30 # of `render`

[params]
length = "0.4..0.6"
gravity = 9.5
kinematics_integrator = "euler"

[policy_args]
kp = -1.0
kd = -0.25
control_low = -1
control_high = 1

[safety]
mode = "monitor"
constraints = ["-0.05<=theta<=0.05:soft:penalty=-2:name=lean", "x<=1"]
"#;

#[test]
fn a_file_means_the_same_as_its_flags_and_flags_win() {
    let (_folder, path) = file(RUN);
    let flags = "rollout --env CartPole-v1 --num-envs 1000 --steps 300 --policy pid --seed 7 --quiet --json \
                 --param length=0.4..0.6 --param gravity=9.5 --policy-arg kp=-1 --policy-arg kd=-0.25 \
                 --policy-arg control_low=-1 --policy-arg control_high=1 --safety monitor --constraint x<=1 \
                 --constraint -0.05<=theta<=0.05:soft:penalty=-2:name=lean";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let (from_file, from_flags) = (json(&["rollout", "--config", &path]), json(&flags));
    for field in ["checksum", "seed", "num_envs", "return"] {
        assert_eq!(from_file[field], from_flags[field], "{field}");
    }
    assert_eq!(from_file["safety"]["violations"], from_flags["safety"]["violations"]);
    assert_eq!(from_file["safety"]["mode"], "monitor");
    let own = ["rollout", "--num-envs=50", "--config", &path, "--param", "gravity=9.8", "--policy", "random"];
    let own = json(&[&own[..], &["--safety", "off", "--seed", "0", "--param", "length=0.5"]].concat());
    let plain = json(&["rollout", "--env=CartPole-v1", "--num-envs=50", "--steps=300", "--json", "--quiet"]);
    assert_eq!((&own["checksum"], &own["num_envs"]), (&plain["checksum"], &plain["num_envs"]));
    let trace = stdout(&["trace", "--config", &path, "--actions", "policy:3"]);
    assert!(trace.lines().count() == 5 && trace.contains("cost.lean"), "{trace}");
    let (_folder, path) = file("env = 'CartPole-v1'\nstate = [0, 0.5, 0.0, 1e-2]\nactions = 'random:1'");
    assert!(stdout(&["trace", "--config", &path]).contains("\n0,0,,0,0.5,0,0.01,"));
}

#[test]
fn switches_add_up_and_policy_args_stay_with_their_policy() {
    let (_folder, path) = file(RUN);
    let checksum = |own: &[&str]| json(&[&["rollout", "--config", &path], own].concat())["checksum"].clone();
    let plain = checksum(&[]);
    assert_eq!(checksum(&["-q", "--json"]), plain, "a switch may be on twice");
    assert_eq!(checksum(&["--policy", "pid"]), plain, "the same policy keeps its arguments");
    let louder = checksum(&["--policy", "pid", "--policy-arg", "kp=-2"]);
    assert_ne!(louder, plain);
    assert_eq!(checksum(&["--policy-arg", "kp=-2"]), louder);
    checksum(&["--policy", "random"]);
    // A file that names no policy leaves that to the command line.
    let (_folder, path) =
        file("env = 'Pendulum-v1'\npolicy_args = { obs_field = 'theta_dot' }\nsteps = 3\njson = true\nquiet = true");
    let report = json(&["rollout", "--policy", "pid", "--config", &path]);
    assert_eq!(report["policy"], "pid");
    let output = phalanx(&["rollout", "--policy", "periodic", "--config", &path]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("run.toml: unknown argument 'obs_field'"));
}

#[test]
fn a_missing_file_name_is_missed() {
    for arguments in
        [&["rollout", "--env", "CartPole-v1", "--config"][..], &["trace", "--config", "--env", "CartPole-v1"]]
    {
        let output = phalanx(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("a value is required for '--config <FILE>'"), "{message}");
    }
}

#[test]
fn what_is_wrong_is_said_with_the_file_s_name() {
    for (content, part) in [
        ("env = 'CartPole-v1'\nnum_env = 3", "unknown key 'num_env' for"),
        ("env = 'CartPole-v1'\nnum_env = 3", "did you mean 'num_envs'"),
        ("[safety]\nconstraint = 'x<=1'", "unknown key 'constraint' for [safety] of"),
        ("[safety]\nconstraints = 'x<=1'", "constraints is of the wrong kind, but must be a list"),
        ("params = 3", "params is of the wrong kind, but must be a table"),
        ("quiet = 3", "quiet is of the wrong kind, but must be true or false"),
        ("seed = 1979-05-27", "seed is of the wrong kind"),
        ("env = 'a'\nnum_envs = 'many'", "run.toml: invalid value 'many' for '--num-envs <N>'"),
        ("env = 'a'\n[safety]\nconstraints = ['x<=1:firm']", "run.toml: invalid value 'x<=1:firm'"),
        ("env = 'a'\nseed = = 3", "run.toml, line 2: "),
        ("env = 'a'\nenv = 'b'", "run.toml, line 2: duplicate key"),
        ("param = 'x=1'", "unknown key 'param'"),
        ("env = 'CartPol'", "run.toml: unknown environment 'CartPol'; did you mean 'cartpole' or 'CartPole-v1'"),
        ("env = 'CartPole-v1'\nparams = { gravitty = 9 }", "run.toml: unknown parameter 'gravitty'"),
    ] {
        let (_folder, path) = file(content);
        let output = phalanx(&["rollout", "--config", &path]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{content}: {message}");
        assert!(message.lines().count() == 1 && message.contains(part) && message.contains("run.toml"), "{message}");
    }
    let missing = String::from_utf8(phalanx(&["rollout", "--config", "no-such.toml"]).stderr).unwrap();
    assert!(missing.starts_with("error: cannot read no-such.toml"), "{missing}");
}
