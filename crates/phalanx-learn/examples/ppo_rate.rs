//! Steps a second of PPO on 2 048 CartPoles, its two halves apart: the best of some units of work.

use std::sync::Arc;
use std::time::Instant;

use phalanx_core::batch::{Autoreset, BatchConfig};
use phalanx_core::pool::Pool;
use phalanx_learn::agents::ppo::{Ppo, PpoConfig};
use phalanx_learn::learner::{Learner, Report};
use phalanx_learn::world::{Sight, World};

fn main() {
    const NUM_ENVS: usize = 2048;
    for threads in [1, 2] {
        let pool = Arc::new(Pool::new(threads));
        let batch = BatchConfig {
            num_envs: NUM_ENVS,
            seed: 3,
            autoreset: Autoreset::SameStep,
            pool: pool.clone(),
            ..BatchConfig::default()
        };
        let env = phalanx_envs::registry::find("CartPole-v1").expect("CartPole is there");
        let world = World::new(env.batch(&batch).expect("these settings work"), Sight::PRESENT)
            .expect("vectors of real numbers");
        let mut ppo = Ppo::new(PpoConfig::default(), world, 10_000, 7, pool).expect("these settings work");
        let (mut rolling, mut learning) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..12 {
            let mut report = Report::default();
            let start = Instant::now();
            ppo.roll_out(&mut report).expect("CartPole goes on");
            rolling = rolling.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            ppo.learn(&mut report).expect("numbers stay finite");
            learning = learning.min(start.elapsed().as_secs_f64());
        }
        let k_steps = 1e-3 * ppo.unit() as f64;
        println!("{threads} threads: {:.0} k steps/s", k_steps / (rolling + learning));
        println!("  {:.0} k steps/s without learning, {:.0} k without acting", k_steps / rolling, k_steps / learning);
    }
}
