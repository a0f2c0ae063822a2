//! The tasks of a data set, found by name and read when needed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::layout::{Found, LAYOUTS, Layout, Scan, Source, Split, read_text};
use super::parse::{Limits, parse_text, parse_value};
use super::problem::Problem;
use super::statistics::Statistics;
use super::{CONCEPT_GROUPS, Dataset, Error};
use crate::arc::reward::Mode;
use crate::arc::sample;
use crate::arc::task::Task;

/// A data set.
#[derive(Debug)]
pub struct Library {
    dataset: Dataset,
    limits: Limits,
    layout: Option<Layout>,
    entries: Vec<Entry>,
    subsets: BTreeMap<String, Vec<String>>,
    problems: Vec<Problem>,
}

#[derive(Debug)]
struct Entry {
    found: Found,
    parsed: OnceLock<Result<Arc<Task>, Problem>>,
}

/// Tasks that were chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// Their places in the library.
    pub tasks: Vec<usize>,
    /// What they are for.
    pub mode: Mode,
}

/// Tasks that were read, and files that could not be.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The tasks.
    pub tasks: Vec<Arc<Task>>,
    /// What is wrong with the others.
    pub problems: Vec<Problem>,
    /// What is worth telling about them all.
    pub notes: Vec<Note>,
}

/// Something worth telling about a data set that works all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A group that ConceptARC has is not there.
    MissingGroup(String),
    /// A group that ConceptARC does not have.
    ExtraGroup(String),
    /// Test pairs of some tasks have no output.
    Unsolved {
        /// Tasks with such pairs.
        tasks: usize,
        /// All tasks that were read.
        of: usize,
    },
}

impl Note {
    /// Whether a user should be warned before a run in this mode; if not, it is just good to know.
    pub fn is_warning(&self, mode: Mode) -> bool {
        match self {
            Self::MissingGroup(_) => true,
            Self::ExtraGroup(_) => false,
            // Training does not look at test pairs.
            Self::Unsolved { .. } => mode == Mode::Test,
        }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MissingGroup(group) => write!(f, "the group {group} is missing"),
            Self::ExtraGroup(group) => write!(f, "the group {group} is not one of ConceptARC"),
            Self::Unsolved { tasks, of } => {
                write!(f, "{tasks} of {of} tasks have test pairs without an output, which are not scored")
            }
        }
    }
}

/// Selectors for parts of a data set; the second half also means test mode.
const TRAIN_NAMES: [&str; 2] = ["train", "training"];
const EVAL_NAMES: [&str; 4] = ["eval", "evaluation", "test", "corpus"];

impl Library {
    /// The built-in tasks.
    pub fn sample() -> Self {
        Self::samples_up_to(sample::LIMIT)
    }

    /// The built-in tasks made for another limit of the size.
    pub fn samples_up_to(limit: usize) -> Self {
        let ready = sample::samples(limit).into_iter().map(|sample| Found {
            id: sample.task.id.clone(),
            split: None,
            group: None,
            source: Source::Ready(Arc::new(sample.task)),
        });
        Self::new(Dataset::Sample, None, Scan { found: ready.collect(), ..Scan::default() })
    }

    /// Finds the tasks of a data set in a directory, without reading them.
    pub fn open(dataset: Dataset, directory: &Path) -> Result<Self, Error> {
        let layout = dataset.layout().or_else(|| Layout::detect(directory));
        let scan = layout.map(|layout| layout.scan(directory)).unwrap_or_default();
        if scan.found.is_empty() && scan.problems.is_empty() {
            let wanted = dataset.layout();
            return Err(Error::NoTasks {
                directory: directory.display().to_string(),
                exists: directory.is_dir(),
                wanted: LAYOUTS.iter().find(|(layout, _)| Some(*layout) == wanted).map(|(_, files)| *files),
            });
        }
        Ok(Self::new(dataset, layout, scan))
    }

    fn new(dataset: Dataset, layout: Option<Layout>, Scan { mut found, problems }: Scan) -> Self {
        found.sort_by(|a, b| (&a.id, a.split).cmp(&(&b.id, b.split)));
        let entries = found.into_iter().map(|found| Entry { found, parsed: OnceLock::new() }).collect();
        Self { dataset, limits: dataset.limits(), layout, entries, subsets: BTreeMap::new(), problems }
    }

