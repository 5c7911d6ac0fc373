//! Programs with everything that makes patching code dangerous are attached to, changed, and detached from,
//! repeatedly: there is no crash and no wrong result, counts agree with the program's own, and code is as in
//! the files. `ROUNDS=` sets the number of cycles, `FIRST=` the first of them, `SEED=` their random choices, which
//! do not depend on where the cycles begin.

#![allow(clippy::print_stdout, reason = "says what runs, and what is skipped")]

mod started;

use started::Target;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_attach::{Argument, Attachment, Form, Function, Keep, Options, Place, Which, Wish};
use thalweg_chance::Chance;

/// The activities of a target: signals, exceptions, longjmp, coroutines, forks, vfork and exec, threads,
/// pages of code, libraries that come and go.
const KINDS: &str = "sxjcfvtpd";
/// The functions of which the target itself counts the calls, in the order in which it prints the counts.
const COUNTED: [&str; 11] =
    ["plain", "deep", "tail", "wide", "real", "large", "thrower", "middle", "jumping", "woven", "kept"];
/// Functions of libraries that the target calls all the time or now and then.
const FOREIGN: [&str; 9] = [
    "libc.so.6:malloc",
    "libc.so.6:free",
    "libc.so.6:usleep",
    "libc.so.6:mmap",
    "libc.so.6:pthread_create",
    "libc.so.6:dlclose",
    "libc.so.6:waitpid",
    "libc.so.6:vfork",
    "libstorm_part.so:*part*",
];
/// Cycles of one target: 2,000 cycles have each compiler, option and number of threads at least once.
const CYCLES: u64 = 20;

/// The parts of a cycle, each with its total and its longest time.
#[derive(Default)]
struct Spent(Vec<(&'static str, Duration, Duration)>);

impl Spent {
    fn on<T>(&mut self, what: &'static str, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let result = work();
        let took = begin.elapsed();
        match self.0.iter_mut().find(|(other, ..)| *other == what) {
            Some((_, all, longest)) => (*all, *longest) = (*all + took, took.max(*longest)),
            None => self.0.push((what, took, took)),
        }
        result
    }
}

impl std::fmt::Display for Spent {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts =
            self.0.iter().map(|(what, all, longest)| format!("{what} {all:.1?} (longest {longest:.1?})"));
        write!(to, "{}", parts.collect::<Vec<_>>().join(", "))
    }
}

struct Storm {
    /// The folder is removed with this value.
    folder: tempfile::TempDir,
    seed: u64,
    /// The compilers of C++ and C that there are.
    compilers: Vec<(&'static str, &'static str)>,
    options: &'static [&'static str],
    threads: &'static [u64],
}

fn built(compiler: &str, options: &[&str], source: &str, into: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut command = Command::new(compiler);
    command.args(options).arg(source).arg("-o").arg(into).args(["-pthread", "-ldl"]);
    command.status().is_ok_and(|status| status.success())
}

impl Storm {
    fn new(seed: u64, options: &'static [&'static str], threads: &'static [u64]) -> Storm {
        let folder = tempfile::tempdir().expect("a folder");
        let is_there = |(compiler, _): &(&str, &str)| {
            let found = Command::new(compiler).arg("--version").output().is_ok();
            if !found {
                println!("skipped: there is no {compiler}");
            }
            found
        };
        let compilers = [("c++", "cc"), ("clang++", "clang")].into_iter().filter(is_there).collect();
        Storm { folder, seed, compilers, options, threads }
    }

    /// The program of this compiler and option, and the folder of its libraries, which the same compiler
    /// compiles. Both are compiled when they are first needed.
    fn program(&self, (compiler, of_c): (&str, &str), option: &str) -> (PathBuf, PathBuf) {
        let libraries = self.folder.path().join(compiler);
        if !libraries.exists() {
            std::fs::create_dir(&libraries).expect("a folder");
            for part in ["storm_part", "storm_kept"] {
                let library = libraries.join(format!("lib{part}.so"));
                let is_built = built(of_c, &["-O2", "-shared", "-fPIC"], &format!("{part}.c"), &library);
                assert!(is_built, "{of_c} {part}");
            }
        }
        let program = self.folder.path().join(format!("{compiler}{option}"));
        if !program.exists() {
            assert!(built(compiler, &[option], "storm.cpp", &program), "{compiler} {option}");
        }
        (program, libraries)
    }

    /// Starts the target with this number: consecutive targets have different options, compilers, and numbers
    /// of threads. Returns the target, the number of its threads, and the choices for its cycles, which depend
    /// on the seed and the number alone, so that a cycle that failed can be run again without those before it.
    fn target(&self, number: u64) -> (Target, u64, Chance) {
        let of = |number: u64, count: usize| (number % count as u64) as usize;
        let (options, compilers) = (self.options.len() as u64, self.compilers.len() as u64);
        let option = self.options[of(number, self.options.len())];
        let compiler = self.compilers[of(number / options, self.compilers.len())];
        let threads = self.threads[of(number / (options * compilers), self.threads.len())];
        let (program, libraries) = self.program(compiler, option);
        let mut chance = Chance::new(thalweg_chance::mixed(self.seed).wrapping_add(number));
        let all = std::env::var("KINDS").unwrap_or_else(|_| KINDS.to_owned());
        let some: String = all.chars().filter(|_| chance.one_in(2)).collect();
        let kinds = if chance.one_in(4) { format!("-{some}") } else { all };
        println!("cycle {}: {} {option}, {threads} threads, {kinds}", number * CYCLES, compiler.0);
        let folder = libraries.to_string_lossy().into_owned();
        // The target's priority is 20 below that of this thread, and so the usual one if this thread could raise
        // its own.
        let mut command = Command::new("nice");
        command.args(["-n", "20"]).arg(program).args([&threads.to_string(), &folder, &kinds]);
        (Target::tried(&mut command).expect("the target starts"), threads, chance)
    }
}

