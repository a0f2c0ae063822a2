//! The classical Runge-Kutta step, for the plants.

use phalanx_core::lanes::Real;

/// One step of `h` from `x`, where `rate(half, x)` is the rate of change `half` half-steps into the step.
#[inline(always)]
pub(crate) fn rk4<R: Real, const N: usize>(x: [R; N], h: R, rate: impl Fn(usize, [R; N]) -> [R; N]) -> [R; N] {
    along(x, h * R::splat(1.0 / 6.0), six_rates(x, h, rate).0)
}

/// Six times the rate at which [`rk4`] goes from `x`, and the rate where it arrives (but for the third power
/// of `h`).
#[inline(always)]
pub(crate) fn six_rates<R: Real, const N: usize>(
    x: [R; N],
    h: R,
    rate: impl Fn(usize, [R; N]) -> [R; N],
) -> ([R; N], [R; N]) {
    let half = h * R::splat(0.5);
    let k1 = rate(0, x);
    let k2 = rate(1, along(x, half, k1));
    let sum = along(k1, R::splat(2.0), k2);
    let k3 = rate(1, along(x, half, k2));
    let sum = along(sum, R::splat(2.0), k3);
    let k4 = rate(2, along(x, h, k3));
    (std::array::from_fn(|i| sum[i] + k4[i]), k4)
}

/// `x + h * rate`.
#[inline(always)]
pub(crate) fn along<R: Real, const N: usize>(x: [R; N], h: R, rate: [R; N]) -> [R; N] {
    std::array::from_fn(|i| rate[i].mul_add(h, x[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x' = x + t from 0 has the solution e^t - 1 - t, which depends on the time as well as on the state.
    #[test]
    fn the_error_falls_with_the_fourth_power_of_the_step() {
        let error = |steps: u32| {
            let h = 1.0 / f64::from(steps);
            let end = (0..steps).fold([0.0], |x, i| {
                let start = f64::from(i) * h;
                rk4(x, h, |half, [x]| [x + start + 0.5 * h * half as f64])
            });
            (end[0] - (std::f64::consts::E - 2.0)).abs()
        };
        let ratio = error(20) / error(40);
        assert!((14.0..18.0).contains(&ratio), "{ratio}");
    }
}
