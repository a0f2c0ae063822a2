//! Rates of the networks that agents use: a policy's forward pass for one observation and in batches, and forward and
//! backward passes in floating-point operations, beside the `gemm` crate's own rate at the same shapes.

use std::time::Instant;

use phalanx_learn::nn::Layer::{Dense, Tanh};
use phalanx_learn::nn::init::Init;
use phalanx_learn::nn::parallel::TILE;
use phalanx_learn::nn::{Network, Tape};
use phalanx_learn::random::{Purpose, Random};

/// Calls in a second, the best of many short rounds: some of them have the core for themselves, also on a busy machine.
fn rate(mut call: impl FnMut()) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..300 {
        let (start, mut calls) = (Instant::now(), 0);
        while start.elapsed().as_secs_f64() < 1e-3 {
            (0..4).for_each(|_| call());
            calls += 4;
        }
        best = best.max(f64::from(calls) / start.elapsed().as_secs_f64());
    }
    best
}

/// Products a second of the `gemm` crate: `rows x inner` times `inner x columns`, in 10⁹ operations.
fn gemm(rows: usize, inner: usize, columns: usize) -> f64 {
    let (left, right, mut out) =
        (vec![0.5_f32; rows * inner], vec![0.5_f32; inner * columns], vec![0.0; rows * columns]);
    let stride = |stride: usize| stride as isize;
    let calls = rate(|| {
        // SAFETY: the matrices have these sizes and strides.
        unsafe {
            gemm::gemm(
                rows,
                columns,
                inner,
                out.as_mut_ptr(),
                1,
                stride(columns),
                false,
                left.as_ptr(),
                1,
                stride(inner),
                right.as_ptr(),
                1,
                stride(columns),
                0.0_f32,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    });
    calls * 2e-9 * (rows * inner * columns) as f64
}

fn main() {
    for hidden in [64, 256] {
        let network = Network::new(4, &[Dense(hidden), Tanh, Dense(hidden), Tanh, Dense(2)]);
        let mut random = Random::new(1, Purpose::Weights);
        let orthogonal = |gain| Init::Orthogonal { gain };
        let parameters: Vec<f32> = network.draw(orthogonal(1.4), orthogonal(0.01), &mut random);
        let rows: Vec<f32> = (0..TILE * 4).map(|_| random.normal() as f32).collect();
        let mut tape = Tape::new(&network, TILE);
        let one = rate(|| {
            network.forward(&parameters, &rows[..4], &mut tape);
        });
        let many = rate(|| {
            network.forward(&parameters, &rows, &mut tape);
        });
        let towards = vec![0.01; TILE * 2];
        let mut gradients = vec![0.0; network.parameters()];
        let both = rate(|| {
            network.forward(&parameters, &rows, &mut tape);
            network.backward(&parameters, &towards, &mut tape, &mut gradients);
        });
        let weights = (4 * hidden + hidden * hidden + 2 * hidden) as f64;
        // Backward: a product for the weights of each layer, and one for the inputs of each but the first.
        let forward = 2e-9 * weights * TILE as f64;
        let backward = 2.0 * forward - 2e-9 * (4 * hidden * TILE) as f64;
        println!("4-{hidden}-{hidden}-2, tiles of {TILE}");
        println!("  one observation {:.2} us, {:.2} M observations/s", 1e6 / one, 1e-6 * many * TILE as f64);
        println!("  forward {:.1} GFLOP/s, with backward {:.1}", many * forward, both * (forward + backward));
        println!("  gemm {:.1} GFLOP/s at {TILE} x {hidden} x {hidden}", gemm(TILE, hidden, hidden));
        println!("  gemm {:.1} GFLOP/s at {TILE} x 4 x {hidden}", gemm(TILE, 4, hidden));
    }
}
