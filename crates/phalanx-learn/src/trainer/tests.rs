//! Runs in memory: what stops and goes on comes to the same as what does not stop.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::api::{Observer, TrainOptions, TrainingResults, resume, train_and_evaluate};
use crate::run::config::create_config;
use crate::run::directory::{Status, load_run};
use crate::tabular::table::{Dense, Table};

fn cart_pole(config: &BatchConfig) -> phalanx_core::error::Result<Box<dyn phalanx_core::batch::Batch>> {
    phalanx_envs::registry::find("CartPole-v1").unwrap().batch(config)
}

/// Two hundred and fifty steps of each of four environments; learning starts in the middle.
fn dqn(more: &[(&str, &str)]) -> Config {
    let settings = [
        ("num_envs", "4"),
        ("total_timesteps", "1000"),
        ("learning_starts", "500"),
        ("buffer_size", "200"),
        ("batch_size", "8"),
        ("hidden", "[8]"),
        ("eval_frequency", "50"),
        ("eval_rollouts", "3"),
        ("eval_max_steps", "20"),
    ];
    create_config("CartPole-v1", "dqn", &[&settings, more].concat()).unwrap()
}

fn trained(config: &Config, options: TrainOptions<'_>) -> TrainingResults {
    train_and_evaluate(config, &cart_pole, options).unwrap()
}

/// Metrics as a file has them, where what is no number is equal to itself.
fn metrics(results: &TrainingResults) -> String {
    serde_json::to_string(&(&results.training_metrics, &results.eval_metrics)).unwrap()
}

#[test]
fn a_run_that_stops_anywhere_goes_on_to_the_same_bits_and_figures() {
    let config = dqn(&[]);
    let whole = trained(&config, TrainOptions::default());
    assert!(whole.complete);
    // Within an interval of the log (5 steps), at an evaluation, before and after learning starts.
    for stop in [4, 96, 200, 404, 612, 996] {
        let mut until = |progress: &Progress| progress.global_step < stop;
        let begun = trained(&config, TrainOptions { observer: Some(&mut until), ..TrainOptions::default() });
        assert!(!begun.complete && begun.agent_state.global_step == stop, "{stop}");
        let options = TrainOptions { resume_from: Some(&begun.agent_state), ..TrainOptions::default() };
        let ended = trained(&config, options);
        assert_eq!(metrics(&ended), metrics(&whole), "stopped at {stop}");
        assert!(ended.agent_state.state.arrays() == whole.agent_state.state.arrays(), "stopped at {stop}");
        assert!(ended.training_seconds > begun.training_seconds, "earlier time counts, too");
        assert_eq!(ended.final_env_state, whole.final_env_state);
        assert_eq!(ended.final_env_state.arrays().len(), 1);
    }
}

/// Wants a run to end after so many questions, between two looks at its progress.
struct Impatient {
    patience: u64,
    asked: Arc<AtomicU64>,
}

impl Observer for Impatient {
    fn progress(&mut self, _: &Progress) -> bool {
        self.asked.load(Relaxed) <= self.patience
    }

    fn stop(&self) -> Stop {
        let (asked, patience) = (Arc::clone(&self.asked), self.patience);
        Stop::when(move || asked.fetch_add(1, Relaxed) >= patience)
    }
}

/// What was begun leaves no trace, and an evaluation that was due is made up for.
#[test]
fn a_run_that_is_stopped_in_its_midst_goes_on_to_the_same_bits_and_figures() {
    let config = dqn(&[("eval_frequency", "250"), ("eval_rollouts", "2"), ("learning_starts", "1")]);
    let watched = |patience: u64| {
        let mut observer = Impatient { patience, asked: Arc::default() };
        let results = trained(&config, TrainOptions { observer: Some(&mut observer), ..TrainOptions::default() });
        (results, observer.asked.load(Relaxed))
    };
    let (whole, questions) = watched(u64::MAX);
    assert!(whole.complete && questions > 10, "{questions}");
    for patience in [0, 1, questions / 2, questions - 1] {
        let (begun, _) = watched(patience);
        assert!(!begun.complete, "stopped at question {patience} of {questions}");
        let ended = trained(&config, TrainOptions { resume_from: Some(&begun.agent_state), ..TrainOptions::default() });
        assert_eq!(metrics(&ended), metrics(&whole), "stopped at question {patience}");
        assert!(ended.agent_state.state.arrays() == whole.agent_state.state.arrays(), "stopped at question {patience}");
    }
}

