//! Random networks of boxes that are programs which drop, double, swap, invent and hold back lines, print
//! banners, break off and die: every record is accounted for, and no record gets the answer of another.
//!
//! The record itself says what a program does to it, with a letter for each box on its path
//! (`data/faulty.awk`). Therefore the test knows the possible outcomes by walking the network, independently
//! of the protocol with the program. A record with an answer shows whose answer it is: its `id` is inherited
//! past the boxes, and its `x` is computed by the boxes.

#[allow(dead_code, reason = "each test binary uses its part")]
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use program::write;
use serde_json::Value;
use thalweg_chance::Chance;

/// The time without output after which a run counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Line,
    Filter,
    Each,
    Lines,
}

/// A box that is a program.
#[derive(Debug)]
struct Faulty {
    mode: Mode,
    flush: bool,
    banner: u64,
}

#[derive(Debug)]
enum Net {
    Box(usize),
    Serial(Vec<Net>),
    /// A parallel composition: a record goes left or right by its tag `<l…>` or `<r…>` of this number.
    Parallel(usize, Box<[Net; 2]>, bool),
    Split(Box<Net>, bool),
    /// A star with as many rounds as the tag `<c…>` of this number says.
    Star(usize, Box<Net>, bool),
}

/// A network and its input.
#[derive(Debug)]
struct Case {
    boxes: Vec<Faulty>,
    net: Net,
    parallels: usize,
    stars: usize,
    records: Vec<Input>,
    /// The index of the first record that is written only after the outputs that are certain of the records
    /// before it have come out.
    pause: Option<usize>,
}

/// An input record.
#[derive(Clone, Debug)]
struct Input {
    x: u64,
    letters: Vec<u8>,
    right: Vec<bool>,
    rounds: Vec<u64>,
    replica: u64,
}

/// The outcome of a record, or of one of its descendants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Out(u64),
    Failed(usize),
}

/// One possible outcome of a record: all its outputs, and whether the run reports a line that answers no
/// record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Outcome {
    fates: Vec<Fate>,
    is_reported: bool,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut random = Chance::new(seed);
        let mut case = Case {
            boxes: vec![],
            net: Net::Serial(vec![]),
            parallels: 0,
            stars: 0,
            records: vec![],
            pause: None,
        };
        case.net = case.grow(&mut random, 3);
        let count = random.of(&[1, 3, 10, 40, 120]);
        let sound = random.of(&[0, 50, 90, 97]);
        for _ in 0..count {
            let record = case.record(&mut random, sound);
            case.records.push(record);
        }
        case.pause = (count > 1 && random.below(100) < 25).then(|| 1 + random.below(count - 1) as usize);
        case
    }

    fn grow(&mut self, random: &mut Chance, depth: u64) -> Net {
        let deterministic = random.below(100) < 50;
        match random.below(if depth == 0 || self.boxes.len() > 3 { 1 } else { 6 }) {
            0 | 1 => self.faulty(random),
            2 => Net::Serial((0..2).map(|_| self.grow(random, depth - 1)).collect()),
            3 => {
                let number = self.parallels;
                self.parallels += 1;
                let branches = [self.grow(random, depth - 1), self.grow(random, depth - 1)];
                Net::Parallel(number, Box::new(branches), deterministic)
            }
            4 => Net::Split(Box::new(self.grow(random, depth - 1)), deterministic),
            _ => {
                let number = self.stars;
                self.stars += 1;
                Net::Star(number, Box::new(self.grow(random, depth - 1)), deterministic)
            }
        }
    }

    fn faulty(&mut self, random: &mut Chance) -> Net {
        let mode = random.of(&[
            Mode::Line,
            Mode::Line,
            Mode::Line,
            Mode::Filter,
            Mode::Filter,
            Mode::Each,
            Mode::Lines,
        ]);
        let banner = if matches!(mode, Mode::Line | Mode::Filter) && random.below(100) < 15 {
            1 + random.below(2)
        } else {
            0
        };
        self.boxes.push(Faulty { mode, flush: random.below(100) < 60, banner });
        Net::Box(self.boxes.len() - 1)
    }

    fn record(&self, random: &mut Chance, sound: u64) -> Input {
        let letter = |random: &mut Chance| match random.below(100) < sound {
            true => b'n',
            false => random.of(b"nnndd22iibuswxkathoe"),
        };
        Input {
            x: random.below(1_000_000),
            letters: (0..24).map(|_| letter(random)).collect(),
            right: (0..self.parallels).map(|_| random.below(100) < 50).collect(),
            rounds: (0..self.stars).map(|_| random.below(3)).collect(),
            replica: random.below(3),
        }
    }

    /// Whether records leave in the order of their input.
    fn keeps_order(net: &Net) -> bool {
        match net {
            Net::Box(_) => true,
            Net::Serial(parts) => parts.iter().all(Case::keeps_order),
            Net::Parallel(_, branches, deterministic) => {
                *deterministic && branches.iter().all(Case::keeps_order)
            }
            Net::Split(body, deterministic) | Net::Star(_, body, deterministic) => {
                *deterministic && Case::keeps_order(body)
            }
        }
    }
}

