//! Every environment can be drawn, in every format, at every moment.

mod common;

use phalanx_core::batch::Autoreset;
use phalanx_core::policy::Policy;
use phalanx_core::probe::{PolicyMemory, Precision};
use phalanx_envs::draw::{self, Draw, Moment, Scene, View};
use phalanx_envs::registry;
use phalanx_render::{Shape, ansi, gif, png, raster, svg};

/// An episode as a renderer gets it.
struct Episode {
    env: &'static str,
    draw: Draw,
    state_names: &'static [&'static str],
    obs_names: Vec<&'static str>,
    params: Vec<(&'static str, f64)>,
    history: Vec<Moment>,
}

impl Episode {
    fn view(&self, moments: usize) -> View<'_> {
        View {
            env: self.env,
            state_names: self.state_names,
            obs_names: &self.obs_names,
            params: &self.params,
            history: &self.history[..moments],
        }
    }

    fn scene(&self, moments: usize) -> Scene {
        (self.draw)(&self.view(moments))
    }
}

fn episodes(steps: u32) -> Vec<Episode> {
    let record = |entry: &registry::Entry| {
        let config = common::config(1, 3, Autoreset::SameStep);
        let mut probe = entry.probe(&config, Precision::F32).unwrap();
        let (policy, mut memory) = (Policy::parse("random", &[], probe.spec()).unwrap(), PolicyMemory::default());
        let moment = |step, state, observation| Moment { step, state, observation, ..Moment::default() };
        let mut history = vec![moment(0, probe.state(), probe.observation())];
        for step in 1..=steps {
            let action = probe.decide(&policy, u64::from(step), &mut memory).unwrap();
            let taken = probe.step(&action).unwrap();
            history.push(Moment {
                action,
                reward: taken.reward,
                terminated: taken.terminated,
                truncated: taken.truncated,
                ..moment(step, probe.state(), probe.observation())
            });
            if taken.terminated {
                break;
            }
        }
        let spec = entry.spec();
        Episode {
            env: spec.name,
            draw: entry.draw,
            state_names: spec.state_names,
            obs_names: spec.observation.names.to_vec(),
            params: probe.params(),
            history,
        }
    };
    registry::ENTRIES.iter().map(record).collect()
}

/// That no text leaves the picture, and that it is a picture.
fn check(scene: &Scene, what: &str) {
    for shape in &scene.shapes {
        let Shape::Text(text) = shape else { continue };
        let ((left, top), (right, bottom)) = text.bounds();
        let inside = left >= 0.0 && top >= 0.0 && right <= scene.width && bottom <= scene.height;
        assert!(inside, "{what}: '{}' lies at {left}, {top} to {right}, {bottom}", text.text);
    }
    let document = svg::document(scene);
    let xml = roxmltree::Document::parse(&document).unwrap_or_else(|error| panic!("{what}: {error}"));
    for attribute in xml.descendants().flat_map(|node| node.attributes()) {
        let wild = attribute.value().contains("NaN") || attribute.value().contains("inf");
        assert!(!wild, "{what}: {attribute:?}");
    }
}

#[test]
fn every_environment_gives_svg_png_gif_and_text() {
    for episode in episodes(25) {
        let moments = episode.history.len();
        let frames: Vec<_> = (1..=moments)
            .map(|moments| {
                let scene = episode.scene(moments);
                check(&scene, &format!("{} after {moments} moments", episode.env));
                raster::image(&scene, 0.5).unwrap()
            })
            .collect();
        // A picture that does not follow the state would pass everything else.
        assert!(frames.windows(2).all(|pair| pair[0] != pair[1]), "{}: a step shows no change", episode.env);
        let film = gif::encode(&frames, 50).unwrap();
        let mut decoder = ::gif::DecodeOptions::new().read_info(film.as_slice()).unwrap();
        let mut count = 0;
        while decoder.next_frame_info().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, moments, "{}", episode.env);
        assert!(png::encode(&frames[0]).unwrap().starts_with(b"\x89PNG"));
        assert!(ansi::image(&frames[0], 60).lines().count() > 10);
    }
}

/// Recorded episodes may lack states, a run may have blown up, and a viewer may ask before the first moment.
#[test]
fn pictures_bear_missing_and_wild_numbers() {
    let own: [Draw; 4] =
        [draw::gene_circuit::draw, draw::reactor::draw, draw::tic_tac_toe::draw, draw::chart_of_observations];
    for mut episode in episodes(3) {
        for draw in own.into_iter().chain([episode.draw]) {
            episode.draw = draw;
            check(&episode.scene(0), "no moments");
            let mut wild = episode.history.clone();
            std::mem::swap(&mut wild, &mut episode.history);
            for value in [f64::NAN, f64::INFINITY, -1e30, 1e9] {
                for moment in &mut episode.history {
                    moment.state.fill(value);
                    moment.observation.fill(value as f32);
                    moment.action.fill(value);
                    moment.reward = value;
                }
                let scene = episode.scene(episode.history.len());
                check(&scene, &format!("{} with {value}", episode.env));
                raster::image(&scene, 0.25).unwrap();
            }
            for moment in &mut episode.history {
                moment.state.clear();
                moment.observation.clear();
            }
            check(&episode.scene(episode.history.len()), "empty vectors");
            std::mem::swap(&mut wild, &mut episode.history);
        }
    }
}
