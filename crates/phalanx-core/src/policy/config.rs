//! Policies from names and `key=value` arguments, checked against an environment.

use std::str::FromStr;

use super::controller::Law;
use super::{Controller, Policy, Random};
use crate::error::{Error, Result};
use crate::space::{ActionMask, ActionSpace, EnvSpec};

/// The policies there are: name, arguments with defaults, what it does.
pub const POLICIES: [(&str, &str, &str); 6] = [
    ("random", "", "uniform over the action space"),
    ("constant", "action=0 (components separated by ':')", "the same action always"),
    ("open_loop", "schedule=a:b:c (mandatory)", "a list of actions, repeated from every episode start"),
    ("periodic", "pulse_width=24", "pulse_width steps high, pulse_width steps low"),
    (
        "bangbang",
        "setpoint=0 obs_field=theta invert=false",
        "high above the set-point, low at or below (fields: see `phalanx envs`)",
    ),
    (
        "pid",
        "kp=1 ki=0 kd=0 setpoint=0 obs_field=theta dt=<env> anti_windup=10 control_low control_high",
        "proportional-integral-derivative; discrete actions need control_low and control_high",
    ),
];

/// The names of a policy's arguments; none of an unknown policy.
pub fn argument_names(policy: &str) -> impl Iterator<Item = &'static str> {
    let listed = POLICIES.iter().find(|(name, ..)| *name == policy).map_or("", |(_, arguments, _)| arguments);
    // What stands in brackets explains.
    let names = listed.split('(').next().unwrap_or_default().split_whitespace();
    names.map(|argument| argument.split('=').next().unwrap_or(argument))
}

/// `key=value` arguments, each to be taken once.
struct Arguments<'a> {
    policy: &'a str,
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Arguments<'a> {
    fn text(&mut self, key: &str) -> Option<&'a str> {
        let at = self.left.iter().position(|(k, _)| *k == key)?;
        Some(self.left.remove(at).1)
    }

    fn parsed<T: FromStr>(&mut self, key: &str, allowed: &str) -> Result<Option<T>> {
        let what = format!("argument {key} of policy {}", self.policy);
        self.text(key)
            .map(|text| text.parse().map_err(|_| Error::out_of_range(what, format!("'{text}'"), allowed)))
            .transpose()
    }

    fn number(&mut self, key: &str, default: f64) -> Result<f64> {
        let value = self.parsed(key, "a number")?.unwrap_or(default);
        self.finite(key, value)
    }

    fn finite(&self, key: &str, value: f64) -> Result<f64> {
        // Also in single precision, which batches compute in.
        if (value as f32).is_finite() {
            return Ok(value);
        }
        Err(Error::out_of_range(format!("argument {key} of policy {}", self.policy), value, "a finite number"))
    }

    /// Numbers separated by `:` or `,`.
    fn list(&mut self, key: &str) -> Result<Option<Vec<f64>>> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let what = format!("argument {key} of policy {}", self.policy);
        text.split([':', ','])
            .map(|part| part.trim().parse().ok().filter(|v: &f64| v.is_finite()))
            .collect::<Option<Vec<f64>>>()
            .ok_or_else(|| Error::out_of_range(what, format!("'{text}'"), "a list of numbers such as 0:1:1"))
            .map(Some)
    }

    fn observed_field(&mut self, spec: &EnvSpec) -> Result<usize> {
        let name = self.text("obs_field").unwrap_or("theta");
        let names = spec.observation.names;
        names
            .iter()
            .position(|n| *n == name)
            .ok_or_else(|| Error::unknown("observation field", name, Some(spec.name), names))
    }

    fn finish(self, known: &[&str]) -> Result<()> {
        match self.left.first() {
            None => Ok(()),
            Some((key, _)) if known.contains(key) => Err(Error::out_of_range(
                format!("argument {key} of policy {}", self.policy),
                "given twice",
                "given once",
            )),
            Some((key, _)) => Err(Error::unknown("argument", key, Some(&format!("policy {}", self.policy)), known)),
        }
    }
}

