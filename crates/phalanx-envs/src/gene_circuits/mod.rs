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

use crate::reaction::ClockRule;

/// The options of the clock, common to all circuits.
#[derive(Clone, Copy, Debug, Default)]
struct ClockOptions {
    redraw_each_interval: bool,
    rescale_on_change: bool,
}

impl ClockOptions {
    fn info(self) -> [OptionInfo; 2] {
        [
            switch(
                "redraw_each_interval",
                self.redraw_each_interval,
                "draw the waiting time anew at every step instead of keeping the scheduled reaction; exact as well",
            ),
            switch(
                "rescale_on_change",
                self.rescale_on_change,
                "scale the waiting time when the input changes instead of drawing it anew; exact as well",
            ),
        ]
    }

    fn set(&mut self, name: &str, value: &str) {
        match name {
            "redraw_each_interval" => self.redraw_each_interval = value == "true",
            "rescale_on_change" => self.rescale_on_change = value == "true",
            _ => unreachable!("no option {name} in the spec"),
        }
    }

    #[inline(always)]
    fn rule<U>(self, max_reactions: U) -> ClockRule<U> {
        let Self { redraw_each_interval, rescale_on_change } = self;
        ClockRule { redraw_each_interval, rescale_on_change, max_reactions }
    }
}

/// An option that is on or off.
fn switch(name: &'static str, on: bool, description: &'static str) -> OptionInfo {
    OptionInfo { name, value: if on { "true" } else { "false" }, choices: &["false", "true"], description }
}
