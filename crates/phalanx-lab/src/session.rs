//! A run of the lab from its first guard to its last: what was measured is recorded as it comes.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::Result;
use crate::build_info::{BuildInfo, Git};
use crate::campaign::{self, Measured, PairRun, Process};
use crate::case::CaseSpec;
use crate::files::check_folder;
use crate::guards::{Guards, Reading, Readings};
use crate::interrupt::UnfinishedRun;
use crate::machine::Machine;
use crate::record::{Arm, Case, Journal, Order, Record, Run, SCHEMA_VERSION, Sample, Summary, new_run_id};
use crate::timestamp::Timestamp;

/// What the record of a run says of it beside what the machine tells.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// What the user calls it.
    pub tags: Vec<String>,
    /// What the user says of it.
    pub description: Option<String>,
    /// Whatever else a reader must know, such as which builds are compared.
    pub extra: Map<String, Value>,
}

impl From<Vec<String>> for About {
    fn from(tags: Vec<String>) -> Self {
        Self { tags, ..Self::default() }
    }
}

/// A run of the lab.
#[derive(Debug)]
pub struct Session {
    /// Its first record.
    pub run: Run,
    guards: Guards,
    /// What others than the machine have to say.
    noted: Readings,
    journal: Option<Journal>,
    /// Until [`Session::finish`].
    unfinished: Option<UnfinishedRun>,
}

impl Session {
    /// Begins a run on `threads` threads. With a folder, its records go to a new file there, named after `prefix`. A run
    /// that ends before [`Session::finish`], by an error or by a signal, leaves what was measured until then, and no file
    /// if that is nothing.
    pub fn start(prefix: &str, threads: usize, about: impl Into<About>, folder: Option<&Path>) -> Result<Self> {
        // Before any work; a folder that cannot be written to is a mistake of whoever named it.
        folder.map_or(Ok(()), check_folder)?;
        let About { tags, description, mut extra } = about.into();
        if let Some(description) = description {
            extra.insert("description".to_owned(), description.into());
        }
        let (build, git, now) = (BuildInfo::of_this_binary(), Git::of_this_binary(), Timestamp::now());
        let guards = Guards::before(threads, &build, &git);
        let run = Run {
            schema_version: SCHEMA_VERSION,
            run_id: new_run_id(),
            started_at: now.rfc3339(),
            git,
            tags,
            machine: Machine::detect(),
            build,
            guards: guards.readings_before().clone(),
            extra,
        };
        let journal = folder.map(|folder| Journal::create(folder, prefix, now)).transpose()?;
        let unfinished = journal.as_ref().map(|journal| UnfinishedRun::with_records(journal.path().to_owned()));
        let unfinished = unfinished.transpose()?;
        let mut session = Self { run, guards, noted: Readings::default(), journal, unfinished };
        session.append(&Record::Run(Box::new(session.run.clone())))?;
        Ok(session)
    }

    /// All is measured and recorded.
    pub fn finish(&mut self) {
        if let Some(unfinished) = self.unfinished.take() {
            unfinished.finish();
        }
    }

    /// Where the records are, if anywhere.
    pub fn path(&self) -> Option<PathBuf> {
        self.journal.as_ref().map(|journal| journal.path().to_owned())
    }

    /// What the guards find now, with what has happened since the start.
    pub fn guards(&self) -> Readings {
        let mut readings = self.guards.after();
        readings.0.extend(self.noted.0.clone());
        readings
    }

    /// Adds a reading that the machine does not tell, such as how two builds differ.
    pub fn note(&mut self, name: &str, reading: Reading) {
        self.noted.0.insert(name.to_owned(), reading);
    }

    /// Appends a record of something that was measured.
    pub fn record(&mut self, record: &Record) -> Result<()> {
        if let Some(unfinished) = &self.unfinished {
            unfinished.measured();
        }
        self.append(record)
    }

    fn append(&mut self, record: &Record) -> Result<()> {
        match &mut self.journal {
            Some(journal) => journal.append(record),
            None => Ok(()),
        }
    }

