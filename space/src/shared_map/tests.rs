//! Copies of the map that exchange updates in any order, against a list of all writes.

use super::replica::{Replica, Stamp, Update};
use super::value::{MapType, MapValue};
use std::collections::{HashMap, HashSet};
use thalweg_chance::Chance;

const KEYS: [&str; 3] = ["one", "two", "three"];

/// A write as the oracle knows it.
struct Write {
    key: usize,
    value: i64,
    stamp: Stamp,
    node: usize,
    /// The numbers of the writes that the writer had seen.
    after: HashSet<usize>,
}

/// Processes with clocks that differ, and the messages between each two of them.
struct Cluster {
    replicas: Vec<Replica>,
    /// How far each clock is ahead, in microseconds.
    skews: Vec<i64>,
    /// What each process has sent to each other one.
    seen: Vec<Vec<u64>>,
    /// Messages on their way: to which process, and what.
    underway: Vec<(usize, Vec<Update>)>,
    writes: Vec<Write>,
    /// The numbers of the writes that each process has seen.
    known: Vec<HashSet<usize>>,
    now: u64,
}

impl Cluster {
    fn of(count: usize, chance: &mut Chance) -> Cluster {
        let replicas = (0..count).map(|node| {
            let mut replica = Replica::of(node);
            for key in KEYS {
                replica.declare(key, "", &MapValue::Integer(0)).unwrap();
            }
            replica
        });
        Cluster {
            replicas: replicas.collect(),
            skews: (0..count).map(|_| chance.below(10_000) as i64 - 5_000).collect(),
            seen: vec![vec![0; count]; count],
            underway: Vec::new(),
            writes: Vec::new(),
            known: vec![HashSet::new(); count],
            now: 1_000_000,
        }
    }

    fn write(&mut self, node: usize, key: usize) {
        let (number, value) = (self.writes.len(), self.writes.len() as i64 + 1);
        let at = self.replicas[node].find(KEYS[key]).unwrap();
        let now = self.now.saturating_add_signed(self.skews[node]);
        self.replicas[node].set(at, MapValue::Integer(value), node as u32, now).unwrap();
        let stamp = self.replicas[node].entries()[at].stamp;
        assert_eq!(self.replicas[node].entries()[at].value, MapValue::Integer(value), "a write wins at home");
        let after = self.known[node].clone();
        self.known[node].insert(number);
        self.writes.push(Write { key, value, stamp, node, after });
    }

    fn send(&mut self, from: usize, to: usize) {
        let update = self.replicas[from].changes_since(&mut self.seen[from][to], to as u32);
        if !update.is_empty() {
            self.underway.push((to, update));
        }
    }

    fn deliver(&mut self, at: usize, again: bool) {
        let (to, updates) = if again { self.underway[at].clone() } else { self.underway.swap_remove(at) };
        for update in &updates {
            self.replicas[to].merge(update);
            let MapValue::Integer(value) = update.value else { panic!("an integer") };
            self.known[to].insert(value as usize - 1);
        }
    }

    fn settle(&mut self) {
        let count = self.replicas.len();
        for _ in 0..count {
            for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
                if from != to {
                    self.send(from, to);
                }
            }
            while !self.underway.is_empty() {
                self.deliver(self.underway.len() - 1, false);
            }
        }
    }
}

#[test]
fn copies_agree_on_the_last_write_by_the_hybrid_clock() {
    for seed in 0..300 {
        let mut chance = Chance::new(seed);
        let count = 2 + chance.below(3) as usize;
        let mut cluster = Cluster::of(count, &mut chance);
        for _ in 0..400 {
            let any = |chance: &mut Chance| chance.below(count as u64) as usize;
            cluster.now += chance.below(300);
            match chance.below(4) {
                0 => {
                    let (node, key) = (any(&mut chance), chance.below(KEYS.len() as u64) as usize);
                    cluster.write(node, key);
                }
                1 => {
                    let (from, to) = (any(&mut chance), any(&mut chance));
                    if from != to {
                        cluster.send(from, to);
                    }
                }
                _ if !cluster.underway.is_empty() => {
                    let at = chance.below(cluster.underway.len() as u64) as usize;
                    cluster.deliver(at, chance.one_in(4));
                }
                _ => {}
            }
        }
        cluster.settle();
        check(&cluster, seed);
    }
}

/// Compares the copies with all writes.
fn check(cluster: &Cluster, seed: u64) {
    let stamps: HashSet<Stamp> = cluster.writes.iter().map(|write| write.stamp).collect();
    assert_eq!(stamps.len(), cluster.writes.len(), "seed {seed}: stamps are different");
    for write in &cluster.writes {
        for &before in &write.after {
            let before = &cluster.writes[before];
            let (a, b) = (before.node, write.node);
            assert!(before.stamp < write.stamp, "seed {seed}: the node {b} had seen the write of {a}");
        }
    }
    let mut last: HashMap<usize, &Write> = HashMap::new();
    for write in &cluster.writes {
        let best = last.entry(write.key).or_insert(write);
        if write.stamp > best.stamp {
            *best = write;
        }
    }
    for (node, replica) in cluster.replicas.iter().enumerate() {
        for (key, name) in KEYS.iter().enumerate() {
            let expected = last.get(&key).map_or(0, |write| write.value);
            let found = &replica.entries()[replica.find(name).unwrap()].value;
            assert_eq!(*found, MapValue::Integer(expected), "seed {seed}: {name} on {node}");
        }
    }
}

#[test]
fn a_process_that_comes_back_gets_all_values() {
    let mut old = Replica::of(1);
    old.declare("k", "", &MapValue::Integer(0)).unwrap();
    old.set(0, MapValue::Integer(7), 1, 5).unwrap();
    let mut root = Replica::default();
    root.merge(&old.changes_since(&mut 0, 0)[0]);
    let mut seen = 0;
    assert_eq!(root.changes_since(&mut seen, 1).len(), 1, "also what it wrote itself before");
    assert!(root.changes_since(&mut seen, 1).is_empty());
}

#[test]
fn bad_keys_and_values_are_refused() {
    let mut map = Replica::default();
    let error = |result: Result<usize, crate::Error>| result.unwrap_err().to_string();
    let text = |length: usize| MapValue::Text("x".repeat(length));
    for key in ["", "a b", "ä", "a/b", &"k".repeat(57)] {
        assert!(error(map.declare(key, "", &text(1))).contains("is no key of the shared map"), "{key}");
    }
    assert!(error(map.declare("k", "", &text(65))).contains("a text of 65 bytes is too long"));
    map.declare("k", "", &text(64)).unwrap();
    assert_eq!(
        error(map.declare("k", "", &MapValue::Float(1.0))),
        "the key `k` of the shared map has a text, not a float"
    );
    let wrong = map.set(0, MapValue::Integer(1), 0, 0).unwrap_err();
    assert_eq!(wrong.to_string(), "the key `k` of the shared map has a text, not an integer");
    for number in 1..256 {
        map.declare(&format!("k{number}"), "", &MapValue::Integer(0)).unwrap();
    }
    assert_eq!(
        error(map.declare("more", "", &text(1))),
        "the shared map is full, so it takes no key `more`: it has 256 keys"
    );
    assert!(map.declare("k255", "", &MapValue::Integer(1)).is_ok(), "a key that exists needs no room");
    assert_eq!(MapType::Float.parse("1e3").unwrap(), MapValue::Float(1000.0));
    assert_eq!(MapType::Integer.parse("1.5").unwrap_err().to_string(), "`1.5` is not an integer");
}