#[test]
fn neither_evaluations_nor_checkpoints_change_what_is_learnt_or_logged() {
    let one = trained(&dqn(&[]), TrainOptions::default());
    let more = [("eval_frequency", "0"), ("eval_rollouts", "1"), ("checkpoint_frequency", "7"), ("threads", "2")];
    let root = tempfile::tempdir().unwrap();
    let other = trained(&dqn(&more), TrainOptions { root: Some(root.path()), ..TrainOptions::default() });
    let agent = |results: &TrainingResults| results.agent_state.state.state("agent");
    assert!(agent(&one).arrays() == agent(&other).arrays());
    assert_eq!(one.eval_metrics.global_steps, [200, 400, 600, 800, 1000]);
    assert_eq!(other.eval_metrics.global_steps, [1000]);
    let logged = |results: &TrainingResults| serde_json::to_string(&results.training_metrics).unwrap();
    assert_eq!(logged(&one), logged(&other));
}

#[test]
fn a_run_that_is_good_enough_is_complete() {
    let all = trained(&dqn(&[]), TrainOptions::default());
    let means = &all.eval_metrics.mean_return;
    // The first evaluation that is better than all before it, if the first one is not good enough.
    let goal = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let reached = means.iter().position(|mean| *mean >= goal).unwrap();
    let root = tempfile::tempdir().unwrap();
    let config = dqn(&[("eval_stop_return", &goal.to_string()), ("eval_episode_save_frequency", "1000")]);
    let early = trained(&config, TrainOptions { root: Some(root.path()), ..TrainOptions::default() });
    assert!(early.complete);
    assert_eq!(early.eval_metrics.mean_return, means[..=reached]);
    assert_eq!(early.agent_state.global_step, all.eval_metrics.global_steps[reached]);
    // The last evaluation always counts, also when it was not known beforehand to be the last one.
    assert!(early.run_dir.as_ref().unwrap().join("episodes").is_dir());
    // Killed after its last checkpoint and before its results: there is nothing left to learn.
    let options = TrainOptions { resume_from: Some(&early.agent_state), ..TrainOptions::default() };
    assert_eq!(trained(&config, options).agent_state.global_step, early.agent_state.global_step);
    let beyond = dqn(&[("eval_stop_return", "1e9")]);
    assert_eq!(metrics(&trained(&beyond, TrainOptions::default())), metrics(&all));
}

/// Losses begin when learning does; every column has every row.
#[test]
fn the_columns_of_the_results_have_one_length() {
    let metrics = trained(&dqn(&[]), TrainOptions::default()).training_metrics;
    let rows = metrics.global_steps.len();
    assert!(metrics.agent_metrics.contains_key("losses/td_loss"));
    for (tag, column) in &metrics.agent_metrics {
        assert_eq!(column.len(), rows, "{tag}");
    }
    let losses = &metrics.agent_metrics["losses/td_loss"];
    assert!(losses[0].is_nan() && losses[rows - 1].is_finite());
    assert_eq!((metrics.loss.len(), metrics.reward.len(), metrics.steps_per_env.len()), (rows, rows, rows));
}

