//! Options that several of the lab's commands share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use phalanx_core::Error;
use phalanx_core::policy::POLICIES;
use phalanx_core::safety::SafetyMode;
use phalanx_envs::registry;
use phalanx_lab::campaign::Plan;
use phalanx_lab::case::{Autoreset, CaseSpec, LEARNERS};
use phalanx_lab::files::check_folder;
use phalanx_lab::guards::{OVERSUBSCRIPTION, Readings, Status};
use phalanx_lab::record::Kind;
use phalanx_lab::session::About;
use phalanx_workbench::kinds::check_kind;
use phalanx_workbench::tuning::policy_name;

use crate::args::{OutputArgs, key_value, whole};
use crate::failure::Failure;
use crate::files;
use crate::monitoring::ProcessMonitorArgs;

/// Where results go unless the user says otherwise.
pub(crate) const RESULTS_DIR: &str = "benchmarks/results";
/// Where a suite keeps its reports, records and baseline unless the user says otherwise.
pub(crate) const SUITE_DIR: &str = "benchmark_results";

/// How much is measured.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Fresh processes of each case
    #[arg(long, value_name = "P", default_value = "3", value_parser = whole::<u16>(1..=1000))]
    processes: u16,
    /// Samples of each process; from 24 on the steady state is looked for
    #[arg(long, value_name = "N", default_value = "24", value_parser = whole::<u16>(2..=10_000))]
    samples: u16,
    /// Least time of a sample, in milliseconds
    #[arg(long, value_name = "MS", default_value = "100", value_parser = whole::<u32>(1..=60_000))]
    sample_ms: u32,
    /// Go on with more processes until the intervals are below 2 %, for so many seconds at most, from the start
    #[arg(long, value_name = "S", default_value = "60", value_parser = whole::<u32>(0..=86_400))]
    time_budget: u32,
}

impl PlanArgs {
    pub(crate) fn plan(&self) -> Plan {
        Plan::of(self.processes, self.samples, self.sample_ms)
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.time_budget.into())
    }
}

/// What a user says of a run, for its records.
#[derive(Debug, Args)]
pub(crate) struct AboutArgs {
    /// A word that the records carry; may be given several times
    #[arg(long = "tag", value_name = "T")]
    pub(super) tags: Vec<String>,
    /// What this run is about, for the records
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
}

impl AboutArgs {
    pub(crate) fn about(&self) -> About {
        About { tags: self.tags.clone(), description: self.description.clone(), ..About::default() }
    }

    /// The same as arguments of a command.
    pub(super) fn words(&self) -> Vec<String> {
        let tags = self.tags.iter().map(|tag| format!("--tag={tag}"));
        tags.chain(self.description.iter().map(|text| format!("--description={text}"))).collect()
    }
}

/// Where results go.
#[derive(Debug, Args)]
pub(crate) struct ResultsArgs {
    #[command(flatten)]
    pub(crate) about: AboutArgs,
    /// Folder of the results
    #[arg(long, value_name = "DIR", default_value = RESULTS_DIR)]
    results_dir: PathBuf,
    /// File of the table, in place of a new one in the folder of the results
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Where the records and the table of a run go.
#[derive(Debug)]
pub(crate) struct Target {
    /// The folder of the records.
    pub(crate) folder: PathBuf,
    /// What the name of the records' file begins with.
    pub(crate) prefix: String,
    table: Option<PathBuf>,
}

impl ResultsArgs {
    pub(crate) fn names_a_file(&self) -> bool {
        self.output.is_some()
    }

    /// After checking, before any work, that it could be written.
    pub(crate) fn target(&self, prefix: &str) -> Result<Target, Failure> {
        let Some(output) = &self.output else {
            check_folder(&self.results_dir)?;
            return Ok(Target { folder: self.results_dir.clone(), prefix: prefix.to_owned(), table: None });
        };
        let table = files::check_target(output, files::Kind::Table)?;
        let folder = table.parent().map(Path::to_owned).unwrap_or_default();
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let prefix = table.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Target { folder, prefix: prefix.unwrap_or_else(|| "table".to_owned()), table: Some(table) })
    }
}

