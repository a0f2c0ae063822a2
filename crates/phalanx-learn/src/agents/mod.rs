//! Agents that learn with networks, one file each.

pub mod dqn;
pub mod pqn;
pub mod q_network;
pub mod replay;

#[cfg(test)]
mod cut_short;
