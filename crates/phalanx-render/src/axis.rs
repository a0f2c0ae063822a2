//! Axes: a range of values that holds all data, where it lies, and its ticks.

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally long.
    #[default]
    Linear,
    /// Equal ratios are equally long; only values above 0 have a place.
    Log,
}

/// A range of values, where its ends lie, and its ticks.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) scale: Scale,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) ticks: Vec<(f64, String)>,
    /// Places between the ticks that a grid may show faintly.
    pub(crate) minor: Vec<f64>,
}

impl Axis {
    /// About `count` intervals; ends that the caller did not choose are round.
    pub(crate) fn of(range: Option<(f64, f64)>, values: impl Iterator<Item = f64>, count: f64) -> Self {
        let (mut low, mut high) = range.unwrap_or((f64::INFINITY, f64::NEG_INFINITY));
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let (widen_low, widen_high) = (least < low, most > high);
        (low, high) = (low.min(least), high.max(most));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if high - low <= 1e-9 * low.abs().max(high.abs()) || high == low {
            let room = if high == 0.0 { 1.0 } else { high.abs() * 0.1 };
            (low, high) = (low - room, high + room);
        }
        let step = round_step((high - low) / count.clamp(1.0, 20.0));
        if widen_low {
            low = (low / step).floor() * step;
        }
        if widen_high {
            high = (high / step).ceil() * step;
        }
        let (first, last) = ((low / step - 1e-6).ceil() as i64, (high / step + 1e-6).floor() as i64);
        let ticks = (first..=last.min(first.saturating_add(40))).map(|i| {
            let value = i as f64 * step;
            (value, tick_text(value, step))
        });
        Self { scale: Scale::Linear, low, high, from: 0.0, to: 1.0, ticks: ticks.collect(), minor: Vec::new() }
    }

    /// An axis of ratios around all values above 0, with a little room at the ends that the caller did not choose.
    /// Ticks are powers of ten, with 2 and 5 of each where there are few, at most `most` of them; `name` writes them.
    pub(crate) fn log(
        range: Option<(f64, f64)>,
        values: impl Iterator<Item = f64>,
        most: f64,
        name: &dyn Fn(f64) -> String,
    ) -> Self {
        let range = range.filter(|(low, high)| *low > 0.0 && high > low);
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let (least, greatest) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let (mut low, mut high) = range.unwrap_or((f64::INFINITY, 0.0));
        if least < low {
            low = least / 1.25;
        }
        if greatest > high {
            high = greatest * 1.25;
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        // Less than half a decade has hardly a round number in it.
        if high / low < 4.0 {
            let room = (4.0 * low / high).sqrt();
            (low, high) = (low / room, high * room);
        }
        let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let within = |value: &f64| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9);
        let multiples = |multiples: &'static [f64]| {
            let all = decades.clone().flat_map(move |power| multiples.iter().map(move |m| m * 10_f64.powi(power)));
            all.filter(within).collect::<Vec<f64>>()
        };
        let most = most.max(2.0) as usize;
        let fits = |ticks: &Vec<f64>| ticks.len() <= most;
        let fine = Some(multiples(&[1.0, 2.0, 5.0])).filter(|ticks| fits(ticks) && multiples(&[1.0]).len() < 4);
        let mut ticks = fine.unwrap_or_else(|| multiples(&[1.0]));
        // Every third or sixth decade where all would be too many; counted from 1, so that 1 K and 1 M stay.
        let mut every = 1;
        while !fits(&ticks) {
            every += if every == 1 { 2 } else { 3 };
            ticks = multiples(&[1.0]).into_iter().filter(|t| t.log10().round() as i32 % every == 0).collect();
        }
        let ticks = ticks.into_iter().map(|value| (value, name(value))).collect();
        let minor = multiples(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        Self { scale: Scale::Log, low, high, from: 0.0, to: 1.0, ticks, minor }
    }

    /// Where a value lies; not finite if the scale has no place for it.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share * (self.to - self.from)
    }
}

/// The next of 1, 2, 5 times a power of ten that is not below `least`.
///
/// ```
/// # use phalanx_render::chart::round_step;
/// assert_eq!([0.3, 1.0, 17.0, 600.0].map(round_step), [0.5, 1.0, 20.0, 1000.0]);
/// ```
pub fn round_step(least: f64) -> f64 {
    if !(least > 0.0 && least.is_finite()) {
        return 1.0;
    }
    let power = 10.0_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(least)
}

/// A tick in as many decimals as its step needs.
fn tick_text(value: f64, step: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() >= 1e6 || step < 1e-4 {
        return format!("{value:.1e}");
    }
    let decimals = (-(step * (1.0 + 1e-9)).log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_the_given_range_is_kept() {
        let axis = Axis::of(Some((0.0, 96.0)), [3.0, 80.0].into_iter(), 5.0);
        assert_eq!((axis.low, axis.high), (0.0, 96.0));
        let shown: Vec<_> = axis.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(shown, ["0", "20", "40", "60", "80"]);
        let fine = Axis::of(None, [0.61, 0.74].into_iter(), 4.0);
        let shown: Vec<_> = fine.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(shown, ["0.60", "0.65", "0.70", "0.75"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten() {
        let name = |value: f64| format!("{value}");
        let ticks = |low: f64, high: f64, most: f64| {
            let axis = Axis::log(None, [low, high].into_iter(), most, &name);
            assert!(axis.low < low && axis.high > high);
            axis.ticks.iter().map(|(value, _)| *value).collect::<Vec<_>>()
        };
        assert_eq!(ticks(100.0, 1e6, 8.0), [1e2, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(ticks(1.0, 1e9, 5.0), [1.0, 1e3, 1e6, 1e9], "every third, so that thousands and millions stay");
        assert_eq!(ticks(30.0, 800.0, 8.0), [50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert!(!ticks(5.0, 5.0, 8.0).is_empty(), "one value");
        let empty = Axis::log(None, [-1.0, f64::NAN].into_iter(), 5.0, &name);
        assert_eq!((empty.low, empty.high), (1.0, 10.0));
        let axis = Axis { from: 0.0, to: 300.0, ..Axis::log(Some((1.0, 1000.0)), [10.0].into_iter(), 9.0, &name) };
        assert_eq!([1.0, 10.0, 1000.0].map(|value| axis.place(value).round()), [0.0, 100.0, 300.0]);
    }
}
