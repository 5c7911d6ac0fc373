//! Boxes in Rust: variants, endless output, arrays, values of a type of the library, a parameter, published
//! state and an event.
//!
//! ```sh
//! cargo build --release
//! echo '{"text": "to be or not"}' |
//!     thalweg run example.snet --boxes ./target/release/libexample_boxes.so
//! ```

use thalweg_box::{EventField, EventKind, Opaque, Out, Parameter, library};

static LETTERS_MAX: Parameter =
    Parameter::new(c"example.letters_max", c"letters", c"Longer words are cut", 1..=1000, 12);
static LONGEST: Parameter =
    Parameter::new(c"example.longest", c"letters", c"The longest word so far", 0..=u64::MAX, 0);
static CUT: EventKind =
    EventKind::new(c"example.cut", c"A word was cut", &[EventField::integer(c"letters", c"letters")]);

fn inc(x: i64, out: &mut Out) {
    out.emit((x + 1,));
}

/// Emits a record for each word, and the number of words.
fn words(text: String, out: &mut Out) {
    let mut found = 0;
    for word in text.split_whitespace() {
        let letters = word.chars().count() as u64;
        LONGEST.set(LONGEST.get().max(letters));
        if letters > LETTERS_MAX.get() {
            CUT.write([(letters as i64).into()]);
        }
        let word: String = word.chars().take(LETTERS_MAX.get() as usize).collect();
        out.emit((word,));
        found += 1;
    }
    out.emit_variant(2, (found,));
}

/// The mean of an array; an error if it is empty.
fn mean(samples: Vec<f64>, out: &mut Out) -> Result<(), String> {
    if samples.is_empty() {
        return Err("no number has no mean".to_owned());
    }
    out.emit((samples.iter().sum::<f64>() / samples.len() as f64,));
    Ok(())
}

/// Counts up to a number, as fast as the network reads the output.
fn count_to(last: i64, out: &mut Out) {
    out.generate((1..=last).map(|n| (n,)));
}

/// A value that only boxes of this library can read.
#[derive(Clone)]
struct Ticket {
    number: i64,
    stamps: Vec<String>,
}

impl Ticket {
    /// The bytes of the value with all memory that it refers to, so that `thalweg streams` knows the sizes of
    /// records.
    fn bytes(&self) -> u64 {
        let stamps = self.stamps.iter().map(|stamp| size_of::<String>() + stamp.len()).sum::<usize>();
        (size_of::<Ticket>() + stamps) as u64
    }
}

fn issue(number: i64, out: &mut Out) {
    out.emit((Opaque::sized(Ticket { number, stamps: Vec::new() }, Ticket::bytes),));
}

/// Changes the ticket in place if no other record has it, else changes a copy.
fn stamp(mut ticket: Opaque, out: &mut Out) -> Result<(), String> {
    let stamped = ticket.make_mut::<Ticket>().ok_or("no ticket of this build")?;
    stamped.stamps.push(format!("stamp {}", stamped.number));
    out.emit((ticket,));
    Ok(())
}

fn redeem(ticket: Opaque, out: &mut Out) -> Result<(), String> {
    let ticket = ticket.get::<Ticket>().ok_or("no ticket of this build")?;
    out.emit((ticket.number, ticket.stamps.len() as i64));
    Ok(())
}

library! {
    parameters LETTERS_MAX, LONGEST;
    events CUT;
    "box inc ((x) -> (x))" => inc,
    "box words ((text) -> (word) | (<count>))" => words,
    "box mean ((samples) -> (mean))" => mean,
    "box count_to ((<last>) -> (<n>))" => count_to,
    "box issue ((<number>) -> (ticket))" => issue,
    "box stamp ((ticket) -> (ticket))" => stamp,
    "box redeem ((ticket) -> (<number>, <stamps>))" => redeem,
}