/// Section 13 of the reference: every tag that an agent must log, and no other.
#[test]
fn the_tags_of_a_log_are_those_of_the_reference() {
    let always = [
        "global_step",
        "wall_time",
        "steps/env",
        "charts/SPS",
        "time/fps",
        "charts/episodic_return",
        "rollout/ep_rew_mean",
        "charts/episodic_length",
        "rollout/ep_len_mean",
        "eval/return/mean",
        "eval/return/std",
        "eval/return/min",
        "eval/return/max",
        "eval/return/best",
        "eval/length/mean",
        "eval/length/std",
        "eval/length/min",
        "eval/length/max",
        "eval/termination_rate",
    ];
    let values = ["charts/epsilon", "charts/learning_rate", "losses/td_loss", "losses/q_values"];
    let policy = [
        "charts/learning_rate",
        "losses/loss",
        "losses/value_loss",
        "losses/policy_loss",
        "losses/entropy",
        "losses/old_approx_kl",
        "losses/approx_kl",
        "losses/clipfrac",
        "losses/explained_variance",
    ];
    let costs = ["charts/episodic_cost", "eval/cost/mean"];
    let constrained = ("env.constraints", "x<=0:soft");
    let root = tempfile::tempdir().unwrap();
    for (agent, setting, own) in [
        ("dqn", ("learning_starts", "100"), &values[..]),
        ("pqn", ("num_minibatches", "4"), &values),
        ("ppo", ("num_minibatches", "4"), &policy),
        ("random", ("seed", "1"), &[]),
        ("random", constrained, &costs),
    ] {
        let settings = [("num_envs", "8"), ("steps_per_env", "256"), ("eval_rollouts", "2"), ("eval_frequency", "0")];
        let config = create_config("CartPole-v1", agent, &[&settings[..], &[setting]].concat()).unwrap();
        let path = trained(&config, TrainOptions { root: Some(root.path()), ..TrainOptions::default() }).run_dir;
        let text = std::fs::read_to_string(path.unwrap().join("metrics.jsonl")).unwrap();
        let row = |line: &str| serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line).unwrap();
        let found: std::collections::BTreeSet<String> =
            text.lines().flat_map(|line| row(line).into_iter().map(|(tag, _)| tag)).collect();
        let expected = always.iter().chain(own).map(|tag| (*tag).to_owned()).collect();
        assert_eq!(found, expected, "{agent}");
        // What a sweep can be judged by, costs aside where there are no constraints.
        let known: std::collections::BTreeSet<_> = config.agent.tags().into_iter().collect();
        let of_steps = ["global_step", "wall_time"];
        let logged: std::collections::BTreeSet<_> =
            found.iter().map(String::as_str).filter(|tag| !of_steps.contains(tag)).collect();
        assert!(known.difference(&logged).all(|tag| costs.contains(tag)), "{agent}: {known:?}");
        assert!(logged.is_subset(&known), "{agent}: {logged:?}");
    }
}

/// The names in a folder of checkpoints.
fn checkpoints(run: &std::path::Path) -> Vec<String> {
    checkpoint::names(&run.join("checkpoints")).unwrap()
}

#[test]
fn only_a_run_that_came_to_its_end_is_final() {
    let root = tempfile::tempdir().unwrap();
    let mut until = |progress: &Progress| progress.global_step < 404;
    let config = dqn(&[("save_agent_checkpoint", "true")]);
    let options = TrainOptions { root: Some(root.path()), observer: Some(&mut until), ..TrainOptions::default() };
    let begun = trained(&config, options);
    let path = begun.run_dir.unwrap();
    assert!(begun.stored);
    assert_eq!(checkpoints(&path), ["step_00000404"]);
    let run = load_run(&path).unwrap();
    assert_eq!((run.results, run.metadata.unwrap().status), (None, Status::Interrupted));

    std::fs::write(path.join("checkpoints/.tmp-killed"), "half a file").unwrap();
    let ended = resume(&path, &cart_pole, TrainOptions::default()).unwrap();
    assert!(!path.join("checkpoints/.tmp-killed").exists());
    assert_eq!(checkpoints(&path), ["final", "step_00000404"]);
    assert_eq!(TrainingResults::load(&path).unwrap().agent_state, ended.agent_state);
    let metadata = load_run(&path).unwrap().metadata.unwrap();
    let steps: Vec<_> = metadata.sessions.iter().map(|session| (session.from_step, session.to_step)).collect();
    assert_eq!(steps, [(0, 404), (404, 1000)]);
    assert_eq!(metadata.status, Status::Ok);
    assert!(metadata.duration_seconds >= metadata.sessions[1].duration_seconds);

    // Killed after its last checkpoint and before its results: not complete, but only the results are missing.
    std::fs::remove_file(path.join("results.json")).unwrap();
    resume(&path, &cart_pole, TrainOptions::default()).unwrap();
    assert_eq!(metrics(&TrainingResults::load(&path).unwrap()), metrics(&ended));
    let before = load_run(&path).unwrap().metadata;
    resume(&path, &cart_pole, TrainOptions::default()).unwrap();
    assert_eq!(load_run(&path).unwrap().metadata, before, "nothing was left to do");
}

