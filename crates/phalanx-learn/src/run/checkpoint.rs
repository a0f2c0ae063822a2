//! Checkpoints: a [`State`] as a safetensors file that is complete or refused.
//!
//! The arrays are the file's tensors; everything else is text in its metadata map, so that other tools can open it
//! too. The map begins with a checksum of the whole file (with zeros in its own place), so no flipped bit goes unseen,
//! not even in the header.
//!
//! ```text
//! u64 length | {"__metadata__":{"checksum":"<16 hex digits>", ...}, "<name>": {dtype, shape, data_offsets}, ...} | data
//! ```

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::Xxh3;

use super::files;
use crate::error::{Error, Result};
use crate::state::{Array, Data, State};

/// What this version writes; it reads this and older ones.
pub const FORMAT_VERSION: u64 = 1;
const EXTENSION: &str = "safetensors";
/// How every checkpoint begins, after the length of its header; the checksum follows.
const OPENING: &str = r#"{"__metadata__":{"checksum":""#;
const DIGITS: usize = 16;
/// Values of a state are under this prefix, to stay apart from what every checkpoint has.
const VALUE: &str = "value.";

/// A moment of a run from which it can go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The agent's name.
    pub agent: String,
    /// The run's configuration, as [`Config::to_toml`](super::config::Config::to_toml) writes it.
    pub config: String,
    /// Steps of all environments so far.
    pub global_step: u64,
    /// The best mean return of an evaluation so far.
    pub best_score: Option<f64>,
    /// What the agent and the trainer keep.
    pub state: State,
}

/// The name of the checkpoint of a step, without its folder: `step_00001000`.
pub fn step_name(global_step: u64) -> String {
    format!("step_{global_step:08}")
}

/// The name of the last checkpoint of a run that came to its end.
pub const FINAL: &str = "final";

/// The file of a checkpoint.
pub fn path_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.{EXTENSION}"))
}

impl Checkpoint {
    /// Writes it, complete or not at all; the folder must exist. An older file of that name is replaced.
    pub fn write(&self, path: &Path) -> Result<()> {
        files::replace(path, |file| self.write_to(file))
    }

    fn write_to(&self, file: &mut dyn Write) -> io::Result<()> {
        let arrays = ordered(&self.state);
        let mut header = self.header(&arrays).into_bytes();
        let length = (header.len() as u64).to_le_bytes();
        let mut hash = Xxh3::new();
        hash.update(&length);
        hash.update(&header);
        for (_, array) in &arrays {
            in_bytes(&array.data, |bytes| {
                hash.update(bytes);
                Ok(())
            })?;
        }
        header[OPENING.len()..OPENING.len() + DIGITS].copy_from_slice(hex(hash.digest()).as_bytes());
        file.write_all(&length)?;
        file.write_all(&header)?;
        arrays.iter().try_for_each(|(_, array)| in_bytes(&array.data, |bytes| file.write_all(bytes)))
    }

    /// The header with a checksum of zeros.
    fn header(&self, arrays: &[(&String, &Array)]) -> String {
        let mut metadata = Map::new();
        let mut put = |key: String, text: String| metadata.insert(key, Value::String(text));
        put("format".into(), "phalanx-checkpoint".into());
        put("format_version".into(), FORMAT_VERSION.to_string());
        put("agent".into(), self.agent.clone());
        put("config".into(), self.config.clone());
        put("global_step".into(), self.global_step.to_string());
        put("best_score".into(), json!(self.best_score).to_string());
        for (name, value) in self.state.values() {
            put(format!("{VALUE}{name}"), value.to_string());
        }
        let mut tensors = Map::new();
        let mut start = 0;
        for (name, array) in arrays {
            let end = start + array.data.bytes();
            let tensor = json!({"dtype": array.data.type_name(), "shape": array.shape, "data_offsets": [start, end]});
            tensors.insert((*name).clone(), tensor);
            start = end;
        }
        let metadata = Value::Object(metadata).to_string();
        let tensors = Value::Object(tensors).to_string();
        let comma = if arrays.is_empty() { "" } else { "," };
        let mut header = format!("{OPENING}{}\",{}{comma}{}", "0".repeat(DIGITS), &metadata[1..], &tensors[1..]);
        // Spaces, so that the data begins at a multiple of 8 bytes.
        header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
        header
    }

