//! The memory that arrays will take, counted before they are made: what does not fit is refused in a sentence instead
//! of ending the program.

use crate::error::{Error, Result};

/// A number of bytes, or nothing if there are more than can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(Option<usize>);

impl Bytes {
    pub(crate) const NONE: Self = Self(Some(0));

    /// Those of an array with as many elements as the sizes multiply to.
    pub(crate) fn of<T>(sizes: &[usize]) -> Self {
        Self(sizes.iter().try_fold(size_of::<T>(), |bytes, size| bytes.checked_mul(*size)))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0.zip(other.0).and_then(|(one, other)| one.checked_add(other)))
    }

    pub(crate) fn times(self, count: usize) -> Self {
        Self(self.0.and_then(|bytes| bytes.checked_mul(count)))
    }

    /// The number, if an array can be so long.
    pub(crate) fn count(self) -> Option<usize> {
        self.0.filter(|bytes| isize::try_from(*bytes).is_ok())
    }

    /// Refuses the value of a setting if what it asks for takes more memory than is available.
    pub(crate) fn require(self, key: &str, value: impl std::fmt::Display, what: &str) -> Result<()> {
        let available = available_bytes();
        let would_take = match self.count() {
            Some(bytes) if available.is_none_or(|available| bytes as u64 <= available) => return Ok(()),
            Some(bytes) => shown(bytes as u64),
            None => "more than 8 EiB".to_owned(),
        };
        let there_is = available.map_or(String::new(), |bytes| format!(", of which {} is free", shown(bytes)));
        Err(Error::setting(key, format!("is {value}, but {what} would take {would_take} of memory{there_is}")))
    }
}

/// Memory that could still be had; unknown outside of Linux.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn shown(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let size = (bytes as f64).log2().max(10.0);
    let unit = ((size / 10.0) as usize).min(UNITS.len());
    format!("{:.1} {}", bytes as f64 / 1024_f64.powi(unit as i32), UNITS[unit - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_counted_or_had_is_refused() {
        assert_eq!(Bytes::of::<f32>(&[3, 5]).and(Bytes::of::<u8>(&[2])).count(), Some(62));
        assert_eq!(Bytes::of::<f32>(&[]).times(3), Bytes(Some(12)));
        assert_eq!(Bytes::of::<f64>(&[usize::MAX / 4, 0]).count(), None, "however small the product is in the end");
        Bytes::of::<f32>(&[1000]).require("run.batch_size", 1000, "a batch").unwrap();
        for sizes in [[usize::MAX / 2, 1], [usize::MAX, usize::MAX], [1 << 50, 1]] {
            let error = Bytes::of::<f32>(&sizes).require("run.batch_size", 7, "a batch").unwrap_err().to_string();
            assert!(error.starts_with("run.batch_size is 7, but a batch would take "), "{error}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!([100, 1024, 3 << 29, 1 << 40].map(shown), ["0.1 KiB", "1.0 KiB", "1.5 GiB", "1.0 TiB"]);
    }
}