/// A run that has come to its end, or not, goes on beyond the end it was to have; a kill in between loses nothing.
#[test]
fn a_run_can_be_made_longer() {
    let root = tempfile::tempdir().unwrap();
    for agent in ["dqn", "ppo", "pqn", "random"] {
        let settings = [
            ("num_envs", "8"),
            ("steps_per_env", "256"),
            ("eval_frequency", "128"),
            ("eval_rollouts", "2"),
            ("save_agent_checkpoint", "true"),
        ];
        let config = create_config("CartPole-v1", agent, &settings).unwrap();
        let first = trained(&config, TrainOptions { root: Some(root.path()), ..TrainOptions::default() });
        let path = first.run_dir.clone().unwrap();
        let to =
            |steps| resume(&path, &cart_pole, TrainOptions { steps_per_env: Some(steps), ..TrainOptions::default() });
        let message = to(255).unwrap_err().to_string();
        let expected = "run.steps_per_env is 255 (2040 of all environments), but the run has 256 (2048)";
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(metrics(&to(256).unwrap()), metrics(&first), "nothing is left to do");

        let mut until = |progress: &Progress| progress.global_step < 2048 + 8;
        let options = TrainOptions { steps_per_env: Some(512), observer: Some(&mut until), ..TrainOptions::default() };
        let begun = resume(&path, &cart_pole, options).unwrap();
        assert!(!begun.complete);
        assert!(!checkpoints(&path).contains(&"final".to_owned()), "{agent}: not final any more");
        // As if it had been killed before there was a checkpoint of the longer run.
        let at = begun.agent_state.global_step;
        std::fs::remove_file(checkpoint::path_of(&path.join("checkpoints"), &checkpoint::step_name(at))).unwrap();
        let longer = resume(&path, &cart_pole, TrainOptions::default()).unwrap();
        assert!(longer.complete);
        assert_eq!(longer.summary().training_global_steps, 4096, "{agent}");
        assert_eq!(longer.eval_metrics.global_steps, [1024, 2048, 3072, 4096]);
        assert_eq!(longer.eval_metrics.mean_return[..2], first.eval_metrics.mean_return);
        assert!(longer.training_metrics.global_steps.is_sorted());
        assert!(checkpoints(&path).contains(&"final".to_owned()));
        assert_eq!(load_run(&path).unwrap().config.run.steps_per_env, 512);
        let found = TrainingResults::load(&path).unwrap();
        assert_eq!(metrics(&found), metrics(&longer));
    }
}

/// What is there is taken apart only when the longer run begins, and never the checkpoint that it begins with.
#[test]
fn making_a_run_longer_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let config = dqn(&[("checkpoint_frequency", "50"), ("save_agent_checkpoint", "true")]);
    let path = trained(&config, TrainOptions { root: Some(root.path()), ..TrainOptions::default() }).run_dir.unwrap();
    let steps_per_env = Some(2 * config.run.steps_per_env);
    let before = (checkpoints(&path), load_run(&path).unwrap().results.is_some());
    let refused = |_: &BatchConfig| Err(phalanx_core::Error::Setup("not here".to_owned()));
    let options = TrainOptions { steps_per_env, ..TrainOptions::default() };
    assert!(resume(&path, &refused, options).is_err());
    assert_eq!((checkpoints(&path), load_run(&path).unwrap().results.is_some()), before);

    let end = checkpoint::path_of(&path.join("checkpoints"), checkpoint::FINAL);
    std::fs::write(&end, b"damaged").unwrap();
    let good = load_run(&path).unwrap().last_checkpoint().unwrap().unwrap();
    let mut at_once = |_: &Progress| false;
    let options = TrainOptions { steps_per_env, observer: Some(&mut at_once), ..TrainOptions::default() };
    assert!(!resume(&path, &cart_pole, options).unwrap().complete);
    assert_eq!(checkpoint::Checkpoint::read(&good.path).unwrap(), good.checkpoint);
    assert!(!end.exists());
}

