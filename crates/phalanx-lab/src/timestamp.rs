//! Points in time as UTC text, without a date library.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first second of the year 10000, which no longer has four digits.
const END_UNIX_S: u64 = 253_402_300_800;
const SECONDS_PER_DAY: u64 = 86_400;

/// A point in time in UTC, of the years 1970 to 9999. Its `Display` is RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    since_1970: Duration,
}

impl Timestamp {
    /// Now, as the system's clock has it.
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// So many seconds after 1970 began; `None` outside of the years 1970 to 9999.
    pub fn from_unix_seconds(seconds: f64) -> Option<Self> {
        let since_1970 = Duration::try_from_secs_f64(seconds).ok()?;
        (since_1970.as_secs() < END_UNIX_S).then_some(Self { since_1970 })
    }

    /// Seconds since 1970 began.
    pub fn unix_seconds(self) -> f64 {
        self.since_1970.as_secs_f64()
    }

    /// Whole microseconds since 1970 began.
    pub(crate) fn unix_micros(self) -> u64 {
        self.since_1970.as_secs() * 1_000_000 + u64::from(self.since_1970.subsec_micros())
    }

    pub(crate) fn from_unix_micros(micros: u64) -> Self {
        Self { since_1970: Duration::from_micros(micros) }
    }

    /// `20260722_130501`, for file names: sorts by time.
    pub fn compact(self) -> String {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}")
    }

    /// `2026-07-22 13:05:01`, for people.
    pub fn readable(self) -> String {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }

    /// `2026-07-22T13:05:01Z`, for records.
    pub fn rfc3339(self) -> String {
        format!("{}Z", self.readable().replace(' ', "T"))
    }

    /// The time that [`Timestamp::rfc3339`] wrote; fractions of a second and other time zones are not read.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        // Every second has one such name, so the name tells whether the fields made sense.
        let digits = |range| text.get(range).and_then(|part: &str| part.parse::<u64>().ok());
        let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
        let second_of_day = digits(11..13)? * 3600 + digits(14..16)? * 60 + digits(17..19)?;
        let seconds = days_from_civil(year, month, day)? * SECONDS_PER_DAY + second_of_day;
        let found = Self { since_1970: Duration::from_secs(seconds) };
        (seconds < END_UNIX_S && found.rfc3339() == text).then_some(found)
    }

    fn civil(self) -> Civil {
        let seconds = self.since_1970.as_secs();
        let (year, month, day) = civil_from_days(seconds / SECONDS_PER_DAY);
        let second_of_day = seconds % SECONDS_PER_DAY;
        Civil {
            year,
            month,
            day,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }
}

impl From<SystemTime> for Timestamp {
    /// A clock outside of the range is unset or broken, and is taken as the nearest end of the range.
    fn from(time: SystemTime) -> Self {
        let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { since_1970: since_1970.min(Duration::from_secs(END_UNIX_S - 1)) }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Years are taken to begin in March, so that the leap day is the last of its year and the months before it have
/// a regular pattern (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil_from_days(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: u64 = 146_097; // 400 years
    let days = days_since_1970 + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// The inverse of [`civil_from_days`].
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) {
        return None;
    }
    let (year, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month_from_march + 2) / 5 + day.checked_sub(1)?;
    (era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unix_seconds: u64) -> Timestamp {
        Timestamp::from(UNIX_EPOCH + Duration::from_secs(unix_seconds))
    }

    #[test]
    fn known_moments_have_their_names() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"), // 2000 is a leap year,
            (951_868_800, "2000-03-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"), // 2100 is none,
            (1_709_164_800, "2024-02-29T00:00:00Z"), // 2024 is one again.
            (1_000_000_000, "2001-09-09T01:46:40Z"),
            (2_147_483_647, "2038-01-19T03:14:07Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(at(seconds).rfc3339(), text);
            assert_eq!(at(seconds).to_string(), text);
            assert_eq!(Timestamp::parse_rfc3339(text), Some(at(seconds)));
        }
        for text in ["", "2026-02-30T00:00:00Z", "2026-07-22", "2026-07-22T24:00:00Z", "1969-12-31T23:59:59Z", "é"] {
            assert_eq!(Timestamp::parse_rfc3339(text), None, "{text}");
        }
        assert_eq!(at(1_000_000_000).compact(), "20010909_014640");
        assert_eq!(at(1_000_000_000).readable(), "2001-09-09 01:46:40");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..400 * 366 {
            assert_eq!(civil_from_days(days), (year, month, day));
            let length = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn times_outside_of_the_range_are_refused_or_clamped() {
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 253_402_300_800.0] {
            assert_eq!(Timestamp::from_unix_seconds(seconds), None);
        }
        assert_eq!(Timestamp::from_unix_seconds(1.5).map(Timestamp::unix_seconds), Some(1.5));
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(1)), at(0));
    }
}
