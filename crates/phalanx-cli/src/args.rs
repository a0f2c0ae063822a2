//! What the user types.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use phalanx_core::batch::{BatchConfig, LaneWidth};
use phalanx_core::lanes::BLOCK;
use phalanx_core::policy::{POLICIES, Policy};
use phalanx_core::probe::Precision;
use phalanx_core::rollout::{MAX_TILE, check_tile};
use phalanx_core::safety::{Constraint, SafetyConfig, SafetyMode};
use phalanx_core::space::EnvSpec;
use phalanx_envs::registry::{self, Entry};
use phalanx_lab::budget::MemoryBudget;
use phalanx_workbench::tuning::policy_name;

use crate::config_file::{self, Expanded, Origin};
use crate::failure::Failure;

/// Steps a million reinforcement-learning environments in lockstep.
#[derive(Debug, Parser)]
#[command(name = "phalanx", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the environments with their spaces and limits
    Envs(EnvsArgs),
    /// Step many environments under a policy and report speed, returns and a checksum
    #[command(after_help = policies_help(), allow_negative_numbers = true)]
    Rollout(RolloutArgs),
    /// Print every step of one environment, to compare it with another implementation
    #[command(after_help = policies_help(), allow_negative_numbers = true)]
    Trace(TraceArgs),
    /// List the tasks of ARC-v0 and what is wrong with files that are none
    Tasks(TasksArgs),
    /// Draw an episode as an animation or on one page
    #[command(after_help = policies_help(), allow_negative_numbers = true)]
    Render(RenderArgs),
    /// Show what Phalanx does, in under a minute
    Demo(DemoArgs),
    /// Train an agent on an environment
    #[command(allow_negative_numbers = true)]
    Train(crate::commands::train::TrainArgs),
    /// Judge the agent of a run by whole episodes with its best actions
    Evaluate(crate::commands::evaluate::EvaluateArgs),
    /// Train with many settings and seeds, and tell which were best
    Sweep(crate::commands::sweep::SweepArgs),
    /// Draw the learning curves of runs
    Plot(crate::commands::plot::PlotArgs),
    /// Measure, compare, keep and judge speed and memory
    Bench(crate::commands::bench::BenchArgs),
    /// Show all runs of `bench baseline` side by side (the same as `bench compare`)
    Compare(crate::commands::bench::CompareArgs),
    /// List what can compute, and what is there but cannot
    Devices(crate::commands::devices::DevicesArgs),
    /// Find the chunk size that is fastest on this machine, and remember it
    #[command(after_help = policies_help(), allow_negative_numbers = true)]
    Autotune(crate::commands::autotune::AutotuneArgs),
    /// What is remembered between runs
    Cache(crate::commands::cache::CacheArgs),
    /// Tell what stored results amount to (the same as `bench report`)
    Report(crate::commands::bench::report::ReportArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EnvsArgs {
    /// Show the parameters and options of this environment
    pub(crate) name: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// What environment, set up how.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// Environment, by name or alias (see `phalanx envs`)
    #[arg(long, value_name = "E")]
    pub(crate) env: String,
    /// Parameter or option of the environment: k=v, or k=low..high for a value drawn per environment, or
    /// k_scale=s (and k_loc=m) for a log-normal one; max_steps=N sets the step limit; may be given several
    /// times
    #[arg(long = "param", value_name = "K=V", value_parser = key_value, allow_hyphen_values = true)]
    pub(crate) settings: Vec<(String, String)>,
    /// Folder with ARC tasks [default: the built-in sample tasks]
    #[arg(long, value_name = "DIR")]
    pub(crate) tasks: Option<String>,
    /// What follows when a constraint is violated: enforce, penalize, monitor or off
    #[arg(long, value_name = "MODE", default_value = "enforce", value_parser = safety_mode)]
    pub(crate) safety: SafetyMode,
    /// Constraint beside the environment's own, such as "temperature<=350:hard", "0.1<CA<2:soft:penalty=-5"
    /// or "x<=1:soft:terminate=true:name=edge"; may be given several times
    #[arg(long = "constraint", value_name = "C", value_parser = constraint, allow_hyphen_values = true)]
    pub(crate) constraints: Vec<Constraint>,
    /// Seed of all randomness
    #[arg(long, value_name = "S", default_value = "0", value_parser = seed)]
    pub(crate) seed: u64,
    /// TOML file with any of these flags as keys (num_envs for --num-envs), and the tables [params],
    /// [policy_args] and [safety] (mode, constraints); what is given here as well takes its place, but a
    /// switch that is on there stays on, and another policy than the file's takes none of its policy_args
    // `config_file::expand` has put its contents into the arguments; this is here for `--help`.
    #[arg(long = "config", value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
}

impl EnvArgs {
    /// The environment that is meant; only one with tasks takes a folder of them.
    pub(crate) fn entry(&self) -> Result<&'static Entry, Failure> {
        let entry = registry::find(&self.env)?;
        let spec = self.tasks.as_ref().map(|_| entry.spec());
        match spec.filter(|spec| spec.options.iter().all(|option| option.name != "tasks")) {
            Some(spec) => Err(Failure::input(format!("--tasks is for ARC-v0, but the environment is {}", spec.name))),
            None => Ok(entry),
        }
    }

    /// A batch of one such environment; commands set the rest.
    pub(crate) fn config(&self) -> BatchConfig {
        let tasks = self.tasks.iter().map(|folder| ("tasks".to_owned(), folder.clone()));
        BatchConfig {
            seed: self.seed,
            settings: self.settings.iter().cloned().chain(tasks).collect(),
            safety: SafetyConfig { mode: self.safety, constraints: self.constraints.clone() },
            ..BatchConfig::default()
        }
    }
}

