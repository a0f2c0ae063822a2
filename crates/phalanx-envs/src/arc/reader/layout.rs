//! How task files lie in a directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::parse::{describe, parse_json};
use super::problem::{Fault, Place, Problem};
use crate::arc::task::Task;

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Split {
    /// For training.
    Train,
    /// For evaluation.
    Eval,
}

/// An arrangement of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `data/training/*.json` and `data/evaluation/*.json`: ARC-AGI-1 and 2.
    DataSplits,
    /// `training/*.json` and `evaluation/*.json`.
    Splits,
    /// `corpus/<Group>/*.json`: ConceptARC.
    Corpus,
    /// `data/MiniARC/*.json`.
    MiniArc,
    /// `*challenges*.json` with many tasks each, and `*solutions*.json`.
    Challenges,
    /// `*.json`.
    Flat,
    /// `<Group>/*.json`.
    Groups,
}

/// All layouts in the order in which they are tried, with their files.
pub const LAYOUTS: [(Layout, &str); 7] = [
    (Layout::DataSplits, "data/training/*.json and data/evaluation/*.json"),
    (Layout::Splits, "training/*.json and evaluation/*.json"),
    (Layout::Corpus, "corpus/<Group>/*.json"),
    (Layout::MiniArc, "data/MiniARC/*.json"),
    (Layout::Challenges, "*challenges*.json, optionally with *solutions*.json"),
    (Layout::Flat, "*.json"),
    (Layout::Groups, "<Group>/*.json"),
];

/// A task that was found but not read yet.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) split: Option<Split>,
    pub(super) group: Option<String>,
    pub(super) source: Source,
}

/// Where a task comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// A file of its own.
    File(PathBuf),
    /// A member of a file of many, with its solutions.
    Member { file: PathBuf, task: Value, solutions: Option<(PathBuf, Value)> },
    /// Built in.
    Ready(Arc<Task>),
}

/// What a directory holds.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Every task, unread.
    pub(super) found: Vec<Found>,
    /// The files that could not even be listed.
    pub(super) problems: Vec<Problem>,
}

impl Layout {
    /// The first layout that a directory has.
    pub fn detect(directory: &Path) -> Option<Self> {
        LAYOUTS.iter().map(|(layout, _)| *layout).find(|layout| !layout.files(directory).is_empty())
    }

    /// Its task files with split and group, sorted by name.
    fn files(self, directory: &Path) -> Vec<(PathBuf, Option<Split>, Option<String>)> {
        let splits = |base: &Path| {
            let mut files = vec![];
            for (folder, split) in [("training", Split::Train), ("evaluation", Split::Eval)] {
                files.extend(json_files(&base.join(folder)).into_iter().map(|file| (file, Some(split), None)));
            }
            files
        };
        let groups = |base: &Path| {
            let mut files = vec![];
            for folder in sub_directories(base) {
                let group = name(&folder);
                files.extend(json_files(&folder).into_iter().map(|file| (file, None, Some(group.clone()))));
            }
            files
        };
        let plain = |files: Vec<PathBuf>| files.into_iter().map(|file| (file, None, None)).collect();
        match self {
            Self::DataSplits => splits(&directory.join("data")),
            Self::Splits => splits(directory),
            Self::Corpus => groups(&directory.join("corpus")),
            Self::MiniArc => plain(json_files(&directory.join("data").join("MiniARC"))),
            Self::Challenges => {
                plain(json_files(directory).into_iter().filter(|file| name(file).contains("challenges")).collect())
            }
            Self::Flat => plain(json_files(directory)),
            Self::Groups => groups(directory),
        }
    }

    /// What a directory in this layout holds.
    pub(super) fn scan(self, directory: &Path) -> Scan {
        if self == Self::Challenges {
            return scan_challenges(directory, &self.files(directory));
        }
        let found = self.files(directory).into_iter().map(|(file, split, group)| {
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let id = group.as_ref().map_or(stem.clone(), |group| format!("{group}/{stem}"));
            Found { id, split, group, source: Source::File(file) }
        });
        Scan { found: found.collect(), ..Scan::default() }
    }
}

fn scan_challenges(directory: &Path, files: &[(PathBuf, Option<Split>, Option<String>)]) -> Scan {
    let Scan { mut found, mut problems } = Scan::default();
    let mut owners: BTreeMap<(Option<Split>, String), String> = BTreeMap::new();
    let solutions: Vec<PathBuf> =
        json_files(directory).into_iter().filter(|file| name(file).contains("solutions")).collect();
    for (file, ..) in files {
        let file_name = name(file);
        let split = match () {
            () if file_name.contains("train") => Some(Split::Train),
            () if file_name.contains("eval") || file_name.contains("test") => Some(Split::Eval),
            () => None,
        };
        let own = solutions.iter().find(|other| name(other) == file_name.replace("challenges", "solutions"));
        // Without a name that fits, the only solutions belong to the only challenges.
        let own = own.or(solutions.first().filter(|_| files.len() == 1 && solutions.len() == 1));
        let tasks = read_object(file);
        let answers = own.map(|own| read_object(own)).transpose();
        let (tasks, answers) = match (tasks, answers) {
            (Ok(tasks), Ok(answers)) => (tasks, answers.unwrap_or_default()),
            (Err(problem), Ok(_)) | (Ok(_), Err(problem)) => {
                problems.push(problem);
                continue;
            }
            (Err(first), Err(second)) => {
                problems.extend([first, second]);
                continue;
            }
        };
        for (id, task) in tasks {
            if let Some(owner) = owners.get(&(split, id.clone())) {
                let file = format!("{}, task {id}", file.display());
                problems.push(Problem { file, place: Place::default(), fault: Fault::Duplicate(owner.clone()) });
                continue;
            }
            owners.insert((split, id.clone()), file.display().to_string());
            let solutions = own.zip(answers.get(&id)).map(|(file, answer)| (file.clone(), answer.clone()));
            found.push(Found {
                id,
                split,
                group: None,
                source: Source::Member { file: file.clone(), task, solutions },
            });
        }
    }
    Scan { found, problems }
}

fn read_object(file: &Path) -> Result<serde_json::Map<String, Value>, Problem> {
    let problem = |fault| Problem { file: file.display().to_string(), place: Place::default(), fault };
    let text = read_text(file)?;
    match parse_json(&file.display().to_string(), &text)? {
        Value::Object(object) => Ok(object),
        other => Err(problem(Fault::Type { expected: "an object of tasks", found: describe(&other) })),
    }
}

/// The text of a file.
pub(super) fn read_text(file: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(file).map_err(|error| Problem {
        file: file.display().to_string(),
        place: Place::default(),
        fault: Fault::Unreadable(error.to_string()),
    })
}

/// The `.json` files of a directory, sorted; none if there is no such directory.
fn json_files(directory: &Path) -> Vec<PathBuf> {
    children(directory, |path| path.extension().is_some_and(|extension| extension == "json") && path.is_file())
}

fn sub_directories(directory: &Path) -> Vec<PathBuf> {
    children(directory, |path| path.is_dir())
}

fn children(directory: &Path, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> = entries.filter(|path| !name(path).starts_with('.') && wanted(path)).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
