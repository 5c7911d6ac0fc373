//! Measures a hop from one process to another, by each transport within a host: messages of 16 bytes one after
//! another, and one message that goes to and fro.
//!
//! `cargo run --release -p thalweg-link --example near -- [RUNS [TRANSPORT]]`: nanoseconds per hop, the
//! median of the runs. `cargo run --release -p thalweg-exec --example hop -- 2 2 off 4` and `... off-one 1`
//! measure the same between two workers of one process.
#![allow(clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::time::Instant;

use thalweg_link::{
    Address, Error, LinkId, Listener, Receiver, ReceiverOptions, Sender, SenderOptions, Tuning,
};

const TOKEN: [u8; 32] = [1; 32];
const MESSAGES: u64 = 2_000_000;
const ROUNDS: u64 = 20_000;

fn link(number: u64) -> LinkId {
    LinkId { session: [0; 16], number }
}

fn receiver(listener: &Listener, number: u64) -> Result<Receiver, Error> {
    Receiver::new(
        listener.place(link(number))?,
        ReceiverOptions::new(Tuning::new(listener.address().clone())),
    )
}

fn sender(to: &str, number: u64) -> Result<Sender, Error> {
    let to = to.parse::<Address>().expect("an address");
    Sender::new(SenderOptions { token: TOKEN, ..SenderOptions::new(link(number), Tuning::new(to)) })
}

/// The other process: takes all messages of link 1, then returns those of link 2.
fn other(here: &str, there: &str) -> Result<(), Error> {
    let listener = Listener::new(&here.parse().expect("an address"), TOKEN)?;
    let (mut all, mut single) = (receiver(&listener, 1)?, receiver(&listener, 2)?);
    let mut back = sender(there, 3)?;
    while all.recv()?.is_some() {}
    while let Some(message) = single.recv()? {
        let message: [u8; 16] = message.try_into().expect("16 bytes");
        back.push(&message)?;
        back.flush()?;
    }
    back.finish()
}

/// The nanoseconds of a hop, of many messages and of one.
fn measure(kind: &str) -> Result<(f64, f64), Error> {
    let name = |which: &str| match kind {
        "tcp" => format!("tcp/127.0.0.1:{}", 20_000 + std::process::id() % 20_000 + u32::from(which == "b")),
        kind => format!("{kind}/@thalweg-near-{which}-{}", std::process::id()),
    };
    let (here, there) = (name("a"), name("b"));
    let listener = Listener::new(&here.parse().expect("an address"), TOKEN)?;
    let mut back = receiver(&listener, 3)?;
    let program = std::env::current_exe().expect("this program");
    let mut other = Command::new(program);
    other.args(["other", &there, &here]).stdin(Stdio::null());
    let other = std::thread::spawn(move || other.status());
    let (mut all, mut single) = (sender(&there, 1)?, sender(&there, 2)?);
    all.open()?;
    let begun = Instant::now();
    for number in 0..MESSAGES {
        all.push(&u128::from(number).to_le_bytes())?;
    }
    all.finish()?;
    let many = begun.elapsed().as_nanos() as f64 / MESSAGES as f64;
    let mut one = |rounds: u64| -> Result<f64, Error> {
        let begun = Instant::now();
        for number in 0..rounds {
            single.push(&u128::from(number).to_le_bytes())?;
            single.flush()?;
            assert_eq!(back.recv()?, Some(&u128::from(number).to_le_bytes()[..]));
        }
        Ok(begun.elapsed().as_nanos() as f64 / rounds as f64 / 2.0)
    };
    one(100)?;
    let one = one(ROUNDS)?;
    let finishing = std::thread::spawn(move || single.finish());
    assert_eq!(back.recv()?, None);
    finishing.join().expect("no panic")?;
    assert!(other.join().expect("no panic").expect("it starts").success());
    Ok((many, one))
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [which, here, there] = arguments.as_slice()
        && which == "other"
    {
        return other(here, there);
    }
    let runs = arguments.first().and_then(|runs| runs.parse().ok()).unwrap_or(5);
    let only = arguments.get(1);
    for kind in ["memory", "unix", "tcp"].into_iter().filter(|kind| only.is_none_or(|only| only == kind)) {
        let (mut many, mut one): (Vec<f64>, Vec<f64>) =
            (0..runs).map(|_| measure(kind)).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        many.sort_by(f64::total_cmp);
        one.sort_by(f64::total_cmp);
        let (middle, last) = (many.len() / 2, many.len() - 1);
        println!(
            "{kind}: {:.1} ns a message ({:.1} to {:.1}), alone {:.0} ns ({:.0} to {:.0})",
            many[middle], many[0], many[last], one[middle], one[0], one[last]
        );
    }
    Ok(())
}
