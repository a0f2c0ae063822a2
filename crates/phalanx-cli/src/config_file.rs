//! `--config FILE`: a TOML file becomes the flags that its keys are named after, put before the user's own.
//!
//! What a user also gives on the command line is left out, so that clap still notices a flag given twice.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory};
use phalanx_core::Error;
use toml::{Table, Value};

use crate::args::Cli;
use crate::failure::Failure;
use crate::files;

/// The commands that take a file. One file serves them all: a key that only another of them knows is passed over.
const COMMANDS: [&str; 3] = ["rollout", "trace", "render"];

/// Flags that may be given several times; in a file they are the tables params and policy_args, and a list of [safety].
const REPEATED: [&str; 3] = ["param", "policy-arg", "constraint"];

/// What the command line and the file of its `--config` amount to.
pub(crate) struct Expanded {
    pub(crate) arguments: Vec<OsString>,
    pub(crate) origin: Origin,
}

/// The file and the values taken from it, to say where a wrong one came from; none without a file.
#[derive(Default)]
pub(crate) struct Origin(Option<(String, Vec<String>)>);

impl Origin {
    /// The file that a value, or a key or value of a table, comes from.
    pub(crate) fn of(&self, wrong: &str) -> Option<&str> {
        let (path, values) = self.0.as_ref()?;
        let is_part = |value: &String| value.split_once('=').is_some_and(|(key, value)| key == wrong || value == wrong);
        values.iter().any(|value| value == wrong || is_part(value)).then_some(path)
    }
}

/// Puts the flags of a `--config` file after the command's name.
pub(crate) fn expand(arguments: Vec<OsString>) -> Result<Expanded, Failure> {
    // What clap makes of the user's own flags as far as they are right; the rest it reports when it parses all.
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(&arguments).ok();
    let subcommand = matches.as_ref().and_then(|matches| matches.subcommand());
    let chosen = subcommand.filter(|(name, _)| COMMANDS.contains(name)).and_then(|(command, own)| {
        let path: &PathBuf = own.get_one("config_file")?;
        Some((command, own, path))
    });
    let Some((command, own, path)) = chosen else {
        return Ok(Expanded { arguments, origin: Origin::default() });
    };
    let bytes = files::read_regular(path)?;
    let path = path.display().to_string();
    let text = String::from_utf8(bytes).map_err(|_| Failure::input(format!("{path} is not text")))?;
    let table: Table = toml::from_str(&text).map_err(|error| {
        let before = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(before).filter(|byte| *byte == b'\n').count();
        Failure::input(format!("{path}, line {line}: {}", error.message().replace('\n', ", ")))
    })?;
    let flags = Reader { path: &path, command, own, flags: Vec::new() }.read(&table)?;
    let values = flags.iter().filter_map(|(_, value)| value.clone()).collect();
    let from_file = flags.into_iter().map(|(flag, value)| match value {
        Some(value) => format!("--{flag}={value}").into(),
        None => format!("--{flag}").into(),
    });
    let arguments = arguments[..2].iter().cloned().chain(from_file).chain(arguments[2..].iter().cloned()).collect();
    Ok(Expanded { arguments, origin: Origin(Some((path, values))) })
}

struct Reader<'a> {
    path: &'a str,
    command: &'a str,
    /// The user's own flags.
    own: &'a ArgMatches,
    flags: Vec<(String, Option<String>)>,
}