    /// Reads one.
    ///
    /// # Errors
    /// A sentence that says whether the file is foreign, too new, truncated or damaged.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(files::read(path)?, path)
    }

    /// What its file holds, for whoever keeps it elsewhere.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes).expect("memory takes all that is written");
        bytes
    }

    /// Reads one from what [`to_bytes`](Self::to_bytes) gave.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::parse(bytes, Path::new("what was pickled"))
    }

    fn parse(mut bytes: Vec<u8>, path: &Path) -> Result<Self> {
        let refuse = |why: String| Error::damaged(path, "checkpoint", why);
        let (header, start) = parse_header(&bytes).map_err(refuse)?;
        let metadata = header["__metadata__"].as_object().ok_or_else(|| refuse("it has no metadata".into()))?.clone();
        check_version(&metadata).map_err(refuse)?;

        let tensors = header.as_object().into_iter().flatten().filter(|(name, _)| *name != "__metadata__");
        let tensors: Vec<_> = tensors
            .map(|(name, tensor)| {
                Tensor::parse(name, tensor).ok_or_else(|| refuse(format!("'{name}' has no place in it")))
            })
            .collect::<Result<_>>()?;
        let end = start + tensors.iter().map(|tensor| tensor.end).max().unwrap_or(0);
        if bytes.len() != end {
            let kind = if bytes.len() < end { "truncated" } else { "too long" };
            return Err(refuse(format!("it is {kind}: {} bytes instead of {end}", bytes.len())));
        }
        let place = 8 + OPENING.len()..8 + OPENING.len() + DIGITS;
        let stored = String::from_utf8_lossy(&bytes[place.clone()]).into_owned();
        bytes[place].fill(b'0');
        let mut hash = Xxh3::new();
        hash.update(&bytes);
        if hex(hash.digest()) != stored {
            return Err(refuse("it is damaged: its checksum is wrong".into()));
        }

        // From here on the file is what was written, so anything wrong is a fault of its writer.
        let text =
            |key: &str| metadata.get(key).and_then(Value::as_str).ok_or_else(|| refuse(format!("it has no '{key}'")));
        let mut state = State::default();
        for tensor in tensors {
            let name = tensor.name.clone();
            let array = tensor.array(&bytes[start..]).ok_or_else(|| refuse(format!("'{name}' has no known type")))?;
            state.put_array(name, array);
        }
        for (key, value) in &metadata {
            if let (Some(name), Some(text)) = (key.strip_prefix(VALUE), value.as_str()) {
                let value: Value =
                    serde_json::from_str(text).map_err(|e| refuse(format!("'{name}' is no JSON: {e}")))?;
                state.put_value(name, &value);
            }
        }
        Ok(Self {
            agent: text("agent")?.to_owned(),
            config: text("config")?.to_owned(),
            global_step: text("global_step")?.parse().map_err(|_| refuse("its global_step is no number".into()))?,
            best_score: serde_json::from_str(text("best_score")?)
                .map_err(|_| refuse("its best_score is no number".into()))?,
            state,
        })
    }
}

/// The checkpoint that went furthest.
#[derive(Clone, Debug, PartialEq)]
pub struct Last {
    /// Its file.
    pub path: PathBuf,
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// Why others that may have gone further were passed over, a sentence each.
    pub passed_over: Vec<String>,
}

/// The complete checkpoint of a folder that went furthest; `None` if the folder has none. Those that a crash or a bad
/// disk left unusable are passed over.
///
/// # Errors
/// If there are checkpoints and none is usable: what is wrong with the newest.
pub fn last(folder: &Path) -> Result<Option<Last>> {
    let mut candidates = Vec::new();
    for name in names(folder)? {
        let step = name.strip_prefix("step_").and_then(|step| step.parse::<u64>().ok());
        if name == FINAL || step.is_some() {
            candidates.push((step, path_of(folder, &name)));
        }
    }
    // A final one comes first: it is the furthest but where a run was prolonged, and then steps beyond it come next.
    candidates.sort_by_key(|(step, _)| std::cmp::Reverse(step.unwrap_or(u64::MAX)));
    let mut best: Option<(PathBuf, Checkpoint)> = None;
    let mut refusals = Vec::new();
    for (step, path) in candidates {
        if let (Some(step), Some((_, best))) = (step, &best)
            && best.global_step >= step
        {
            break;
        }
        match Checkpoint::read(&path) {
            Ok(found) if best.as_ref().is_none_or(|(_, best)| found.global_step >= best.global_step) => {
                best = Some((path, found));
            }
            Ok(_) => {}
            Err(error @ Error::Damaged { .. }) => refusals.push(error),
            Err(error) => return Err(error),
        }
    }
    let passed_over: Vec<_> = refusals.iter().map(Error::to_string).collect();
    match (best, refusals.into_iter().next()) {
        (Some((path, checkpoint)), _) => Ok(Some(Last { path, checkpoint, passed_over })),
        (None, Some(newest)) => Err(newest),
        (None, None) => Ok(None),
    }
}