#[test]
fn a_table_is_left_for_numpy_if_that_is_wanted() {
    let root = tempfile::tempdir().unwrap();
    let games = |config: &BatchConfig| phalanx_envs::registry::find("TicTacToe-v0").unwrap().batch(config);
    for (wanted, algorithm, columns) in
        [("false", "q_learning", 9), ("true", "q_learning", 9), ("true", "double_q", 18)]
    {
        let settings = [("total_timesteps", "6400"), ("save_npy", wanted), ("algorithm", algorithm)];
        let config = create_config("TicTacToe-v0", "q_learning", &settings).unwrap();
        let options = TrainOptions { root: Some(root.path()), ..TrainOptions::default() };
        let path = train_and_evaluate(&config, &games, options).unwrap().run_dir.unwrap().join("table.npy");
        assert_eq!(path.exists(), wanted == "true");
        if path.exists() {
            let bytes = std::fs::read(path).unwrap();
            let table = <Dense<f32> as Table<f32>>::from_npy(19_683, columns, &bytes).unwrap();
            assert!(Table::<f32>::visited(&table) > 100);
        }
    }
}

#[test]
fn without_a_checkpoint_nothing_is_promised() {
    let root = tempfile::tempdir().unwrap();
    let mut until = |progress: &Progress| progress.global_step < 404;
    let options = TrainOptions { root: Some(root.path()), observer: Some(&mut until), ..TrainOptions::default() };
    let begun = trained(&dqn(&[]), options);
    assert!(!begun.stored);
    let message = resume(&begun.run_dir.unwrap(), &cart_pole, TrainOptions::default()).unwrap_err().to_string();
    assert!(message.contains("it has no checkpoint to go on from"), "{message}");
}

#[test]
fn other_settings_are_refused() {
    let begun = trained(&dqn(&[]), TrainOptions::default());
    let options = TrainOptions { resume_from: Some(&begun.agent_state), ..TrainOptions::default() };
    let message = train_and_evaluate(&dqn(&[("gamma", "0.5")]), &cart_pole, options).unwrap_err().to_string();
    assert_eq!(message, "the agent was made with agent.gamma = 0.99, but the run now has 0.5");
}

#[test]
fn results_are_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let config = dqn(&[("total_timesteps", "100")]);
    let results = trained(&config, TrainOptions::default());
    let path = folder.path().join("kept");
    results.save(&path).unwrap();
    let loaded = TrainingResults::load(&path).unwrap();
    assert_eq!((loaded.summary(), &loaded.agent_state), (results.summary(), &results.agent_state));
    assert_eq!(metrics(&loaded), metrics(&results));
    assert!(results.save(&path).is_err(), "a run is never overwritten");
    let agent = folder.path().join("agent.safetensors");
    results.save_agent(&agent).unwrap();
    assert_eq!(TrainingResults::load_agent(&agent).unwrap(), results.agent_state);
}

/// Draws the last state as text.
struct Drawn;

impl Environments for Drawn {
    fn batch(&self, config: &BatchConfig) -> phalanx_core::error::Result<Box<dyn phalanx_core::batch::Batch>> {
        cart_pole(config)
    }

    fn film(&self) -> Option<&crate::environments::Draw<'_>> {
        Some(&|film: &Film<'_>| Ok(format!("{:?} at {} fps", film.states.last().unwrap(), film.fps).into_bytes()))
    }
}

