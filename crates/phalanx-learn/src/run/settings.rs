//! The types and ranges of settings, and how a section of them is declared.
//!
//! A section is a plain struct with defaults. Its declaration also says how each key is read, what it allows and how
//! it is written, so that a file, the command line and a message all speak of the same keys.

use std::collections::BTreeMap;

use phalanx_core::error::did_you_mean;
use toml::Value;

use crate::error::{Error, Result};

/// A type that a setting can have.
pub(crate) trait Setting: Sized {
    /// What a value must be: `a number`.
    fn kind() -> String;
    /// The names there are, of a type that is a choice between names.
    fn names() -> &'static [&'static str] {
        &[]
    }
    /// The smallest and the largest value, of a type that has such.
    fn ends() -> Option<(Self, String)> {
        None
    }
    /// The value, if it is of this type.
    fn read(value: &Value) -> Option<Self>;
    /// The value as a file has it; [`Setting::read`] reads it back.
    fn write(&self) -> Value;
}

/// Whole numbers in TOML end before this.
const MOST: f64 = (1_u64 << 63) as f64;

macro_rules! whole_numbers {
    ($($type:ty)*) => {$(
        impl Setting for $type {
            fn kind() -> String {
                "a whole number".to_owned()
            }
            fn ends() -> Option<(Self, String)> {
                Some((Self::MIN, format!("from {} to {}", Self::MIN, Self::MAX)))
            }
            fn read(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(number) => Self::try_from(*number).ok(),
                    // `1e6` is how one writes a million.
                    Value::Float(number) if number.fract() == 0.0 && number.abs() < MOST => {
                        Self::try_from(*number as i64).ok()
                    }
                    // TOML's numbers end at half of what a seed can be: larger ones are texts.
                    Value::String(text) => text.parse().ok().filter(|number| i64::try_from(*number).is_err()),
                    _ => None,
                }
            }
            fn write(&self) -> Value {
                i64::try_from(*self).map_or_else(|_| Value::String(self.to_string()), Value::Integer)
            }
        }
    )*};
}
whole_numbers!(u32 u64 usize);

impl Setting for f64 {
    fn kind() -> String {
        "a finite number".to_owned()
    }
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number).filter(|number| number.is_finite()),
            _ => None,
        }
    }
    fn write(&self) -> Value {
        Value::Float(*self)
    }
}

impl Setting for bool {
    fn kind() -> String {
        "true or false".to_owned()
    }
    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
    fn write(&self) -> Value {
        Value::Boolean(*self)
    }
}

impl Setting for String {
    fn kind() -> String {
        "a text".to_owned()
    }
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => Some(value.to_string()),
            _ => None,
        }
    }
    fn write(&self) -> Value {
        Value::String(self.clone())
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn kind() -> String {
        format!("a list, each item {}", T::kind())
    }
    fn read(value: &Value) -> Option<Self> {
        value.as_array()?.iter().map(T::read).collect()
    }
    fn write(&self) -> Value {
        Value::Array(self.iter().map(T::write).collect())
    }
}

/// Written out as `"none"`, so that a file can also take back what a preset gave.
impl<T: Setting> Setting for Option<T> {
    fn kind() -> String {
        format!("{} or none", T::kind())
    }
    fn names() -> &'static [&'static str] {
        T::names()
    }
    fn ends() -> Option<(Self, String)> {
        T::ends().map(|(least, range)| (Some(least), range))
    }
    fn read(value: &Value) -> Option<Self> {
        if value.as_str() == Some("none") { Some(None) } else { T::read(value).map(Some) }
    }
    fn write(&self) -> Value {
        self.as_ref().map_or_else(|| Value::String("none".to_owned()), T::write)
    }
}

