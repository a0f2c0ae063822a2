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
    /// A line for each parameter: of one block that stands for all, or of every block.
    lines: Vec<Line>,
    /// Whether environments differ in any parameter, so that every block has its own lines.
    vary: bool,
}

impl Params {
    pub(super) fn defaults<R: Lanes, P: LaneParams<R>>(env: &'static str) -> Self {
        let shared: Vec<f64> = P::INFO.iter().map(|p| p.default).collect();
        Self { env, info: P::INFO, lines: shared.iter().map(|value| everywhere(*value)).collect(), shared, vary: false }
    }

    /// Applies `name = text`, a number or a range `low..high` from which each environment draws.
    pub(super) fn set_text(&mut self, name: &str, text: &str, num_envs: usize, seed: u64) -> Result<()> {
        let field = self.field(name)?;
        let number = |text: &str| {
            let malformed =
                || Error::out_of_range(self.what(name), format!("'{text}'"), "a number, or a range such as 0.4..0.6");
            text.trim().parse::<f64>().map_err(|_| malformed())
        };
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

    pub(super) fn set_named(&mut self, name: &str, values: &[f64], num_envs: usize) -> Result<()> {
        self.set(self.field(name)?, values, num_envs)
    }

    pub(super) fn get(&self, name: &str, env: usize) -> Result<f64> {
        let field = self.field(name)?;
        Ok(self.value(field, env))
    }

    fn value(&self, field: usize, env: usize) -> f64 {
        if !self.vary {
            return self.shared[field];
        }
        f64::from(f32::from_bits(self.lines[env / BLOCK * self.info.len() + field].0[env % BLOCK]))
    }

    /// All parameters of one environment, for checks across parameters.
    pub(super) fn of_env<P: LaneParams<f64>>(&self, env: usize) -> P {
        P::from_values(|field, _| self.value(field, env))
    }

    /// Whether environments differ in any parameter.
    pub(super) fn vary(&self) -> bool {
        self.vary
    }

    #[inline(always)]
    pub(super) fn load<R: Lanes, P: LaneStruct<R>>(&self, block: usize, lane: usize) -> P {
        let fields = P::NAMES.len();
        let block = if self.vary { block } else { 0 };
        P::load(&self.lines[block * fields..(block + 1) * fields], lane)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let shared: &[u8] = bytemuck::cast_slice(&self.shared);
        [shared, bytemuck::cast_slice(&self.lines)].concat()
    }

    pub(super) fn memory(&self) -> usize {
        if self.vary { size_of_val(self.lines.as_slice()) } else { 0 }
    }

    fn set(&mut self, field: usize, values: &[f64], num_envs: usize) -> Result<()> {
        values.iter().try_for_each(|value| self.check(field, *value))?;
        match values {
            [value] => {
                self.shared[field] = *value;
                self.fill(field, num_envs, |_| *value);
            }
            _ if values.len() == num_envs => {
                if !self.vary {
                    self.vary = true;
                    self.lines = self.lines.repeat(num_envs.div_ceil(BLOCK));
                }
                self.fill(field, num_envs, |env| values[env]);
            }
            _ => {
                let what = format!("{} (one value, or one for each environment)", self.what(self.info[field].name));
                return Err(Error::Length { what, actual: values.len(), expected: num_envs });
            }
        }
        Ok(())
    }

    /// Writes the value of each environment; padding environments repeat the last.
    fn fill(&mut self, field: usize, num_envs: usize, value: impl Fn(usize) -> f64) {
        for (block, lines) in self.lines.chunks_exact_mut(self.info.len()).enumerate() {
            let of_lane = |lane: usize| value((block * BLOCK + lane).min(num_envs - 1)) as f32;
            lines[field] = Line(std::array::from_fn(|lane| of_lane(lane).to_bits()));
        }
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

/// A line with the same value in every environment.
fn everywhere(value: f64) -> Line {
    Line([(value as f32).to_bits(); BLOCK])
}
