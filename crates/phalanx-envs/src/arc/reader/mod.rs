//! Data sets: where tasks come from, and which of them are meant.
//!
//! Files are found by name, parsed when they are needed and kept. A malformed file is reported with
//! file, pair, row and column; the rest of its directory still loads. Nothing is ever downloaded.

mod layout;
mod library;
mod parse;
mod problem;
mod statistics;

pub use layout::{LAYOUTS, Layout, Split};
pub use library::{Library, Loaded, Note, Selected};
pub use parse::{Limits, parse_text, parse_value};
pub use problem::{Fault, Place, Problem};
pub use statistics::{Spread, Statistics};

/// A data set by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataset {
    /// ARC-AGI-1.
    Agi1,
    /// ARC-AGI-2.
    Agi2,
    /// ConceptARC.
    Concept,
    /// MiniARC: 5 x 5.
    Mini,
    /// Our own tasks, built in.
    Sample,
    /// A directory in any layout.
    Dir,
}

/// The public repositories of the data sets.
pub const REPOSITORIES: [&str; 4] =
    ["fchollet/ARC-AGI", "arcprize/ARC-AGI-2", "victorvikram/ConceptARC", "KSB21ST/MINI-ARC"];

/// The groups of ConceptARC.
pub const CONCEPT_GROUPS: [&str; 16] = [
    "AboveBelow",
    "Center",
    "CleanUp",
    "CompleteShape",
    "Copy",
    "Count",
    "ExtendToBoundary",
    "ExtractObjects",
    "FilledNotFilled",
    "HorizontalVertical",
    "InsideOutside",
    "MoveToBoundary",
    "Order",
    "SameDifferent",
    "TopBottom2D",
    "TopBottom3D",
];

/// Names of the data sets, lower case; the first of each is the usual one.
const NAMES: [(Dataset, &[&str]); 6] = [
    (Dataset::Agi1, &["agi1", "arc-agi-1", "agi-1", "agi_1"]),
    (Dataset::Agi2, &["agi2", "arc-agi-2", "agi-2", "agi_2"]),
    (Dataset::Concept, &["concept", "conceptarc", "concept-arc"]),
    (Dataset::Mini, &["mini", "miniarc", "mini-arc"]),
    (Dataset::Sample, &["sample"]),
    (Dataset::Dir, &["dir"]),
];

impl Dataset {
    /// Splits `<data set>[-<selector>]`.
    ///
    /// The selector begins after the first `-`, except that a name that itself has one counts as a whole
    /// (the longest name wins): `AGI1-train`, `arc-agi-1-train` and `Mini` are all understood.
    ///
    /// ```
    /// use phalanx_envs::arc::reader::Dataset;
    /// assert_eq!(Dataset::parse("arc-agi-2-eval").unwrap(), (Dataset::Agi2, "eval"));
    /// assert_eq!(Dataset::parse("Concept-AboveBelow").unwrap(), (Dataset::Concept, "AboveBelow"));
    /// ```
    pub fn parse(name: &str) -> Result<(Self, &str), Error> {
        let fits = |known: &str| {
            let head = name.get(..known.len()).filter(|head| head.eq_ignore_ascii_case(known))?;
            let tail = &name[head.len()..];
            if tail.is_empty() { Some("") } else { tail.strip_prefix('-') }
        };
        let candidates = NAMES.iter().flat_map(|(set, names)| names.iter().map(move |known| (*set, *known)));
        candidates
            .filter_map(|(set, known)| Some((known.len(), set, fits(known)?)))
            .max_by_key(|(length, ..)| *length)
            .map(|(_, set, selector)| (set, selector))
            .ok_or_else(|| Error::UnknownDataset { name: name.to_owned() })
    }

    /// Its usual name, in lower case.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(set, _)| *set == self).map_or("", |(_, names)| names[0])
    }

    /// What its tasks may have.
    pub fn limits(self) -> Limits {
        let any = Limits::default();
        let pairs = |train, test| Limits { max_train: Some(train), max_test: Some(test), ..any };
        match self {
            Self::Agi1 => pairs(10, 3),
            Self::Agi2 => pairs(10, 4),
            Self::Concept => pairs(5, 3),
            Self::Mini => Limits { max_size: (5, 5), ..pairs(8, 1) },
            Self::Sample => Limits { max_size: (10, 10), ..pairs(4, 1) },
            Self::Dir => any,
        }
    }

    /// The layout its directory must have; `None` if any will do.
    pub fn layout(self) -> Option<Layout> {
        match self {
            Self::Agi1 | Self::Agi2 => Some(Layout::DataSplits),
            Self::Concept => Some(Layout::Corpus),
            Self::Mini => Some(Layout::MiniArc),
            Self::Sample | Self::Dir => None,
        }
    }
}

/// Why tasks cannot be chosen at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no data set of this name.
    #[error("unknown data set '{name}'; known: AGI1, AGI2, Concept, Mini, Sample, Dir")]
    UnknownDataset {
        /// What the user wrote.
        name: String,
    },
    /// There are no tasks in the directory.
    #[error("{}", no_tasks(.directory, .exists, .wanted))]
    NoTasks {
        /// The directory.
        directory: String,
        /// Whether it exists.
        exists: bool,
        /// The files that the data set needs, if it needs certain ones.
        wanted: Option<&'static str>,
    },
    /// A selector for a part of a data set that has no parts.
    #[error(
        "the selector '{selector}' means a part of a data set, but {dataset} has no training and evaluation parts; use 'all', a group or a task"
    )]
    NoSplits {
        /// The data set.
        dataset: &'static str,
        /// What the user wrote.
        selector: String,
    },
    /// A selector means nothing here.
    #[error("unknown selector '{name}' for {dataset}; {}", .hint)]
    UnknownSelector {
        /// The data set.
        dataset: &'static str,
        /// What the user wrote.
        name: String,
        /// The nearest names and what exists.
        hint: String,
    },
}

fn no_tasks(directory: &str, exists: &bool, wanted: &Option<&'static str>) -> String {
    let what = if *exists { "has no tasks" } else { "does not exist" };
    let files = match wanted {
        Some(files) => format!("expected there: {files}"),
        None => {
            let layouts: Vec<&str> = LAYOUTS.iter().map(|(_, files)| *files).collect();
            format!("expected there, one of: {}", layouts.join("; "))
        }
    };
    let repositories = REPOSITORIES.join(", ");
    if std::path::Path::new(directory).is_file() {
        return format!("'{directory}' is a file, but must be a directory; {files}");
    }
    format!("the directory '{directory}' {what}; {files} (public tasks: the GitHub repositories {repositories})")
}

#[cfg(test)]
mod tests;
