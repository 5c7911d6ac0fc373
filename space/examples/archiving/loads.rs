//! Events like those of programs, the same in each run.

use thalweg_space::{Error, Kind, KindId, Space, Writer};

/// A dispatch of one message, as the runtime records it.
#[derive(Kind)]
#[kind(name = "example.dispatch")]
struct Dispatch {
    #[kind(unit = "ticks")]
    duration_ticks: u32,
    #[kind(unit = "ticks")]
    ready_ticks: u32,
    base_number: u32,
    reads: u16,
    writes: u16,
    outcome: u8,
    cause: u8,
    descent: u8,
    offset: u16,
}

/// A call, or its end.
#[derive(Kind)]
#[kind(name = "example.call")]
struct Call {
    function: u32,
    depth: u32,
}

/// A counter's value.
#[derive(Kind)]
#[kind(name = "example.counter")]
struct Counter {
    counter: u32,
    unit: u32,
    value: u64,
}

/// A number that depends only on its index.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// A writer of dispatches of one message each.
pub(crate) struct Dispatches {
    writer: Writer,
    kind: KindId<Dispatch>,
    time: u64,
    written: u64,
}

impl Dispatches {
    /// Makes a writer that begins at this time.
    pub(crate) fn begin(space: &Space, name: &str, time: u64) -> Result<Dispatches, Error> {
        let mut writer = space.writer(name)?;
        let kind = writer.declare::<Dispatch>()?;
        Ok(Dispatches { writer, kind, time, written: 0 })
    }

    /// Writes the next events.
    pub(crate) fn write(&mut self, events: u64) {
        for n in self.written..self.written + events {
            let bits = mixed(n);
            let duration_ticks = 400 + (bits & 0xff) as u32;
            self.time += u64::from(duration_ticks) + 60 + (bits >> 8 & 0x1f);
            let event = Dispatch {
                duration_ticks,
                ready_ticks: 1000 + (bits >> 16 & 0x3ff) as u32,
                base_number: (n % 7) as u32,
                reads: 1,
                writes: 1,
                outcome: u8::from(bits >> 40 & 0xf == 0),
                cause: 1,
                descent: 1,
                offset: 0,
            };
            self.writer.emit_at(self.time, self.kind, &event);
        }
        self.written += events;
    }
}

/// Writes dispatches of one message each.
pub(crate) fn dispatches(space: &Space, events: u64) {
    Dispatches::begin(space, "w", 1_000_000).expect("a writer").write(events);
}

/// Writes calls and their ends, with a stack of up to 24 calls.
pub(crate) fn calls(space: &Space, events: u64) {
    let mut writer = space.writer("w").expect("a writer");
    let kind = writer.declare::<Call>().expect("a kind");
    let mut time = 1_000_000;
    let mut stack = vec![0_u32];
    for n in 0..events {
        let bits = mixed(n);
        time += 40 + (bits & 0x1ff);
        let top = *stack.last().expect("main");
        let calls = stack.len() < 2 || (stack.len() < 24 && bits >> 20 & 1 == 0);
        let depth = stack.len() as u32;
        if calls {
            let function = top.wrapping_mul(3).wrapping_add(1 + (bits >> 30 & 3) as u32) % 200;
            stack.push(function);
            writer.emit_at(time, kind, &Call { function, depth });
        } else {
            stack.pop();
            writer.emit_at(time, kind, &Call { function: top, depth: depth - 1 });
        }
    }
}

/// Writes the values of sixteen counters that are read ten times a second.
pub(crate) fn counters(space: &Space, events: u64) {
    let mut writer = space.writer("w").expect("a writer");
    let kind = writer.declare::<Counter>().expect("a kind");
    let mut values = [0_u64; 16];
    for n in 0..events {
        let bits = mixed(n);
        let counter = n % 16;
        let value = &mut values[counter as usize];
        *value += counter * 1000 + (bits & 0x3f);
        // All counters are read at about the same time, ten times a second.
        let time = 1_000_000 + n / 16 * 260_000_000 + (n % 16) * 90 + (bits >> 8 & 7);
        writer.emit_at(time, kind, &Counter { counter: counter as u32, unit: 0, value: *value });
    }
}
