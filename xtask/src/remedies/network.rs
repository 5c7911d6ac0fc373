//! A network as a tree, and the files for `thalweg run`.

use std::fmt::Write;

/// The number of values of the tag `<r>`, by which boxes are replicated.
pub(super) const LANES: u64 = 4;

/// A network.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Net {
    /// The box called `w` with this number.
    Box(usize),
    /// A box that is placed on this worker.
    Placed(usize, usize),
    /// A replica of a box for each value of `<r>`.
    Lanes(usize),
    /// A box that is a program, and answers each question unchanged.
    Exec,
    /// A filter that computes a tag.
    Filter(usize),
    /// Networks in series, one after the other.
    Serial(Vec<Net>),
    /// A net with a name.
    Named(usize, Box<Net>),
    /// Two branches in parallel; this many of ten records go to the first.
    Parallel { number: usize, ordered: bool, first_of_ten: u64, branches: Box<[Net; 2]> },
    /// A split, which has a replica for each key.
    Split { number: usize, ordered: bool, body: Box<Net> },
    /// A star; a record goes through up to this many rounds.
    Star { number: usize, ordered: bool, rounds: u64, body: Box<Net> },
    /// A feedback; a record goes through up to this many rounds.
    Feedback { number: usize, rounds: u64, body: Box<Net> },
    /// Each record becomes two, which go through different branches and are joined.
    Join { number: usize, branches: Box<[Net; 2]> },
}

impl Net {
    /// Calls `see` with each node, the outer nodes first.
    pub(super) fn visit(&self, see: &mut impl FnMut(&Net)) {
        see(self);
        match self {
            Net::Box(_) | Net::Placed(..) | Net::Lanes(_) | Net::Exec | Net::Filter(_) => {}
            Net::Serial(parts) => parts.iter().for_each(|part| part.visit(see)),
            Net::Parallel { branches, .. } | Net::Join { branches, .. } => {
                branches.iter().for_each(|branch| branch.visit(see));
            }
            Net::Named(_, body)
            | Net::Split { body, .. }
            | Net::Star { body, .. }
            | Net::Feedback { body, .. } => body.visit(see),
        }
    }

    /// Replaces each node by the result of `to`, the outer nodes first.
    pub(super) fn change(&mut self, to: &mut impl FnMut(&mut Net)) {
        to(self);
        match self {
            Net::Box(_) | Net::Placed(..) | Net::Lanes(_) | Net::Exec | Net::Filter(_) => {}
            Net::Serial(parts) => parts.iter_mut().for_each(|part| part.change(to)),
            Net::Parallel { branches, .. } | Net::Join { branches, .. } => {
                branches.iter_mut().for_each(|branch| branch.change(to));
            }
            Net::Named(_, body)
            | Net::Split { body, .. }
            | Net::Star { body, .. }
            | Net::Feedback { body, .. } => body.change(to),
        }
    }

    /// The numbers of the boxes.
    pub(super) fn boxes(&self) -> Vec<usize> {
        let mut boxes = Vec::new();
        self.visit(&mut |net| {
            if let Net::Box(at) | Net::Placed(at, _) | Net::Lanes(at) = net {
                boxes.push(*at);
            }
        });
        boxes
    }

    /// The numbers of the boxes inside a split.
    pub(super) fn split_boxes(&self) -> Vec<usize> {
        let mut boxes = Vec::new();
        self.visit(&mut |net| {
            if let Net::Split { body, .. } = net {
                boxes.extend(body.boxes());
            }
        });
        boxes
    }

    /// The numbers of the combinators that keep the order.
    pub(super) fn ordered(&self) -> Vec<usize> {
        let mut numbers = Vec::new();
        self.visit(&mut |net| match net {
            Net::Parallel { number, ordered: true, .. }
            | Net::Split { number, ordered: true, .. }
            | Net::Star { number, ordered: true, .. } => numbers.push(*number),
            _ => {}
        });
        numbers
    }

    /// The text of the net `network`.
    pub(super) fn text(&self) -> String {
        let mut text = "net network {\n".to_owned();
        let mut boxes = self.boxes();
        boxes.sort_unstable();
        for at in boxes {
            let _ = writeln!(text, "    box w{at} ((<n>, <k>) -> (<n>, <k>));");
        }
        let (mut execs, mut named) = (false, Vec::new());
        self.visit(&mut |net| match net {
            Net::Exec => execs = true,
            Net::Named(number, body) => named.push((*number, body.clone())),
            _ => {}
        });
        if execs {
            text.push_str("    box echo ((<n>, <k>) -> (<n>, <k>)) { <<< exec | cat >>> }\n");
        }
        // Inner nets come first, because a net is visible to the nets after it.
        for (number, body) in named.iter().rev() {
            let _ = writeln!(text, "    net part{number} connect {};", body.topology());
        }
        let _ = write!(text, "}} connect {};", self.topology());
        text
    }