#[test]
fn episodes_are_kept_by_steps_and_drawn_from_their_states() {
    let root = tempfile::tempdir().unwrap();
    // Every 50 steps there is an evaluation, and after every 75 the next one is kept: at 100, 150, 250.
    let config = dqn(&[
        ("eval_episode_save_frequency", "75"),
        ("eval_episode_save_count", "2"),
        ("eval_render_videos", "true"),
        ("eval_video_fps", "25"),
    ]);
    let results = train_and_evaluate(&config, &Drawn, TrainOptions { root: Some(root.path()), ..Default::default() });
    let path = results.unwrap().run_dir.unwrap();
    for (folder, extension) in [("episodes", "npz"), ("videos", "gif")] {
        let mut found: Vec<_> = std::fs::read_dir(path.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        found.sort();
        let names = ["step_00000400", "step_00000600", "step_00001000"];
        assert_eq!(found, names.map(|name| path.join(folder).join(name)));
        let files: Vec<_> = (0..3).map(|k| found[0].join(format!("episode_{k:04}.{extension}")).exists()).collect();
        assert_eq!(files, [true, true, false]);
    }
    let text = std::fs::read_to_string(path.join("videos/step_00000400/episode_0000.gif")).unwrap();
    assert!(text.ends_with("] at 25 fps"), "{text}");

    let refused = train_and_evaluate(&config, &cart_pole, TrainOptions::default()).unwrap_err().to_string();
    assert_eq!(refused, "run.eval_render_videos is true, but nothing draws these environments");
}

#[test]
fn intervals_are_passed_once() {
    assert_eq!([0, 9, 10, 11].map(|step| next_multiple(step, 10, 25)), [10, 10, 20, 20]);
    assert_eq!((next_multiple(20, 10, 25), next_multiple(3, 0, 25)), (25, 25));
    assert_eq!([(0, 9), (9, 10), (10, 19), (19, 40)].map(|(a, b)| passes(10, a, b)), [false, true, false, true]);
    assert!(!passes(0, 0, 100));
}

/// With seed 1, as `cargo xtask learn-proof` does with ten: 475 is what counts as solved, 500 the most there is.
fn solves_cart_pole(agent: &str) {
    let settings = [("eval_rollouts", "100"), ("eval_frequency", "0"), ("seed", "1")];
    let found = trained(&create_config("CartPole-v1", agent, &settings).unwrap(), TrainOptions::default());
    let mean = found.summary().final_eval_return_mean.unwrap();
    assert!(mean >= 475.0, "{agent}: {mean}");
}

#[test]
fn the_preset_of_ppo_solves_cart_pole() {
    solves_cart_pole("ppo");
}

#[test]
fn the_preset_of_dqn_solves_cart_pole() {
    solves_cart_pole("dqn");
}

#[test]
fn the_preset_of_pqn_solves_cart_pole() {
    solves_cart_pole("pqn");
}

/// Acceptance test 7 of the reference: a random policy gets -1225.
#[test]
fn ppo_improves_pendulum_control() {
    let settings = [
        ("num_envs", "16"),
        ("total_timesteps", "300000"),
        ("rollout_steps", "256"),
        ("eval_frequency", "0"),
        ("eval_rollouts", "20"),
        ("learning_rate", "1e-3"),
        ("gamma", "0.9"),
        ("num_minibatches", "64"),
        ("num_epochs", "10"),
        ("ent_coef", "0"),
        ("clip_vloss", "false"),
    ];
    let config = create_config("pendulum-control", "ppo", &settings).unwrap();
    let entry = phalanx_envs::registry::find("pendulum-control").unwrap();
    let make = |batch: &BatchConfig| entry.batch(batch);
    let mean = train_and_evaluate(&config, &make, TrainOptions::default()).unwrap().eval_metrics.mean_return[0];
    assert!(mean > -400.0, "{mean}");
}

#[test]
fn more_environments_than_memory_are_refused_before_they_are_made() {
    let refused = |key: &str, settings: &[(&str, &str)]| {
        let config = create_config("CartPole-v1", "random", &[settings, &[("steps_per_env", "1")]].concat()).unwrap();
        let error = train_and_evaluate(&config, &cart_pole, TrainOptions::default()).unwrap_err().to_string();
        let start = format!("{key} is 10000000000000, but the environments would take ");
        assert!(error.starts_with(&start), "{error}");
    };
    refused("run.num_envs", &[("num_envs", "10000000000000")]);
    refused("run.eval_rollouts", &[("eval_rollouts", "10000000000000")]);
}

/// An evaluation that fails takes nothing away that was learnt, and the run can go on to its end.
#[test]
fn a_failed_evaluation_leaves_the_agent() {
    let root = tempfile::tempdir().unwrap();
    let config = dqn(&[("eval_frequency", "0"), ("save_agent_checkpoint", "true")]);
    let evaluations = |allowed: bool| {
        move |batch: &BatchConfig| {
            let is_evaluation = batch.seed == evaluation_seed(42, 0);
            if is_evaluation && !allowed {
                return Err(phalanx_core::Error::Setup("no evaluation today".to_owned()));
            }
            cart_pole(batch)
        }
    };
    let options = || TrainOptions { root: Some(root.path()), ..TrainOptions::default() };
    let folder = std::cell::RefCell::new(None);
    struct Where<'a>(&'a std::cell::RefCell<Option<std::path::PathBuf>>);
    impl crate::api::Observer for Where<'_> {
        fn started(&mut self, run: &std::path::Path) {
            *self.0.borrow_mut() = Some(run.to_owned());
        }
    }
    let mut observer = Where(&folder);
    let error =
        train_and_evaluate(&config, &evaluations(false), TrainOptions { observer: Some(&mut observer), ..options() });
    assert_eq!(error.unwrap_err().to_string(), "no evaluation today");
    let run = folder.borrow().clone().unwrap();
    assert_eq!(load_run(&run).unwrap().last_checkpoint().unwrap().unwrap().checkpoint.global_step, 1000);
    let ended = resume(&run, &evaluations(true), TrainOptions::default()).unwrap();
    assert_eq!(metrics(&ended), metrics(&trained(&config, TrainOptions::default())));
}