/// The names of the checkpoints of a folder, in order; none if there is no such folder.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::read(folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::read(folder))?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// The widest elements first, so that all are aligned.
fn ordered(state: &State) -> Vec<(&String, &Array)> {
    let mut arrays: Vec<_> = state.arrays().iter().map(|(name, array)| (name, array.as_ref())).collect();
    arrays.sort_by_key(|(_, array)| std::cmp::Reverse(width(&array.data)));
    arrays
}

fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

fn width(data: &Data) -> usize {
    match data {
        Data::U8(_) => 1,
        Data::F32(_) | Data::U32(_) => 4,
        Data::F64(_) | Data::U64(_) => 8,
    }
}

/// Hands out the elements as little-endian bytes, a block at a time.
fn in_bytes(data: &Data, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    fn blocks<T: Copy, const W: usize>(
        elements: &[T],
        bytes: impl Fn(T) -> [u8; W],
        take: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(1 << 15);
        for block in elements.chunks((1 << 15) / W) {
            buffer.clear();
            block.iter().for_each(|element| buffer.extend_from_slice(&bytes(*element)));
            take(&buffer)?;
        }
        Ok(())
    }
    match data {
        Data::U8(data) => take(data),
        Data::F32(data) => blocks(data, f32::to_le_bytes, &mut take),
        Data::U32(data) => blocks(data, u32::to_le_bytes, &mut take),
        Data::F64(data) => blocks(data, f64::to_le_bytes, &mut take),
        Data::U64(data) => blocks(data, u64::to_le_bytes, &mut take),
    }
}

/// The header and where the data begins.
fn parse_header(bytes: &[u8]) -> Result<(Value, usize), String> {
    const FOREIGN: &str = "it is not a file that Phalanx wrote";
    let Some(opening) = bytes.get(8..8 + OPENING.len()) else {
        return Err(if bytes.is_empty() { "it is empty".into() } else { FOREIGN.into() });
    };
    if opening != OPENING.as_bytes() {
        return Err(FOREIGN.into());
    }
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    let start = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
    let Some(start) = start.filter(|start| *start <= bytes.len()) else {
        return Err(format!("it is truncated: {} bytes are less than its header", bytes.len()));
    };
    let header = serde_json::from_slice(&bytes[8..start]).map_err(|_| "it is damaged: its header is no JSON")?;
    Ok((header, start))
}

/// Before the checksum, which a later version may compute in another way.
fn check_version(metadata: &Map<String, Value>) -> Result<(), String> {
    let version = metadata.get("format_version").and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok());
    match version {
        Some(1..=FORMAT_VERSION) => Ok(()),
        Some(version) if version > FORMAT_VERSION => {
            Err(format!("its format {version} is newer than {FORMAT_VERSION}, the newest that this version reads"))
        }
        _ => Err("it is damaged: it has no format version".into()),
    }
}

/// A tensor's entry in the header.
struct Tensor {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    begin: usize,
    end: usize,
}

impl Tensor {
    fn parse(name: &str, entry: &Value) -> Option<Self> {
        let whole = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        let shape = entry["shape"].as_array()?.iter().map(whole).collect::<Option<_>>()?;
        let (begin, end) = (whole(&entry["data_offsets"][0])?, whole(&entry["data_offsets"][1])?);
        let known = begin <= end && end < usize::MAX / 2;
        let dtype = entry["dtype"].as_str()?.to_owned();
        known.then(|| Self { name: name.to_owned(), dtype, shape, begin, end })
    }