    /// Records the last of the processes that have measured a case so far, and what all of them amount to. Called after
    /// each, it leaves nothing to lose when the run is ended early; [`Session::record_complete`] follows the last.
    pub fn record_progress(&mut self, case: &CaseSpec, suite: &str, so_far: &[Process]) -> Result<()> {
        let Some((last, earlier)) = so_far.split_last() else { return Ok(()) };
        if earlier.is_empty() {
            self.record_case(case, suite)?;
        }
        self.record_process(&case.id(), Arm::A, earlier.len(), None, last)?;
        let unfinished = Summary { complete: Some(false), ..self.summary(&case.id(), Arm::A, so_far) };
        self.record(&Record::Summary(unfinished))
    }

    /// Records the summary of a case whose processes [`Session::record_progress`] has recorded one by one.
    pub fn record_complete(&mut self, measured: &Measured) -> Result<Summary> {
        self.record_summary(&measured.case.id(), Arm::A, &measured.processes)
    }

    /// Records a case that is described already, such as one of another library, its samples and their summary.
    pub fn record_described(&mut self, case: Case, processes: &[Process]) -> Result<Summary> {
        let id = case.case_id.clone();
        self.record(&Record::Case(case))?;
        for (number, process) in processes.iter().enumerate() {
            self.record_process(&id, Arm::A, number, None, process)?;
        }
        self.record_summary(&id, Arm::A, processes)
    }

    /// Records the last of the pairs of a comparison so far, and what all of them amount to, as
    /// [`Session::record_progress`] does; [`Session::record_pairs_complete`] follows the last.
    pub fn record_pairs_progress(
        &mut self,
        (a, b): (&CaseSpec, &CaseSpec),
        suite: &str,
        so_far: &[PairRun],
    ) -> Result<()> {
        let Some((last, earlier)) = so_far.split_last() else { return Ok(()) };
        if earlier.is_empty() {
            self.record_case(a, suite)?;
            if a != b {
                self.record_case(b, suite)?;
            }
        }
        let (number, of) = (earlier.len(), Some((earlier.len() as u64, last.order)));
        self.record_process(&a.id(), Arm::A, 2 * number, of, &last.a)?;
        self.record_process(&b.id(), Arm::B, 2 * number + 1, of, &last.b)?;
        for summary in self.pair_summaries((a, b), so_far) {
            self.record(&Record::Summary(Summary { complete: Some(false), ..summary }))?;
        }
        Ok(())
    }

    /// Records the summaries of both sides of pairs that [`Session::record_pairs_progress`] has recorded one by one.
    pub fn record_pairs_complete(&mut self, cases: (&CaseSpec, &CaseSpec), pairs: &[PairRun]) -> Result<[Summary; 2]> {
        let summaries = self.pair_summaries(cases, pairs);
        for summary in &summaries {
            self.record(&Record::Summary(summary.clone()))?;
        }
        Ok(summaries)
    }

    fn pair_summaries(&self, (a, b): (&CaseSpec, &CaseSpec), pairs: &[PairRun]) -> [Summary; 2] {
        let side = |of: fn(&PairRun) -> &Process| pairs.iter().map(of).cloned().collect::<Vec<_>>();
        [self.summary(&a.id(), Arm::A, &side(|pair| &pair.a)), self.summary(&b.id(), Arm::B, &side(|pair| &pair.b))]
    }

    fn record_case(&mut self, case: &CaseSpec, suite: &str) -> Result<()> {
        self.record(&Record::Case(case.record(&self.run.run_id, suite)))
    }

    fn summary(&self, case_id: &str, arm: Arm, processes: &[Process]) -> Summary {
        let mut summary = campaign::summary(&self.run.run_id, case_id, arm, processes);
        // The record of the run only knows what the guards found before it.
        summary.extra.insert("guards".to_owned(), json!(self.guards()));
        summary
    }

    fn record_summary(&mut self, case_id: &str, arm: Arm, processes: &[Process]) -> Result<Summary> {
        let summary = self.summary(case_id, arm, processes);
        self.record(&Record::Summary(summary.clone()))?;
        Ok(summary)
    }