/// The row that could not be written is written by whoever goes on, and nothing counts twice.
#[test]
fn a_log_that_cannot_be_written_is_made_up_for() {
    let config = dqn(&[("save_agent_checkpoint", "true"), ("eval_frequency", "0")]);
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("run");
    // With the first update there are new columns, for which the file is written anew: if it were one.
    let mut spoil = |progress: &Progress| {
        if progress.global_step == 400 {
            std::fs::remove_file(run.join("metrics.csv")).unwrap();
            std::fs::create_dir(run.join("metrics.csv")).unwrap();
        }
        true
    };
    let options = TrainOptions { run_dir: Some(&run), observer: Some(&mut spoil), ..TrainOptions::default() };
    let error = train_and_evaluate(&config, &cart_pole, options).unwrap_err().to_string();
    assert!(error.contains("metrics.csv"), "{error}");
    std::fs::remove_dir(run.join("metrics.csv")).unwrap();
    let failed = checkpoints(&run);
    let ended = resume(&run, &cart_pole, TrainOptions::default()).unwrap();
    let whole = trained(&dqn(&[("eval_frequency", "0")]), TrainOptions::default());
    assert_eq!(metrics(&ended), metrics(&whole));
    let steps = |text: String| text.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect();
    let rows: Vec<String> = steps(std::fs::read_to_string(run.join("metrics.csv")).unwrap());
    assert_eq!(failed, [checkpoint::step_name(rows[0].parse().unwrap())], "{rows:?}");
}

/// A state that has become too large to be kept does not leave one from when it was small in its place.
#[test]
fn a_state_that_is_too_large_is_not_kept_and_no_older_one_either() {
    let settings = [
        ("learning_rate", "1e30"),
        ("num_envs", "64"),
        ("total_timesteps", "200000"),
        ("buffer_size", "200000"),
        ("learning_starts", "150000"),
        ("agent.frame_stack_n", "16"),
        ("eval_frequency", "0"),
    ];
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join("run");
    let options = TrainOptions { run_dir: Some(&run), ..TrainOptions::default() };
    let error = train_and_evaluate(&dqn(&settings), &cart_pole, options).unwrap_err();
    assert!(matches!(error, Error::NotFinite { kept: None, global_step, .. } if global_step >= 150_000), "{error}");
    assert!(checkpoints(&run).is_empty());
}