    fn topology(&self) -> String {
        match self {
            Net::Box(at) => format!("w{at}"),
            Net::Placed(at, worker) => format!("(w{at} @ {worker})"),
            Net::Lanes(at) => format!("(w{at} ! <r>)"),
            Net::Exec => "echo".to_owned(),
            Net::Filter(number) => format!("[{{<n>}} -> {{<n>, <x{number} = n * {} + 1>}}]", number + 3),
            Net::Serial(parts) => {
                let parts: Vec<String> = parts.iter().map(Net::topology).collect();
                format!("({})", parts.join(" .. "))
            }
            Net::Named(number, _) => format!("part{number}"),
            Net::Parallel { number, ordered, first_of_ten, branches } => {
                let [a, b] = ["a", "b"].map(|way| format!("{way}{number}"));
                let bar = if *ordered { "||" } else { "|" };
                format!(
                    "([{{<n>}} -> if <n % 10 < {first_of_ten}> then {{<n>, <{a} = 1>}} else {{<n>, <{b} = 1>}}] \
                     .. ([{{<{a}>}} -> {{}}] .. {} {bar} [{{<{b}>}} -> {{}}] .. {}))",
                    branches[0].topology(),
                    branches[1].topology()
                )
            }
            Net::Split { ordered, body, .. } => {
                format!("({} {} <k>)", body.topology(), if *ordered { "!!" } else { "!" })
            }
            Net::Star { number, ordered, rounds, body } => {
                let star = if *ordered { "**" } else { "*" };
                format!(
                    "([{{<n>}} -> {{<n>, <s{number} = n % {rounds} + 1>}}] .. (({} .. \
                     [{{<s{number}>}} -> {{<s{number} = s{number} - 1>}}]) {star} {{<s{number}>}} if \
                     <s{number} <= 0>) .. [{{<s{number}>}} -> {{}}])",
                    body.topology()
                )
            }
            Net::Feedback { number, rounds, body } => format!(
                "([{{<n>}} -> {{<n>, <f{number} = n % {rounds} + 1>}}] .. (({} .. \
                 [{{<f{number}>}} -> {{<f{number} = f{number} - 1>}}]) \\ {{<f{number}>}} if \
                 <f{number} > 0>) .. [{{<f{number}>}} -> {{}}])",
                body.topology()
            ),
            Net::Join { number, branches } => {
                let [a, b] = ["a", "b"].map(|way| format!("{way}{number}"));
                format!(
                    "([{{<n>}} -> {{<n>, <{a} = 1>}}; {{<n>, <{b} = 1>}}] .. ([{{<{a}>}} -> {{<{a}>}}] .. {} | \
                     [{{<{b}>}} -> {{<{b}>}}] .. {}) .. [| {{<{a}>}}, {{<{b}>}} |] * {{<{a}>, <{b}>}} .. \
                     [{{<{a}>, <{b}>}} -> {{}}])",
                    branches[0].topology(),
                    branches[1].topology()
                )
            }
        }
    }
}

/// How a box spends its time; each way has a word in the file `boxes.plan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Compute,
    Sleep,
    Mutex,
    Spin,
    Allocate,
    Fault,
    Memory,
    Fifo,
    Timer,
    /// The box counts, and the counters of all threads are in one cache line.
    Line,
    /// The box counts, and the counter of each thread has a cache line of its own.
    Apart,
    /// The box makes many small writes to a file for each record.
    Write,
    /// The box computes, and sleeps for some milliseconds at one record of many.
    Stall,
}

/// The cost of a box.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BoxPlan {
    pub(super) turns: f64,
    pub(super) cost: &'static str,
    pub(super) how: How,
    /// The factor by which records with the hot key take longer.
    pub(super) times: f64,
    pub(super) seed: u64,
}

impl BoxPlan {
    /// The line of the file `boxes.plan` about the box with the number `at`.
    pub(super) fn line(&self, at: usize, hot: u64) -> String {
        let BoxPlan { turns, cost, how, times, seed } = self;
        let how = match how {
            How::Compute => "compute",
            How::Sleep => "sleep",
            How::Mutex => "mutex",
            How::Spin => "spin",
            How::Allocate => "allocate",
            How::Fault => "fault",
            How::Memory => "memory",
            How::Fifo => "fifo",
            How::Timer => "timer",
            How::Line => "line",
            How::Apart => "apart",
            How::Write => "write",
            How::Stall => "stall",
        };
        format!("w{at} turns={turns:.0} cost={cost} seed={seed} how={how} hot={hot} times={times}\n")
    }
}

