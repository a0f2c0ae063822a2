//! Draws every figure that the given result files have data for: `figures FOLDER FILE...`

use std::path::{Path, PathBuf};

use phalanx_lab::figures::{FIGURES, Files};
use phalanx_lab::results::Results;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("a folder for the pictures is needed")?;
    let mut results = Results::default();
    results.read_files(&arguments.map(PathBuf::from).collect::<Vec<_>>())?;
    for figure in FIGURES {
        if let Some(scene) = (figure.draw)(&results) {
            let Files { png, svg } = Files::of(&scene)?;
            std::fs::write(Path::new(&folder).join(figure.name).with_extension("png"), png)?;
            std::fs::write(Path::new(&folder).join(figure.name).with_extension("svg"), svg)?;
            println!("{}", figure.name);
        }
    }
    Ok(())
}