/// What acts on it.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// Policy (see the list below)
    #[arg(long, value_name = "P", default_value = "random")]
    pub(crate) policy: String,
    /// Argument of the policy, such as kp=2; may be given several times
    #[arg(long = "policy-arg", alias = "agent-arg", value_name = "K=V", value_parser = key_value, allow_hyphen_values = true)]
    pub(crate) policy_args: Vec<(String, String)>,
}

impl PolicyArgs {
    pub(crate) fn parse(&self, spec: &EnvSpec) -> Result<Policy, Failure> {
        let arguments: Vec<_> = self.policy_args.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        Ok(Policy::parse(policy_name(&self.policy), &arguments, spec)?)
    }
}

/// Of every command that takes a chunk size.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// Measure which chunk size is fastest here (and how many threads, unless that is said, and which tile), or use what was
    /// measured before; also by PHALANX_AUTO_TUNE=1
    #[arg(long)]
    auto_tune: bool,
}

impl TuneArgs {
    /// Whether the user wants tuning; a chunk size beside it is a contradiction.
    pub(crate) fn is_wanted(&self, scan_chunk_size: Option<usize>) -> Result<bool, Failure> {
        crate::commands::autotune::is_wanted(self.auto_tune, scan_chunk_size)
    }
}

#[derive(Debug, Args)]
pub(crate) struct RolloutArgs {
    #[command(flatten)]
    pub(crate) env: EnvArgs,
    /// Number of environments; counts may be written 10_000, 10k, 1M or 1G
    #[arg(long, value_name = "N", default_value = "1024", value_parser = count)]
    pub(crate) num_envs: usize,
    /// Steps in each environment
    #[arg(long, value_name = "T", default_value = "1000", value_parser = count)]
    pub(crate) steps: usize,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Steps a tile of environments makes before the next tile is touched; never changes results
    /// [default: 256 below 10 000 environments, 128 up to 1 000 000, 32 beyond]
    #[arg(long, value_name = "K", value_parser = count)]
    pub(crate) scan_chunk_size: Option<usize>,
    #[command(flatten)]
    pub(crate) tune: TuneArgs,
    /// Threads that share the work [default: all cores]
    #[arg(long, value_name = "J", value_parser = count)]
    pub(crate) threads: Option<usize>,
    /// Environments that make the steps of a chunk together where they go by rows (ARC-v0), a multiple of 16; never
    /// changes results [default: 128]
    #[arg(long, value_name = "E", value_parser = tile)]
    pub(crate) tile: Option<usize>,
    /// Environments side by side in one instruction
    #[arg(long, value_name = "L", default_value = "auto")]
    pub(crate) lanes: Lanes,
    /// Go on from a state that --save-state wrote (same environment, size, policy and parameters)
    #[arg(long, value_name = "FILE")]
    pub(crate) load_state: Option<PathBuf>,
    /// Write the state at the end, from which another run can go on
    #[arg(long, value_name = "FILE")]
    pub(crate) save_state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) monitor: crate::monitoring::MonitorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// One environment and its actions.
