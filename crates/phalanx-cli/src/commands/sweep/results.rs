//! What a sweep found: its configurations, the best first.

use std::cmp::Ordering;
use std::path::Path;

use phalanx_lab::csv::Table;
use phalanx_lab::stats::descriptive::mean;
use phalanx_lab::stats::interval::{CONFIDENCE, Interval, mean_interval};
use phalanx_learn::sweep::{Configuration, Goal, Plan, plain};
use serde::Serialize;
use serde_json::{Map, Value};

use super::execution::{Outcome, Task};
use crate::failure::Failure;
use crate::text;

/// The values of a configuration's parameters by name.
pub(super) type Parameters = Map<String, Value>;

pub(super) fn parameters(plan: &Plan, configuration: &Configuration) -> Parameters {
    let json = |value: &toml::Value| serde_json::to_value(value).unwrap_or_else(|_| plain(value).into());
    plan.parameters.iter().cloned().zip(configuration.values.iter().map(json)).collect()
}

/// Everything that is reported; the same for any number of jobs.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    metric: &'a str,
    goal: &'static str,
    confidence: f64,
    seeds: &'a [u64],
    configurations: Vec<Judged>,
    #[serde(skip)]
    names: &'a [String],
    #[serde(skip)]
    folder: &'a Path,
}

/// A configuration with the outcomes of its runs, in the order of the seeds.
#[derive(Serialize)]
struct Judged {
    configuration: usize,
    parameters: Parameters,
    /// Over the runs that came to their end.
    mean: Option<f64>,
    /// Student's interval of the mean; from two runs on.
    interval: Option<Interval>,
    runs: Vec<Run>,
    #[serde(skip)]
    cells: Vec<String>,
}

#[derive(Serialize)]
struct Run {
    seed: u64,
    value: Option<f64>,
    failure: Option<String>,
    folder: String,
}

impl Judged {
    fn values(&self) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.value).collect()
    }

    fn is_complete(&self) -> bool {
        self.runs.iter().all(|run| run.value.is_some())
    }

    /// The better first; one with failures after all that have none, since its mean is that of the survivors.
    fn order(&self, other: &Self, goal: Goal) -> Ordering {
        let worst = if goal == Goal::Maximize { f64::NEG_INFINITY } else { f64::INFINITY };
        let [one, two] = [self, other].map(|judged| judged.mean.unwrap_or(worst));
        let by_mean = if goal == Goal::Maximize { two.total_cmp(&one) } else { one.total_cmp(&two) };
        let by_completeness = other.is_complete().cmp(&self.is_complete());
        by_completeness.then(by_mean).then(self.configuration.cmp(&other.configuration))
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(plan: &'a Plan, tasks: &[Task], outcomes: &[Outcome], folder: &'a Path) -> Self {
        let mut configurations: Vec<Judged> = (plan.configurations.iter().enumerate())
            .map(|(number, configuration)| {
                let own = tasks.iter().zip(outcomes).filter(|(task, _)| task.configuration == number);
                let runs: Vec<Run> = own
                    .map(|(task, outcome)| Run {
                        seed: task.seed,
                        value: outcome.as_ref().ok().copied(),
                        failure: outcome.as_ref().err().cloned(),
                        folder: task.name.clone(),
                    })
                    .collect();
                let values: Vec<f64> = runs.iter().filter_map(|run| run.value).collect();
                Judged {
                    configuration: number,
                    parameters: parameters(plan, configuration),
                    mean: (!values.is_empty()).then(|| mean(&values)),
                    interval: mean_interval(&values, CONFIDENCE),
                    runs,
                    cells: configuration.values.iter().map(plain).collect(),
                }
            })
            .collect();
        configurations.sort_by(|one, other| one.order(other, plan.goal));
        let (metric, goal) = (plan.metric.as_str(), plan.goal.name());
        let (seeds, names) = (plan.seeds.as_slice(), plan.parameters.as_slice());
        Self { metric, goal, confidence: CONFIDENCE, seeds, configurations, names, folder }
    }

    /// A row for each run.
    pub(super) fn csv(&self) -> Result<String, Failure> {
        let own = ["configuration", "seed", "value", "failure", "run"];
        let mut table = Table::new(own.into_iter().chain(self.names.iter().map(String::as_str)));
        for judged in &self.configurations {
            for run in &judged.runs {
                let values = self.names.iter().map(String::as_str).zip(judged.cells.iter().cloned());
                let cells = [
                    judged.configuration.to_string(),
                    run.seed.to_string(),
                    run.value.map(|value| value.to_string()).unwrap_or_default(),
                    run.failure.clone().unwrap_or_default(),
                    run.folder.clone(),
                ];
                table.push(values.chain(own.into_iter().zip(cells)))?;
            }
        }
        Ok(table.to_string())
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("documents are plain data") + "\n"
    }

    /// For standard output: the same with the sweep's folder.
    pub(super) fn located(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct Located<'a, 'b> {
            sweep_dir: &'a Path,
            #[serde(flatten)]
            report: &'a Report<'b>,
        }
        Located { sweep_dir: self.folder, report: self }
    }

    /// For people: a row for each configuration, then why runs have failed.
    pub(super) fn table(&self) -> String {
        let mut header = vec!["configuration"];
        header.extend(self.names.iter().map(String::as_str));
        header.extend([self.metric, "95 % interval", "runs"]);
        let row = |judged: &Judged| {
            let mean = judged.mean.map_or("-".to_owned(), number);
            let interval = judged
                .interval
                .map_or("-".to_owned(), |interval| format!("[{}, {}]", number(interval.low), number(interval.high)));
            let runs = match (judged.values().len(), judged.runs.len()) {
                (some, all) if some == all => all.to_string(),
                (some, all) => format!("{some} of {all}"),
            };
            let first = std::iter::once(judged.configuration.to_string());
            first.chain(judged.cells.iter().cloned()).chain([mean, interval, runs]).collect::<Vec<_>>()
        };
        let rows: Vec<_> = self.configurations.iter().map(row).collect();
        let failures = self.configurations.iter().flat_map(|judged| &judged.runs).filter_map(|run| {
            let reason = run.failure.as_ref()?;
            Some(format!("{} failed: {reason}\n", run.folder))
        });
        text::columns(&header, &rows) + &failures.collect::<String>()
    }
}

/// Five significant digits are more than seeds agree in.
fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 {
        return format!("{value:.4e}");
    }
    let decimals = if value == 0.0 { 0 } else { (4 - value.abs().log10().floor() as i32).clamp(0, 9) as usize };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_keep_their_digits() {
        assert_eq!([0.0, 123.456, 0.5, 1e-20].map(number), ["0", "123.46", "0.50000", "1.0000e-20"]);
    }
}
