//! The setting `net.ties` may be changed while a network runs: it applies to the next record that fits two
//! branches equally well.

#[path = "support/ends.rs"]
mod ends;

use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use thalweg_exec::{Options, Runtime};
use thalweg_net::label::Label;
use thalweg_net::record::Record;
use thalweg_net::run::Ties;
use thalweg_net::{Boxes, Network, Value};
use thalweg_space::reader::SpaceReader;
use thalweg_space::{Space, SpaceOptions};

const PATIENCE: Duration = Duration::from_secs(60);

/// Sends records; returns the number that went to each branch.
fn pass(input: &Sender<Record>, output: &Receiver<Record>, records: i64) -> [usize; 2] {
    for number in 0..records {
        input.send(Record::from_pairs([(Label::tag("n"), Value::Int(number))])).unwrap();
    }
    let mut counts = [0; 2];
    for _ in 0..records {
        let record = output.recv_timeout(PATIENCE).expect("a record for each");
        let Some(Value::Int(branch)) = record.get(Label::tag("branch")) else { panic!("no branch") };
        counts[*branch as usize] += 1;
    }
    counts
}

#[test]
fn ties_change_while_a_network_runs() {
    for (operator, workers) in [("|", 1), ("||", 1), ("|", 2), ("||", 2)] {
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().join("space"));
        let space = Space::create(SpaceOptions { path, ..SpaceOptions::default() }).unwrap();
        let reader = SpaceReader::open(space.path()).unwrap();
        let text = format!(
            "net main connect [{{<n>}} -> {{<branch = 0>}}] {operator} [{{<n>}} -> {{<branch = 1>}}];"
        );
        let network = Network::parse("main", &text, &Boxes::new()).unwrap();
        let runtime = Runtime::new(Options { workers, space: Some(space), ..Options::default() }).unwrap();
        let running = network.start(&runtime).unwrap();
        let (input, output) = ends::channels(&runtime, running.input, running.output);
        runtime.start();

        for _ in 0..3 {
            assert_eq!(pass(&input, &output, 500), [500, 0], "{operator}: the leftmost");
            reader.set("net.ties", Ties::Demand as u64).unwrap();
            let until = Instant::now() + PATIENCE;
            // Both branches get records as soon as more than one record waits before them.
            while pass(&input, &output, 500).contains(&0) {
                assert!(Instant::now() < until, "{operator}: demand never chose the other branch");
            }
            reader.set("net.ties", Ties::Leftmost as u64).unwrap();
        }
        drop(input);
        assert_eq!(runtime.join().unwrap().failures, []);
    }
}