    fn record_process(
        &mut self,
        case_id: &str,
        arm: Arm,
        number: usize,
        pair: Option<(u64, Order)>,
        process: &Process,
    ) -> Result<()> {
        let discarded = process.discarded();
        for (index, timing) in process.timings.iter().enumerate() {
            self.record(&Record::Sample(Sample {
                run_id: self.run.run_id.clone(),
                case_id: case_id.to_owned(),
                arm,
                process: number as u64,
                pair: pair.map(|(pair, _)| pair),
                order: pair.map(|(_, order)| order),
                index: index as u64,
                wall_ns: timing.wall_ns,
                cpu_ns: timing.cpu_ns,
                steps: timing.steps,
                checksum: timing.checksum,
                steal: timing.steal,
                steady: index >= discarded && process.is_steady(),
                extra: Map::new(),
            }))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::{Clock, compared};
    use crate::judgement::{Judgement, Rules};
    use crate::record::{Checksum, Verdict, read};
    use crate::workload::Timing;

    fn session(folder: &Path) -> Session {
        Session::start("test", 1, Vec::new(), Some(folder)).unwrap()
    }

    fn recorded(session: &Session) -> Vec<Record> {
        read(&session.path().unwrap()).unwrap().records
    }

    /// Nanoseconds for each step: some noise, in which the first six samples stand out by a factor.
    fn times(seed: usize, factor: f64) -> impl Iterator<Item = f64> {
        let noise = move |i: usize| 0.01 * ((i * 7 + seed * 3) % 11) as f64;
        (0..24).map(move |i| if i < 6 { factor * (10.0 + noise(i)) } else { 10.0 + noise(i) })
    }

    #[test]
    fn samples_of_a_process_that_never_settled_are_not_steady() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path());
        let restless = Process::of_times((0..24).map(|i| if i < 20 { 10.0 } else { 12.0 } + 0.01 * f64::from(i % 3)));
        assert!(!restless.is_steady() && restless.steady.is_some());
        let (case, processes) = (CaseSpec::rollout("some", 4), vec![restless, Process::of_times(times(1, 1.2))]);
        (1..=2).for_each(|count| session.record_progress(&case, "s", &processes[..count]).unwrap());
        let records = recorded(&session);
        let steady = |process: u64| {
            let of = |record: &&Record| matches!(record, Record::Sample(sample) if sample.process == process && sample.steady);
            records.iter().filter(of).count()
        };
        assert_eq!((steady(0), steady(1)), (0, 18));
        let Some(Record::Summary(summary)) = records.last() else { panic!("{records:?}") };
        assert!(summary.extra["guards"]["preemption"]["status"].is_string(), "what was known after the run");
    }

