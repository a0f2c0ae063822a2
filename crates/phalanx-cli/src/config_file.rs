//! `--config FILE`: a TOML file becomes the flags that its keys are named after, put before the user's own.
//!
//! What a user also gives on the command line is left out, so that clap still notices a flag given twice.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory};
use phalanx_core::Error;
use toml::{Table, Value};

use crate::args::Cli;
use crate::failure::Failure;
use crate::files;

/// The commands that take a file. One file serves them all: a key that only another of them knows is passed over.
const COMMANDS: [&str; 4] = ["rollout", "trace", "render", "autotune"];

/// Flags that may be given several times; in a file they are the tables params and policy_args, and a list of [safety].
const REPEATED: [&str; 3] = ["param", "policy-arg", "constraint"];

/// What the command line and the file of its `--config` amount to.
pub(crate) struct Expanded {
    pub(crate) arguments: Vec<OsString>,
    /// The file and the values taken from it, to say where a wrong one came from.
    pub(crate) source: Option<(String, Vec<String>)>,
}

/// Puts the flags of a `--config` file after the command's name.
pub(crate) fn expand(arguments: Vec<OsString>) -> Result<Expanded, Failure> {
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (name, own) = match words.as_slice() {
        [_, name, own @ ..] if COMMANDS.contains(&name.as_str()) => (name, own),
        _ => return Ok(Expanded { arguments, source: None }),
    };
    let Some(path) = values_of(own, "config").next() else {
        return Ok(Expanded { arguments, source: None });
    };
    let bytes = files::read_regular(Path::new(path))?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::input(format!("{path} is not text")))?;
    let table: Table = toml::from_str(&text).map_err(|error| {
        let before = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(before).filter(|byte| *byte == b'\n').count();
        Failure::input(format!("{path}, line {line}: {}", error.message().replace('\n', ", ")))
    })?;
    let flags = Reader { path, command: name, own, flags: Vec::new() }.read(&table)?;
    let values = flags.iter().filter_map(|(_, value)| value.clone()).collect();
    let from_file = flags.into_iter().map(|(flag, value)| match value {
        Some(value) => format!("--{flag}={value}").into(),
        None => format!("--{flag}").into(),
    });
    let source = Some((path.to_owned(), values));
    let arguments = arguments[..2].iter().cloned().chain(from_file).chain(arguments[2..].iter().cloned()).collect();
    Ok(Expanded { arguments, source })
}

/// What the user gives for a flag, each time.
fn values_of<'a>(own: &'a [String], flag: &'a str) -> impl Iterator<Item = &'a str> {
    own.iter().enumerate().filter_map(move |(i, word)| match word.strip_prefix("--")?.strip_prefix(flag)? {
        "" => Some(own.get(i + 1).map_or("", String::as_str)),
        rest => rest.strip_prefix('='),
    })
}

struct Reader<'a> {
    path: &'a str,
    command: &'a str,
    own: &'a [String],
    flags: Vec<(String, Option<String>)>,
}

impl Reader<'_> {
    fn read(mut self, table: &Table) -> Result<Vec<(String, Option<String>)>, Failure> {
        let cli = Cli::command();
        let of = |name: &str| cli.find_subcommand(name).expect("a command");
        for (key, value) in table {
            match (key.as_str(), value) {
                ("params", Value::Table(params)) => self.pairs("param", params)?,
                // Arguments of one policy mean nothing to another.
                ("policy_args", Value::Table(_)) if self.is_given("policy") => {}
                ("policy_args", Value::Table(arguments)) => self.pairs("policy-arg", arguments)?,
                ("params" | "policy_args", _) => return Err(self.wrong(key, "a table")),
                ("safety", Value::Table(safety)) => self.safety(safety)?,
                _ => match find(of(self.command), key) {
                    Some((flag, takes_value)) => self.flag(&flag, takes_value, key, value)?,
                    None if COMMANDS.iter().any(|other| find(of(other), key).is_some()) => {}
                    None => {
                        let known = COMMANDS.iter().flat_map(|name| keys(of(name)));
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

    fn safety(&mut self, safety: &Table) -> Result<(), Failure> {
        for (key, value) in safety {
            match (key.as_str(), value) {
                ("mode", mode) => self.flag("safety", true, "mode", mode)?,
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

    /// A table of `key=value` flags.
    fn pairs(&mut self, flag: &str, table: &Table) -> Result<(), Failure> {
        for (key, value) in table {
            let is_given = values_of(self.own, flag).any(|own| own.split('=').next().map(str::trim) == Some(key));
            if !is_given {
                let text = format!("{key}={}", self.text(key, value)?);
                self.flags.push((flag.to_owned(), Some(text)));
            }
        }
        Ok(())
    }

    fn flag(&mut self, flag: &str, takes_value: bool, key: &str, value: &Value) -> Result<(), Failure> {
        let value = match value {
            Value::Boolean(on) if !takes_value => on.then_some(None),
            _ if !takes_value => return Err(self.wrong(key, "true or false")),
            value => Some(Some(self.text(key, value)?)),
        };
        if let Some(value) = value.filter(|_| !self.is_given(flag)) {
            self.flags.push((flag.to_owned(), value));
        }
        Ok(())
    }

    fn is_given(&self, flag: &str) -> bool {
        values_of(self.own, flag).next().is_some()
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

/// The keys that stand for flags of a command.
fn keys(command: &Command) -> impl Iterator<Item = String> {
    let flags = command.get_arguments().flat_map(names_of);
    flags.filter(|flag| *flag != "config" && !REPEATED.contains(flag)).map(|flag| flag.replace('-', "_"))
}

/// A flag's name and its other names.
fn names_of(argument: &Arg) -> Vec<&str> {
    argument.get_long().into_iter().chain(argument.get_all_aliases().unwrap_or_default()).collect()
}

/// The flag that a key stands for, and whether it takes a value.
fn find(command: &Command, key: &str) -> Option<(String, bool)> {
    let flag = keys(command).find(|known| known == key)?.replace('_', "-");
    let argument = command.get_arguments().find(|argument| names_of(argument).contains(&flag.as_str()))?;
    Some((flag, !matches!(argument.get_action(), ArgAction::SetTrue)))
}
