//! A run of the lab from its first guard to its last: what was measured is recorded as it comes.

use std::path::{Path, PathBuf};

use serde_json::Map;

use crate::Result;
use crate::build_info::{BuildInfo, Git};
use crate::campaign::{self, Measured, PairRun, Process};
use crate::case::CaseSpec;
use crate::guards::{Guards, Readings};
use crate::machine::Machine;
use crate::record::{Arm, Case, Journal, Order, Record, Run, SCHEMA_VERSION, Sample, Summary, new_run_id};
use crate::timestamp::Timestamp;

/// A run of the lab.
#[derive(Debug)]
pub struct Session {
    /// Its first record.
    pub run: Run,
    guards: Guards,
    journal: Option<Journal>,
}

impl Session {
    /// Begins a run on `threads` threads. With a folder, its records go to a new file there, named after `prefix`.
    pub fn start(prefix: &str, threads: usize, tags: Vec<String>, folder: Option<&Path>) -> Result<Self> {
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
            extra: Map::new(),
        };
        let journal = folder.map(|folder| Journal::create(folder, prefix, now)).transpose()?;
        let mut session = Self { run, guards, journal };
        session.record(&Record::Run(Box::new(session.run.clone())))?;
        Ok(session)
    }

    /// Where the records are, if anywhere.
    pub fn path(&self) -> Option<PathBuf> {
        self.journal.as_ref().map(|journal| journal.path().to_owned())
    }

    /// What the guards find now, with what has happened since the start.
    pub fn guards(&self) -> Readings {
        self.guards.after()
    }

    /// Appends a record.
    pub fn record(&mut self, record: &Record) -> Result<()> {
        match &mut self.journal {
            Some(journal) => journal.append(record),
            None => Ok(()),
        }
    }

    /// Records a case, its samples and their summary, which it answers.
    pub fn record_measured(&mut self, measured: &Measured, suite: &str) -> Result<Summary> {
        self.record_case(&measured.case, suite)?;
        for (number, process) in measured.processes.iter().enumerate() {
            self.record_process(&measured.case.id(), Arm::A, number, None, process)?;
        }
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

    /// Records the pairs of a comparison: both cases, all samples and the summaries of both arms.
    pub fn record_pairs(
        &mut self,
        (a, b): (&CaseSpec, &CaseSpec),
        suite: &str,
        pairs: &[PairRun],
    ) -> Result<[Summary; 2]> {
        self.record_case(a, suite)?;
        if a != b {
            self.record_case(b, suite)?;
        }
        for (number, pair) in pairs.iter().enumerate() {
            let of = Some((number as u64, pair.order));
            self.record_process(&a.id(), Arm::A, 2 * number, of, &pair.a)?;
            self.record_process(&b.id(), Arm::B, 2 * number + 1, of, &pair.b)?;
        }
        let side = |of: fn(&PairRun) -> &Process| pairs.iter().map(of).cloned().collect::<Vec<_>>();
        Ok([
            self.record_summary(&a.id(), Arm::A, &side(|pair| &pair.a))?,
            self.record_summary(&b.id(), Arm::B, &side(|pair| &pair.b))?,
        ])
    }

    fn record_case(&mut self, case: &CaseSpec, suite: &str) -> Result<()> {
        self.record(&Record::Case(case.record(&self.run.run_id, suite)))
    }

    fn record_summary(&mut self, case_id: &str, arm: Arm, processes: &[Process]) -> Result<Summary> {
        let summary = campaign::summary(&self.run.run_id, case_id, arm, processes);
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
                steal: None,
                steady: index >= discarded,
                extra: Map::new(),
            }))?;
        }
        Ok(())
    }
}