    /// The layout its files have; `None` if it is built in.
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Names of all tasks, sorted; a name may be in two splits.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.found.id.as_str())
    }

    /// The splits that tasks belong to.
    pub fn splits(&self) -> BTreeSet<Split> {
        self.entries.iter().filter_map(|entry| entry.found.split).collect()
    }

    /// The groups that tasks belong to.
    pub fn groups(&self) -> BTreeSet<&str> {
        self.entries.iter().filter_map(|entry| entry.found.group.as_deref()).collect()
    }

    /// The places of a group's tasks.
    pub fn of_group(&self, group: &str) -> Vec<usize> {
        self.places(|found| found.group.as_deref() == Some(group))
    }

    /// The place of a task of a group, chosen by a random word; `None` if there is no such group.
    pub fn random_of_group(&self, group: &str, word: u32) -> Option<usize> {
        let places = self.of_group(group);
        // Multiplying keeps the high bits, which are as good as the low ones of any generator.
        places.get(((u64::from(word) * places.len() as u64) >> 32) as usize).copied()
    }

    /// What is worth telling before tasks are read: unusual groups of ConceptARC.
    pub fn notes(&self) -> Vec<Note> {
        if self.dataset != Dataset::Concept {
            return Vec::new();
        }
        let groups = self.groups();
        let missing = CONCEPT_GROUPS.iter().filter(|group| !groups.contains(**group));
        let extra = groups.iter().filter(|group| !CONCEPT_GROUPS.contains(group));
        missing
            .map(|group| Note::MissingGroup(group.to_string()))
            .chain(extra.map(|group| Note::ExtraGroup(group.to_string())))
            .collect()
    }

    /// Gives a list of tasks a name; each must exist.
    pub fn register_subset(&mut self, name: &str, ids: &[&str]) -> Result<(), Error> {
        if let Some(unknown) = ids.iter().find(|id| !self.ids().any(|known| known == **id)) {
            return Err(self.unknown(unknown));
        }
        self.subsets.insert(name.to_lowercase(), ids.iter().map(|id| (*id).to_owned()).collect());
        Ok(())
    }

    /// The named lists of tasks.
    pub fn subsets(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.subsets.iter().map(|(name, ids)| (name.as_str(), ids.as_slice()))
    }

    /// What a selector means: a named subset, a split, a group or a task, in this order. Where there are no splits,
    /// a group or a task may have the name of one.
    ///
    /// The mode is the given one; without one, a selector for the evaluation part means test mode.
    pub fn select(&self, selector: &str, mode: Option<Mode>) -> Result<Selected, Error> {
        let lower = selector.to_lowercase();
        let is_eval = EVAL_NAMES.contains(&lower.as_str());
        let mode = mode.unwrap_or(if is_eval { Mode::Test } else { Mode::Train });
        let is_part = is_eval || TRAIN_NAMES.contains(&lower.as_str());
        let has_parts = !self.splits().is_empty();
        let tasks = if let Some(ids) = self.subsets.get(&lower) {
            // A task in two splits is taken from the first; one that is in the other only, from there.
            ids.iter().filter_map(|id| self.entries.iter().position(|entry| entry.found.id == *id)).collect()
        } else if lower.is_empty() || lower == "all" {
            self.places(|_| true)
        } else if is_part && has_parts {
            let split = if is_eval { Split::Eval } else { Split::Train };
            // Tasks without a split belong to every split.
            self.places(|found| found.split.is_none_or(|own| own == split))
        } else {
            self.named(selector)
        };
        match lower.as_str() {
            _ if !tasks.is_empty() => Ok(Selected { tasks, mode }),
            _ if has_parts || !is_part => Err(self.unknown(selector)),
            // The one folder of ConceptARC.
            "corpus" => Ok(Selected { tasks: self.places(|_| true), mode }),
            _ => Err(Error::NoSplits { dataset: self.dataset.name(), selector: selector.to_owned() }),
        }
    }

    /// The tasks of a group, or the task, of this name, with or without its folder if that is clear.
    fn named(&self, name: &str) -> Vec<usize> {
        let exact = [self.of_group(name), self.places(|found| found.id == name)];
        let within = || self.places(|found| found.id.rsplit('/').next() == Some(name));
        exact
            .into_iter()
            .find(|places| !places.is_empty())
            .or_else(|| Some(within()).filter(|places| places.len() == 1))
            .unwrap_or_default()
    }

    /// One task, parsed at most once.
    ///
    /// # Panics
    ///
    /// If the place is not below the number of tasks.
    pub fn task(&self, place: usize) -> Result<Arc<Task>, Problem> {
        let Entry { found, parsed } = &self.entries[place];
        parsed.get_or_init(|| self.parse(found)).clone()
    }

    fn parse(&self, found: &Found) -> Result<Arc<Task>, Problem> {
        match &found.source {
            Source::Ready(task) => Ok(Arc::clone(task)),
            Source::File(path) => {
                let text = read_text(path)?;
                parse_text(&path.display().to_string(), &found.id, &text, &self.limits).map(Arc::new)
            }
            Source::Member { file, task, solutions } => {
                let of_task = |file: &Path| format!("{}, task {}", file.display(), found.id);
                let solutions = solutions.as_ref().map(|(file, value)| (of_task(file), value));
                let solutions = solutions.as_ref().map(|(place, value)| (place.as_str(), *value));
                parse_value(&of_task(file), &found.id, task, solutions, &self.limits).map(Arc::new)
            }
        }
    }

    /// Reads tasks; problems of files that could not even be listed come first.
    pub fn load(&self, places: &[usize]) -> Loaded {
        let mut loaded = Loaded { tasks: vec![], problems: self.problems.clone(), notes: self.notes() };
        for place in places {
            match self.task(*place) {
                Ok(task) => loaded.tasks.push(task),
                Err(problem) => loaded.problems.push(problem),
            }
        }
        let unsolved = |task: &&Arc<Task>| task.test.iter().any(|pair| pair.output.is_none());
        let (tasks, of) = (loaded.tasks.iter().filter(unsolved).count(), loaded.tasks.len());
        if tasks > 0 {
            loaded.notes.push(Note::Unsolved { tasks, of });
        }
        loaded
    }

    /// Reads everything.
    pub fn load_all(&self) -> Loaded {
        self.load(&self.places(|_| true))
    }

    /// Statistics of all tasks that can be read.
    pub fn statistics(&self) -> Option<Statistics> {
        Statistics::of(&self.load_all().tasks)
    }

    fn places(&self, wanted: impl Fn(&Found) -> bool) -> Vec<usize> {
        (0..self.entries.len()).filter(|place| wanted(&self.entries[*place].found)).collect()
    }

    fn unknown(&self, name: &str) -> Error {
        let groups: Vec<&str> = self.groups().into_iter().collect();
        let subsets: Vec<&str> = self.subsets.keys().map(String::as_str).collect();
        // A part is known where there is one.
        let parts = [(Split::Train, &TRAIN_NAMES[..]), (Split::Eval, &EVAL_NAMES[..])];
        let splits = self.splits();
        let parts: Vec<_> = parts.into_iter().filter(|(split, _)| splits.contains(split)).map(|part| part.1).collect();
        let keywords = ["all"].into_iter().chain(parts.iter().flat_map(|names| names.iter().copied()));
        let everything = keywords.chain(subsets.iter().copied()).chain(groups.iter().copied()).chain(self.ids());
        let lower = name.to_lowercase();
        let near = everything
            .map(|known| (strsim::jaro_winkler(&lower, &known.to_lowercase()), known))
            .filter(|(score, _)| *score > 0.75)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let mut hint = near.map(|(_, known)| format!("did you mean '{known}'? ")).unwrap_or_default();
        hint += "known: all";
        parts.iter().for_each(|names| hint += &format!(", {}", names[0]));
        for (what, names) in [("subsets", subsets), ("groups", groups)] {
            if !names.is_empty() {
                hint += &format!("; {what} {}", names.join(", "));
            }
        }
        let ids: Vec<&str> = self.ids().collect();
        let shown = ids.len().min(12);
        let rest = if ids.len() > shown { format!(" and {} more", ids.len() - shown) } else { String::new() };
        hint += &format!("; tasks {}{rest}", ids[..shown].join(", "));
        Error::UnknownSelector { dataset: self.dataset.name(), name: name.to_owned(), hint }
    }
}