#[derive(Debug, Args)]
pub(crate) struct PlayArgs {
    #[command(flatten)]
    pub(crate) env: EnvArgs,
    /// Exact start state, one value for each field [default: drawn from the seed]
    #[arg(long, value_name = "V1,V2,...", allow_hyphen_values = true)]
    pub(crate) state: Option<String>,
    /// Actions: a CSV file with a row for each step (`-` for standard input), policy:T for T actions of
    /// --policy, or random:T for T random ones
    #[arg(long, value_name = "FILE|policy:T|random:T", default_value = "policy:1000")]
    pub(crate) actions: String,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    pub(crate) play: PlayArgs,
    /// File to write: .gif (an animation), .png or .svg (the trajectory on one page)
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Size of the picture, as a factor
    #[arg(long, value_name = "F", default_value = "1", value_parser = scale)]
    pub(crate) scale: f64,
    /// Frames per second of an animation
    #[arg(long, value_name = "N", default_value = "25", value_parser = whole::<u8>(1..=100))]
    pub(crate) fps: u8,
    /// Draw every K-th step only; ends of episodes are always drawn
    #[arg(long, value_name = "K", default_value = "1", value_parser = count)]
    pub(crate) every: usize,
    /// Pictures on the page of a .png or .svg
    #[arg(long, value_name = "N", default_value = "12", value_parser = count)]
    pub(crate) sheet: usize,
    /// Refuse to draw more frames than this
    #[arg(long, value_name = "N", default_value = "2000", value_parser = count)]
    pub(crate) max_frames: usize,
    /// Go on with a new episode when one ends
    #[arg(long)]
    pub(crate) autoreset: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TasksArgs {
    /// Folder with ARC tasks [default: the built-in sample tasks]
    #[arg(long, value_name = "DIR")]
    pub(crate) tasks: Option<String>,
    /// What the folder must hold: AGI1, AGI2, Concept, Mini, or Dir for any layout
    #[arg(long, value_name = "D")]
    pub(crate) dataset: Option<String>,
    /// Which tasks: all, train, eval, a concept group or a task
    #[arg(long, value_name = "S")]
    pub(crate) select: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) play: PlayArgs,
    /// Draw every step as text instead
    #[arg(long, value_name = "HOW")]
    pub(crate) render: Option<Render>,
    /// Width of the drawing in characters; grids of ARC-v0 have two for each cell
    #[arg(long, value_name = "N", default_value = "80", value_parser = count)]
    pub(crate) columns: usize,
    /// Output format
    #[arg(long, value_name = "F", default_value = "csv")]
    pub(crate) format: Format,
    /// Arithmetic: f64, so that rounding does not hide or fake a difference to another
    /// implementation, or f32 as in batches
    #[arg(long, value_name = "P", default_value = "f64")]
    pub(crate) precision: PrecisionArg,
    /// Go on with a new episode when one ends
    #[arg(long)]
    pub(crate) autoreset: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DemoCommand>,
    #[command(flatten)]
    pub(crate) monitor: crate::monitoring::MonitorArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Step many environments once and show how fast that was
    Performance(crate::commands::demo_performance::PerformanceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress, and nothing of files that were written
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

fn tile(text: &str) -> Result<usize, String> {
    let allowed = || format!("a multiple of {BLOCK} up to {MAX_TILE} is needed");
    text.parse().ok().filter(|envs| check_tile(*envs).is_ok()).ok_or_else(allowed)
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Lanes {
    #[value(name = "1")]
    One,
    #[value(name = "8")]
    Eight,
    #[value(name = "16")]
    Sixteen,
    Auto,
}

impl From<Lanes> for LaneWidth {
    fn from(lanes: Lanes) -> Self {
        match lanes {
            Lanes::One => Self::One,
            Lanes::Eight => Self::Eight,
            Lanes::Sixteen => Self::Sixteen,
            Lanes::Auto => Self::Auto,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Format {
    Csv,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Render {
    /// True-colour text for a terminal
    Ansi,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PrecisionArg {
    F32,
    F64,
}

impl From<PrecisionArg> for Precision {
    fn from(precision: PrecisionArg) -> Self {
        match precision {
            PrecisionArg::F32 => Self::F32,
            PrecisionArg::F64 => Self::F64,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

fn policies_help() -> String {
    let lines = POLICIES.map(|(name, arguments, what)| {
        let arguments = if arguments.is_empty() { String::new() } else { format!("\n             {arguments}") };
        format!("  {name:<10} {what}{arguments}")
    });
    format!("Policies and their arguments (--policy-arg):\n{}", lines.join("\n"))
}

/// A whole number of at least 1; `_` between digits, a suffix k, M or G and an exponent such as e6 are understood.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    if let Some((digits, exponent)) = text.split_once(['e', 'E']) {
        let factor = exponent.parse().ok().and_then(|exponent| 10_usize.checked_pow(exponent));
        let number = digits.replace('_', "").parse::<usize>().ok().zip(factor);
        let number = number.and_then(|(number, factor)| number.checked_mul(factor));
        return number.filter(|number| *number > 0).ok_or_else(no_count);
    }
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&text[..at], 1_000_000_000),
        _ => (text, 1),
    };
    let number = digits.replace('_', "").parse::<usize>().ok().and_then(|number| number.checked_mul(factor));
    number.filter(|number| *number > 0).ok_or_else(no_count)
}

fn no_count() -> String {
    "a whole number of at least 1 is needed, such as 1000, 10_000 or 1M".to_owned()
}

/// Episodes that are played side by side.
pub(crate) fn episodes(text: &str) -> Result<u32, String> {
    count(text)?.try_into().map_err(|_| format!("at most {} are played side by side", u32::MAX))
}

/// Reads a whole number within a range; what is none, or outside of it, is told with what is allowed.
pub(crate) fn whole<T: TryFrom<u64> + 'static>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number =
            text.parse().ok().filter(|number| range.contains(number)).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("a whole number from {} to {} is needed", range.start(), range.end()))
    }
}

/// A share or an amount of memory, as a user writes it.
pub(crate) fn memory_budget(text: &str) -> Result<MemoryBudget, String> {
    MemoryBudget::parse(text)
        .ok_or_else(|| "a share such as 0.8 or 80%, or an amount such as 512M or 12G is needed".to_owned())
}

pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a whole number from 0 to {} is needed", u64::MAX))
}

fn scale(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.1..=10.0).contains(factor));
    factor.ok_or_else(|| "a number from 0.1 to 10 is needed".to_owned())
}

fn safety_mode(text: &str) -> Result<SafetyMode, String> {
    SafetyMode::parse(text).map_err(|error| error.to_string())
}

fn constraint(text: &str) -> Result<Constraint, String> {
    Constraint::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("key=value is needed".to_owned()),
    }
}