/// The text of a case.
impl Case {
    fn text(&self, folder: &str) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/faulty.awk");
        let declared = self.boxes.iter().enumerate().map(|(k, faulty)| {
            let Faulty { mode, flush, banner } = faulty;
            let word = match mode {
                Mode::Line => "",
                Mode::Filter => "filter",
                Mode::Each => "each",
                Mode::Lines => "lines",
            };
            let flush = u8::from(*flush);
            format!(
                "    box ask{k} ((x, p) -> (x, p)) {{ <<< exec {word} | awk -v K={k} -v MODE={word} -v FLUSH={flush} \
                 -v BANNER={banner} -v DIR={folder} -f {script} >>> }}\n"
            )
        });
        let boxes: String = declared.collect();
        format!("net main {{\n{boxes}}} connect {};\n", Case::topology(&self.net))
    }

    fn topology(net: &Net) -> String {
        let sign = |single: &str, deterministic: bool| single.repeat(1 + usize::from(deterministic));
        match net {
            Net::Box(k) => format!("ask{k}"),
            Net::Serial(parts) => {
                format!("({})", parts.iter().map(Case::topology).collect::<Vec<_>>().join(" .. "))
            }
            Net::Parallel(number, branches, deterministic) => {
                let [left, right] = branches.each_ref().map(Case::topology);
                let sign = sign("|", *deterministic);
                format!(
                    "([{{<l{number}>}} -> {{<l{number}>}}] .. {left} {sign} [{{<r{number}>}} -> {{<r{number}>}}] .. {right})"
                )
            }
            Net::Split(body, deterministic) => {
                format!("({} {} <k>)", Case::topology(body), sign("!", *deterministic))
            }
            Net::Star(number, body, deterministic) => {
                let (body, sign) = (Case::topology(body), sign("*", *deterministic));
                let step = format!("[{{<c{number}>}} -> {{<c{number} = c{number} - 1>}}]");
                format!("(({body} .. {step}) {sign} {{<c{number}>}} if <c{number} <= 0>)")
            }
        }
    }

    fn line(&self, id: usize) -> String {
        let Input { x, letters, right, rounds, replica } = &self.records[id];
        let letters = String::from_utf8_lossy(letters);
        let mut line = format!(r#"{{"id": {id}, "x": {x}, "p": "{letters}", "<k>": {replica}"#);
        for (number, right) in right.iter().enumerate() {
            line += &format!(r#", "<{}{number}>": 1"#, if *right { "r" } else { "l" });
        }
        for (number, rounds) in rounds.iter().enumerate() {
            line += &format!(r#", "<c{number}>": {rounds}"#);
        }
        line + "}\n"
    }
}

/// The possible behaviours of a box for a record: the number of its answers or a failure (`None`), and
/// whether it prints further lines.
fn may(faulty: &Faulty, letter: u8, has_unnamed: bool) -> Vec<(Option<usize>, bool)> {
    let (fails, none, one, two) = ((None, false), (Some(0), false), (Some(1), false), (Some(2), false));
    let reported = |(what, _)| (what, true);
    match (faulty.mode, letter) {
        (_, b'x' | b'k' | b'o' | b'e') => vec![fails],
        (_, b'h' | b'n') => vec![one],
        (Mode::Each, b't') => vec![one, fails],
        (_, b't') => vec![one, fails],
        (Mode::Each | Mode::Filter, b'a') => vec![fails],
        (_, b'a') => vec![one],
        (Mode::Line, b'd') => vec![fails],
        (Mode::Filter, b'd') if has_unnamed => vec![none, fails],
        (Mode::Filter | Mode::Each, b'd') => vec![none],
        (Mode::Line, b'2') => vec![reported(one)],
        (Mode::Filter | Mode::Each, b'2') => vec![two],
        (Mode::Line | Mode::Filter, b'i' | b'b') => vec![reported(one)],
        (Mode::Each, b'b' | b'i' | b'w') => vec![fails],
        (Mode::Line | Mode::Filter, b'u') => vec![fails],
        (Mode::Each, b'u' | b's') => vec![one],
        // The record may be the last one that its process gets, in which case it fails.
        (Mode::Line, b's') => vec![one, fails],
        (Mode::Filter, b's') if has_unnamed => vec![one, reported(none), fails],
        (Mode::Filter, b's') => vec![one, reported(none)],
        (Mode::Line, b'w') => vec![fails],
        (Mode::Filter, b'w') if has_unnamed => vec![reported(none), fails],
        (Mode::Filter, b'w') => vec![reported(none)],
        // In this mode no line names its record, so other faults of a program would not be noticed.
        (Mode::Lines, _) => vec![one],
        (_, other) => panic!("no letter {}", other as char),
    }
}

/// A record inside the network.
#[derive(Clone, Debug)]
struct Token {
    x: u64,
    letters: usize,
    rounds: Vec<u64>,
}

/// One possible outcome for tokens: the tokens that go on, and the boxes in which the others failed.
#[derive(Clone, Debug, Default)]
struct Way {
    tokens: Vec<Token>,
    failed: Vec<usize>,
    is_reported: bool,
}

/// The walk that computes the possible outcomes of records.
struct Walk<'a> {
    case: &'a Case,
    record: &'a Input,
    has_unnamed: bool,
}

impl Walk<'_> {
    fn through(&self, net: &Net, token: Token) -> Vec<Way> {
        match net {
            Net::Box(k) => self.asked(*k, &token),
            Net::Serial(parts) => {
                parts.iter().fold(vec![Way { tokens: vec![token], ..Way::default() }], |ways, part| {
                    Walk::all(ways, |token| self.through(part, token))
                })
            }
            Net::Parallel(number, branches, _) => {
                self.through(&branches[usize::from(self.record.right[*number])], token)
            }
            Net::Split(body, _) => self.through(body, token),
            Net::Star(number, body, _) => {
                if token.rounds[*number] == 0 {
                    return vec![Way { tokens: vec![token], ..Way::default() }];
                }
                Walk::all(self.through(body, token), |mut token| {
                    token.rounds[*number] -= 1;
                    self.through(net, token)
                })
            }
        }
    }

    /// Continues all tokens of each outcome in all possible ways.
    fn all(ways: Vec<Way>, go_on: impl Fn(Token) -> Vec<Way>) -> Vec<Way> {
        let mut all = Vec::new();
        for Way { tokens, failed, is_reported } in ways {
            let mut longer = vec![Way { tokens: vec![], failed, is_reported }];
            for token in tokens {
                let next = go_on(token);
                longer = longer.iter().flat_map(|way| next.iter().map(|next| way.and(next))).collect();
            }
            all.extend(longer);
        }
        all
    }

    fn asked(&self, k: usize, token: &Token) -> Vec<Way> {
        let letter = *self.record.letters.get(token.letters).unwrap_or(&b'n');
        let answer =
            Token { x: (token.x * 3 + k as u64) % 1_000_003, letters: token.letters + 1, ..token.clone() };
        let way = |(count, is_reported): (Option<usize>, bool)| Way {
            tokens: vec![answer.clone(); count.unwrap_or(0)],
            failed: if count.is_none() { vec![k] } else { vec![] },
            is_reported,
        };
        may(&self.case.boxes[k], letter, self.has_unnamed).into_iter().map(way).collect()
    }
}

