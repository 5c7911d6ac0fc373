//! Makes the lists of calls that a pack names in a target, and the calls that undo changes after the tuner
//! was killed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use thalweg_attach::{Attachment, Function, Identity, Options};
use thalweg_pack::{Call, Given};

/// How long a call may wait for a thread that enters one of the functions at which calls are made.
pub(super) const WAIT: Duration = Duration::from_millis(500);
/// How long it may wait when tuning ends, since there is no other attempt.
pub(super) const END_WAIT: Duration = Duration::from_secs(3);
/// How long a call that undoes a change may wait after the tuner was killed, and how long to wait until
/// another attachment ends.
const BACK_WAIT: Duration = Duration::from_secs(20);

/// The result of a list of calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Came {
    /// The result of the last call, as an `int`.
    pub(super) result: i64,
    words: HashMap<String, u64>,
}

impl Came {
    /// The value that was read: the value of the word `word`, or the result of the last call.
    pub(super) fn value(&self, attachment: &Attachment, word: Option<&String>) -> Result<i64, String> {
        match word {
            None => Ok(self.result),
            Some(word) => {
                let address =
                    self.words.get(word).ok_or_else(|| format!("no call has the word `&{word}`"))?;
                // The word is a C `int`, so its upper half is not read.
                attachment
                    .read(*address)
                    .map(|value| i64::from(value as i32))
                    .map_err(|error| error.to_string())
            }
        }
    }
}

/// A function of the library, searched in the library's file.
pub(super) fn function(attachment: &Attachment, module: &str, name: &str) -> Result<Function, String> {
    let mut found = attachment.modules().functions(&format!("{module}:{name}"));
    if found.is_empty() {
        return Err(format!("{module} has no function `{name}`"));
    }
    Ok(found.remove(0))
}

/// The functions of the given names in the target: those of the library, or, for a name that the library
/// lacks, those of other modules.
fn places(attachment: &Attachment, module: &str, at: &[String]) -> Result<Vec<Function>, String> {
    let mut found = Vec::new();
    for name in at {
        match function(attachment, module, name) {
            Ok(place) => found.push(place),
            Err(_) => found.extend(attachment.modules().functions(name)),
        }
    }
    if found.is_empty() {
        return Err(format!(
            "the program has none of the functions {} at which calls could be made",
            at.join(", ")
        ));
    }
    Ok(found)
}

/// Makes calls, one after the other, where threads enter one of `at`.
pub(super) fn make(
    attachment: &mut Attachment,
    module: &str,
    (calls, at): (&[Call], &[String]),
    value: i64,
    wait: Duration,
) -> Result<Came, String> {
    let reason = |error: thalweg_attach::Error| error.to_string();
    let places = places(attachment, module, at)?;
    let mut came = Came::default();
    for call in calls {
        let function = function(attachment, module, &call.function)?;
        let mut given = Vec::new();
        for argument in &call.arguments {
            given.push(match argument {
                Given::Number(number) => number.cast_unsigned(),
                Given::Value => value.cast_unsigned(),
                Given::ValueAddress => {
                    let word = attachment.word().map_err(reason)?;
                    attachment.write(word, &value.to_le_bytes()).map_err(reason)?;
                    word
                }
                Given::Text(text) => {
                    if text.len() > 63 {
                        return Err(format!("the text '{text}' is longer than 63 bytes"));
                    }
                    let word = attachment.word().map_err(reason)?;
                    attachment.write(word, text.as_bytes()).map_err(reason)?;
                    word
                }
                Given::Address(name) => match came.words.get(name) {
                    Some(word) => *word,
                    None => {
                        let word = attachment.word().map_err(reason)?;
                        came.words.insert(name.clone(), word);
                        word
                    }
                },
                Given::Word(name) => {
                    let word =
                        came.words.get(name).ok_or_else(|| format!("`*{name}` is used before `&{name}`"))?;
                    attachment.read(*word).map_err(reason)?
                }
            });
        }
        // The called function returns a C `int`, so the upper half of the register is undefined.
        came.result = i64::from(attachment.call(&function, &given, &places, wait).map_err(reason)? as i32);
    }
    Ok(came)
}

/// The calls that restore a value, as a line of text that [`put_back`] reads.
pub(super) fn line(module: &str, calls: &[Call], at: &[String], value: i64) -> String {
    let calls: Vec<String> = calls.iter().map(Call::to_string).collect();
    format!("{module}\t{value}\t{}\t{}\n", at.join(","), calls.join(";"))
}

/// Makes the calls that a killed tuner left in a note to put values back. Returns how many values were put
/// back.
///
/// # Errors
/// Fails when the process cannot be attached to, or no thread entered a function at which calls are made; the
/// text says which value was not restored.
pub fn put_back(pid: i32, note: &str) -> Result<usize, String> {
    if note.trim().is_empty() {
        return Ok(0);
    }
    let mut attachment = opened(pid)?;
    let (mut done, mut failed) = (0, Vec::new());
    for text in note.lines() {
        let Some((module, value, at, calls)) = parsed(text) else { continue };
        match make(&mut attachment, module, (&calls, &at), value, BACK_WAIT) {
            Ok(_) => done += 1,
            Err(why) => failed.push(format!("{text}: {why}")),
        }
    }
    attachment.detach().map_err(|error| error.to_string())?;
    if failed.is_empty() { Ok(done) } else { Err(failed.join("; ")) }
}

/// Attaches to a process, as soon as no other process is attached to it.
fn opened(pid: i32) -> Result<Attachment, String> {
    let begin = Instant::now();
    loop {
        match Attachment::open(pid, Options::default()) {
            Ok(attachment) => return Ok(attachment),
            Err(error) if begin.elapsed() > BACK_WAIT || Identity::of(pid).is_none() => {
                return Err(error.to_string());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn parsed(line: &str) -> Option<(&str, i64, Vec<String>, Vec<Call>)> {
    let mut parts = line.split('\t');
    let (module, value) = (parts.next()?, parts.next()?.parse().ok()?);
    let at = parts.next()?.split(',').map(str::to_owned).collect();
    let calls: Result<Vec<Call>, _> = parts.next()?.split(';').map(Call::read).collect();
    Some((module, value, at, calls.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_again() {
        let calls = [Call::read("f(1, &h)").expect("a call"), Call::read("g(*h, &$)").expect("a call")];
        let text = line("libx.so.1", &calls, &["a".to_owned(), "b".to_owned()], -4);
        let (module, value, at, read) = parsed(text.trim_end_matches('\n')).expect("a line");
        assert_eq!((module, value, at), ("libx.so.1", -4, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(read, calls);
        assert!(parsed("nonsense").is_none() && parsed("m\tx\ta\tf()").is_none());
        assert_eq!(put_back(0, " \n"), Ok(0));
    }
}
