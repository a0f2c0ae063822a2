//! Parameters of a batch: one set for all environments, or one for each.

use crate::env::{LaneParams, LaneStruct};
use crate::error::{Error, Result};
use crate::lanes::{BLOCK, Lanes, Line};
use crate::rng::{Purpose, Stream};
use crate::space::ParamInfo;

/// The values of an environment's parameters.
#[derive(Clone, Debug)]
pub(super) struct Params {
    env: &'static str,
    info: &'static [ParamInfo],
    /// Value of each parameter as it was last set for all environments, in full precision.
    shared: Vec<f64>,
    /// A line for each parameter with its shared value.
    broadcast: Vec<Line>,
    /// The lines of the parameters that differ between environments, one for each block.
    own: Vec<Option<Vec<Line>>>,
    /// Whether there are any such; looked at in every step.
    vary: bool,
}

impl Params {
    pub(super) fn defaults<R: Lanes, P: LaneParams<R>>(env: &'static str) -> Self {
        let shared: Vec<f64> = P::INFO.iter().map(|p| p.default).collect();
        let broadcast = shared.iter().map(|value| everywhere(*value)).collect();
        Self { env, info: P::INFO, own: vec![None; shared.len()], broadcast, shared, vary: false }
    }

    /// Applies `name = text`, a number or a range `low..high` from which each environment draws.
    pub(super) fn set_text(&mut self, name: &str, text: &str, num_envs: usize, seed: u64) -> Result<()> {
        let field = self.field(name)?;
        let malformed =
            || Error::out_of_range(self.what(name), format!("'{text}'"), "a number, or a range such as 0.4..0.6");
        let number = |part: &str| part.trim().parse::<f64>().map_err(|_| malformed());
        let Some((low, high)) = text.split_once("..") else {
            return self.set(field, &[number(text)?], num_envs);
        };
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(Error::out_of_range(
                self.what(name),
                format!("'{text}'"),
                "a range whose lower end comes first",
            ));
        }
        self.check(field, low)?;
        self.check(field, high)?;
        let values: Vec<f64> = (0..num_envs as u32)
            .map(|env| {
                let mut draws = Stream::<f64>::of_seed(seed, env).draws(Purpose::Params, 0, field as u32);
                draws.uniform(low, high)
            })
            .collect();
        self.set(field, &values, num_envs)
    }

    /// Draws the parameters that have a log-normal prior: `exp(NAME_loc + NAME_scale * z)` with a standard
    /// normal `z` for each environment. The default of `NAME_loc` is the logarithm of the parameter's value.
    pub(super) fn draw_priors(&mut self, settings: &[(String, String)], num_envs: usize, seed: u64) -> Result<()> {
        for field in 0..self.info.len() {
            let name = self.info[field].name;
            let given = |wanted: Prior| {
                let found = settings.iter().find(|(key, _)| prior_of(key) == Some((name, wanted)));
                found.map(|(key, text)| self.prior_value(wanted, key, text)).transpose()
            };
            let (loc, scale) = (given(Prior::Loc)?, given(Prior::Scale)?);
            if loc.is_none() && scale.is_none() {
                continue;
            }
            if self.own[field].is_some() {
                return Err(Error::out_of_range(self.what(name), "a range and a prior", "one of the two"));
            }
            if loc.is_none() && self.shared[field] <= 0.0 {
                let what = format!("{} with a log-normal prior", self.what(name));
                return Err(Error::out_of_range(what, self.shared[field], "above 0"));
            }
            // The value itself rather than the exponential of its logarithm, which would round.
            let median = loc.map_or(self.shared[field], f64::exp);
            let Some(scale) = scale.filter(|scale| *scale > 0.0) else {
                self.set(field, &[median], num_envs)?;
                continue;
            };
            let values: Vec<f64> = (0..num_envs as u32)
                .map(|env| {
                    let mut draws = Stream::<f64>::of_seed(seed, env).draws(Purpose::Params, 0, field as u32);
                    median * (scale * draws.normal()).exp()
                })
                .collect();
            let ParamInfo { min, max, .. } = self.info[field];
            if let Some(env) = values.iter().position(|value| !(min..=max).contains(value)) {
                let what = format!("{}, as its prior draws it for environment {env},", self.what(name));
                return Err(Error::out_of_range(what, values[env], format!("from {min} to {max}")));
            }
            self.set(field, &values, num_envs)?;
        }
        Ok(())
    }

    fn prior_value(&self, prior: Prior, key: &str, text: &str) -> Result<f64> {
        let allowed = match prior {
            Prior::Loc => "a number",
            Prior::Scale => "a number that is not negative",
        };
        let number =
            text.parse().ok().filter(|value: &f64| value.is_finite() && (prior == Prior::Loc || *value >= 0.0));
        number.ok_or_else(|| Error::out_of_range(self.what(key), format!("'{text}'"), allowed))
    }

    pub(super) fn set_named(&mut self, name: &str, values: &[f64], num_envs: usize) -> Result<()> {
        self.set(self.field(name)?, values, num_envs)
    }

    pub(super) fn get(&self, name: &str, env: usize) -> Result<f64> {
        let field = self.field(name)?;
        Ok(self.value(field, env))
    }

    fn value(&self, field: usize, env: usize) -> f64 {
        match &self.own[field] {
            None => self.shared[field],
            Some(lines) => f64::from(f32::from_bits(lines[env / BLOCK].0[env % BLOCK])),
        }
    }

    /// All parameters of one environment, for checks across parameters.
    pub(super) fn of_env<P: LaneParams<f64>>(&self, env: usize) -> P {
        P::from_values(|field, _| self.value(field, env))
    }

    /// Whether environments differ in any parameter.
    #[inline(always)]
    pub(super) fn vary(&self) -> bool {
        self.vary
    }

    #[inline(always)]
    pub(super) fn load<R: Lanes, P: LaneStruct<R>>(&self, block: usize, lane: usize) -> P {
        if !self.vary {
            return P::load(&self.broadcast, lane);
        }
        let line = |field: usize| self.own[field].as_ref().map_or(&self.broadcast[field], |lines| &lines[block]);
        P::load_from(line, lane)
    }

    /// The parameters of any environments, `place(lane)` (block and lane in it) in each lane.
    #[inline(always)]
    pub(super) fn gather<R: Lanes, P: LaneStruct<R>>(&self, place: impl Fn(usize) -> (usize, usize)) -> P {
        if !self.vary {
            return P::load(&self.broadcast, 0);
        }
        P::from_values(|field, lane| {
            let (block, at) = place(lane);
            self.value(field, block * BLOCK + at)
        })
    }

    /// The shared values, which parameters have lines of their own (bit by bit), and those lines.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = bytemuck::cast_slice(&self.shared).to_vec();
        let varying =
            self.own.iter().enumerate().fold(0_u64, |bits, (field, own)| bits | u64::from(own.is_some()) << field);
        bytes.extend_from_slice(&varying.to_le_bytes());
        self.own.iter().flatten().for_each(|lines| bytes.extend_from_slice(bytemuck::cast_slice(lines)));
        bytes
    }

    /// The inverse of [`Params::bytes`].
    pub(super) fn restore(&mut self, bytes: &[u8], num_envs: usize) -> Result<()> {
        let misfit =
            || Error::Snapshot(format!("has {} bytes of parameters, which do not fit {}", bytes.len(), self.env));
        let fields = self.info.len();
        let (shared, rest) = bytes.split_at_checked(fields * size_of::<f64>()).ok_or_else(misfit)?;
        let (varying, rest) = rest.split_first_chunk().ok_or_else(misfit)?;
        let varying = u64::from_le_bytes(*varying);
        let one_field = num_envs.div_ceil(BLOCK) * size_of::<Line>();
        if varying.checked_shr(fields as u32).unwrap_or(0) != 0
            || rest.len() != varying.count_ones() as usize * one_field
        {
            return Err(misfit());
        }
        bytemuck::cast_slice_mut(&mut self.shared).copy_from_slice(shared);
        self.broadcast = self.shared.iter().map(|value| everywhere(*value)).collect();
        let mut chunks = rest.chunks_exact(one_field);
        for (field, own) in self.own.iter_mut().enumerate() {
            *own = (varying >> field & 1 == 1).then(|| {
                let mut lines = vec![Line::default(); num_envs.div_ceil(BLOCK)];
                bytemuck::cast_slice_mut(&mut lines).copy_from_slice(chunks.next().expect("as many chunks as bits"));
                lines
            });
        }
        self.vary = varying != 0;
        Ok(())
    }

    pub(super) fn memory(&self) -> usize {
        self.own.iter().flatten().map(|lines| size_of_val(lines.as_slice())).sum()
    }

    fn set(&mut self, field: usize, values: &[f64], num_envs: usize) -> Result<()> {
        values.iter().try_for_each(|value| self.check(field, *value))?;
        match values {
            [value] => {
                self.shared[field] = *value;
                self.broadcast[field] = everywhere(*value);
                self.own[field] = None;
            }
            _ if values.len() == num_envs => {
                // Padding environments repeat the last.
                let bits = |env: usize| (values[env.min(num_envs - 1)] as f32).to_bits();
                let line = |block: usize| Line(std::array::from_fn(|lane| bits(block * BLOCK + lane)));
                self.own[field] = Some((0..num_envs.div_ceil(BLOCK)).map(line).collect());
            }
            _ => {
                let what = format!("{} (one value, or one for each environment)", self.what(self.info[field].name));
                return Err(Error::Length { what, actual: values.len(), expected: num_envs });
            }
        }
        self.vary = self.own.iter().any(Option::is_some);
        Ok(())
    }

    fn field(&self, name: &str) -> Result<usize> {
        let unknown = || Error::unknown("parameter", name, Some(self.env), self.info.iter().map(|p| p.name));
        self.info.iter().position(|p| p.name == name).ok_or_else(unknown)
    }

    fn check(&self, field: usize, value: f64) -> Result<()> {
        let ParamInfo { name, min, max, .. } = self.info[field];
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(Error::out_of_range(self.what(name), value, format!("from {min} to {max}")))
    }

    fn what(&self, name: &str) -> String {
        format!("parameter {name} of {}", self.env)
    }
}

/// What a setting says of a parameter's log-normal prior.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Prior {
    /// The mean of the logarithm.
    Loc,
    /// Its standard deviation.
    Scale,
}

/// The parameter whose prior `name` sets, and what of it.
pub(super) fn prior_of(name: &str) -> Option<(&str, Prior)> {
    let loc = name.strip_suffix("_loc").map(|param| (param, Prior::Loc));
    loc.or_else(|| name.strip_suffix("_scale").map(|param| (param, Prior::Scale)))
}

/// A line with the same value in every environment.
fn everywhere(value: f64) -> Line {
    Line([(value as f32).to_bits(); BLOCK])
}
