//! JSON that is only written if it can be read again: JSON has no infinity, for one.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Result};

/// The text of `what` in one line.
pub(crate) fn line<T: Serialize + DeserializeOwned>(what: &'static str, value: &T) -> Result<String> {
    readable::<T>(what, serde_json::to_string(value))
}

/// The text of `what` for people to read.
pub(crate) fn pretty<T: Serialize + DeserializeOwned>(what: &'static str, value: &T) -> Result<String> {
    readable::<T>(what, serde_json::to_string_pretty(value))
}

fn readable<T: DeserializeOwned>(what: &'static str, text: serde_json::Result<String>) -> Result<String> {
    text.and_then(|text| serde_json::from_str::<T>(&text).map(|_| text + "\n"))
        .map_err(|error| Error::NotRecordable { what, error })
}
