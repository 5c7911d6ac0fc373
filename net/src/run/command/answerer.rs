//! The answerer turns the program's answers into records, in the order of the questions.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_exec::Blocking;

use super::emitter::Emitter;
use super::link::{Link, Writing, locked};
use super::part::OUTSTANDING_MAX;
use super::process::{ANSWER_BYTES_MAX, Asker, Ended};
use super::respondent::{Content, Heard, Listening, Respondent, Rest};
use crate::record::Record;
use crate::syntax::ast::CommandMode;

/// The initial time that the answerer waits for an answer that the program may hold back.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// The factor by which batches of repeated questions shrink when no question of a batch was answered, and
/// grow when all were.
const BATCH_FACTOR: usize = 8;

/// Turns the program's answers into records.
pub(crate) struct Answerer {
    asker: Asker,
    mode: CommandMode,
    link: Arc<Link>,
    emitter: Emitter,
    /// The number of the next record to take from the outstanding ones.
    taken: u64,
    /// The end of the range of records that were sent to a process that died, and are asked again.
    again_end: u64,
    /// The most records that are asked again at once.
    batch: usize,
    /// The processes: the first gives the next answers, and the feeder writes to the last.
    respondents: VecDeque<Respondent>,
    /// The reason why no process will be started any more.
    hopeless: Option<String>,
    /// Whether a filter that was asked about one record alone exited as `grep` does when it finds no match.
    finds_nothing: bool,
    patience: Duration,
}

impl Answerer {
    pub(super) fn new(asker: Asker, link: Arc<Link>, emitter: Emitter) -> Answerer {
        Answerer {
            mode: asker.part.mode,
            asker,
            link,
            emitter,
            taken: 0,
            again_end: 0,
            batch: OUTSTANDING_MAX,
            respondents: VecDeque::new(),
            hopeless: None,
            finds_nothing: false,
            patience: PATIENCE,
        }
    }

    pub(crate) fn run(mut self, blocking: &mut Blocking) {
        self.start();
        while let Some(record) = self.emitter.pipe.input.next_blocking(blocking) {
            let number = self.taken;
            self.taken += 1;
            if let Some(asked) = self.emitter.asked(blocking, record) {
                let answers = self.answers(blocking, &asked.record, number);
                self.link.note_answer();
                self.emitter.settle(blocking, asked, answers);
            }
            if !self.emitter.drain(blocking) {
                return;
            }
        }
        while let Some(respondent) = self.respondents.pop_front() {
            self.finish(respondent);
        }
    }

    /// The answers to a record. `Err`: why the record fails.
    fn answers(&mut self, blocking: &mut Blocking, record: &Record, number: u64) -> Content {
        let mut gathered = Gathered::default();
        loop {
            self.prepare(blocking, record, number)?;
            match self.hear(blocking, number) {
                Heard::Answer(content) => {
                    self.note_answer();
                    if self.mode != CommandMode::Filter {
                        return self.settled(content);
                    }
                    self.gather(&mut gathered, content);
                }
                Heard::Later(later) => return self.left_out(gathered, later),
                Heard::Rest(Rest::Fails(reason)) if gathered.is_empty() => return self.fails(reason),
                Heard::Rest(_) => return self.settled(gathered.content),
                Heard::Nothing => self.close(),
                Heard::End => {
                    if !self.end() {
                        gathered = Gathered::default();
                    }
                }
            }
        }
    }

    /// Ensures that the first process is one that was asked about the record.
    fn prepare(&mut self, blocking: &mut Blocking, record: &Record, number: u64) -> Result<(), String> {
        while self.respondents.front().is_some_and(|front| front.asked.end <= number)
            && let Some(done) = self.respondents.pop_front()
        {
            self.finish(done);
        }
        if self.respondents.front().is_some_and(|front| front.asked.contains(&number)) {
            return Ok(());
        }
        match &self.hopeless {
            Some(reason) => Err(reason.clone()),
            None => self.ask_again(blocking, record, number),
        }
    }

    fn hear(&mut self, blocking: &mut Blocking, number: u64) -> Heard {
        let Some(front) = self.respondents.front_mut() else { return Heard::End };
        front.hear(number, &mut Listening { blocking, link: &self.link, patience: self.patience })
    }

    /// Records that the outcome of the current record is known.
    fn settled(&mut self, content: Content) -> Content {
        if let Some(front) = self.respondents.front_mut() {
            front.settled += 1;
        }
        content
    }

    /// Fails the record with a reason that includes the lines that answer no record.
    fn fails(&mut self, reason: String) -> Content {
        if let Some(front) = self.respondents.front_mut() {
            front.strays.are_told = front.strays.count() > 0;
        }
        self.settled(Err(reason))
    }

    /// Notes an answer to the current record: lines printed before the answer that answer no question do not
    /// belong to this record.
    fn note_answer(&mut self) {
        self.learn();
        if let Some(front) = self.respondents.front_mut()
            && front.strays.count() > 0
        {
            let strays = front.strays.take();
            self.complain(strays);
        }
    }

