//! Gene circuits under light: cells that make a protein, one molecule at a time.
//!
//! `ccasr` is the circuit that [`CcasrGfpControl`] and [`CcasrGfpSysid`] share, [`OptoHillSysid`] is a
//! smaller one. All run on [`crate::reaction`]; time is in minutes, counts are whole numbers.
// Parameters and fields of the state keep the names of the published tasks.
#![allow(non_snake_case)]

mod ccasr;
pub(crate) mod ccasr_gfp_control;
mod ccasr_gfp_sysid;
mod opto_hill_1d_sysid;

pub use ccasr::Ccasr;
pub use ccasr_gfp_control::CcasrGfpControl;
pub use ccasr_gfp_sysid::CcasrGfpSysid;
pub use opto_hill_1d_sysid::{OptoHill, OptoHillSysid};

use phalanx_core::space::OptionInfo;

use crate::reaction::{ClockRule, LARGEST_COUNT};

/// The options of the clock, common to all circuits.
#[derive(Clone, Copy, Debug, Default)]
struct ClockOptions(ClockRule);

/// The caps there are. One number for the whole batch, so that the loop over reactions need not look.
const CAPS: &[&str] = &["10", "100", "1000", "10000", "100000"];

impl ClockOptions {
    fn info(self) -> [OptionInfo; 3] {
        let cap = self.0.max_reactions.ilog10() as usize - 1;
        [
            OptionInfo::choice(
                "max_reactions_per_step",
                CAPS[cap],
                CAPS,
                "reactions after which a step is given up and counted as capped; the rest is put off",
            ),
            OptionInfo::flag(
                "redraw_each_interval",
                self.0.redraw_each_interval,
                "draw the waiting time anew at every step instead of keeping the scheduled reaction; exact as well",
            ),
            OptionInfo::flag(
                "rescale_on_change",
                self.0.rescale_on_change,
                "scale the waiting time when the input changes instead of drawing it anew; exact as well",
            ),
        ]
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "redraw_each_interval" => self.0.redraw_each_interval = value == "true",
            "rescale_on_change" => self.0.rescale_on_change = value == "true",
            "max_reactions_per_step" => self.0.max_reactions = value.parse().expect("one of the choices"),
            _ => unreachable!("no option {name} in the spec"),
        }
    }
}

/// Checks the counts of a state that a user sets.
fn check_counts(counts: &[(&str, f64)]) -> Result<(), String> {
    let possible = |count: f64| count.fract() == 0.0 && (0.0..=LARGEST_COUNT).contains(&count);
    match counts.iter().find(|(_, count)| !possible(*count)) {
        None => Ok(()),
        Some((name, count)) => {
            Err(format!("{name} is {count}, but molecules come as whole numbers from 0 to {LARGEST_COUNT}"))
        }
    }
}

/// What a circuit counts in every step.
const COUNTERS: &[&str] = &["reactions", "capped_steps"];
