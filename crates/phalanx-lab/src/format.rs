//! Numbers for people: three significant digits and a unit.

/// A count or a rate: `350M`, `7.80M`, `12.3K`, `999`; B is 10⁹, T is 10¹².
pub fn format_number(value: f64) -> String {
    scaled(value, &[(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"), (1.0, "")])
}

/// A time: `1.50 s`, `45.0 ms`, `850 µs`, `12.3 ns`, `2 min 05 s`, `1 h 02 min`.
pub fn format_seconds(seconds: f64) -> String {
    // What would round to 60 s is a minute already.
    if seconds < 59.95 || !seconds.is_finite() {
        return scaled(seconds, &[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")]);
    }
    let whole = seconds.round() as u64;
    match whole / 60 {
        minutes @ 0..60 => format!("{minutes} min {:02} s", whole % 60),
        minutes => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

/// An amount of memory: `512 B`, `1.50 KiB`, `24.0 MiB`.
pub fn format_bytes(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    let units = [(KIB.powi(4), " TiB"), (KIB.powi(3), " GiB"), (KIB.powi(2), " MiB"), (KIB, " KiB"), (1.0, " B")];
    scaled(bytes, &units)
}

/// The beginning of a text that may be of any length, as an error message quotes it: at most 80 characters.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// `value` in the largest unit that it fills once rounded; units are given from the largest down.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    let (smallest, _) = units[units.len() - 1];
    // Rounding first keeps 999 999 from becoming `1000K`.
    let rounded = three_digits(value.abs());
    let (size, unit) = units.iter().find(|(size, _)| rounded >= *size).unwrap_or(&units[units.len() - 1]);
    let in_unit = value / size;
    let digits = match three_digits(in_unit.abs()) {
        _ if value.fract() == 0.0 && *size == smallest => 0, // a whole number of the smallest unit
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{in_unit:.digits$}{unit}")
}

/// `value` ≥ 0 rounded to three significant digits.
fn three_digits(value: f64) -> f64 {
    if value == 0.0 {
        return value;
    }
    let unit = 10f64.powi(value.log10().floor() as i32 - 2);
    (value / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_an_end() {
        assert_eq!(excerpt("a short text"), "a short text");
        assert_eq!(excerpt(&"ä".repeat(80)), "ä".repeat(80));
        assert_eq!(excerpt(&"ä".repeat(1 << 20)), format!("{}...", "ä".repeat(80)));
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.50"),
            (7.0, "7"),
            (12.34, "12.3"),
            (999.0, "999"),
            (999.6, "1.00K"),
            (12_345.0, "12.3K"),
            (999_999.0, "1.00M"),
            (7_800_000.0, "7.80M"),
            (350e6, "350M"),
            (1.05e9, "1.05B"),
            (-2_500.0, "-2.50K"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_number(value), text, "{value}");
        }
    }

    #[test]
    fn durations_choose_their_unit() {
        for (seconds, text) in [
            (0.0, "0 ns"),
            (12.3e-9, "12.3 ns"),
            (850e-6, "850 µs"),
            (0.045, "45.0 ms"),
            (1.5, "1.50 s"),
            (59.96, "1 min 00 s"),
            (125.0, "2 min 05 s"),
            (3_720.0, "1 h 02 min"),
        ] {
            assert_eq!(format_seconds(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn bytes_use_binary_units() {
        for (bytes, text) in [(0.0, "0 B"), (512.0, "512 B"), (1536.0, "1.50 KiB"), (25_165_824.0, "24.0 MiB")] {
            assert_eq!(format_bytes(bytes), text);
        }
    }
}
