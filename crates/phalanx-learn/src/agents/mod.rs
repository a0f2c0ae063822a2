//! Agents that learn with networks, one module each.

pub mod dqn;
pub mod ppo;
pub mod pqn;
pub mod q_network;
pub mod replay;

#[cfg(test)]
mod cut_short;