impl Way {
    fn and(&self, other: &Way) -> Way {
        let tokens = self.tokens.iter().chain(&other.tokens).cloned().collect();
        let failed = self.failed.iter().chain(&other.failed).copied().collect();
        Way { tokens, failed, is_reported: self.is_reported || other.is_reported }
    }

    fn outcome(self) -> Outcome {
        let out = self.tokens.into_iter().map(|token| Fate::Out(token.x));
        let mut fates: Vec<Fate> = out.chain(self.failed.into_iter().map(Fate::Failed)).collect();
        fates.sort();
        Outcome { fates, is_reported: self.is_reported }
    }
}

impl Outcome {
    fn count_out(&self) -> usize {
        self.fates.iter().filter(|fate| matches!(fate, Fate::Out(_))).count()
    }
}

impl Case {
    /// All possible outcomes of a record.
    fn outcomes(&self, id: usize) -> BTreeSet<Outcome> {
        let record = &self.records[id];
        let has_unnamed = self.records.iter().any(|record| record.letters.contains(&b'u'));
        let walk = Walk { case: self, record, has_unnamed };
        let token = Token { x: record.x, letters: 0, rounds: record.rounds.clone() };
        let ways = walk.through(&self.net, token);
        ways.into_iter().map(Way::outcome).collect()
    }
}