/// A section of settings.
pub(crate) trait Section {
    /// Its keys, each with the name of the section that a file has it in.
    fn keys(&self) -> &'static [(&'static str, &'static str)];
    /// Sets one of its keys.
    fn set(&mut self, section: &str, key: &str, value: &Value) -> Result<()>;
    /// The values of its keys, in their order.
    fn values(&self) -> Vec<Value>;
}

/// Checks the range of each key, as if it had been read from a file.
pub(crate) fn check_keys(settings: &(impl Section + Clone)) -> Result<()> {
    let mut read = settings.clone();
    let values = settings.values();
    settings.keys().iter().zip(&values).try_for_each(|((section, key), value)| read.set(section, key, value))
}

/// What a check finds wrong: what is allowed instead.
pub(crate) type Complaint = Option<&'static str>;

pub(crate) fn any<T>(_: &T) -> Complaint {
    None
}

pub(crate) fn at_least_one<T: PartialOrd + From<u8>>(value: &T) -> Complaint {
    (*value < T::from(1)).then_some("at least 1")
}

/// More threads than any machine has: starting them would take the system down before it fails.
pub(crate) fn thread_count(value: &usize) -> Complaint {
    (!(1..=4096).contains(value)).then_some("from 1 to 4096")
}

/// So many that a higher number can only be a mistake: a run would not come to its first checkpoint.
pub(crate) fn epochs(value: &usize) -> Complaint {
    (!(1..=10_000).contains(value)).then_some("from 1 to 10000")
}

/// Rows of a batch. More would be learnt from for so long that nobody could end a run in between.
pub(crate) fn rows_of_batch(value: &usize) -> Complaint {
    (!(1..=1_000_000).contains(value)).then_some("from 1 to 1000000")
}

/// Steps of a return. Longer than any episode that is looked at as a whole.
pub(crate) fn steps_of_return(value: &usize) -> Complaint {
    (!(1..=1_000_000).contains(value)).then_some("from 1 to 1000000")
}

/// A value as the command line and tables have it: texts without quotation marks, and numbers that are very small or
/// very large with an exponent. [`Setting::read`] takes it back.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(number) if number.is_finite() => format!("{number:?}"),
        value => value.to_string(),
    }
}

pub(crate) fn positive(value: &f64) -> Complaint {
    (*value <= 0.0).then_some("above 0")
}

pub(crate) fn not_negative(value: &f64) -> Complaint {
    (*value < 0.0).then_some("0 or more")
}

pub(crate) fn share(value: &f64) -> Complaint {
    (!(0.0..=1.0).contains(value)).then_some("from 0 to 1")
}

/// A share of a run: none of it is not a share.
pub(crate) fn part(value: &f64) -> Complaint {
    (*value <= 0.0 || *value > 1.0).then_some("above 0 and at most 1")
}

pub(crate) fn optional<T>(check: impl Fn(&T) -> Complaint) -> impl Fn(&Option<T>) -> Complaint {
    move |value| value.as_ref().and_then(&check)
}

pub(crate) fn layers(sizes: &impl AsRef<[usize]>) -> Complaint {
    sizes.as_ref().contains(&0).then_some("a list of sizes of at least 1, such as [64, 64]")
}

/// Reads and checks a value for a key.
pub(crate) fn checked<T: Setting>(
    section: &str,
    key: &str,
    value: &Value,
    check: impl Fn(&T) -> Complaint,
) -> Result<T> {
    // Not three hundred digits.
    let given = if value.is_float() { plain(value) } else { value.to_string() };
    let wrong =
        |allowed: &str| Error::setting(format!("{section}.{key}"), format!("is {given}, but must be {allowed}"));
    let read = T::read(value).ok_or_else(|| {
        // The range, too: -1 is a whole number, and told that it must be one nobody knows what to change.
        let is_huge = value.as_float().is_some_and(|number| number >= MOST);
        let range = T::ends().map(|(least, all)| check(&least).filter(|_| !is_huge).map_or(all, str::to_owned));
        let range = range.map(|range| format!(", {range}")).unwrap_or_default();
        let meant = value.as_str().and_then(|name| did_you_mean(name, T::names()));
        let meant = meant.map(|meant| format!("; {meant}")).unwrap_or_default();
        wrong(&format!("{}{range}{meant}", T::kind()))
    })?;
    check(&read).map_or(Ok(read), |allowed| Err(wrong(allowed)))
}