    #[test]
    fn a_run_that_ends_early_leaves_what_was_measured_and_one_that_does_not_the_same_as_ever() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path());
        let measured = Measured {
            case: CaseSpec::rollout("some", 4),
            processes: [1, 2].map(|seed| Process::of_times(times(seed, 1.2))).to_vec(),
        };
        let Measured { case, processes } = &measured;
        for count in 1..=processes.len() {
            session.record_progress(case, "s", &processes[..count]).unwrap();
            let records = recorded(&session);
            let Some(Record::Summary(last)) = records.last() else { panic!("{records:?}") };
            assert_eq!((last.n_processes, last.complete), (count as u64, Some(false)));
            let cited = crate::citation::of_file(&session.path().unwrap()).unwrap();
            let rates: Vec<f64> = cited.iter().map(|cited| cited.steps_per_second).collect();
            assert_eq!(rates, [1e9 / last.t_median]);
        }
        let last = session.record_complete(&measured).unwrap();
        assert_eq!(last.complete, None);
        let count = |wanted: fn(&Record) -> bool| recorded(&session).iter().filter(|record| wanted(record)).count();
        assert_eq!(count(|record| matches!(record, Record::Case(_))), 1);
        assert_eq!(count(|record| matches!(record, Record::Sample(_))), 48);
        let [series] = &crate::history::series(&recorded(&session))[..] else { panic!("one series") };
        let times: Vec<f64> = series.entries.iter().map(|entry| entry.time_ns).collect();
        assert_eq!(times, [last.t_median], "one entry for the run");
    }

    #[test]
    fn a_run_that_ends_before_anything_is_measured_leaves_no_file_and_a_finished_one_does() {
        let folder = tempfile::tempdir().unwrap();
        let left = |session: Session| {
            let path = session.path().unwrap();
            drop(session);
            read(&path).map(|read| read.records.len()).ok()
        };
        assert_eq!(left(session(folder.path())), None, "an error before the first process");
        let mut finished = session(folder.path());
        finished.finish();
        assert_eq!(left(finished), Some(1));
        let mut cut = session(folder.path());
        cut.record_progress(&CaseSpec::rollout("some", 4), "s", &[Process::of_times([10.0].into_iter())]).unwrap();
        assert_eq!(left(cut), Some(4), "a run, a case, a sample and a summary");
    }

    /// The process of these samples.
    fn process(records: &[Record], number: u64) -> Process {
        let timing = |record: &Record| match record {
            Record::Sample(sample) if sample.process == number => {
                let Sample { wall_ns, cpu_ns, steps, checksum, steal, .. } = *sample;
                Some(Timing { wall_ns, cpu_ns, steps, checksum, steal })
            }
            _ => None,
        };
        let ready = Process::of_times(std::iter::empty()).ready;
        Process::new(ready, records.iter().filter_map(timing).collect())
    }

    #[test]
    fn summaries_and_verdicts_can_be_computed_again_from_the_records() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = session(folder.path());
        let case = CaseSpec::rollout("some", 4);
        let pair = |number: usize| PairRun {
            clock: Clock::Cpu,
            order: if number.is_multiple_of(2) { Order::Ab } else { Order::Ba },
            a: Process::of_times(times(number, 1.3)),
            b: Process::of_times(times(number + 5, 1.0)),
        };
        let pairs: Vec<PairRun> = (0..6).map(pair).collect();
        let guards = Readings::default();
        let rules = Rules { theta: 0.01, confidence: 0.975, seed: u64::MAX - 1, guards: &guards, calibration: None };
        let judgement = Judgement::of(&pairs, &rules);
        (1..=6).for_each(|count| session.record_pairs_progress((&case, &case), "ab", &pairs[..count]).unwrap());
        session.record_pairs_complete((&case, &case), &pairs).unwrap();
        session.record(&Record::Verdict(judgement.record("r", &case.id(), 0))).unwrap();

        let records = recorded(&session);
        let Some(Record::Verdict(Verdict { ratio, lo, hi, extra, .. })) = records.last() else { panic!("a verdict") };
        let clock: Clock = serde_json::from_value(extra["clock"].clone()).unwrap();
        let Checksum(seed) = serde_json::from_value(extra["seed"].clone()).unwrap();
        let again = |number: u64| PairRun {
            clock,
            order: Order::Ab,
            a: process(&records, 2 * number),
            b: process(&records, 2 * number + 1),
        };
        let pairs: Vec<PairRun> = (0..6).map(again).collect();
        assert_eq!(extra["discarded"], json!(pairs.iter().map(PairRun::discarded).collect::<Vec<_>>()));
        assert_eq!(extra["discarded"][0], 6, "the ratio settles when A does");
        let found = compared(&pairs, extra["confidence"].as_f64().unwrap(), seed).unwrap();
        let interval = found.speed_up_interval();
        assert_eq!((Some(found.speed_up()), Some(interval.low), Some(interval.high)), (*ratio, *lo, *hi));
        for (arm, side) in [(Arm::A, 0), (Arm::B, 1)] {
            let processes: Vec<Process> = (0..6).map(|number| process(&records, 2 * number + side)).collect();
            let mut again = campaign::summary(&session.run.run_id, &case.id(), arm, &processes);
            let stored = records.iter().find_map(|record| match record {
                Record::Summary(summary) if summary.arm == arm && summary.complete.is_none() => Some(summary),
                _ => None,
            });
            let stored = stored.expect("a summary of each side");
            again.extra = stored.extra.clone();
            assert_eq!(*stored, again);
        }
    }
}
