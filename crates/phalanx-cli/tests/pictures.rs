//! `render` and `trace --render`.

mod common;

use common::{json, phalanx, stdout};

#[test]
fn every_format_is_written_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for (name, magic) in [("x.gif", &b"GIF89a"[..]), ("x.png", b"\x89PNG"), ("x.svg", b"<svg")] {
        let path = folder.path().join(name);
        let report = json(&[
            "render",
            "--env",
            "CartPole-v1",
            "--policy",
            "bangbang",
            "--actions",
            "policy:6",
            "--out",
            path.to_str().unwrap(),
            "--json",
            "--quiet",
        ]);
        assert_eq!((&report["steps"], &report["frames"]), (&6.into(), &7.into()));
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(magic) && bytes.len() == report["bytes"].as_u64().unwrap() as usize, "{name}");
    }
    let quiet = folder.path().join("x.svg");
    let quiet = ["render", "--env", "two-armed-bandit", "--out", quiet.to_str().unwrap(), "--quiet"];
    let output = phalanx(&quiet);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_terminal_gets_true_colours() {
    for env in ["CartPole-v1", "Pendulum-v1", "TicTacToe-v0"] {
        let text = stdout(&["trace", "--env", env, "--render", "ansi", "--actions", "policy:3", "--columns", "40"]);
        assert!(text.contains("\x1b[38;2;") && text.contains("episode 0 step 3"), "{env}");
    }
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (text, film) = (out("x.txt"), out("x.gif"));
    let missing = out("missing/x.gif");
    for (arguments, part) in [
        (vec!["--out", &text], ".gif, .png or .svg"),
        (vec!["--out", &missing], "folder does not exist"),
        (vec!["--out", &film, "--scale", "0"], "0.1 to 10"),
        (vec!["--out", &film, "--fps", "0"], "--fps"),
        (vec!["--out", &film, "--max-frames", "3"], "--every K"),
        (vec!["--out", &film, "--policy", "rndom"], "did you mean 'random'"),
    ] {
        let output = phalanx(&[&["render", "--env", "CartPole-v1"], arguments.as_slice()].concat());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.lines().count() == 1 && message.contains(part), "{arguments:?}: {message}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