/// The conditions under which a network is run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) net: Net,
    pub(super) boxes: Vec<BoxPlan>,
    pub(super) keys: u64,
    /// The number of records of ten that have the first key; `None` if all keys are equally frequent.
    pub(super) skew: Option<u64>,
    pub(super) workers: usize,
    pub(super) capacity: Option<u64>,
    pub(super) quantum: Option<u64>,
    pub(super) unfinished: Option<u64>,
    pub(super) round_robin: bool,
    pub(super) steal: bool,
    /// The rate of the source, as a multiple of the network's own rate.
    pub(super) source: Option<f64>,
    /// If the source is slow: the records come in bursts, each of which is the network's work for so many
    /// seconds, and the rate of the source is their mean rate.
    pub(super) bursts: Option<f64>,
    /// The rate of the sink, as a multiple of the network's own rate.
    pub(super) sink: Option<f64>,
    /// The number of other processes that compute during the run.
    pub(super) others: usize,
    /// The interval at which a byte is written into the FIFO, in microseconds.
    pub(super) fifo_us: f64,
    /// A line of a file of settings with which the run starts.
    pub(super) setting: Option<String>,
}

impl Case {
    /// A network on two workers with the default settings, in which nothing is slow on purpose.
    pub(super) fn plain(net: Net, boxes: Vec<BoxPlan>, keys: u64) -> Case {
        Case {
            net,
            boxes,
            keys,
            skew: None,
            workers: 2,
            capacity: None,
            quantum: None,
            unfinished: None,
            round_robin: false,
            steal: false,
            source: None,
            bursts: None,
            sink: None,
            others: 0,
            fifo_us: 0.0,
            setting: None,
        }
    }

    /// The file `boxes.plan`.
    pub(super) fn plan(&self) -> String {
        let used = self.net.boxes();
        used.iter().map(|&at| self.boxes[at].line(at, 0)).collect()
    }

    /// The number of input records.
    pub(super) fn records(&self, count: u64) -> String {
        let mut text = String::new();
        let padding = match self.sink {
            Some(_) => format!(", \"padding\": \"{}\"", "x".repeat(2000)),
            None => String::new(),
        };
        for n in 0..count {
            let chance = thalweg_chance::mixed(n ^ 0x5eed);
            let key = match self.skew {
                Some(of_ten) if chance % 10 < of_ten => 0,
                _ => (chance >> 8) % self.keys,
            };
            let _ = writeln!(text, "{{\"<n>\": {n}, \"<k>\": {key}, \"<r>\": {}{padding}}}", n % LANES);
        }
        text
    }

    /// The length of a burst in seconds of the network's work, and the mean rate of the source, if records
    /// come in bursts.
    pub(super) fn bursts(&self) -> Option<(f64, f64)> {
        self.bursts.zip(self.source)
    }

    /// The input records for a network with this rate; those that come in bursts have their times.
    pub(super) fn input(&self, count: u64, rate: f64) -> String {
        let records = self.records(count);
        let Some((seconds, part)) = self.bursts() else { return records };
        let burst = ((seconds * rate) as u64).max(1);
        let mut text = String::new();
        for (n, record) in records.lines().enumerate() {
            let before = n as u64 / burst * burst;
            let at_ns = before as f64 * 1e9 / (part * rate);
            let _ = writeln!(text, "{{\"<at_ns>\": {at_ns:.0}, {}", &record[1..]);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator::{LATER, planted};

    #[test]
    fn records_in_bursts_have_the_mean_rate_of_their_source() {
        let mut case = (LATER..).map(|seed| planted(seed).case).find(|case| case.bursts().is_some()).unwrap();
        (case.bursts, case.source) = (Some(0.01), Some(0.5));
        // Bursts of 10 records, 20 ms from one burst to the next.
        let input = case.input(35, 1000.0);
        let at_ms = |line: &str| -> u64 {
            let number = line.strip_prefix("{\"<at_ns>\": ").unwrap().split(',').next().unwrap();
            number.parse::<u64>().unwrap() / 1_000_000
        };
        let times: Vec<u64> = input.lines().map(at_ms).collect();
        assert_eq!(times, (0..35).map(|n| n / 10 * 20).collect::<Vec<u64>>());
        case.source = None;
        assert_eq!(case.input(35, 1000.0), case.records(35));
    }
}
