//! `phalanx render`.

use std::path::Path;

use phalanx_core::probe::Precision;
use phalanx_envs::draw::Scene;
use phalanx_render::{Colour, gif, png, raster, svg};
use serde::Serialize;

use crate::args::RenderArgs;
use crate::commands::play::Run;
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::files::{self, Kind};
use crate::progress::Progress;

/// What was drawn.
#[derive(Serialize)]
struct Report {
    env: &'static str,
    file: String,
    frames: usize,
    steps: u64,
    episodes: u64,
    #[serde(rename = "return")]
    total_reward: f64,
    bytes: usize,
}

/// Pictures in a row of a sheet.
const SHEET_COLUMNS: usize = 4;
/// Space between the pictures of a sheet.
const SHEET_GAP: f64 = 12.0;

pub(crate) fn run(args: &RenderArgs) -> Result<(), Failure> {
    let format = format_of(&args.out)?;
    let target = files::check_target(&args.out, format)?;
    let mut run = Run::new(&args.play, Precision::F32)?;
    let mut film = run.film();
    let env = run.spec().name;
    let mut scenes = Vec::new();
    let (mut steps, mut episodes, mut total_reward) = (0, 1, 0.0);
    run.play(args.autoreset, |row| {
        let last = row.terminated || row.truncated;
        let drawn = row.t % args.every as u64 == 0 || last;
        if drawn && scenes.len() == args.max_frames {
            let most = args.max_frames;
            return Err(Failure::input(format!(
                "the run has more than {most} frames, but must have at most that many: shorten it (--actions \
                 policy:T), draw fewer steps (--every K) or raise --max-frames"
            )));
        }
        if drawn {
            scenes.push(film.scene(row.moment()));
        } else {
            film.view(row.moment());
        }
        steps += u64::from(row.t > 0);
        episodes = row.episode + 1;
        total_reward += row.reward.unwrap_or(0.0);
        Ok(())
    })?;
    let scale = args.scale;
    let bytes = match format {
        Kind::Gif => {
            // Every frame is drawn twice, for its colours and for its pixels.
            let mut progress =
                Progress::new(format!("drawing {env}"), 2 * scenes.len() as u64, args.output.quiet).counting("frames");
            let frame = |i: usize| {
                progress.advance(1);
                raster::image(&scenes[i], scale)
            };
            gif::encode_with(scenes.len(), frame, 1_000 / args.fps as u32).map_err(Failure::picture)?
        }
        Kind::Png => {
            let image = raster::image(&sheet(&scenes, args.sheet), scale).map_err(Failure::picture)?;
            png::encode(&image).map_err(Failure::picture)?
        }
        _ => svg::document(&sheet(&scenes, args.sheet)).into_bytes(),
    };
    files::write_atomically(&target, &bytes)?;
    let file = args.out.display().to_string();
    let report = Report { env, file, frames: scenes.len(), steps, episodes, total_reward, bytes: bytes.len() };
    if args.output.json {
        return print_json(&report);
    }
    if args.output.quiet {
        return Ok(());
    }
    let Report { file, frames, bytes, .. } = &report;
    print(&format!(
        "{file}: {frames} frames of {env}, {steps} steps, {episodes} episodes, return {total_reward:.2}, {bytes} bytes\n"
    ))
}

fn format_of(path: &Path) -> Result<Kind, Failure> {
    let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    match extension.as_deref() {
        Some("gif") => Ok(Kind::Gif),
        Some("png") => Ok(Kind::Png),
        Some("svg") => Ok(Kind::Svg),
        _ => Err(Failure::input(format!("--out is {}, but must end in .gif, .png or .svg", path.display()))),
    }
}

/// The trajectory on one page: at most `most` of the scenes, evenly spaced, the last among them.
fn sheet(scenes: &[Scene], most: usize) -> Scene {
    let chosen: Vec<&Scene> = if scenes.len() <= most {
        scenes.iter().collect()
    } else if most == 1 {
        scenes.last().into_iter().collect()
    } else {
        (0..most).map(|i| &scenes[i * (scenes.len() - 1) / (most - 1)]).collect()
    };
    let (width, height) =
        chosen.iter().fold((0.0_f64, 0.0_f64), |(w, h), scene| (w.max(scene.width), h.max(scene.height)));
    let columns = chosen.len().min(SHEET_COLUMNS);
    let rows = chosen.len().div_ceil(columns.max(1));
    let extent = |n: usize, size: f64| n as f64 * size + (n + 1) as f64 * SHEET_GAP;
    if let [only] = chosen.as_slice() {
        return (*only).clone();
    }
    let mut page = Scene::new(extent(columns, width), extent(rows, height), Colour::WHITE);
    for (i, scene) in chosen.into_iter().enumerate() {
        let at = |n: usize, size: f64| SHEET_GAP + n as f64 * (size + SHEET_GAP);
        page.place(scene.clone(), (at(i % columns, width), at(i / columns, height)));
    }
    page
}
