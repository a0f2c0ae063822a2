//! Bad input gets one clear sentence on stderr, exit code 2, no panic and nothing half-written.

mod common;

use common::{phalanx, stdout};

/// The one sentence a refused command prints.
#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let output = phalanx(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
    assert!(message.starts_with("error: ") && !message.contains("panicked"), "{message}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed on stdout");
    message
}

#[track_caller]
fn refused_with(arguments: &[&str], parts: &[&str]) {
    let message = refusal(arguments);
    for part in parts {
        assert!(message.contains(part), "{arguments:?}: '{part}' is not in: {message}");
    }
}

#[test]
fn names() {
    refused_with(
        &["rollout", "--env", "CartPol-v1"],
        &["unknown environment 'CartPol-v1'", "did you mean 'CartPole-v1'"],
    );
    refused_with(&["trace", "--env", "xyz"], &["unknown environment 'xyz'", "'Acrobot-v1'"]);
    refused_with(&["envs", "pendelum"], &["did you mean 'pendulum'"]);
    let rollout = ["rollout", "--env", "CartPole-v1"];
    let with = |more: &[&'static str]| [&rollout[..], more].concat();
    refused_with(&with(&["--policy", "randm"]), &["unknown policy 'randm'", "did you mean 'random'"]);
    refused_with(
        &with(&["--param", "gravty=9"]),
        &["unknown parameter 'gravty' for CartPole-v1", "did you mean 'gravity'"],
    );
    refused_with(
        &with(&[
            "--policy",
            "pid",
            "--policy-arg",
            "kq=1",
            "--policy-arg",
            "control_low=0",
            "--policy-arg",
            "control_high=1",
        ]),
        &["unknown argument 'kq' for policy pid"],
    );
    refused_with(
        &with(&["--policy", "bangbang", "--policy-arg", "obs_field=thta"]),
        &["unknown observation field 'thta' for CartPole-v1", "'theta'"],
    );
    refused_with(&["rolout"], &["unrecognized subcommand 'rolout'", "rollout"]);
    refused_with(&["rollout", "--env", "CartPole-v1", "--num-env", "3"], &["--num-env"]);
    refused_with(
        &["train", "--resum", "x"],
        &["unexpected argument '--resum' found; a similar argument exists: '--resume'"],
    );
    refused_with(&[], &["a command is needed"]);
    refused_with(&["completions", "tcsh"], &["tcsh", "bash"]);
}

#[test]
fn counts_and_values() {
    let with = |more: &[&'static str]| [&["rollout", "--env", "CartPole-v1"], more].concat();
    refused_with(&with(&["--num-envs", "0"]), &["--num-envs", "at least 1"]);
    refused_with(&with(&["--num-envs", "-5"]), &["--num-envs"]);
    refused_with(&with(&["--num-envs", "many"]), &["--num-envs", "'many'"]);
    refused_with(&with(&["--num-envs", "99999999999999999999999"]), &["--num-envs"]);
    refused_with(&with(&["--num-envs", "1000000000000"]), &["1000000000000"]);
    refused_with(&with(&["--steps", "0"]), &["--steps", "at least 1"]);
    refused_with(&with(&["--steps", "18446744073709551615"]), &["--steps"]);
    refused_with(&with(&["--scan-chunk-size", "0"]), &["--scan-chunk-size", "at least 1"]);
    refused_with(&with(&["--threads", "0"]), &["--threads", "at least 1"]);
    refused_with(&with(&["--threads", "1000000"]), &["--threads is 1000000, but must be from 1 to 1024"]);
    refused_with(&with(&["--lanes", "4"]), &["--lanes", "8, 16, auto"]);
    refused_with(&with(&["--seed", "x"]), &["--seed"]);
    for wrong in ["x", "0", "1.5", "99999999999999999999"] {
        let said = [&format!("'{wrong}' for '--threads <J>'")[..], "a whole number from 1 to 1024 is needed"];
        refused_with(&["bench", "throughput", "--threads", wrong], &said);
    }
    refused_with(&["bench", "throughput", "--seed", "x"], &["'--seed <S>'", "a whole number"]);
    refused_with(
        &["autotune", "verify", "--rounds", "x"],
        &["'--rounds <R>'", "a whole number from 3 to 1000 is needed"],
    );
    refused_with(&with(&["--param", "gravity"]), &["key=value is needed"]);
    refused_with(&with(&["--param", "gravity=heavy"]), &["parameter gravity of CartPole-v1 is 'heavy'"]);
    refused_with(&with(&["--param", "gravity=nan"]), &["gravity", "from 0 to 1000"]);
    refused_with(&with(&["--param", "length=0"]), &["length", "from 0.001 to 1000"]);
    refused_with(&with(&["--param", "length=0.6..0.4"]), &["lower end comes first"]);
    refused_with(&with(&["--param", "low=1"]), &["low (1) is above high (0.05)"]);
    refused_with(&with(&["--tasks", "folder"]), &["--tasks is for ARC-v0, but the environment is CartPole-v1"]);
    refused_with(&with(&["--param", "max_steps=0"]), &["max_steps of CartPole-v1"]);
    refused_with(
        &with(&["--param", "kinematics_integrator=rk4"]),
        &["unknown choice 'rk4' for option kinematics_integrator", "known: 'euler', 'semi_implicit"],
    );
    refused_with(&with(&["--policy", "pid"]), &["control_low"]);
    refused_with(
        &with(&["--policy", "pid", "--policy-arg", "control_low=1", "--policy-arg", "control_high=0"]),
        &["the first smaller"],
    );
    refused_with(&with(&["--policy", "periodic", "--policy-arg", "pulse_width=0"]), &["pulse_width"]);
    refused_with(&with(&["--policy", "open_loop"]), &["schedule"]);
    refused_with(&with(&["--policy", "open_loop", "--policy-arg", "schedule=0:2"]), &["whole number from 0 to 1"]);
    refused_with(&with(&["--policy", "constant", "--policy-arg", "action=0:1"]), &["2 elements, but 1"]);
    refused_with(&with(&["--param", "length=1", "--param", "length=2"]), &["length", "given twice"]);
    refused_with(&with(&["--param", "length=0.4.."]), &["'0.4..'"]);
    refused_with(&with(&["--policy", "bangbang", "--policy-arg", "setpoint=1e39"]), &["setpoint"]);
    refused_with(&with(&["--save-state", "no/such/folder/file"]), &["folder does not exist"]);
    refused_with(&with(&["--save-state", "/dev/null"]), &["not a file"]);
    refused_with(&with(&["--load-state", "/dev/zero"]), &["not a regular file"]);
    refused_with(
        &["trace", "--env", "CartPole-v1", "--state", "1,2,3"],
        &["x, x_dot, theta, theta_dot", "3 elements, but 4"],
    );
    refused_with(&["trace", "--env", "CartPole-v1", "--state", "1,2,x,4"], &["--state has 'x'"]);
    refused_with(&["trace", "--env", "CartPole-v1", "--state", "1,2,inf,4"], &["theta of the state is inf"]);
    for (env, state, part) in [
        ("TicTacToe-v0", "3,6,0,0", "the state of TicTacToe-v0 is impossible: x (3) and o (6) have a cell in common"),
        ("TicTacToe-v0", "1.5,2,0,0", "x of the state is 1.5, but must be a whole number from 0 to"),
        ("ccasr-gfp-sysid", "0,2.5,0,0,0,0,0,0", "F is 2.5, but molecules come as whole numbers"),
        ("opto-hill-1d", "-1,0,0,0,0,0,0", "X is -1, but molecules come as whole numbers"),
        ("gene-circuit", "0,0,0,0,0,0,0,0,-2,0,0", "fired of the state is -2, but must be a whole number"),
    ] {
        refused_with(&["trace", "--env", env, "--state", state], &[part]);
    }
    refused_with(&["trace", "--env", "CartPole-v1", "--actions", "random:0"], &["random:T"]);
    refused_with(
        &["trace", "--env", "CartPole-v1", "--actions", "no-such-file.csv"],
        &["cannot read no-such-file.csv"],
    );
    refused_with(&["trace", "--env", "CartPole-v1", "--format", "xml"], &["--format", "csv, json"]);
}

#[test]
fn action_files() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |env: &str, content: &[u8], parts: &[&str]| {
        let path = folder.path().join("actions.csv");
        std::fs::write(&path, content).unwrap();
        refused_with(&["trace", "--env", env, "--actions", path.to_str().unwrap()], parts);
    };
    refused("CartPole-v1", b"0\n1,0\n", &["actions.csv, line 2: 2 columns, but an action of CartPole-v1 has 1"]);
    refused("CartPole-v1", b"0\n1\n2\n", &["line 3", "is 2, but must be a whole number from 0 to 1"]);
    refused("CartPole-v1", b"0\n-1\n", &["line 2"]);
    refused("CartPole-v1", b"0.5\n", &["line 1", "0.5"]);
    refused("CartPole-v1", b"left\n", &["line 1: column 1 is 'left'"]);
    // Legal by itself, but not where the second move finds its cell taken: nothing is printed in any format.
    for more in [&["--format", "json"][..], &["--format", "csv"], &["--render", "ansi"]] {
        let path = folder.path().join("moves.csv");
        std::fs::write(&path, "0\n4\n4\n").unwrap();
        let trace = ["trace", "--env", "TicTacToe-v0", "--param", "opponent=self_play", "--actions"];
        let arguments = [&trace, &[path.to_str().unwrap()][..], more].concat();
        refused_with(&arguments, &["moves.csv, line 3", "is 4, but must be legal in this state: 1, 2, 3"]);
    }
    refused("Pendulum-v1", b"0.5\nNaN\n", &["line 2: column 1 is 'NaN'"]);
    refused("Pendulum-v1", b"inf\n", &["line 1"]);
    refused("Pendulum-v1", b"", &["holds no actions"]);
    refused("Pendulum-v1", b"# only a remark\n\n", &["holds no actions"]);
    refused("Pendulum-v1", &[0xff, 0xfe, 0x00], &["is not text"]);
}

#[test]
fn saved_states() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let saved = path("state");
    stdout(&["rollout", "--env", "CartPole-v1", "--num-envs", "50", "--steps", "20", "--save-state", &saved]);
    let bytes = std::fs::read(&saved).unwrap();
    let load_sized = |num_envs: &str, file: &str, env: &str, more: &[&str], parts: &[&str]| {
        let arguments = ["rollout", "--env", env, "--num-envs", num_envs, "--steps", "5", "--load-state", file];
        refused_with(&[&arguments, more].concat(), parts);
    };
    let load = |file: &str, env: &str, more: &[&str], parts: &[&str]| load_sized("50", file, env, more, parts);
    load(&saved, "Acrobot-v1", &[], &["environment CartPole-v1", "Acrobot-v1"]);
    load_sized("51", &saved, "CartPole-v1", &[], &["num_envs 50", "num_envs 51"]);
    load(&saved, "CartPole-v1", &["--policy=bangbang"], &["policy Random", "policy BangBang"]);
    load(&saved, "CartPole-v1", &["--seed=1"], &["seed 0", "seed 1"]);
    load(&saved, "CartPole-v1", &["--param=gravity=9"], &["parameters ''", "gravity=9"]);
    load(&path("none"), "CartPole-v1", &[], &["cannot read"]);
    let damaged = path("damaged");
    for (content, reason) in [
        (bytes[..bytes.len() / 2].to_vec(), "is truncated"),
        (bytes[..bytes.len() - 1].to_vec(), "is truncated"),
        (b"some other file".to_vec(), "is not one of Phalanx"),
        (Vec::new(), "is empty"),
        ([&bytes[..300], &[bytes[300] ^ 1], &bytes[301..]].concat(), "is damaged"),
    ] {
        std::fs::write(&damaged, content).unwrap();
        load(&damaged, "CartPole-v1", &[], &["damaged: snapshot", reason]);
    }
}
