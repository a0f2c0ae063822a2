//! Directories in every layout, good and bad.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::arc::reward::Mode;

const GOOD: &str = r#"{"train": [{"input": [[1, 2]], "output": [[3]]}], "test": [{"input": [[4]], "output": [[5]]}]}"#;
const BAD: &str = r#"{"train": [{"input": [[1, 12]], "output": [[3]]}], "test": [{"input": [[4]]}]}"#;
const OPEN: &str = r#"{"train": [{"input": [[1, 2]], "output": [[3]]}], "test": [{"input": [[4]]}]}"#;

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (file, text) in files {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn open(directory: &TempDir) -> Library {
    Library::open(Dataset::Dir, directory.path()).unwrap()
}

fn ids(library: &Library) -> Vec<&str> {
    library.ids().collect()
}

#[test]
fn every_layout_is_recognised_and_the_first_wins() {
    let all = [
        (Layout::DataSplits, vec!["data/training/b.json", "data/evaluation/a.json"], vec!["a", "b"]),
        (Layout::Splits, vec!["training/b.json", "evaluation/a.json"], vec!["a", "b"]),
        (Layout::Corpus, vec!["corpus/Copy/Copy2.json", "corpus/Count/x.json"], vec!["Copy/Copy2", "Count/x"]),
        (Layout::MiniArc, vec!["data/MiniARC/m.json"], vec!["m"]),
        (Layout::Flat, vec!["z.json", "y.json"], vec!["y", "z"]),
        (Layout::Groups, vec!["g/y.json", "f/z.json"], vec!["f/z", "g/y"]),
    ];
    for (layout, files, expected) in &all {
        let directory = directory(&files.iter().map(|file| (*file, GOOD)).collect::<Vec<_>>());
        let library = open(&directory);
        assert_eq!((library.layout(), ids(&library)), (Some(*layout), expected.clone()));
        assert_eq!(library.load_all().tasks.len(), files.len());
    }
    for first in 0..all.len() {
        let files = all[first..].iter().flat_map(|(_, files, _)| files.iter().map(|file| (*file, GOOD)));
        assert_eq!(open(&directory(&files.collect::<Vec<_>>())).layout(), Some(all[first].0));
    }
}

#[test]
fn a_malformed_file_is_reported_and_the_rest_loads() {
    let directory =
        directory(&[("a.json", GOOD), ("b.json", BAD), ("c.json", "{]"), ("d.json", GOOD), ("notes.txt", "x")]);
    fs::write(directory.path().join("e.json"), [0xff, 0xfe]).unwrap();
    let library = open(&directory);
    assert_eq!(ids(&library), ["a", "b", "c", "d", "e"]);
    let loaded = library.load_all();
    assert_eq!(loaded.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["a", "d"]);
    let path = |file: &str| directory.path().join(file).display().to_string();
    let messages: Vec<String> = loaded.problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        messages[0],
        format!("{}: train pair 0, input, row 0, column 1: colour 12 is not from 0 to 9", path("b.json"))
    );
    assert_eq!(messages[1], format!("{}: is no JSON: key must be a string at line 1 column 2", path("c.json")));
    assert!(messages[2].starts_with(&format!("{}: cannot be read: ", path("e.json"))), "{}", messages[2]);
    assert_eq!(messages.len(), 3);
    assert_eq!(library.statistics().unwrap().tasks, 2);
}

