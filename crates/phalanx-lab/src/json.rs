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

/// Why JSON is not what it should be, without the names that only we know.
pub fn reason(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    text = text.replace("expected variant identifier", "expected a name");
    for kind in ["struct ", "internally tagged enum ", "enum "] {
        let Some(at) = text.find(&format!("expected {kind}")).map(|at| at + "expected ".len()) else { continue };
        let end = at + kind.len();
        let name = text[end..].find(|c: char| !c.is_alphanumeric()).map_or(text.len(), |length| end + length);
        text.replace_range(at..name, "an object");
    }
    text
}

fn readable<T: DeserializeOwned>(what: &'static str, text: serde_json::Result<String>) -> Result<String> {
    text.and_then(|text| serde_json::from_str::<T>(&text).map(|_| text + "\n"))
        .map_err(|error| Error::NotRecordable { what, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Outliers, Record};
    use serde::Deserialize;

    #[test]
    fn a_reason_names_no_types() {
        let said = |text: &str| reason(&serde_json::from_str::<Record>(text).unwrap_err());
        let said_of = |value| reason(&Record::deserialize(serde_json::json!(value)).unwrap_err());
        assert_eq!(said_of(7), "invalid type: integer `7`, expected an object");
        assert_eq!(said("[1]"), "invalid type: integer `1`, expected a name at line 1 column 2");
        assert!(said("{}").contains("missing field `type`"), "{}", said("{}"));
        let inner = reason(&serde_json::from_str::<Outliers>("7").unwrap_err());
        assert_eq!(inner, "invalid type: integer `7`, expected an object at line 1 column 1");
    }
}
