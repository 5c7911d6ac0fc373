//! A program with a kind of event of its own, and a monitor that shows these events.

use thalweg_monitor::{Batch, Follower, Measurement, Moment, Monitor, Report, Value};
use thalweg_space::{Kind, Space, SpaceOptions};

/// A shelf of a store did not have the requested item.
#[derive(Kind)]
#[kind(name = "store.missed")]
struct Missed {
    /// The shelf.
    shelf: u32,
    /// The number of bytes that had to be read because the item was missing.
    #[field(unit = "bytes")]
    read_bytes: u64,
    /// Whether the item had been on the shelf before.
    evicted: bool,
}

/// A monitor that adds up the misses.
#[derive(Default)]
struct Misses {
    read_bytes: f64,
    evicted: f64,
}

impl Monitor for Misses {
    fn name(&self) -> &str {
        "misses"
    }

    fn wants(&self) -> &[&str] {
        &["store.missed"]
    }

    fn take(&mut self, batch: &Batch<'_>) {
        for item in batch.items() {
            let number = |field| batch.field(item, field).and_then(Value::number).unwrap_or(0.0);
            self.read_bytes += number("read_bytes");
            self.evicted += number("evicted");
        }
    }

    fn publish(&mut self, _moment: &Moment<'_>, report: &mut Report) {
        report.measurements.push(Measurement::number("misses.read", "bytes", self.read_bytes));
        report.measurements.push(Measurement::number("misses.evicted", "misses", self.evicted));
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parent = std::env::temp_dir().join(format!("thalweg-store-{}", std::process::id()));
    std::fs::create_dir(&parent)?;
    let space = Space::create(SpaceOptions { parent: Some(parent.clone()), ..SpaceOptions::default() })?;
    let mut writer = space.writer("store")?;
    let missed = writer.declare::<Missed>()?;
    writer.emit(missed, &Missed { shelf: 3, read_bytes: 4096, evicted: true });
    writer.emit(missed, &Missed { shelf: 5, read_bytes: 512, evicted: false });

    // The monitor usually runs in another process than the writer.
    let mut follower = Follower::open(space.path(), 10)?;
    follower.add(Box::new(Misses::default()));
    follower.poll();
    let measurements = follower.report()?.measurements;

    let expected = [
        Measurement::number("misses.read", "bytes", 4608.0),
        Measurement::number("misses.evicted", "misses", 1.0),
    ];
    assert_eq!(measurements, expected);
    std::fs::remove_dir_all(parent)?;
    Ok(())
}
