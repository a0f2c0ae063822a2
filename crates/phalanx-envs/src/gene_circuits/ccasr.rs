//! The CcaS-CcaR circuit with a fluorescent protein: light makes H, H makes F, F makes more F.
//!
//! | j | reaction | propensity, 1/min | change |
//! |---|---|---|---|
//! | 0 | light makes H | eta U | H + 1 |
//! | 1 | H is lost | nu H | H - 1 |
//! | 2 | H makes F | a/2 hill(H, Kh, nh) | F + 1 |
//! | 3 | F makes F | 1/2 hill(F, Kf, nf) | F + 1 |
//! | 4 | F is lost | nu F | F - 1 |
//!
//! Deviation from the published code: eta and a, there fixed at 1, are parameters.

use phalanx_core::lanes::Real;

use crate::reaction::{Fired, Hill, Network};

/// The circuit under one light, with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Ccasr<R: Real> {
    /// Propensity of the light's reaction, eta U.
    pub light: R,
    /// Loss rate of both species.
    pub nu: R,
    /// How H makes F.
    pub by_h: Hill<R>,
    /// Largest rate at which H makes F.
    pub by_h_most: R,
    /// How F makes F.
    pub by_f: Hill<R>,
}

/// Largest rate at which F makes F, 1/min.
const BY_F_MOST: f64 = 0.5;

impl<R: Real> Network<R, 2, 5> for Ccasr<R> {
    const CHANGES: [[i32; 2]; 5] = [[1, 0], [-1, 0], [0, 1], [0, 1], [0, -1]];

    #[inline(always)]
    fn propensities(&self, [h, f]: &[R; 2]) -> [R; 5] {
        let by_h = self.by_h_most * self.by_h.at(*h);
        let by_f = R::splat(BY_F_MOST) * self.by_f.at(*f);
        [self.light, self.nu * *h, by_h, by_f, self.nu * *f]
    }

    /// A reaction changes H or F, so one of the two Hill functions has to be computed, not both.
    #[inline(always)]
    fn propensities_after(&self, [h, f]: &[R; 2], before: &[R; 5], fired: Fired<R, 5>) -> [R; 5] {
        let of_f = fired.is_past(1);
        let hill = Hill::select(of_f, self.by_f, self.by_h).at(R::select(of_f, *f, *h));
        let made = R::select(of_f, R::splat(BY_F_MOST), self.by_h_most) * hill;
        let by_h = R::select(of_f, before[2], made);
        let by_f = R::select(of_f, made, before[3]);
        [self.light, self.nu * *h, by_h, by_f, self.nu * *f]
    }
}

/// The circuit of an environment's parameters, which both tasks name alike.
macro_rules! circuit {
    ($params:expr, $light:expr) => {
        $crate::gene_circuits::Ccasr {
            light: $params.eta * $light,
            nu: $params.nu,
            by_h: $crate::reaction::Hill::new($params.Kh, $params.nh),
            by_h_most: R::splat(0.5) * $params.a,
            by_f: $crate::reaction::Hill::new($params.Kf, $params.nf),
        }
    };
}
pub(super) use circuit;

#[cfg(test)]
mod tests {
    use super::*;

    fn default<R: Real>(light: f64) -> Ccasr<R> {
        let hill = |half| Hill::new(R::splat(half), R::splat(3.6));
        Ccasr {
            light: R::splat(light),
            nu: R::splat(0.01),
            by_h: hill(90.0),
            by_h_most: R::splat(0.5),
            by_f: hill(30.0),
        }
    }

    #[test]
    fn golden_propensities() {
        let expected = [1.0, 0.5, 0.05377416688833404, 0.0942585657950622, 0.2];
        let single = default::<f32>(1.0).propensities(&[50.0, 20.0]).map(f64::from);
        let double = default::<f64>(1.0).propensities(&[50.0, 20.0]);
        for ((single, double), expected) in single.into_iter().zip(double).zip(expected) {
            assert!((double / expected - 1.0).abs() < 1e-14, "{double} instead of {expected}");
            assert!((single / expected - 1.0).abs() < 1e-6, "{single} instead of {expected}");
        }
        assert!((double.iter().sum::<f64>() - 1.8480327326833963).abs() < 1e-14);
        assert!((single.iter().sum::<f64>() / 1.8480327326833963 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn in_the_dark_and_empty_nothing_can_happen() {
        assert_eq!(default::<f32>(0.0).propensities(&[0.0, 0.0]), [0.0; 5]);
    }

    /// The table of the rate equation's fixed points: 0.5 hill(H) + 0.5 hill(F) = nu F.
    #[test]
    fn fixed_points_of_the_rate_equation() {
        let rows: [(f64, &[f64]); 6] = [
            (100.0, &[78.141]),
            (90.0, &[73.049]),
            (70.0, &[60.749]),
            (60.0, &[10.568, 22.454, 54.071]),
            (50.0, &[5.488, 29.271, 47.192]),
            (45.0, &[3.840, 32.828, 43.225]),
        ];
        for (h, expected) in rows {
            let drift = |f: f64| {
                let [_, _, by_h, by_f, lost] = default::<f64>(0.0).propensities(&[h, f]);
                by_h + by_f - lost
            };
            let crossings: Vec<f64> = (0..100_000)
                .map(|i| f64::from(i) * 1e-3)
                .filter(|&f| (drift(f) < 0.0) != (drift(f + 1e-3) < 0.0))
                .collect();
            assert_eq!(crossings.len(), expected.len(), "H = {h}: {crossings:?}");
            assert!(crossings.iter().zip(expected).all(|(f, e)| (f - e).abs() < 0.01), "H = {h}: {crossings:?}");
        }
    }
}