/// The result of a run.
struct Run {
    out: Vec<Value>,
    letters: Vec<Value>,
    stderr: String,
    code: Option<i32>,
}

/// The lines of output as they arrive; a run without a line for long counts as hanging.
struct Lines(Receiver<String>);

impl Lines {
    fn next(&self, case: u64) -> Option<String> {
        use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(Disconnected) => None,
            Err(Timeout) => panic!("case {case} does not go on"),
        }
    }
}

fn run(number: u64, case: &Case, outcomes: &[BTreeSet<Outcome>]) -> Run {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let net = write(folder.path(), "main.snet", &case.text(&folder.path().display().to_string()));
    let dead = folder.path().join("dead.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["run", &net, "--allow-exec", "--on-error", "dead-letter", "--dead-letters"]).arg(&dead);
    command.args(["--workers", if number.is_multiple_of(2) { "1" } else { "2" }]);
    let mut child = program::started(command.stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().expect("piped");
    let lines = lines_of(child.stdout.take().expect("piped"));
    let errors = lines_of(child.stderr.take().expect("piped"));
    let pause = case.pause.unwrap_or(case.records.len());
    let feed = |from: usize, to: usize| (from..to).map(|id| case.line(id)).collect::<String>();
    let (first, second) = (feed(0, pause), feed(pause, case.records.len()));
    let (go_on, wait) = channel::<()>();
    let feeding = std::thread::spawn(move || {
        stdin.write_all(first.as_bytes()).expect("the run reads");
        let _ = wait.recv();
        stdin.write_all(second.as_bytes()).expect("the run reads");
    });
    // The outputs of the first records that are certain come out before the other records are written.
    let least = |outcomes: &BTreeSet<Outcome>| outcomes.iter().map(Outcome::count_out).min().unwrap_or(0);
    let mut out: Vec<String> = Vec::new();
    if case.pause.is_some() {
        let wanted: usize = outcomes[..pause].iter().map(least).sum();
        while out.len() < wanted
            && let Some(line) = lines.next(number)
        {
            out.push(line);
        }
    }
    drop(go_on);
    out.extend(std::iter::from_fn(|| lines.next(number)));
    let stderr = std::iter::from_fn(|| errors.next(number)).collect::<Vec<_>>().join("\n");
    feeding.join().expect("the run reads");
    let code = child.wait().expect("it has ended").code();
    let records = |text: String| text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let letters =
        std::fs::read_to_string(&dead).unwrap_or_else(|_| panic!("case {number} was refused: {stderr}"));
    Run { out: records(out.join("\n")), letters: records(letters), stderr, code }
}

fn lines_of(stream: impl std::io::Read + Send + 'static) -> Lines {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    Lines(lines)
}

fn check(number: u64) {
    let case = Case::new(number);
    let outcomes: Vec<BTreeSet<Outcome>> = (0..case.records.len()).map(|id| case.outcomes(id)).collect();
    let run = run(number, &case, &outcomes);
    let context = || format!("case {number}\n{}\n{}", case.text("DIR"), run.stderr);
    let id_of = |record: &Value| record["id"].as_u64().unwrap_or_else(|| panic!("no id: {record}")) as usize;
    let mut fates: BTreeMap<usize, Vec<Fate>> = BTreeMap::new();
    for record in &run.out {
        fates.entry(id_of(record)).or_default().push(Fate::Out(record["x"].as_u64().expect("an x")));
    }
    for letter in &run.letters {
        let component = letter["component"].as_str().expect("a component");
        let (_, k) = component.rsplit_once("ask").unwrap_or_else(|| panic!("no box failed: {letter}"));
        fates.entry(id_of(&letter["record"])).or_default().push(Fate::Failed(k.parse().expect("a box")));
    }
    let (mut is_surely_reported, mut may_be_reported) = (false, !run.letters.is_empty());
    for (id, expected) in outcomes.iter().enumerate() {
        let mut fates = fates.remove(&id).unwrap_or_default();
        fates.sort();
        let fits: Vec<&Outcome> = expected.iter().filter(|outcome| outcome.fates == fates).collect();
        assert!(
            !fits.is_empty(),
            "record {}: {fates:?} is none of {expected:?}\n{}",
            case.line(id),
            context()
        );
        is_surely_reported |= fits.iter().all(|outcome| outcome.is_reported);
        may_be_reported |= fits.iter().any(|outcome| outcome.is_reported);
    }
    assert!(fates.is_empty(), "records that did not go in came out: {fates:?}\n{}", context());
    let ids: Vec<usize> = run.out.iter().map(id_of).collect();
    assert!(!Case::keeps_order(&case.net) || ids.is_sorted(), "out of order: {ids:?}\n{}", context());
    let has_banner = case.boxes.iter().any(|faulty| faulty.banner > 0);
    assert!(run.code == Some(0) || run.code == Some(1), "{:?}\n{}", run.code, context());
    assert!(run.code == Some(1) || run.letters.is_empty() && !is_surely_reported, "no error\n{}", context());
    assert!(run.code == Some(0) || may_be_reported || has_banner, "an error for nothing\n{}", context());
    assert!(!run.stderr.contains("panicked") && !run.stderr.contains("ended badly"), "{}", context());
    let (count, out, failed) = (case.records.len(), run.out.len(), run.letters.len());
    let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let records = if count == 1 { "record" } else { "records" };
    assert!(run.stderr.contains(&format!("{count} {records} in, {out} out{failures} in ")), "{}", context());
}

#[test]
fn faulty_programs_give_every_record_its_own_answers_or_fail_it_by_name() {
    (0..60).for_each(check);
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_networks_of_faulty_programs() {
    (0..1000).for_each(check);
}