fn functions(attachment: &Attachment, pattern: &str) -> Vec<Function> {
    attachment.modules().functions(pattern)
}

fn one(attachment: &Attachment, name: &str) -> Function {
    // The modules are named, so that not all symbols of all libraries are compared.
    let mut found = functions(attachment, &format!("c*-O?:{name}"));
    found.extend(functions(attachment, &format!("libstorm_kept.so:{name}")));
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

fn wish(chance: &mut Chance) -> Wish {
    let times = chance.one_in(2);
    let forms = [Form::UNKNOWN, Form::Signed(8), Form::Signed(4), Form::Character, Form::Bool];
    let mut arguments = Vec::new();
    for number in (0..3).filter(|_| chance.one_in(3)).collect::<Vec<_>>() {
        let form = chance.of(&forms);
        arguments.push(Argument { place: Place::Integer(number), form });
    }
    for number in (0..2).filter(|_| chance.one_in(4)).collect::<Vec<_>>() {
        let form = chance.of(&[Form::Float(8), Form::Float(4)]);
        arguments.push(Argument { place: Place::Float(number), form });
    }
    let result = chance.of(&[Form::UNKNOWN, Form::Signed(4), Form::Float(8), Form::Float(4)]);
    let results = chance.one_in(3).then_some(result);
    let which = [Which::First, Which::Last, Which::Every][chance.below(3) as usize];
    let keep = chance.one_in(3).then_some(Keep { calls: 20, which });
    Wish { times, arguments, results, callers: chance.one_in(4), keep, ..Wish::default() }
}

/// The calls that the target has counted itself.
fn truth(target: &mut Target) -> Vec<u64> {
    let answer = target.ask("truth");
    answer.split(' ').skip(1).map(|number| number.parse().expect("a count")).collect()
}

/// Checks that code in memory is equal to the files, and that no memory of an attachment is mapped or open.
/// While the target works, libraries are loaded and unloaded, so a difference is checked again.
fn assert_clean(target: &Target, is_hot: bool) {
    for again in (0..if is_hot { 50 } else { 1 }).rev() {
        let Some(wrong) = difference(target) else { return };
        assert!(again > 0, "{wrong}");
    }
}

fn difference(target: &Target) -> Option<String> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", target.pid())).expect("maps");
    let memory = File::open(format!("/proc/{}/mem", target.pid())).expect("memory");
    if maps.contains("thalweg-attach") {
        return Some(maps);
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", target.pid())).expect("descriptors").flatten();
    let mut open = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    if open.any(|file| file.to_string_lossy().contains("thalweg-attach")) {
        return Some("a file is open still".to_owned());
    }
    maps.lines().filter(|line| line.contains("r-xp")).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let path = fields.get(5).filter(|path| path.starts_with('/'))?;
        let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let (begin, end) = fields[0].split_once('-').map(|(a, b)| (number(a), number(b))).expect("a range");
        let (mut now, mut before) = (vec![0; (end - begin) as usize], vec![0; (end - begin) as usize]);
        memory.read_exact_at(&mut now, begin).ok()?;
        let read = File::open(path).expect("the file").read_at(&mut before, number(fields[2])).expect("code");
        let first = now[..read].iter().zip(&before[..read]).position(|(now, before)| now != before)?;
        Some(format!("the code of {path} is not as in the file, {first:#x} bytes from {begin:#x} on"))
    })
}