impl Reader<'_> {
    fn read(mut self, table: &Table) -> Result<Vec<(String, Option<String>)>, Failure> {
        let cli = Cli::command();
        let of = |name: &str| cli.find_subcommand(name).expect("a command");
        for (key, value) in table {
            match (key.as_str(), value) {
                ("params", Value::Table(params)) => self.pairs("param", "settings", params)?,
                // Arguments of one policy mean nothing to another.
                ("policy_args", Value::Table(_)) if self.has_other_policy(table) => {}
                ("policy_args", Value::Table(arguments)) => self.pairs("policy-arg", "policy_args", arguments)?,
                ("params" | "policy_args", _) => return Err(self.wrong(key, "a table")),
                ("safety", Value::Table(safety)) => self.safety(of(self.command), safety)?,
                _ => match find(of(self.command), key) {
                    Some(argument) => self.flag(argument, key, value)?,
                    None if COMMANDS.iter().any(|other| find(of(other), key).is_some()) => {}
                    None => {
                        let known = COMMANDS.iter().flat_map(|name| keys(of(name))).map(|(key, _)| key);
                        let mut known: Vec<_> = known.chain(["params", "policy_args"].map(str::to_owned)).collect();
                        known.sort();
                        known.dedup();
                        return Err(Error::unknown("key", key, Some(self.path), known).into());
                    }
                },
            }
        }
        Ok(self.flags)
    }

    fn safety(&mut self, command: &Command, safety: &Table) -> Result<(), Failure> {
        let argument = find(command, "safety").expect("every command with a file has it");
        for (key, value) in safety {
            match (key.as_str(), value) {
                ("mode", mode) => self.flag(argument, "mode", mode)?,
                ("constraints", Value::Array(constraints)) => {
                    for constraint in constraints {
                        let text = self.text("constraints", constraint)?;
                        self.flags.push(("constraint".to_owned(), Some(text)));
                    }
                }
                ("constraints", _) => return Err(self.wrong(key, "a list of texts")),
                _ => {
                    let table = format!("[safety] of {}", self.path);
                    return Err(Error::unknown("key", key, Some(&table), ["mode", "constraints"]).into());
                }
            }
        }
        Ok(())
    }

    /// Whether the user asks for another policy than the file names.
    fn has_other_policy(&self, table: &Table) -> bool {
        let own: Option<&String> = self.own.get_one("policy").filter(|_| self.is_given("policy"));
        own.zip(table.get("policy")).is_some_and(|(own, policy)| policy.as_str() != Some(own))
    }

    /// A table of `key=value` flags, of which the user's own have the name `id`.
    fn pairs(&mut self, flag: &str, id: &str, table: &Table) -> Result<(), Failure> {
        let own: Vec<&(String, String)> = self.own.get_many(id).into_iter().flatten().collect();
        for (key, value) in table {
            if !own.iter().any(|(given, _)| given == key) {
                let text = format!("{key}={}", self.text(key, value)?);
                self.flags.push((flag.to_owned(), Some(text)));
            }
        }
        Ok(())
    }

    fn flag(&mut self, argument: &Arg, key: &str, value: &Value) -> Result<(), Failure> {
        let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
        let value = match value {
            Value::Boolean(on) if is_switch => on.then_some(None),
            _ if is_switch => return Err(self.wrong(key, "true or false")),
            value => Some(Some(self.text(key, value)?)),
        };
        if let Some(value) = value.filter(|_| !self.is_given(argument.get_id().as_str())) {
            self.flags.push((argument.get_long().unwrap_or_default().to_owned(), value));
        }
        Ok(())
    }

    fn is_given(&self, id: &str) -> bool {
        self.own.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// A value as it is written after a flag.
    fn text(&self, key: &str, value: &Value) -> Result<String, Failure> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(number) => Ok(number.to_string()),
            Value::Float(number) => Ok(number.to_string()),
            Value::Boolean(on) => Ok(on.to_string()),
            Value::Array(values) => {
                Ok(values.iter().map(|value| self.text(key, value)).collect::<Result<Vec<_>, _>>()?.join(","))
            }
            Value::Datetime(_) | Value::Table(_) => Err(self.wrong(key, "a text, a number, true, false or a list")),
        }
    }

    fn wrong(&self, key: &str, allowed: &str) -> Failure {
        Failure::input(format!("{}: {key} is of the wrong kind, but must be {allowed}", self.path))
    }
}

/// The flags of a command that keys stand for, with these keys.
fn keys(command: &Command) -> impl Iterator<Item = (String, &Arg)> {
    let flags = command.get_arguments().filter_map(|argument| Some((argument.get_long()?, argument)));
    flags
        .filter(|(flag, _)| *flag != "config" && !REPEATED.contains(flag))
        .map(|(flag, argument)| (flag.replace('-', "_"), argument))
}

/// The flag that a key stands for.
fn find<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    keys(command).find(|(known, _)| known == key).map(|(_, argument)| argument)
}