    /// Adapts the waiting time, so that a program that was only slow is not suspected again of holding
    /// answers back.
    fn learn(&mut self) {
        let closed_at = self.respondents.front_mut().and_then(|front| front.closed_at.take());
        if let Some(took) = closed_at.map(|at| at.elapsed())
            && took > self.patience / 2
            && self.mode != CommandMode::Filter
        {
            self.patience = (4 * took).min(PATIENCE_MAX);
        }
    }

    fn complain(&self, strays: Option<String>) {
        if let Some(strays) = strays {
            self.emitter.position.complain(format!("{} {strays}", self.asker.command()));
        }
    }

    fn gather(&mut self, gathered: &mut Gathered, content: Content) {
        let Some(front) = self.respondents.front_mut() else { return };
        gathered.bytes += front.line_bytes();
        if gathered.bytes > ANSWER_BYTES_MAX {
            return front.process.gave_too_much();
        }
        gathered.add(content);
    }

    /// Handles a record that was not answered although a later one was: a filter gave no answers to it, any
    /// other program left it out.
    fn left_out(&mut self, gathered: Gathered, later: u64) -> Content {
        let Some(front) = self.respondents.front_mut() else { return gathered.content };
        let is_filter = self.mode == CommandMode::Filter;
        if is_filter && (!gathered.is_empty() || !front.leaves_doubt) {
            return self.settled(gathered.content);
        }
        let command = self.asker.command();
        let mut reason = format!("{command} did not answer this record, but the later question {later}");
        if !is_filter {
            reason += "; it must answer every question, in order (`exec filter | …` need not)";
        }
        match front.strays.describe() {
            Some(strays) => reason += &format!("; it {strays}"),
            None if is_filter => reason += "; a line that it printed before does not say what it answers",
            None => {}
        }
        self.fails(reason)
    }

    /// Closes the input of a process that prints nothing, and starts a process for the feeder's next lines.
    fn close(&mut self) {
        // While the feeder is writing, the program still has input to read.
        let Ok(mut writing) = self.link.writing.try_lock() else { return };
        let Some(front) = self.respondents.front_mut() else { return };
        let successor = if writing.is_over { None } else { Some(self.asker.start()) };
        if let Some(Err(_)) = successor {
            return;
        }
        front.asked.end = self.link.sent();
        front.closed_at = Some(Instant::now());
        let (rest, was_broken) = (writing.stdin.take(), writing.is_broken);
        // Writing the buffered lines may have to wait until the program reads, so another thread writes them.
        front.process.feed(move || match rest {
            _ if was_broken => Err(io::ErrorKind::BrokenPipe.into()),
            Some(mut stdin) => stdin.flush(),
            None => Ok(()),
        });
        if let Some(Ok((process, stdin))) = successor {
            writing.restart(Some(stdin));
            let asked = front.asked.end..u64::MAX;
            self.respondents.push_back(Respondent::new(process, self.mode, asked));
        }
    }

    /// Starts the first process.
    fn start(&mut self) {
        let link = Arc::clone(&self.link);
        let mut writing = locked(&link.writing);
        self.start_for_feeder(&mut writing);
        link.note_start(&mut writing);
    }

    /// Starts a process for the feeder's next lines.
    fn start_for_feeder(&mut self, writing: &mut Writing) {
        match self.asker.start() {
            Ok((process, stdin)) => {
                writing.restart(Some(stdin));
                let asked = self.link.sent()..u64::MAX;
                self.respondents.push_back(Respondent::new(process, self.mode, asked));
            }
            Err(reason) => {
                writing.restart(None);
                self.hopeless = Some(reason);
            }
        }
    }

    /// Gives up starting processes, because a new one would fail as the last one did.
    fn give_up(&mut self, reason: String) {
        self.respondents.clear();
        self.hopeless = Some(reason);
        locked(&self.link.writing).restart(None);
    }

    /// Handles the end of the first process. Returns whether the process's answers to the record are
    /// complete.
    fn end(&mut self) -> bool {
        let Some(mut respondent) = self.respondents.pop_front() else { return false };
        let mut ended = respondent.process.end();
        let reason = format!("{} {}", self.asker.command(), ended.how);
        if ended.cannot_run && respondent.answers == 0 {
            self.give_up(reason);
            return false;
        }
        if respondent.is_open() {
            ended.is_fed &= self.retire(&mut respondent);
        }
        let is_clean = ended.is_clean();
        respondent.rest = self.rest(&respondent, &ended, reason);
        match respondent.rest {
            Some(_) => self.respondents.push_front(respondent),
            None => self.leave(respondent, &ended),
        }
        is_clean
    }