impl Policy {
    /// The policy `name` for the environment `spec`.
    ///
    /// # Errors
    ///
    /// One sentence for an unknown name, an unknown or malformed argument, an observation field or an
    /// action that the environment does not have.
    pub fn parse(name: &str, arguments: &[(&str, &str)], spec: &EnvSpec) -> Result<Self> {
        let mut args = Arguments { policy: name, left: arguments.to_vec() };
        match name {
            "random" => {
                args.finish(&[])?;
                return Ok(Self::Random(match spec.action_mask {
                    ActionMask::None => Random::new(spec.action.clone()),
                    ActionMask::Advisory | ActionMask::Binding => Random::masked(spec.action.clone()),
                }));
            }
            "constant" => {}
            _ if matches!(spec.action, ActionSpace::MultiDiscrete { .. })
                && POLICIES.iter().any(|(known, ..)| *known == name) =>
            {
                let what = format!("the policy for {}, whose actions are vectors of choices,", spec.name);
                return Err(Error::out_of_range(what, name, "random or constant"));
            }
            _ => {}
        }
        let (law, known): (Law, &[&str]) = match name {
            "constant" => {
                let mut action = args.list("action")?.unwrap_or_else(|| vec![0.0]);
                let components = spec.action.components();
                if action.len() == 1 {
                    action.resize(components, action[0]);
                }
                if action.len() != components {
                    return Err(Error::Length {
                        what: "argument action of policy constant".into(),
                        actual: action.len(),
                        expected: components,
                    });
                }
                check_actions(&action, spec)?;
                (Law::Constant { action }, &["action"])
            }
            "open_loop" => {
                let schedule = args.list("schedule")?.ok_or_else(|| {
                    Error::out_of_range(
                        "argument schedule of policy open_loop",
                        "missing",
                        "a list of actions such as 0:1:1",
                    )
                })?;
                check_actions(&schedule, spec)?;
                (Law::OpenLoop { schedule }, &["schedule"])
            }
            "periodic" => {
                const WIDTHS: &str = "a whole number from 1 to 1000000000";
                let pulse_width = args.parsed("pulse_width", WIDTHS)?.unwrap_or(24);
                if !(1..=1_000_000_000).contains(&pulse_width) {
                    return Err(Error::out_of_range("argument pulse_width of policy periodic", pulse_width, WIDTHS));
                }
                (Law::Periodic { pulse_width }, &["pulse_width"])
            }
            "bangbang" => {
                let law = Law::BangBang {
                    setpoint: args.number("setpoint", 0.0)?,
                    field: args.observed_field(spec)?,
                    invert: args.parsed("invert", "true or false")?.unwrap_or(false),
                };
                (law, &["setpoint", "obs_field", "invert"])
            }
            "pid" => (
                pid(&mut args, spec)?,
                &["kp", "ki", "kd", "setpoint", "obs_field", "dt", "anti_windup", "control_low", "control_high"],
            ),
            _ => {
                return Err(Error::unknown("policy", name, None, POLICIES.map(|(name, ..)| name)));
            }
        };
        args.finish(known)?;
        Ok(Self::Controller(Controller::new(law, spec.action.clone(), spec.observation.names)))
    }
}

fn pid(args: &mut Arguments<'_>, spec: &EnvSpec) -> Result<Law> {
    let low: Option<f64> = args.parsed("control_low", "a number")?;
    let high: Option<f64> = args.parsed("control_high", "a number")?;
    let range = match (low, high) {
        (None, None) if matches!(spec.action, ActionSpace::Discrete { .. }) => {
            let what = format!("the range control_low to control_high of policy pid for the discrete {}", spec.name);
            return Err(Error::out_of_range(what, "missing", "given, such as control_low=-1 control_high=1"));
        }
        (None, None) => None,
        (Some(low), Some(high)) if low < high && low.is_finite() && high.is_finite() => Some((low, high)),
        _ => {
            let shown = |v: Option<f64>| v.map_or("missing".to_owned(), |v| v.to_string());
            let value = format!("{} to {}", shown(low), shown(high));
            return Err(Error::out_of_range(
                "the range control_low to control_high of policy pid",
                value,
                "two numbers, the first smaller",
            ));
        }
    };
    let law = Law::Pid {
        kp: args.number("kp", 1.0)?,
        ki: args.number("ki", 0.0)?,
        kd: args.number("kd", 0.0)?,
        setpoint: args.number("setpoint", 0.0)?,
        field: args.observed_field(spec)?,
        dt: args.number("dt", spec.dt.unwrap_or(1.0))?,
        anti_windup: args.number("anti_windup", 10.0)?,
        range,
    };
    let Law::Pid { dt, anti_windup, .. } = law else { unreachable!("just built") };
    for (key, value) in [("dt", dt), ("anti_windup", anti_windup)] {
        if value <= 0.0 {
            return Err(Error::out_of_range(format!("argument {key} of policy pid"), value, "above 0"));
        }
    }
    Ok(law)
}

/// Checks that each value is an action of a discrete space; a box clips as its environment does.
fn check_actions(values: &[f64], spec: &EnvSpec) -> Result<()> {
    for (k, &value) in values.iter().enumerate() {
        // A schedule lists single choices, a constant action one for each component.
        let Some(choices) = spec.action.choices(k) else { continue };
        if value.fract() != 0.0 || !(0.0..f64::from(choices)).contains(&value) {
            return Err(Error::out_of_range(
                format!("an action of {}", spec.name),
                value,
                format!("a whole number from 0 to {}", choices - 1),
            ));
        }
    }
    Ok(())
}
