//! Agents that learn with networks, one module each.

pub mod dqn;
pub mod ppo;
pub mod pqn;
pub mod q_network;
pub mod replay;

/// Settings of PQN and DQN that were found to work: TOML, a table `AGENT.ENV` for each.
pub const Q_PRESETS: &str = include_str!("q_presets.toml");

#[cfg(test)]
mod cut_short;
