//! The memory that may be used: a share of what is available, or an amount.

use serde::{Deserialize, Serialize};

use crate::memory;
use crate::stats::growth::MemoryGrowth;

/// The share of the available memory that may be used unless the user says otherwise.
pub const DEFAULT_SHARE: f64 = 0.8;

/// A limit on memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryBudget {
    /// A share of what is available when the budget is looked at.
    Share(f64),
    /// Bytes.
    Bytes(u64),
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::Share(DEFAULT_SHARE)
    }
}

impl MemoryBudget {
    /// Reads `0.8` or `80%` as a share, and `512M`, `12G` or `1.5GiB` as an amount with binary units.
    ///
    /// ```
    /// use phalanx_lab::budget::MemoryBudget;
    /// assert_eq!(MemoryBudget::parse("80%"), Some(MemoryBudget::Share(0.8)));
    /// assert_eq!(MemoryBudget::parse("2G"), Some(MemoryBudget::Bytes(2 << 30)));
    /// assert_eq!(MemoryBudget::parse("much"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
        let number: f64 = digits.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)?;
        let unit = text[digits.len()..].trim().to_ascii_lowercase();
        let factor = match unit.trim_end_matches("ib").trim_end_matches('b') {
            "%" => return (number <= 100.0).then_some(Self::Share(number / 100.0)),
            "" if unit.is_empty() => return (number <= 1.0).then_some(Self::Share(number)),
            "" if unit == "b" => 1.0,
            "k" => 1024.0,
            "m" => 1024f64.powi(2),
            "g" => 1024f64.powi(3),
            "t" => 1024f64.powi(4),
            _ => return None,
        };
        Some(Self::Bytes((number * factor) as u64))
    }

    /// The limit in bytes now; unknown where a share is asked for and the system does not tell what is available.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Share(share) => memory::available_bytes().map(|available| (share * available as f64) as u64),
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The most environments whose memory stays under `budget_bytes`, if memory grows as it was measured to: with the upper
/// end of the interval, so that the answer errs on the safe side. `None` if memory does not grow.
pub fn largest_num_envs(growth: &MemoryGrowth, budget_bytes: u64) -> Option<u64> {
    let per_env = growth.interval.high;
    let free = budget_bytes as f64 - growth.fixed_bytes.max(0.0);
    (per_env > 0.0).then(|| (free / per_env).max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_amounts_are_understood() {
        for (text, budget) in [
            ("0.5", Some(MemoryBudget::Share(0.5))),
            ("1", Some(MemoryBudget::Share(1.0))),
            ("50%", Some(MemoryBudget::Share(0.5))),
            ("512M", Some(MemoryBudget::Bytes(512 << 20))),
            ("1.5GiB", Some(MemoryBudget::Bytes(3 << 29))),
            ("4096b", Some(MemoryBudget::Bytes(4096))),
            ("1.5k", Some(MemoryBudget::Bytes(1536))),
            ("2", None),
            ("0", None),
            ("-1G", None),
            ("120%", None),
            ("1X", None),
            ("NaN", None),
            ("inf", None),
            ("G", None),
            ("0.5é", None),
            ("", None),
        ] {
            assert_eq!(MemoryBudget::parse(text), budget, "{text}");
        }
    }

    #[test]
    fn the_largest_size_fills_the_budget_and_no_more() {
        let growth = MemoryGrowth::of(&[1.0, 2.0, 4.0, 8.0].map(|n| (n * 1000.0, 5000.0 + n * 64_000.0))).unwrap();
        assert_eq!(largest_num_envs(&growth, 645_000), Some(10_000));
        assert_eq!(largest_num_envs(&growth, 100), Some(0));
        let flat = MemoryGrowth::of(&[1.0, 2.0, 4.0].map(|n| (n, 7.0))).unwrap();
        assert_eq!(largest_num_envs(&flat, 100), None);
    }
}