/// Nobody has asked for checkpoints, but what was learnt before a loss became no number is not lost.
#[test]
fn a_run_that_learns_no_numbers_leaves_its_last_good_state() {
    let explode = ("learning_rate", "1e30");
    let ppo = create_config("CartPole-v1", "ppo", &[("num_envs", "4"), ("total_timesteps", "5120"), explode]).unwrap();
    for (config, kept) in [(dqn(&[explode]), 500), (ppo, 0)] {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        let options = TrainOptions { run_dir: Some(&run), ..TrainOptions::default() };
        let error = train_and_evaluate(&config, &cart_pole, options).unwrap_err();
        assert!(matches!(error, Error::NotFinite { kept: Some(step), .. } if step >= kept), "{error}");
        let message = error.to_string();
        let Error::NotFinite { kept: Some(step), .. } = error else { unreachable!() };
        assert!(message.ends_with(&format!("; the last good checkpoint, of step {step}, is kept")), "{message}");
        assert_eq!(checkpoints(&run), [checkpoint::step_name(step)]);
        let good = load_run(&run).unwrap().load_checkpoint(&checkpoint::step_name(step)).unwrap();
        let weights = good.state.arrays().values().filter_map(|array| match &array.data {
            crate::state::Data::F32(data) => Some(data),
            _ => None,
        });
        assert!(weights.flatten().all(|weight| weight.is_finite()));
        // It is a checkpoint as any other: whoever goes on from it comes to the same end.
        assert_eq!(resume(&run, &cart_pole, TrainOptions::default()).unwrap_err().to_string(), message);
    }
}

/// An event that is owed is told of with the speed of the sessions before.
#[test]
fn a_resumed_run_knows_its_speed() {
    let config = dqn(&[]);
    let mut until = |progress: &Progress| progress.global_step < 404;
    let begun = trained(&config, TrainOptions { observer: Some(&mut until), ..TrainOptions::default() });
    let checkpoint = Cow::Borrowed(&begun.agent_state);
    let trainer = Trainer::new(&config, &cart_pole, Some(checkpoint), Stop::default()).unwrap();
    assert_eq!(trainer.progress.steps_per_second, 404.0 / begun.training_seconds);
}

/// A constraint that every step violates: each pays 1 and costs 3, in evaluations (of which the first comes before
/// anything is learnt) and in what is learnt from.
#[test]
fn constraints_of_a_run_hold_in_training_and_evaluation() {
    let with = |more: &[(&str, &str)]| trained(&dqn(more), TrainOptions::default());
    let violated = ("env.constraints", "x<=-5:soft:penalty=-3:name=left; x_dot<=100:soft");
    let (free, fined) = (with(&[]), with(&[violated]));
    assert_eq!(fined.eval_metrics.mean_return[0], -2.0 * free.eval_metrics.mean_return[0]);
    // Intervals in which no episode ended have none.
    let in_training = |results: &TrainingResults| {
        *results.training_metrics.reward.iter().find(|mean| mean.is_finite()).expect("an episode that ended")
    };
    assert_eq!(in_training(&fined), -2.0 * in_training(&free));
    let watched = with(&[violated, ("env.safety", "monitor")]);
    assert_eq!(watched.eval_metrics.mean_return[0], free.eval_metrics.mean_return[0]);
    assert_eq!(in_training(&watched), in_training(&free));
    for (key, value, why) in [
        ("env.safety", "enforced", "did you mean 'enforce'"),
        ("env.safty", "monitor", "did you mean 'safety'"),
        ("env.safety.mode", "monitor", "did you mean 'safety'"),
        ("env.constraint", "x<=1:soft", "did you mean 'constraints'"),
        ("env.constraints", "x<=-5:softly", "':softly'"),
        ("env.constraints", "thta<=1", "did you mean 'theta'"),
    ] {
        let refused = train_and_evaluate(&dqn(&[(key, value)]), &cart_pole, TrainOptions::default());
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}
