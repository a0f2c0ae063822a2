//! The agents, each in a module of its own.

pub mod ppo;
