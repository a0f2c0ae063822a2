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

/// Cells would blur if the picture were shrunk to characters.
#[test]
fn a_terminal_gets_grids_cell_by_cell_in_their_exact_colours() {
    let folder = tempfile::tempdir().unwrap();
    let actions = folder.path().join("actions.csv");
    // Flood-fills the upper hole of the figure with colour 4.
    std::fs::write(&actions, "14,4,4,4,4\n").unwrap();
    let actions = actions.to_str().unwrap();
    let text = stdout(&[
        "trace",
        "--env",
        "ARC-v0",
        "--render",
        "ansi",
        "--param",
        "select=04-holes",
        "--seed",
        "1",
        "--actions",
        actions,
    ]);
    let [black, red, yellow] = ["37;37;37", "255;65;54", "255;220;0"].map(|rgb| format!("\x1b[38;2;{rgb}m"));
    let lines: Vec<_> = text.lines().collect();
    // A headline, a title, ten rows and an empty line for the start and for the step.
    assert_eq!(lines.len(), 2 * 13, "{text}");
    assert!(lines[0].starts_with("episode 0 step 0  solved 0  similarity 0."), "{}", lines[0]);
    assert_eq!((lines[1], lines[14]), ("Grid 10x7", "Grid 10x7"));
    assert!(lines[13].starts_with("episode 0 step 1  reward 0.04"), "{}", lines[13]);
    assert_eq!(lines[2], format!("{black}{}\x1b[0m", "██".repeat(7)));
    let row = |hole: &str| format!("{black}██████{red}██{hole}████{red}██\x1b[0m");
    assert_eq!((lines[6], lines[13 + 6]), (row(&black).as_str(), row(&yellow).as_str()));
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