/// Wishes for some of the functions of libraries.
fn foreign(attachment: &Attachment, chance: &mut Chance) -> Vec<(Function, Wish)> {
    let mut wishes = Vec::new();
    let foreign: Vec<&str> = FOREIGN.into_iter().filter(|_| chance.one_in(3)).collect();
    for pattern in foreign {
        for function in functions(attachment, pattern) {
            let wish = wish(chance);
            if attachment.refusal(&function, &wish).is_none() {
                wishes.push((function, wish));
            }
        }
    }
    wishes
}

/// Checks that the function of an inserted call has been called as often as the attachment says, or more often since.
fn assert_inserted(target: &mut Target, attachment: &Attachment, before: u64, is_hot: bool) {
    let (calls, _) = attachment.inserted(&one(attachment, "large"));
    let sum = sum_of_calls(target) - before;
    assert!(sum == calls || is_hot && sum > calls, "{calls} inserted calls, the sum is {sum}");
}

/// Checks the figures of the counted functions against the numbers that the target has counted itself: before they
/// were attached to, after that, and now.
fn assert_counts(
    target: &mut Target,
    attachment: &Attachment,
    counted: &[usize],
    (before, after, least): (&[u64], &[u64], &[u64]),
    (threads, is_hot): (u64, bool),
    spent: &mut Spent,
) {
    for (point, number) in counted.iter().enumerate() {
        let figures = attachment.figures(point).expect("figures");
        let most = spent.on("asking", || truth(target));
        // A call is counted before its function begins, and children that were forked earlier are not patched.
        let slack = if is_hot { threads + 32 } else { 0 };
        let (low, high) = (least[*number] - after[*number], most[*number] - before[*number] + slack);
        let name = COUNTED[*number];
        assert!(
            (low.saturating_sub(slack)..=high).contains(&figures.calls),
            "{name}: {low} {} {high}",
            figures.calls
        );
        let timed = figures.ticks.as_ref().map_or(0, thalweg_attach::Histogram::count);
        assert!(timed + figures.not_timed <= figures.calls + slack, "{name}: {timed} of {}", figures.calls);
        for (argument, values) in &figures.arguments {
            // The figures are read one after the other, while the program goes on.
            let range = figures.calls.saturating_sub(slack)..=if is_hot { high } else { figures.calls };
            assert!(range.contains(&values.count()), "{name}: {argument:?}: {} {range:?}", values.count());
        }
    }
}

