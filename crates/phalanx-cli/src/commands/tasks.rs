//! `phalanx tasks`.

use phalanx_core::batch::BatchConfig;
use phalanx_envs::arc::reader::{Loaded, Spread, Statistics};
use phalanx_envs::arc::solo;
use phalanx_envs::arc::task::Task;
use serde::Serialize;

use crate::args::TasksArgs;
use crate::commands::{print, print_json};
use crate::failure::Failure;

/// What a folder holds.
#[derive(Serialize)]
struct Report {
    statistics: Option<Statistics>,
    tasks: Vec<Listed>,
    problems: Vec<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Listed {
    id: String,
    train_pairs: usize,
    test_pairs: usize,
    /// Rows and columns of the largest grid.
    extent: (usize, usize),
}

impl From<&Task> for Listed {
    fn from(task: &Task) -> Self {
        let (train_pairs, test_pairs) = (task.train.len(), task.test.len());
        Self { id: task.id.clone(), train_pairs, test_pairs, extent: task.extent() }
    }
}

pub(crate) fn run(args: &TasksArgs) -> Result<(), Failure> {
    let given = [("tasks", &args.tasks), ("dataset", &args.dataset), ("select", &args.select)];
    let settings = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect();
    let (Loaded { tasks, problems, notes }, mode) = solo::tasks(&BatchConfig { settings, ..BatchConfig::default() })?;
    let report = Report {
        statistics: Statistics::of(&tasks),
        tasks: tasks.iter().map(|task| Listed::from(&**task)).collect(),
        problems: problems.iter().map(ToString::to_string).collect(),
        notes: notes.iter().map(ToString::to_string).collect(),
    };
    if args.json {
        return print_json(&report);
    }
    for note in &notes {
        say!("{}: {note}", if note.is_warning(mode) { "warning" } else { "note" });
    }
    report.problems.iter().for_each(|problem| say!("warning: passed over {problem}"));
    let mut text = String::new();
    for Listed { id, train_pairs, test_pairs, extent: (height, width) } in &report.tasks {
        text += &format!("{id:<24} {train_pairs:>2} train, {test_pairs} test, up to {height}x{width}\n");
    }
    if let Some(Statistics { tasks, train_pairs, test_pairs, heights, widths }) = report.statistics {
        let spread = |Spread { min, mean, max }: Spread| format!("{min} to {max}, {mean:.1} on average");
        text += &format!("\n{tasks} tasks\n");
        for (name, values) in
            [("train pairs", train_pairs), ("test pairs", test_pairs), ("rows", heights), ("columns", widths)]
        {
            text += &format!("{name:<12} {}\n", spread(values));
        }
    }
    print(&text)
}
