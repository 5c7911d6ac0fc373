//! Every heap value is dropped exactly once, wherever its record ends.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use proptest::prelude::*;
use thalweg_box::Opaque;
use thalweg_net::Value;
use thalweg_net::filter::Filter;
use thalweg_net::label::Label;
use thalweg_net::plan::OutPlan;
use thalweg_net::record::Record;

use crate::naive::{any_labels, filter};

/// The number of drops of each of the values made so far.
struct Ledger {
    drops: Vec<Arc<AtomicU32>>,
}

struct Entry(Arc<AtomicU32>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ledger {
    fn new() -> Ledger {
        Ledger { drops: Vec::new() }
    }

    fn value(&mut self) -> Value {
        let drops = Arc::new(AtomicU32::new(0));
        self.drops.push(Arc::clone(&drops));
        Value::Opaque(Opaque::new(Entry(drops)))
    }

    fn dropped(&self) -> Vec<u32> {
        self.drops.iter().map(|drops| drops.load(Ordering::Relaxed)).collect()
    }

    fn assert_all_dropped_once(&self) {
        assert!(self.dropped().iter().all(|&drops| drops == 1), "{:?}", self.dropped());
    }
}

fn fields(count: usize) -> Vec<Label> {
    (0..count).map(|i| Label::field(&format!("drop_{i}"))).collect()
}

#[test]
fn records_of_all_sizes_drop_their_values() {
    for count in [0, 1, 3, 4, 7, 8, 15, 16, 40, 200] {
        let mut ledger = Ledger::new();
        let record = Record::from_pairs(fields(count).into_iter().map(|label| (label, ledger.value())));
        let copy = record.clone();
        drop(record);
        assert!(ledger.dropped().iter().all(|&drops| drops == 0));
        drop(copy);
        ledger.assert_all_dropped_once();
    }
}

#[test]
fn growing_and_shrinking_moves_values() {
    let mut ledger = Ledger::new();
    let labels = fields(60);
    let mut record = Record::from_pairs([]);
    for &label in &labels {
        record.set(label, ledger.value());
        record.set(label, ledger.value());
    }
    assert_eq!(ledger.dropped().iter().sum::<u32>(), 60);
    for (i, &label) in labels.iter().enumerate().skip(10) {
        drop(record.remove(label));
        assert_eq!(ledger.dropped().iter().sum::<u32>() as usize, 60 + i - 9);
    }
    drop(record);
    ledger.assert_all_dropped_once();
}

#[test]
fn values_move_on_last_use() {
    let mut ledger = Ledger::new();
    let mut filter = Filter::compile(&filter("[{drop_0} -> {drop_1=drop_0}]"));
    let value = ledger.value();
    let at = |record: &Record| match &record.slots()[0] {
        Value::Opaque(opaque) => opaque.get::<Entry>().map(|entry| entry as *const Entry),
        _ => None,
    };
    let record = Record::from_pairs([(Label::field("drop_0"), value)]);
    let before = at(&record);
    let mut after = None;
    filter
        .apply(record, &mut |mut output| {
            after = at(&output);
            let Value::Opaque(mut opaque) = output.take(0) else { panic!("the value moved") };
            assert!(opaque.get_mut::<Entry>().is_some(), "nobody else has it");
        })
        .unwrap();
    assert_eq!(before, after);
    ledger.assert_all_dropped_once();
}

/// Producers make records, the main thread rearranges and copies them, consumers drop them: blocks are freed
/// on other threads than those that made them, more than a list keeps, and threads end with full lists.
#[test]
fn records_cross_threads() {
    const RECORDS: usize = if cfg!(miri) { 300 } else { 20_000 };
    let (to_middle, middle) = mpsc::sync_channel::<Record>(2000);
    let producers: Vec<_> = [2, 6, 12, 20]
        .map(|size| {
            let to_middle = to_middle.clone();
            std::thread::spawn(move || {
                let mut ledger = Ledger::new();
                let labels = fields(size);
                for n in 0..RECORDS {
                    let values = labels.iter().map(|&label| (label, Value::Int(n as i64)));
                    let mut record = Record::from_pairs(values);
                    record.set(labels[n % size], ledger.value());
                    to_middle.send(record).unwrap();
                }
                ledger
            })
        })
        .into();
    drop(to_middle);
    let (senders, consumers): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (sender, receiver) = mpsc::sync_channel::<Record>(2000);
            (sender, std::thread::spawn(move || receiver.into_iter().map(|r| r.slots().len()).sum::<usize>()))
        })
        .unzip();
    let (x, y) = (Label::field("drop_x"), Label::tag("drop_y"));
    for (n, record) in middle.into_iter().enumerate() {
        let plan = OutPlan::new(record.shape(), &[], &[x, y]);
        let first = plan.build(&record, |_| Value::Int(1));
        senders[n % 2].send(first).unwrap();
        senders[(n + 1) % 2].send(plan.build_last(record, |_| Value::Int(2))).unwrap();
    }
    drop(senders);
    let slots: usize = consumers.into_iter().map(|consumer| consumer.join().unwrap()).sum();
    assert_eq!(slots, 2 * RECORDS * (2 + 6 + 12 + 20 + 4 * 2));
    for producer in producers {
        producer.join().unwrap().assert_all_dropped_once();
    }
}

/// A record in a thread-local is dropped before or after the thread's free blocks are given back: both must
/// work.
#[test]
fn records_may_outlive_the_pool_of_their_thread() {
    thread_local! {
        static EARLY: std::cell::RefCell<Vec<Record>> = const { std::cell::RefCell::new(Vec::new()) };
        static LATE: std::cell::RefCell<Vec<Record>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let ledger = std::thread::spawn(|| {
        let mut ledger = Ledger::new();
        EARLY.with_borrow_mut(|records| records.reserve(2));
        let mut pair = || Record::from_pairs([(Label::field("drop_0"), ledger.value())]);
        let (first, second, third) = (pair(), pair(), pair());
        EARLY.with_borrow_mut(|records| records.push(first));
        drop(second);
        LATE.with_borrow_mut(|records| records.push(third));
        ledger
    });
    // `join` returns after the destructors of the thread's locals ran.
    ledger.join().unwrap().assert_all_dropped_once();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn rearranging_drops_each_value_once(
        input in any_labels(18),
        consumed in any_labels(8),
        output in any_labels(18),
        copies in 0..3usize,
        take in any::<bool>(),
    ) {
        let mut ledger = Ledger::new();
        let mut record = Record::from_pairs(input.iter().map(|&label| (label, ledger.value())));
        let plan = OutPlan::new(record.shape(), &consumed, &output);
        let mut taken = Vec::new();
        for (slot, label) in record.shape().labels().iter().enumerate() {
            if take && consumed.contains(label) {
                taken.push(record.take(slot));
            }
        }
        let mut outputs: Vec<Record> = (0..copies).map(|_| plan.build(&record, |_| ledger.value())).collect();
        outputs.push(plan.build_last(record, |_| ledger.value()));
        // Values that were neither consumed nor replaced are alive as long as an output record is alive.
        let alive = ledger.dropped().iter().filter(|&&drops| drops == 0).count();
        let inherited = input.iter().filter(|l| !l.is_binding() && !consumed.contains(l) && !output.contains(l));
        let expected = inherited.count() + output.len() * (copies + 1) + taken.len();
        prop_assert_eq!(alive, expected);
        drop((outputs, taken));
        ledger.assert_all_dropped_once();
    }
}