/// One cycle: attaches, changes, undoes some of the changes, and detaches, while the target works or before
/// and after it works.
fn cycle(target: &mut Target, threads: u64, chance: &mut Chance, is_hot: bool, spent: &mut Spent) {
    let pid = target.pid();
    let open = || Attachment::open(pid, Options::default()).expect("it can be attached to");
    let mut attachment = spent.on("opening", open);
    let counted: Vec<usize> = (0..COUNTED.len()).filter(|_| chance.one_in(2)).collect();
    let replaces = chance.one_in(3);
    let counted: Vec<usize> =
        counted.into_iter().filter(|number| !(replaces && COUNTED[*number] == "kept")).collect();
    let mut wishes: Vec<(Function, Wish)> =
        counted.iter().map(|number| (one(&attachment, COUNTED[*number]), wish(chance))).collect();
    if chance.one_in(2) {
        let set = Some((1.into(), 77));
        wishes.push((one(&attachment, "chosen"), Wish { set, ..wish(chance) }));
    }
    wishes.extend(foreign(&attachment, chance));
    let before = spent.on("asking", || truth(target));
    // A library may be unloaded, or replaced by another at the same address, between reading and patching it.
    while let Err(error) = spent.on("adding", || attachment.add(&wishes)) {
        assert!(wishes.iter().any(|(function, _)| function.module.starts_with("libstorm_part")), "{error}");
        wishes.retain(|(function, _)| !function.module.starts_with("libstorm_part"));
    }
    let after = spent.on("asking", || truth(target));
    if replaces {
        let (kept, instead) = (one(&attachment, "kept"), one(&attachment, "instead"));
        attachment.replace(&kept, &instead).expect("it is replaced");
    }
    let sets = chance.one_in(3);
    if sets {
        assert_eq!(attachment.set_variable("level", 9), Ok(3));
    }
    let is_there = |name: &str| counted.iter().any(|number| COUNTED[*number] == name);
    let inserts = chance.one_in(3) && !is_there("large");
    let called_before = sum_of_calls(target);
    if inserts {
        let (called, place) = (one(&attachment, "called"), one(&attachment, "large"));
        spent.on("inserting", || attachment.insert(&called, Some(&[1]), &place)).expect("inserted");
    }
    if !is_hot {
        assert_eq!(target.ask("begin"), "begun");
    }
    if !inserts && chance.one_in(3) {
        let (called, place) = (one(&attachment, "called"), one(&attachment, "safe_point"));
        let before = sum_of_calls(target);
        let call = || attachment.call(&called, &[3], &[place], Duration::from_secs(60));
        spent.on("calling", call).expect("it is called");
        assert_eq!(sum_of_calls(target), before + 3);
    }
    std::thread::sleep(Duration::from_micros(chance.below(8000)));
    if !is_hot {
        spent.on("ending", || assert_right(target));
    }
    let least = spent.on("asking", || truth(target));
    assert_counts(target, &attachment, &counted, (&before, &after, &least), (threads, is_hot), spent);
    if inserts {
        assert_inserted(target, &attachment, called_before, is_hot);
    }
    if chance.one_in(4) && !wishes.is_empty() {
        attachment.remove(chance.below(wishes.len() as u64) as usize).expect("removed");
    }
    let restored = spent.on("detaching", || attachment.detach()).expect("it is detached from");
    let state = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).unwrap_or_default();
    assert_eq!(restored.bytes_left, 0, "{restored:?}, {:?}", state.lines().nth(2));
    spent.on("checking the code", || assert_clean(target, is_hot));
    assert!(target.ask("ask").starts_with("value 3 "), "the variable is as before");
}

fn sum_of_calls(target: &mut Target) -> u64 {
    let answer = target.ask("ask");
    answer.rsplit(' ').next().and_then(|sum| sum.parse().ok()).expect("a sum")
}

fn assert_right(target: &mut Target) {
    let ended = target.ask("end");
    assert_eq!(ended.split(' ').nth(2), Some("0"), "{ended}");
}

/// Runs the cycles from `first` on; both numbers are rounded up to whole targets.
fn storm(storm: &Storm, first: u64, rounds: u64) {
    // The targets' threads want all processors. If this thread waited for one as long as each of them does, a
    // cycle would take seconds.
    let own = std::fs::read_link("/proc/thread-self").expect("a thread");
    let own = own.file_name().expect("a number").to_owned();
    let _ = Command::new("renice").args(["-n", "-20", "-p"]).arg(own).stdout(Stdio::null()).status();
    let begin = Instant::now();
    let mut spent = Spent::default();
    let mut done = 0;
    for number in first.div_ceil(CYCLES)..(first + rounds).div_ceil(CYCLES) {
        let (mut target, threads, mut chance) = spent.on("starting", || storm.target(number));
        let mut left = CYCLES;
        while left > 0 {
            // While the target works all the time, or before and after it works.
            let is_hot = chance.one_in(2);
            if is_hot {
                assert_eq!(spent.on("beginning", || target.ask("begin")), "begun");
            }
            for _ in 0..left.min(if is_hot { 3 } else { 1 }) {
                cycle(&mut target, threads, &mut chance, is_hot, &mut spent);
                left -= 1;
            }
            if is_hot {
                spent.on("ending", || assert_right(&mut target));
            }
            // After detaching, the program goes on.
            assert_eq!(spent.on("beginning", || target.ask("begin")), "begun");
            spent.on("ending", || assert_right(&mut target));
        }
        done += CYCLES;
        println!("{done} cycles in {:.1?}: {spent}", begin.elapsed());
    }
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn a_few_cycles_harm_nothing() {
    storm(&Storm::new(1, &["-O2"], &[4]), 0, CYCLES);
}

#[test]
#[ignore = "takes minutes"]
fn thousands_of_cycles_harm_nothing() {
    let all = Storm::new(setting("SEED", 26), &["-O0", "-O1", "-O2", "-O3"], &[1, 2, 4, 8, 16, 64]);
    storm(&all, setting("FIRST", 0), setting("ROUNDS", 2000));
}