impl Target {
    /// The table's file: what the user named, else beside the records and with their name.
    pub(crate) fn table(&self, records: &Path) -> PathBuf {
        self.table.clone().unwrap_or_else(|| records.with_extension("csv"))
    }
}

/// What commands that write records only have in common.
#[derive(Debug, Args)]
pub(crate) struct RecordsArgs {
    #[command(flatten)]
    pub(crate) about: AboutArgs,
    /// Folder for the records
    #[arg(long, value_name = "DIR", default_value = RESULTS_DIR)]
    pub(crate) results_dir: PathBuf,
    #[command(flatten)]
    pub(crate) monitor: ProcessMonitorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Where stored results are looked for.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Folder with results; may be given several times [default: benchmarks/results and benchmark_results]
    #[arg(long, visible_alias = "results-dir", value_name = "DIR")]
    history: Vec<PathBuf>,
}

impl HistoryArgs {
    /// The folders that the user names, or the usual ones that exist; the first of those if none does.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        if !self.history.is_empty() {
            return self.history.clone();
        }
        let usual = [RESULTS_DIR, SUITE_DIR].map(PathBuf::from);
        let found: Vec<PathBuf> = usual.iter().filter(|folder| folder.is_dir()).cloned().collect();
        if found.is_empty() { usual[..1].to_vec() } else { found }
    }

    /// The same; a folder that the user names and that does not exist is a mistake.
    pub(crate) fn existing(&self) -> Result<Vec<PathBuf>, Failure> {
        let folders = self.folders();
        match folders.iter().find(|folder| !folder.is_dir()) {
            Some(folder) => {
                let folder = folder.display();
                Err(Failure::input(format!(
                    "there is no folder {folder}: measure first, or name another with --history"
                )))
            }
            None => Ok(folders),
        }
    }
}

/// Paths as a sentence names them.
pub(crate) fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// What is measured, apart from its size.
#[derive(Debug, Args)]
pub(crate) struct CaseArgs {
    /// Parameter or option of the environment, such as length=0.7; may be given several times
    #[arg(long = "param", value_name = "K=V", value_parser = key_value, allow_hyphen_values = true)]
    settings: Vec<(String, String)>,
    /// What acts: random, or a policy of `phalanx rollout`
    #[arg(long, alias = "policy", value_name = "A", default_value = "random")]
    agent: String,
    /// Argument of the agent, such as kp=2; may be given several times
    #[arg(long = "agent-arg", alias = "policy-arg", value_name = "K=V", value_parser = key_value, allow_hyphen_values = true)]
    agent_args: Vec<(String, String)>,
    /// What the timed region contains: fused_random_rollout, policy_rollout or host_api_random [default: by
    /// the agent]
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Seed of all randomness
    #[arg(long, value_name = "S", default_value = "0")]
    seed: u64,
}

/// Kinds that can be measured without a learner.
const KINDS: [Kind; 3] = [Kind::FusedRandomRollout, Kind::PolicyRollout, Kind::HostApiRandom];

impl CaseArgs {
    /// The case of an environment, by its name or alias; the size is up to the caller.
    pub(crate) fn case(&self, env: &str, num_envs: usize, threads: usize) -> Result<CaseSpec, Failure> {
        let env = registry::find(env)?.spec().name;
        let kind = self.kind()?;
        Ok(CaseSpec {
            settings: self.settings.clone(),
            agent: policy_name(&self.agent).to_owned(),
            agent_args: self.agent_args.clone(),
            kind,
            threads,
            autoreset: if kind == Kind::HostApiRandom { Autoreset::NextStep } else { Autoreset::SameStep },
            seed: self.seed,
            ..CaseSpec::rollout(env, num_envs)
        })
    }

    fn kind(&self) -> Result<Kind, Failure> {
        let agent = policy_name(&self.agent);
        if LEARNERS.contains(&agent) {
            return Err(Failure::input(format!(
                "--agent is {agent}, which learns: this command measures what only acts; learning is measured by `bench \
                 suite --categories rl`, and by `bench ab` and `bench profile` with cases such as \
                 CartPole-v1/training/n32/t1/{agent}"
            )));
        }
        let Some(name) = &self.kind else {
            return Ok(if agent == "random" { Kind::FusedRandomRollout } else { Kind::PolicyRollout });
        };
        let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == name) else {
            return Err(Error::unknown("kind", name, Some("--kind"), KINDS.map(Kind::name)).into());
        };
        check_kind(kind, agent)?;
        Ok(kind)
    }
}