    fn array(self, data: &[u8]) -> Option<Array> {
        fn elements<T, const W: usize>(bytes: &[u8], from: impl Fn([u8; W]) -> T) -> Vec<T> {
            bytes.chunks_exact(W).map(|chunk| from(chunk.try_into().expect("W bytes"))).collect()
        }
        let bytes = &data[self.begin..self.end];
        let data = match self.dtype.as_str() {
            "U8" => Data::U8(bytes.to_vec()),
            "F32" => Data::F32(elements(bytes, f32::from_le_bytes)),
            "U32" => Data::U32(elements(bytes, u32::from_le_bytes)),
            "F64" => Data::F64(elements(bytes, f64::from_le_bytes)),
            "U64" => Data::U64(elements(bytes, u64::from_le_bytes)),
            _ => return None,
        };
        let count = self.shape.iter().try_fold(1_usize, |count, size| count.checked_mul(*size));
        (count == Some(data.len())).then_some(Array { shape: self.shape, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(global_step: u64) -> Checkpoint {
        let mut state = State::default();
        state.put("Actor.weights", &[2, 3], &[1.0_f32, -0.0, f32::MIN_POSITIVE, f32::NAN, 4.5, -7.25]);
        state.put("flags", &[3], &[1_u8, 0, 255]);
        state.put("moments", &[2], &[0.1_f64, f64::MAX]);
        state.put("positions", &[1], &[u64::MAX]);
        state.put("empty", &[0, 4], &[] as &[u32]);
        state.put_value("schedule", &json!({"k": 3, "text": "quoted \"}\" ü"}));
        Checkpoint {
            agent: "ppo".into(),
            config: "[run]\nseed = 1\n".into(),
            global_step,
            best_score: Some(0.1),
            state,
        }
    }

    fn bytes_of(checkpoint: &Checkpoint) -> Vec<u8> {
        let mut bytes = Vec::new();
        checkpoint.write_to(&mut bytes).unwrap();
        bytes
    }

    /// The reason why such a file is refused.
    fn refusal(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(folder.path(), FINAL);
        fs::write(&path, bytes).unwrap();
        let message = Checkpoint::read(&path).unwrap_err().to_string();
        let start = format!("{} is no usable checkpoint: ", path.display());
        message.strip_prefix(&start).unwrap_or_else(|| panic!("{message}")).to_owned()
    }

    #[test]
    fn what_is_written_comes_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(folder.path(), &step_name(1000));
        assert!(path.ends_with("step_00001000.safetensors"));
        let original = checkpoint(1000);
        original.write(&path).unwrap();
        let read = Checkpoint::read(&path).unwrap();
        // NaN is not equal to itself, so the bytes are compared.
        assert_eq!(bytes_of(&read), bytes_of(&original));
        let bits = |checkpoint: &Checkpoint| {
            let weights = checkpoint.state.get::<f32>("Actor.weights", &[2, 3]).unwrap();
            weights.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(bits(&read), bits(&original));
        assert_eq!(read.state.values(), original.state.values());
        assert_eq!((read.global_step, read.best_score, read.agent.as_str()), (1000, Some(0.1), "ppo"));
        assert_eq!(read.config, original.config);
        let bare = Checkpoint { best_score: None, state: State::default(), ..original };
        bare.write(&path).unwrap();
        assert_eq!(Checkpoint::read(&path).unwrap(), bare);
    }

    #[test]
    fn the_file_follows_the_safetensors_format() {
        let bytes = bytes_of(&checkpoint(5));
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(length % 8, 0);
        let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let metadata = header["__metadata__"].as_object().unwrap();
        assert!(metadata.values().all(Value::is_string), "the format knows texts only");
        // Tensors cover the data without holes, each aligned to its elements.
        let mut places: Vec<_> = header
            .iter()
            .filter(|(name, _)| *name != "__metadata__")
            .map(|(_, tensor)| {
                let offset = |k: usize| tensor["data_offsets"][k].as_u64().unwrap() as usize;
                let width = if tensor["dtype"] == "U8" {
                    1
                } else {
                    tensor["dtype"].as_str().unwrap()[1..].parse::<usize>().unwrap() / 8
                };
                assert_eq!(offset(0) % width, 0);
                (offset(0), offset(1))
            })
            .collect();
        places.sort();
        assert_eq!(places[0].0, 0);
        assert!(places.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(8 + length + places.last().unwrap().1, bytes.len());
        let flags = header["flags"]["data_offsets"][0].as_u64().unwrap() as usize;
        assert_eq!(bytes[8 + length + flags..][..3], [1, 0, 255]);
    }

    #[test]
    fn any_damage_is_refused() {
        let bytes = bytes_of(&checkpoint(5));
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            refusal(&damaged);
        }
        for length in [1, 7, 8, 20, 60, 500, bytes.len() - 1] {
            refusal(&bytes[..length]);
        }
    }

    #[test]
    fn a_refusal_says_what_is_wrong() {
        let bytes = bytes_of(&checkpoint(5));
        let missing = Checkpoint::read(Path::new("none.safetensors")).unwrap_err().to_string();
        assert_eq!(missing, "cannot read none.safetensors: there is no such file or folder");
        assert_eq!(refusal(b""), "it is empty");
        assert_eq!(
            refusal(b"PK\x03\x04 a zip file, or anything else that is long enough"),
            "it is not a file that Phalanx wrote"
        );
        let cut = refusal(&bytes[..bytes.len() - 10]);
        assert_eq!(cut, format!("it is truncated: {} bytes instead of {}", bytes.len() - 10, bytes.len()));
        assert_eq!(refusal(&bytes[..100]), "it is truncated: 100 bytes are less than its header");
        let mut flipped = bytes.clone();
        *flipped.last_mut().unwrap() ^= 0x80;
        assert_eq!(refusal(&flipped), "it is damaged: its checksum is wrong");
        let version = br#""format_version":"1""#;
        let place = bytes.windows(version.len()).position(|window| window == version).unwrap();
        let mut newer = bytes.clone();
        newer[place + version.len() - 2] = b'2';
        assert_eq!(refusal(&newer), "its format 2 is newer than 1, the newest that this version reads");
    }

    #[test]
    fn the_last_complete_one_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| path_of(folder.path(), name);
        assert_eq!(last(folder.path()).unwrap(), None);
        assert_eq!(last(&folder.path().join("none")).unwrap(), None);
        for step in [100, 200, 123_456_789] {
            checkpoint(step).write(&at(&step_name(step))).unwrap();
        }
        let found = || last(folder.path()).unwrap().map(|last| (last.path, last.checkpoint.global_step));
        assert_eq!(found(), Some((at("step_123456789"), 123_456_789)));
        let bytes = fs::read(at("step_123456789")).unwrap();
        fs::write(at("step_123456789"), &bytes[..bytes.len() / 2]).unwrap();
        fs::write(folder.path().join(".tmp-x"), "").unwrap();
        fs::write(at("other"), &bytes).unwrap();
        assert_eq!(found(), Some((at("step_00000200"), 200)));
        let passed_over = last(folder.path()).unwrap().unwrap().passed_over;
        assert!(passed_over.len() == 1 && passed_over[0].contains("step_123456789.safetensors"), "{passed_over:?}");
        assert!(passed_over[0].contains("truncated"), "{passed_over:?}");
        checkpoint(200).write(&at(FINAL)).unwrap();
        checkpoint(300).write(&at(&step_name(300))).unwrap();
        assert_eq!(found(), Some((at("step_00000300"), 300)), "the run was prolonged");
        checkpoint(400).write(&at(FINAL)).unwrap();
        assert_eq!(found(), Some((at(FINAL), 400)));
        for name in names(folder.path()).unwrap() {
            fs::write(at(&name), &bytes[..bytes.len() / 2]).unwrap();
        }
        assert!(last(folder.path()).unwrap_err().to_string().contains("final.safetensors is no usable checkpoint"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_leaves_the_previous_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(folder.path(), FINAL);
        checkpoint(1).write(&path).unwrap();
        // The system's own full device, on the way through the same writer.
        let full = files::replace(&path, |_| {
            let mut device = fs::OpenOptions::new().write(true).open("/dev/full")?;
            checkpoint(2).write_to(&mut device)
        });
        let message = full.unwrap_err().to_string();
        assert!(message.ends_with("final.safetensors: the disk is full; what was written before is kept"), "{message}");
        assert_eq!(Checkpoint::read(&path).unwrap().global_step, 1);
    }

    /// A file system of its own, gone when dropped; only root may make one.
    #[cfg(target_os = "linux")]
    struct SmallDisk(tempfile::TempDir);

    #[cfg(target_os = "linux")]
    impl SmallDisk {
        fn new() -> Option<Self> {
            let folder = tempfile::tempdir().unwrap();
            let mut mount = std::process::Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(folder.path());
            mount.output().is_ok_and(|output| output.status.success()).then(|| Self(folder))
        }
    }

    #[cfg(target_os = "linux")]
    impl Drop for SmallDisk {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg(self.0.path()).status();
        }
    }

    /// The same on a real file system; who is not root has the test before this one.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_file_system_leaves_the_previous_one() {
        let Some(disk) = SmallDisk::new() else {
            // Past the test's own output, which nobody sees of a test that passes.
            let _ = writeln!(io::stderr(), "NOT TESTED: a full file system, since none can be mounted here");
            return;
        };
        let path = path_of(disk.0.path(), FINAL);
        checkpoint(1).write(&path).unwrap();
        let mut large = checkpoint(2);
        large.state.put("buffer", &[40_000], &[0.5_f32; 40_000]);
        let message = large.write(&path).unwrap_err().to_string();
        assert!(message.ends_with("final.safetensors: the disk is full; what was written before is kept"), "{message}");
        assert_eq!(last(disk.0.path()).unwrap().unwrap().checkpoint.global_step, 1);
        checkpoint(3).write(&path).unwrap();
        assert_eq!(Checkpoint::read(&path).unwrap().global_step, 3, "the space was given back");
    }
}
