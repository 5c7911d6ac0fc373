//! Lines that another process writes, read in a thread of their own.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The largest number of lines that wait to be taken; a process that writes more has to wait.
const WAITING_MAX: usize = 64;

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    has_ended: bool,
    is_left: bool,
}

/// The lines of an input.
pub(super) struct Lines(Arc<(Mutex<State>, Condvar)>);

/// What has come of an input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Line(String),
    /// Nothing yet.
    Nothing,
    /// The end.
    End,
}

impl Lines {
    /// Reads the lines of an input, until it ends or the value is dropped.
    pub(super) fn of(input: Box<dyn Read + Send>) -> Lines {
        let lines = Lines(Arc::default());
        let shared = Arc::clone(&lines.0);
        let started = std::thread::Builder::new().spawn(move || read(input, &shared));
        if started.is_err() {
            // Without a thread nothing is read, which is as if the input had ended.
            lines.0.0.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
        }
        lines
    }

    /// The next line, if one comes within this time.
    pub(super) fn next(&self, wait: Duration) -> Next {
        let (state, changed) = &*self.0;
        let begin = Instant::now();
        let mut read = state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(line) = read.lines.pop_front() {
                changed.notify_all();
                return Next::Line(line);
            }
            if read.has_ended {
                return Next::End;
            }
            let left = wait.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Next::Nothing;
            }
            read = changed.wait_timeout(read, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let (state, changed) = &*self.0;
        state.lock().unwrap_or_else(PoisonError::into_inner).is_left = true;
        changed.notify_all();
    }
}

fn read(input: Box<dyn Read + Send>, (state, changed): &(Mutex<State>, Condvar)) {
    let mut input = BufReader::new(input);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let is_end = !matches!(input.read_until(b'\n', &mut bytes), Ok(1..));
        let mut read = state.lock().unwrap_or_else(PoisonError::into_inner);
        while read.lines.len() >= WAITING_MAX && !read.is_left {
            read = changed.wait(read).unwrap_or_else(PoisonError::into_inner);
        }
        read.has_ended = is_end;
        if !is_end {
            read.lines.push_back(String::from_utf8_lossy(&bytes).trim_end().to_owned());
        }
        changed.notify_all();
        if is_end || read.is_left {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_order_and_then_the_end() {
        let count = 10 * WAITING_MAX;
        let text: String = (0..count).map(|number| format!("{number}\n")).collect();
        let lines = Lines::of(Box::new(std::io::Cursor::new(text + "last")));
        let next = || lines.next(Duration::from_secs(20));
        for number in 0..count {
            assert_eq!(next(), Next::Line(number.to_string()));
        }
        assert_eq!((next(), next()), (Next::Line("last".to_owned()), Next::End));
    }

    #[test]
    fn an_input_without_a_line_is_not_waited_for() {
        let (input, output) = std::io::pipe().expect("a pipe");
        let lines = Lines::of(Box::new(input));
        assert_eq!(lines.next(Duration::from_millis(1)), Next::Nothing);
        drop(output);
        assert_eq!(lines.next(Duration::from_secs(20)), Next::End);
    }
}
