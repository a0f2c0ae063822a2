//! Files are read whole, and what cannot be made again is never replaced.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use phalanx_core::snapshot;
pub(crate) use phalanx_lab::files::write_atomically;
use phalanx_lab::files::{folder_of, temporary};
use serde::de::IgnoredAny;

use crate::commands::rollout::STATE_KIND;
use crate::failure::Failure;

/// The contents of a file, or of standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let result = if path.as_os_str() == "-" {
        io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|contents| bytes = contents)
    };
    result.map(|()| bytes).map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))
}

/// The contents of a regular file: a device could go on for ever.
pub(crate) fn read_regular(path: &Path) -> Result<Vec<u8>, Failure> {
    phalanx_lab::files::read_regular(path)
        .map_err(|error| Failure::input(format!("cannot read {}: {error}", path.display())))
}

/// What an output file holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// The table of a run.
    Table,
    /// The lines of a monitor.
    MetricsLog,
    Html,
    Svg,
    Png,
    Gif,
    /// A suite's summary for a pull request.
    Summary,
    /// A suite's report with the binary that made it.
    SuiteBaseline,
    /// A saved state.
    State,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::MetricsLog => "log of a monitor",
            Self::Html => "HTML page",
            Self::Svg => "SVG",
            Self::Png => "PNG",
            Self::Gif => "GIF",
            Self::Summary => "summary of a suite",
            Self::SuiteBaseline => "baseline of a suite",
            Self::State => "saved state",
        }
    }

    /// Whether a file with these contents may be replaced by one of this kind: only if it is of the same kind, and
    /// that is one that no other file rests on.
    fn replaces(self, old: &[u8]) -> bool {
        let head = String::from_utf8_lossy(&old[..old.len().min(1024)]).trim_start().to_lowercase();
        let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
        match self {
            _ if old.is_empty() => true,
            Self::Table | Self::MetricsLog => false,
            Self::Html => head.starts_with("<!doctype html") || head.starts_with("<html"),
            Self::Svg => (head.starts_with("<?xml") || head.starts_with("<svg")) && head.contains("<svg"),
            Self::Png => old.starts_with(b"\x89PNG"),
            Self::Gif => old.starts_with(b"GIF8"),
            Self::Summary => head.starts_with(&SUMMARY_TITLE.to_lowercase()),
            Self::SuiteBaseline => json(old)["binary"].is_object(),
            Self::State => snapshot::decode::<IgnoredAny>(STATE_KIND, old).is_ok(),
        }
    }
}

/// What a suite's summary begins with.
pub(crate) const SUMMARY_TITLE: &str = "## Benchmarks: ";

/// The file that a path stands for, after checking, before the work that fills it, that it could be written and that
/// nothing else would be lost.
pub(crate) fn check_target(path: &Path, kind: Kind) -> Result<PathBuf, Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure::input(format!("cannot write {}: {why}", path.display()));
    // A link stands for the file it leads to; renaming over the link itself would leave that file behind.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.exists() {
        if !target.is_file() {
            return Err(refuse(&"it exists and is not a file"));
        }
        if !kind.replaces(&read(&target)?) {
            let what = match kind {
                Kind::Table | Kind::MetricsLog => String::new(),
                _ => format!(" and is no {}", kind.name()),
            };
            return Err(Failure::input(format!(
                "{} already exists{what}; a stored run never changes: choose another name",
                path.display()
            )));
        }
    }
    if !folder_of(&target).is_dir() {
        return Err(refuse(&"its folder does not exist"));
    }
    temporary(&target).map_err(|error| refuse(&error.kind()))?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_made_again_is_replaced() {
        let page = b"<!DOCTYPE html>\n<svg ";
        let svg = b"<?xml version=\"1.0\"?><!DOCTYPE svg><svg width=\"1\">";
        let reading = b"{\"step\":1,\"sps\":2.0,\"cpu\":null,\"mem\":1.0}\n";
        let baseline = b"{\"binary\": {\"file\": \"a\"}}";
        let state = snapshot::encode(STATE_KIND, &1, &[]);
        let summary = b"## Benchmarks: equivalent\n";
        let files: [(&[u8], Option<Kind>); 11] = [
            (page, Some(Kind::Html)),
            (svg, Some(Kind::Svg)),
            (b"\x89PNG\r\n", Some(Kind::Png)),
            (b"GIF89a", Some(Kind::Gif)),
            (reading, None),
            (baseline, Some(Kind::SuiteBaseline)),
            (&state, Some(Kind::State)),
            (summary, Some(Kind::Summary)),
            (b"a,b\n1,2\n", None),
            (b"{\"record\": \"run\"}\n", None),
            (b"{\"binary\": null, \"results\": []}", None),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let kinds = files.iter().filter_map(|(_, kind)| *kind).chain([Kind::Table, Kind::MetricsLog]);
        for kind in kinds {
            for (bytes, own) in &files {
                std::fs::write(&path, bytes).unwrap();
                let text = String::from_utf8_lossy(bytes);
                assert_eq!(check_target(&path, kind).is_ok(), *own == Some(kind), "{kind:?} over {text}");
            }
            std::fs::write(&path, "").unwrap();
            assert!(check_target(&path, kind).is_ok(), "nothing is lost");
        }
    }
}