    /// Makes the feeder use another process than this one, which has ended. Returns whether the ended process
    /// read all its input and no more input exists.
    fn retire(&mut self, respondent: &mut Respondent) -> bool {
        let link = Arc::clone(&self.link);
        let mut writing = locked(&link.writing);
        respondent.asked.end = link.sent();
        if writing.is_over {
            return !writing.is_broken;
        }
        self.start_for_feeder(&mut writing);
        false
    }

    /// The outcome of the records that a process left without an answer when it ended; `None` if they are
    /// asked again.
    fn rest(&mut self, respondent: &Respondent, ended: &Ended, mut reason: String) -> Option<Rest> {
        let Respondent { answers, strays, .. } = respondent;
        let is_filter = self.mode == CommandMode::Filter;
        let is_alone = respondent.again == Some(1) && respondent.settled == 0;
        if is_filter && *answers == 0 && strays.count() == 0 && ended.found_nothing() {
            self.finds_nothing |= is_alone;
        }
        let found_nothing = self.finds_nothing && *answers == 0 && ended.found_nothing();
        if is_filter && !respondent.leaves_doubt && (ended.is_clean() || found_nothing) {
            return Some(Rest::NoAnswers);
        }
        let had_its_chance = *answers == 0 || is_filter || self.mode == CommandMode::Lines;
        if !(is_alone || (ended.is_clean() || respondent.is_flooded()) && had_its_chance) {
            return None;
        }
        if self.mode == CommandMode::Lines && *answers > 0 {
            reason += &format!(
                "; it printed fewer lines than it was asked for, so any of its answers to messages {} to {} may be another's",
                respondent.asked.start,
                respondent.asked.end - 1
            );
        }
        if let Some(strays) = strays.describe() {
            reason += &format!("; it {strays}");
        }
        Some(Rest::Fails(reason))
    }

    /// Ensures that the questions that an ended process left unanswered are asked again.
    fn leave(&mut self, mut respondent: Respondent, ended: &Ended) {
        self.complain(respondent.strays.take());
        self.again_end = self.again_end.max(respondent.asked.end);
        self.batch = match respondent.again {
            Some(count) if respondent.settled == 0 => (count / BATCH_FACTOR).max(1),
            Some(_) => self.batch,
            // The process probably died of the first record that it did not answer.
            None if respondent.settled > 0 && !ended.is_clean() || ended.found_nothing() => 1,
            None => OUTSTANDING_MAX,
        };
    }

    /// Asks a new process about the record, and about the records after it that are to be asked again.
    fn ask_again(&mut self, blocking: &mut Blocking, record: &Record, number: u64) -> Result<(), String> {
        let (lines, count, end) = self.next_batch(blocking, record, number);
        let process = match self.asker.ask(lines) {
            Ok(process) => process,
            Err(reason) => {
                self.give_up(reason.clone());
                return Err(reason);
            }
        };
        let mut respondent = Respondent::new(process, self.mode, number..end);
        respondent.again = Some(count);
        self.respondents.push_front(respondent);
        Ok(())
    }

    /// Returns the lines that ask about these records, how many lines there are, and the number after that of
    /// the last record.
    fn next_batch(&mut self, blocking: &mut Blocking, record: &Record, number: u64) -> (Vec<u8>, usize, u64) {
        let part = &self.asker.part;
        let mut lines = Vec::new();
        let mut count = usize::from(part.write_line(record, number, &mut lines));
        let mut end = number + 1;
        let most = (self.again_end.saturating_sub(end) as usize).min(self.batch - 1);
        for next in self.emitter.pipe.input.upcoming(blocking.context(), most.max(1)).0.iter().take(most) {
            let start = lines.len();
            match part.write_line(next, end, &mut lines) {
                true => count += 1,
                false => lines.truncate(start),
            }
            end += 1;
        }
        (lines, count, end)
    }

    /// Waits for the end of a process whose records all have their outcome.
    fn finish(&mut self, mut respondent: Respondent) {
        if respondent.rest.is_none() {
            respondent.read_surplus(&self.link);
        }
        if respondent.again.is_some() && !matches!(respondent.rest, Some(Rest::Fails(_))) {
            self.batch = (self.batch * BATCH_FACTOR).min(OUTSTANDING_MAX);
        }
        self.complain(respondent.strays.take());
    }
}

/// The answers of a filter to one record, collected so far.
struct Gathered {
    content: Content,
    bytes: u64,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered { content: Ok(Vec::new()), bytes: 0 }
    }
}

impl Gathered {
    fn is_empty(&self) -> bool {
        self.content.as_ref().is_ok_and(Vec::is_empty)
    }

    /// Adds an answer's content. One invalid part makes the whole content invalid.
    fn add(&mut self, content: Content) {
        match (&mut self.content, content) {
            (Ok(records), Ok(more)) => records.extend(more),
            (Ok(_), Err(reason)) => self.content = Err(reason),
            (Err(_), _) => {}
        }
    }
}