/// The case that a user names. What it is made of is looked up here, where a wrong part can be told from the others.
pub(crate) fn named_case(text: &str) -> Result<CaseSpec, Failure> {
    let case = CaseSpec::parse(text).map_err(|error| Failure::input(error.to_string()))?;
    registry::find(&case.env)?;
    let of_case = format!("the case '{text}'");
    let modes = SafetyMode::NAMES.map(|(name, _)| name);
    if !modes.contains(&case.safety.as_str()) {
        return Err(Error::unknown("safety mode", &case.safety, Some(&of_case), modes).into());
    }
    let agents: Vec<&str> = POLICIES.iter().map(|(name, ..)| *name).chain(LEARNERS).collect();
    if !agents.contains(&case.agent.as_str()) {
        let others = ["nENVS", "tTHREADS", "kCHUNK", "safety-MODE", "key=value"];
        let known = agents.into_iter().chain(Kind::ALL.map(Kind::name)).chain(others);
        return Err(
            Error::unknown("part", &case.agent, Some(&format!("{of_case} after its environment")), known).into()
        );
    }
    check_kind(case.kind, &case.agent)?;
    Ok(case)
}

/// The binary that runs, which is also that of the workers.
pub(crate) fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::input(format!("cannot find the binary that runs: {error}")))
}

/// The guards that refuse, as a sentence names them; nothing if none does.
pub(crate) fn refusing(guards: &Readings) -> Option<String> {
    let names: Vec<&str> = guards.refusing().collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Says on standard error that the machine was not quiet, or has too few cores, if that is so.
pub(crate) fn print_noise(guards: &Readings) {
    if guards.0.get(OVERSUBSCRIPTION).is_some_and(|reading| reading.status == Status::Warn) {
        say!("warning: there are more threads than cores they may use, so they wait for each other");
    }
    if let Some(refusing) = refusing(guards) {
        say!("warning: noisy, the guards refuse ({refusing}): look twice at these figures");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_a_case_that_means_nothing_is_named_with_what_may_stand_there() {
        let said = |text: &str| named_case(text).unwrap_err().to_string();
        let far = said("CartPole-v1/n64/foo");
        let start = "unknown part 'foo' for the case 'CartPole-v1/n64/foo' after its environment; known: 'random'";
        assert!(far.starts_with(start), "{far}");
        for allowed in ["'pid'", "'host_api_random'", "'nENVS'", "'safety-MODE'", "'key=value'"] {
            assert!(far.contains(allowed), "{allowed} in {far}");
        }
        assert!(said("CartPole-v1/pidd").contains("did you mean 'pid'"), "{}", said("CartPole-v1/pidd"));
        let mode = said("CartPole-v1/safety-of");
        assert!(mode.starts_with("unknown safety mode 'of' for the case") && mode.contains("'off'"), "{mode}");
        assert!(said("CartPol-v1/n64").contains("did you mean 'CartPole-v1'"));
        assert_eq!(named_case("CartPole-v1/n64/pid").unwrap().agent, "pid");
        for twice in ["n20", "t2/t1", "k8/k9", "random/pid", "safety-off/safety-off"] {
            let message = said(&format!("CartPole-v1/n10/{twice}"));
            assert!(message.contains("leave out one of them"), "{message}");
        }
    }

    #[test]
    fn kinds_and_agents_that_do_not_go_together_are_refused() {
        for kind in Kind::ALL {
            for agent in ["random", "pid", "dqn"] {
                let fits = match kind {
                    Kind::EngineKernel | Kind::PopulationTraining => false,
                    // A case that names a policy but no other kind is a roll-out of it, one with a learner training.
                    Kind::FusedRandomRollout => true,
                    Kind::HostApiRandom => agent == "random",
                    Kind::PolicyRollout => agent == "pid",
                    _ => agent == "dqn",
                };
                let case = format!("CartPole-v1/{kind}/n8/t1/{agent}");
                assert_eq!(named_case(&case).is_ok(), fits, "{case}");
            }
        }
    }
}