/// What the standard library says of a number that is none, as a user would.
fn in_our_words(sentence: &str) -> String {
    let words = [
        ("invalid digit found in string", "a whole number is needed"),
        ("cannot parse integer from empty string", "a whole number is needed"),
        ("number too large to fit in target type", "a smaller number is needed"),
        ("invalid float literal", "a number is needed"),
        ("cannot parse float from empty string", "a number is needed"),
    ];
    words.iter().fold(sentence.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// Parses the command line and the file it names; what clap has to say about a mistake becomes one sentence.
pub(crate) fn parse() -> Result<(Cli, Origin), Failure> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Expanded { arguments, origin } = config_file::expand(std::env::args_os().collect())?;
    let parsed = Cli::try_parse_from(arguments).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Failure::Help(error),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Failure::input("a command is needed (see 'phalanx --help')")
        }
        _ => {
            let rendered = error.render().to_string();
            let said = rendered
                .lines()
                .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
            let sentence: Vec<_> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
            let sentence = in_our_words(sentence.join(" ").trim_start_matches("error: ")).replace(" tip: ", "; ");
            let wrong = match error.get(ContextKind::InvalidValue) {
                Some(ContextValue::String(wrong)) => origin.of(wrong),
                _ => None,
            };
            Failure::input(wrong.map(|path| format!("{path}: ")).unwrap_or_default() + &sentence)
        }
    });
    parsed.map(|cli| (cli, origin))
}
