//! Statistics of timings. Knows numbers only: nothing here measures, reads or prints.
//!
//! Times are analysed as logarithms. A log ratio is `ln(t_before / t_after)` everywhere: positive means
//! that the later side is faster.

pub mod bootstrap;
pub mod calibration;
pub mod change_points;
pub mod checksum;
pub mod descriptive;
pub mod fence;
pub mod growth;
pub mod interval;
pub mod line;
pub mod mann_whitney;
pub mod multiple;
pub mod paired;
pub mod random;
pub mod regression;
pub mod scaling;
pub mod steady_state;
#[cfg(test)]
pub(crate) mod testing;
pub mod trend;
pub mod variance;
pub mod verdict;