/// Declares a struct of settings: `key: type = default, check;`, with `in "section"` for a key that files have in
/// another section.
macro_rules! section {
    (@of $own:literal) => { $own };
    (@of $own:literal $other:literal) => { $other };
    ($(#[$meta:meta])* $name:ident in $own:literal {
        $($(#[$doc:meta])* $key:ident $(in $other:literal)?: $type:ty = $default:expr, $check:expr;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        impl Section for $name {
            fn keys(&self) -> &'static [(&'static str, &'static str)] {
                &[$((section!(@of $own $($other)?), stringify!($key)),)*]
            }

            fn set(&mut self, section: &str, key: &str, value: &toml::Value) -> Result<()> {
                match (section, key) {
                    $((section!(@of $own $($other)?), stringify!($key)) => {
                        self.$key = $crate::run::settings::checked(section, key, value, $check)?;
                    })*
                    _ => unreachable!("only its own keys are set"),
                }
                Ok(())
            }

            fn values(&self) -> Vec<toml::Value> {
                vec![$($crate::run::settings::Setting::write(&self.$key),)*]
            }
        }
    };
}
pub(crate) use section;

/// Declares a choice between names; a name may have another spelling.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal $(| $alias:literal)*,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Its name in a configuration.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl $crate::run::settings::Setting for $name {
            fn kind() -> String {
                format!("one of '{}'", Self::names().join("', '"))
            }
            fn names() -> &'static [&'static str] {
                &[$($text, $($alias,)*)*]
            }
            fn read(value: &toml::Value) -> Option<Self> {
                match value.as_str()? {
                    $($text $(| $alias)* => Some(Self::$variant),)*
                    _ => None,
                }
            }
            fn write(&self) -> toml::Value {
                toml::Value::String(self.name().to_owned())
            }
        }
    };
}
pub(crate) use choice;

/// Settings that only the engine can check, as texts by name.
pub type Passed = BTreeMap<String, String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_its_range() {
        let wrong = |value: i64, check: fn(&u64) -> Complaint| {
            checked::<u64>("run", "key", &Value::Integer(value), check).unwrap_err().to_string()
        };
        assert_eq!(wrong(-1, at_least_one), "run.key is -1, but must be a whole number, at least 1");
        assert_eq!(wrong(-1, any), "run.key is -1, but must be a whole number, from 0 to 18446744073709551615");
    }

    #[test]
    fn small_numbers_have_exponents() {
        let plain = |number| plain(&Value::Float(number));
        assert_eq!([1e-20, 0.001, 1.0, 0.5].map(plain), ["1e-20", "0.001", "1.0", "0.5"]);
    }

    #[test]
    fn numbers_are_read_as_what_they_are() {
        assert_eq!(u64::read(&Value::Float(1e6)), Some(1_000_000));
        assert_eq!(u64::read(&Value::Float(1.5)), None);
        assert_eq!(u32::read(&Value::Integer(-1)), None);
        assert_eq!(u64::read(&Value::String("8".into())), None);
        assert_eq!(u64::read(&u64::MAX.write()), Some(u64::MAX));
        assert_eq!(f64::read(&Value::Integer(3)), Some(3.0));
        assert_eq!(f64::read(&Value::Float(f64::NAN)), None);
        assert_eq!(Option::<f64>::read(&Value::String("none".into())), Some(None));
        assert_eq!(Option::<f64>::read(&Value::String("some".into())), None);
        assert_eq!(Vec::<usize>::read(&toml::Value::Array(vec![Value::Integer(64), Value::Boolean(true)])), None);
    }
}
