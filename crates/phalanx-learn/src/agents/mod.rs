//! Agents that learn with networks, one module each. An agent's settings stand in its own module, and say by
//! [`run::settings`](crate::run::settings) how they are read and what they allow.

pub mod choices;
pub mod dqn;
mod limits;
pub mod ppo;
pub mod pqn;
pub mod q_network;
pub mod replay;

#[cfg(test)]
pub(crate) mod cut_short;