#[test]
fn the_two_files_of_a_competition() {
    let challenges = format!(r#"{{"t2": {OPEN}, "t1": {OPEN}, "bad": {BAD}}}"#);
    let directory = directory(&[
        ("arc_training_challenges.json", &challenges),
        ("arc_training_solutions.json", r#"{"t1": [[[7, 7]]], "t2": [[[1]], [[2]]]}"#),
        ("arc_test_challenges.json", &format!(r#"{{"t1": {OPEN}}}"#)),
        ("sample_submission.json", "{}"),
    ]);
    let library = open(&directory);
    assert_eq!(library.layout(), Some(Layout::Challenges));
    assert_eq!(ids(&library), ["bad", "t1", "t1", "t2"]);
    assert_eq!(library.splits().into_iter().collect::<Vec<_>>(), [Split::Train, Split::Eval]);
    let loaded = library.load_all();
    let outputs: Vec<_> = loaded.tasks.iter().map(|t| t.test[0].output.as_ref().map(|o| o.cells.clone())).collect();
    assert_eq!(outputs, [Some(vec![7, 7]), None], "the solution of the training file, none for the test file");
    let messages: Vec<String> = loaded.problems.iter().map(Problem::to_string).collect();
    assert!(
        messages[0].ends_with(
            "arc_training_challenges.json, task bad: train pair 0, input, row 0, column 1: colour 12 is not from 0 to 9"
        ),
        "{}",
        messages[0]
    );
    assert!(
        messages[1].ends_with("arc_training_solutions.json, task t2: has 2 solutions for 1 test pairs"),
        "{}",
        messages[1]
    );
    let notes: Vec<String> = loaded.notes.iter().map(Note::to_string).collect();
    assert_eq!(notes, ["1 of 2 tasks have test pairs without an output, which are not scored"]);
}

#[test]
fn tests_without_an_output_are_noted_in_every_layout() {
    for files in [["a.json", "b.json"], ["g/a.json", "h/b.json"], ["training/a.json", "evaluation/b.json"]] {
        let loaded = open(&directory(&[(files[0], OPEN), (files[1], GOOD)])).load_all();
        assert_eq!(loaded.notes, [Note::Unsolved { tasks: 1, of: 2 }]);
        assert!(loaded.notes[0].is_warning(Mode::Test) && !loaded.notes[0].is_warning(Mode::Train));
    }
    assert_eq!(open(&directory(&[("a.json", GOOD)])).load_all().notes, []);
}

/// Where there are no splits, their names are free for groups and tasks.
#[test]
fn a_group_or_a_task_may_be_called_like_a_split() {
    let groups = open(&directory(&[("train/a.json", GOOD), ("test/b.json", GOOD), ("corpus/c.json", GOOD)]));
    assert_eq!((groups.layout(), ids(&groups)), (Some(Layout::Groups), vec!["corpus/c", "test/b", "train/a"]));
    let select = |selector| groups.select(selector, None).map(|chosen| (chosen.tasks, chosen.mode));
    assert_eq!(select("train"), Ok((vec![2], Mode::Train)));
    assert_eq!(select("test"), Ok((vec![1], Mode::Test)));
    assert_eq!(select("corpus"), Ok((vec![0], Mode::Test)));
    assert!(matches!(select("eval"), Err(Error::NoSplits { .. })));
    assert_eq!(
        select("evil").unwrap_err().to_string(),
        "unknown selector 'evil' for dir; known: all; groups corpus, test, train; tasks corpus/c, test/b, train/a"
    );
    let tasks = open(&directory(&[("train.json", GOOD), ("other.json", GOOD)]));
    assert_eq!(tasks.select("train", None).unwrap().tasks, [1]);
    let half = open(&directory(&[("training/a.json", GOOD)]));
    assert_eq!(
        half.select("eval", None).unwrap_err().to_string(),
        "unknown selector 'eval' for dir; known: all, train; tasks a"
    );
}

#[test]
fn a_task_in_two_files_of_one_split_is_taken_once() {
    let one = format!(r#"{{"t": {OPEN}}}"#);
    let directory = directory(&[("evaluation_challenges.json", &one), ("test_challenges.json", &one)]);
    let loaded = open(&directory).load_all();
    assert_eq!(loaded.tasks.len(), 1);
    let message = loaded.problems[0].to_string();
    assert!(message.contains("test_challenges.json, task t: is already in "), "{message}");
}

#[test]
fn a_broken_competition_file_is_a_problem_not_a_panic() {
    let loaded = open(&directory(&[("x_challenges.json", "[1]")])).load_all();
    assert!(loaded.problems[0].to_string().ends_with("a list where an object of tasks is needed"));
}

#[test]
fn selectors() {
    let directory = directory(&[
        ("data/training/aaa.json", GOOD),
        ("data/training/both.json", GOOD),
        ("data/evaluation/both.json", GOOD),
        ("data/evaluation/ccc.json", GOOD),
    ]);
    let mut library = Library::open(Dataset::Agi1, directory.path()).unwrap();
    let select = |library: &Library, selector: &str| {
        let selected = library.select(selector, None).unwrap();
        (selected.tasks, selected.mode)
    };
    assert_eq!(ids(&library), ["aaa", "both", "both", "ccc"]);
    for all in ["", "all", "ALL"] {
        assert_eq!(select(&library, all), (vec![0, 1, 2, 3], Mode::Train));
    }
    for train in ["train", "training"] {
        assert_eq!(select(&library, train), (vec![0, 1], Mode::Train));
    }
    for eval in ["eval", "evaluation", "test", "corpus"] {
        assert_eq!(select(&library, eval), (vec![2, 3], Mode::Test));
    }
    assert_eq!(library.select("eval", Some(Mode::Train)).unwrap().mode, Mode::Train);
    assert_eq!(select(&library, "ccc"), (vec![3], Mode::Train));
    library.register_subset("Easy", &["ccc", "aaa"]).unwrap();
    assert_eq!(select(&library, "easy"), (vec![3, 0], Mode::Train));
    assert_eq!(select(&library, "EASY"), (vec![3, 0], Mode::Train));
    assert_eq!(library.subsets().map(|(name, _)| name).collect::<Vec<_>>(), ["easy"]);
    let message = library.select("cccc", None).unwrap_err().to_string();
    assert_eq!(
        message,
        "unknown selector 'cccc' for agi1; did you mean 'ccc'? \
         known: all, train, eval; subsets easy; tasks aaa, both, both, ccc"
    );
    assert!(library.register_subset("x", &["nope"]).unwrap_err().to_string().contains("unknown selector 'nope'"));
}

#[test]
fn concept_groups() {
    let directory = directory(&[
        ("corpus/Copy/Copy1.json", GOOD),
        ("corpus/Copy/Copy2.json", GOOD),
        ("corpus/Odd/Odd1.json", GOOD),
        ("corpus/readme.json", BAD),
    ]);
    let library = Library::open(Dataset::Concept, directory.path()).unwrap();
    assert_eq!(library.groups().into_iter().collect::<Vec<_>>(), ["Copy", "Odd"]);
    assert_eq!(library.of_group("Copy"), [0, 1]);
    assert_eq!([0, u32::MAX].map(|word| library.random_of_group("Copy", word)), [Some(0), Some(1)]);
    assert_eq!(library.random_of_group("Count", 0), None);
    assert_eq!(library.select("Copy", None).unwrap().tasks, [0, 1]);
    assert_eq!(library.select("Odd/Odd1", None).unwrap().tasks, [2]);
    assert!(library.select("copy", None).unwrap_err().to_string().contains("did you mean 'Copy'?"));
    let notes: Vec<String> = library.notes().iter().map(Note::to_string).collect();
    assert_eq!(notes.len(), 16);
    assert_eq!(notes[0], "the group AboveBelow is missing");
    assert_eq!(notes[15], "the group Odd is not one of ConceptARC");
    let warnings: Vec<bool> = library.notes().iter().map(|note| note.is_warning(Mode::Train)).collect();
    assert_eq!(warnings, [[true; 15].as_slice(), &[false]].concat(), "a missing group is worse than one more");
    assert_eq!(library.select("corpus", None).unwrap().mode, Mode::Test);
    let message = library.select("train", None).unwrap_err().to_string();
    assert!(
        message.contains("'train'") && message.contains("concept has no training and evaluation parts"),
        "{message}"
    );
}

#[test]
fn limits_of_the_data_sets() {
    let large = GOOD.replace("[[1, 2]]", "[[1, 2, 3, 4, 5, 6]]");
    let directory = directory(&[("data/MiniARC/m.json", &large), ("data/MiniARC/n.json", GOOD)]);
    let loaded = Library::open(Dataset::Mini, directory.path()).unwrap().load_all();
    assert_eq!(loaded.tasks.len(), 1);
    let message = loaded.problems[0].to_string();
    assert!(message.ends_with("m.json: train pair 0, input: is 1x6, but must be from 1x1 to 5x5"), "{message}");
    assert_eq!(open(&directory).load_all().tasks.len(), 2, "a directory of the user has no such limit");
}

#[test]
fn a_missing_directory_says_what_is_expected() {
    let missing = Path::new("no-such-directory");
    let message = Library::open(Dataset::Dir, missing).unwrap_err().to_string();
    assert!(message.starts_with("the directory 'no-such-directory' does not exist; expected there, one of: "));
    for part in LAYOUTS.iter().map(|(_, files)| *files).chain(REPOSITORIES) {
        assert!(message.contains(part), "{part} in {message}");
    }
    let message = Library::open(Dataset::Mini, missing).unwrap_err().to_string();
    assert!(message.contains("expected there: data/MiniARC/*.json (public tasks"), "{message}");
    let empty = TempDir::new().unwrap();
    assert!(Library::open(Dataset::Dir, empty.path()).unwrap_err().to_string().contains("has no tasks"));
}

#[test]
fn names_of_data_sets() {
    for (name, expected) in [
        ("AGI1", (Dataset::Agi1, "")),
        ("agi1-train", (Dataset::Agi1, "train")),
        ("ARC-AGI-2", (Dataset::Agi2, "")),
        ("agi_2-007bbfb7", (Dataset::Agi2, "007bbfb7")),
        ("concept-arc", (Dataset::Concept, "")),
        ("Concept-AboveBelow", (Dataset::Concept, "AboveBelow")),
        ("mini-my-subset", (Dataset::Mini, "my-subset")),
        ("Sample-", (Dataset::Sample, "")),
        ("Sample-01-mirror", (Dataset::Sample, "01-mirror")),
    ] {
        assert_eq!(Dataset::parse(name).unwrap(), expected, "{name}");
    }
    for name in ["", "ARC", "agi12", "samples"] {
        assert!(Dataset::parse(name).is_err(), "{name}");
    }
}

#[test]
fn the_sample_data_set() {
    let library = Library::sample();
    assert_eq!(ids(&library)[0], "01-mirror");
    assert_eq!(library.select("05-gravity", None).unwrap().tasks, [4]);
    assert_eq!(library.select("all", None).unwrap().tasks.len(), 12);
    let statistics = library.statistics().unwrap();
    assert_eq!((statistics.tasks, statistics.train_pairs.max, statistics.test_pairs.mean), (12, 3, 1.0));
    assert!(statistics.heights.max <= 10 && statistics.widths.max <= 10);
}
