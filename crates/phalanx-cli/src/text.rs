//! Numbers for people.

/// 1234567.0 as `1.23 M`.
pub(crate) fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e3 => (value / 1e3, " k"),
        _ => (value, " "),
    };
    let digits = match scaled.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{unit}").trim_end().to_owned()
}

/// 1234567 as `1 234 567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1 episode`, `1 000 episodes`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Bytes with a binary unit.
pub(crate) fn bytes(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 1024.0 * 1024.0 * 1024.0 => (v / (1024.0 * 1024.0 * 1024.0), "GiB"),
        v if v >= 1024.0 * 1024.0 => (v / (1024.0 * 1024.0), "MiB"),
        v if v >= 1024.0 => (v / 1024.0, "KiB"),
        v => (v, "bytes"),
    };
    format!("{scaled:.1} {unit}")
}

/// Text in columns: the first flush left, the others flush right. Every row has a cell for each column.
pub(crate) fn columns(header: &[&str], rows: &[impl AsRef<[String]>]) -> String {
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let rows = || std::iter::once(header.as_slice()).chain(rows.iter().map(AsRef::as_ref));
    let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, width))| match i {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["CartPole-v1", "1"], ["µ", "10 000"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&["env", "envs"], &rows), "env            envs\nCartPole-v1       1\nµ            10 000\n");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(short(0.5), "0.50");
        assert_eq!(short(654_321_000.0), "654 M");
        assert_eq!(short(1.05e9), "1.05 G");
        assert_eq!(short(12_345.0), "12.3 k");
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_048_576), "1 048 576");
        assert_eq!((counted(1, "episode"), counted(2, "episode")), ("1 episode".to_owned(), "2 episodes".to_owned()));
        assert_eq!(bytes(33_554_432.0), "32.0 MiB");
    }
}
