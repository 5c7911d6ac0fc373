//! The goals of scopes besides the cost of a tuple: rates, memory, many elements, many processes, a server,
//! and a small slowdown of the observed program.

use super::{Beat, ELEMENTS, Pulls, World, view};
use crate::measure::{Case, Contestant, Goal};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_scope::{Ask, Backlog, Remote, Scope, Server, ServerOptions, Target};
use thalweg_space::{Collector, ElementOptions, Policy, Space, SpaceOptions};

/// The jobs of this program in another process: [`SERVE`], a scope server; [`PULL`], a scope pulled at a
/// given rate; and a scope that prints its memory.
pub(crate) const SERVE: &str = "scope-serve";
pub(crate) const PULL: &str = "scope-pull";
pub(crate) const HOLD: &str = "scope-hold";
/// The environment variable for the pulls a second of the process that pulls.
const RATE: &str = "THALWEG_BENCH_RATE";
/// The numbers of elements and of threads in the EventSpace paper's application.
const APPLICATION: (usize, usize) = (1948, 140);
const VIEW: &str =
    "format = 1\nname = \"bench\"\nabout = \"What do pulls cost?\"\n[[leaf]]\nkinds = [\"bench.beat\"]\n";

pub(crate) fn cases() -> Vec<Case<'static>> {
    let elements = |count: usize| vec![("elements", count.to_string())];
    let mut cases = Vec::new();
    for (count, per_s) in [(1, 1e6), (14, 1e5), (266, 1e4)] {
        let name = format!("a pull of {count}, {per_s:e} a second asked");
        cases.push(case(name, elements(count), "us", pulls_of(count), Goal::AtMost(1e6 / per_s)));
    }
    let name = "through a server, one of each".to_owned();
    cases.push(case(name, elements(ELEMENTS), "ns", served(), Goal::AtMost(1000.0)));
    let name = "memory of an element held".to_owned();
    cases.push(case(name, elements(ELEMENTS), "B", held(), Goal::AtMost(1024.0)));
    let name = "latest of all".to_owned();
    cases.push(case(name, elements(100_000), "ms", latest_of(100_000), Goal::AtMost(10.0)));
    let processes = vec![("processes", "1000".to_owned())];
    cases.push(case("a view opens".to_owned(), processes, "ms", opens(1000), Goal::AtMost(1000.0)));
    for (scopes, rate, most) in [(1, 100, 1.01), (1, 1000, 1.10), (4, 100, 1.03)] {
        let mut params = elements(APPLICATION.0);
        params.extend([("threads", APPLICATION.1.to_string()), ("scopes", scopes.to_string())]);
        params.push(("pulls a second", rate.to_string()));
        let name = "slowdown of the observed program".to_owned();
        cases.push(case(name, params, "x", slowdown(scopes, rate), Goal::AtMost(most)));
    }
    cases
}

fn case(
    name: String,
    params: Vec<(&'static str, String)>,
    unit: &'static str,
    ours: Contestant<'static>,
    goal: Goal,
) -> Case<'static> {
    Case { group: "scope", name, params, unit, ours, rivals: Vec::new(), limit: None, goal }
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A space with this number of elements, and a scope of its latest events that was pulled once.
fn opened(elements: usize) -> Result<(World, Scope), String> {
    let mut world = World::of(elements)?;
    world.beat();
    let target = Target::of(world.space.path());
    let scope = Scope::open(&view(Pulls::Latest)?, target, Backlog::All).map_err(shown)?;
    Ok((world, scope))
}

/// A contestant that measures the microseconds of a pull.
fn pulls_of(elements: usize) -> Contestant<'static> {
    let mut state = None;
    Contestant::new("Scope::pull", "", move || {
        if state.is_none() {
            state = Some(opened(elements)?);
        }
        let (world, scope) = state.as_mut().ok_or("it was opened")?;
        let (mut took, pulls) = (Duration::ZERO, 2000);
        for _ in 0..pulls {
            world.beat();
            let begin = Instant::now();
            let pulled = scope.pull();
            took += begin.elapsed();
            if pulled.batch.len() != elements {
                return Err(format!("{} tuples came", pulled.batch.len()));
            }
        }
        Ok(took.as_secs_f64() * 1e6 / f64::from(pulls))
    })
}

/// A contestant that measures the milliseconds of a pull of the latest events.
fn latest_of(elements: usize) -> Contestant<'static> {
    let mut state = None;
    Contestant::new("Scope::pull", "", move || {
        if state.is_none() {
            state = Some(opened(elements)?);
        }
        let (world, scope) = state.as_mut().ok_or("it was opened")?;
        world.beat();
        let begin = Instant::now();
        let pulled = scope.pull();
        let took = begin.elapsed();
        if pulled.batch.len() == elements {
            Ok(took.as_secs_f64() * 1e3)
        } else {
            Err(format!("{} tuples came", pulled.batch.len()))
        }
    })
}

/// A contestant that measures the milliseconds until a view of this many processes returns its first tuples.
fn opens(processes: usize) -> Contestant<'static> {
    let mut state: Option<(Session, Vec<Space>)> = None;
    Contestant::new("Scope::open and a pull", "", move || {
        if state.is_none() {
            let session =
                Session(std::env::temp_dir().join(format!("thalweg-bench-session-{}", std::process::id())));
            let mut spaces = Vec::new();
            let element = ElementOptions { block_bytes: 512, block_count: 2, policy: Policy::Overwrite };
            for _ in 0..processes {
                let options =
                    SpaceOptions { session: Some(session.0.clone()), element, ..SpaceOptions::default() };
                let space = Space::create(options).map_err(shown)?;
                let mut writer = space.writer("one").map_err(shown)?;
                let beat = writer.declare::<Beat>().map_err(shown)?;
                writer.emit(beat, &Beat { first: 1, second: 2 });
                spaces.push(space);
            }
            state = Some((session, spaces));
        }
        let (session, _) = state.as_ref().ok_or("it was opened")?;
        let begin = Instant::now();
        let mut scope =
            Scope::open(&view(Pulls::Latest)?, Target::of(&session.0), Backlog::All).map_err(shown)?;
        let pulled = scope.pull();
        let took = begin.elapsed();
        if pulled.batch.len() == processes {
            Ok(took.as_secs_f64() * 1e3)
        } else {
            Err(format!("{} tuples came", pulled.batch.len()))
        }
    })
}

struct Session(PathBuf);

impl Drop for Session {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Another process of this program, ended when this value is dropped.
struct Other(Child);

impl Other {
    fn start(job: &str, path: &Path, rate: u64) -> Result<Other, String> {
        let mut command = Command::new(std::env::current_exe().map_err(shown)?);
        command.arg(job).arg(path).env(RATE, rate.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().map(Other).map_err(shown)
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so its id is still its own.
        unsafe { libc::kill(self.0.id().cast_signed(), signal) };
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Serves scopes at this socket.
pub(crate) fn serve(socket: &Path) -> Result<(), String> {
    let spaces = Some(socket.with_extension("spaces"));
    let options = ServerOptions { share: 1.0, spaces, ..ServerOptions::at(socket) };
    Server::listen(options).map_err(shown)?.serve(&AtomicBool::new(false));
    Ok(())
}

/// Pulls the latest event of every element of a space at a given rate.
pub(crate) fn pull(space: &Path) -> Result<(), String> {
    let rate: f64 = std::env::var(RATE).ok().and_then(|rate| rate.parse().ok()).ok_or("no rate is given")?;
    let mut scope = Scope::open(&view(Pulls::Latest)?, Target::of(space), Backlog::Nothing).map_err(shown)?;
    let (begin, mut pulls) = (Instant::now(), 0.0);
    println!("pulls");
    loop {
        drop(scope.pull());
        pulls += 1.0;
        let due = begin + Duration::from_secs_f64(pulls / rate);
        match due.checked_duration_since(Instant::now()) {
            Some(left) => std::thread::sleep(left),
            // The process was stopped for a while; the missed pulls are skipped.
            None => pulls = (begin.elapsed().as_secs_f64() * rate).ceil(),
        }
    }
}

/// Prints the growth of this process in bytes for each element of a space, when it holds a pulled scope of
/// the space.
pub(crate) fn hold(space: &Path) -> Result<(), String> {
    let resident = || -> Result<f64, String> {
        let text = std::fs::read_to_string("/proc/self/statm").map_err(shown)?;
        let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).ok_or("no statm")?;
        Ok(4096.0 * pages)
    };
    // The fixed memory of a scope, measured with one element.
    let (_world, mut small) = opened(1)?;
    drop(small.pull());
    let before = resident()?;
    let mut scope = Scope::open(&view(Pulls::Latest)?, Target::of(space), Backlog::All).map_err(shown)?;
    drop(scope.pull_latest());
    drop(scope.pull_since());
    println!("{}", (resident()? - before) / ELEMENTS as f64);
    Ok(())
}

/// A contestant that measures the nanoseconds of a tuple from a server.
fn served() -> Contestant<'static> {
    let mut state: Option<(World, Other, Remote)> = None;
    Contestant::new("Remote::pull", "", move || {
        if state.is_none() {
            let mut world = World::of(ELEMENTS)?;
            world.beat();
            let socket = world.space.path().join("bench.socket");
            let server = Other::start(SERVE, &socket, 0)?;
            let begin = Instant::now();
            while !socket.exists() && begin.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(10));
            }
            let target = Target::of(world.space.path());
            let ask = Ask { view: VIEW.to_owned(), target, backlog: Backlog::All };
            let mut remote = Remote::open(&socket, &ask).map_err(shown)?;
            drop(remote.pull(None).map_err(shown)?);
            state = Some((world, server, remote));
        }
        let (world, _, remote) = state.as_mut().ok_or("it was opened")?;
        let (mut took, mut tuples) = (0.0, 0);
        for _ in 0..20 {
            world.beat();
            let begin = Instant::now();
            let pulled = remote.pull(None).map_err(shown)?;
            took += begin.elapsed().as_secs_f64();
            tuples += pulled.batch.len();
        }
        if tuples == 20 * ELEMENTS {
            Ok(took * 1e9 / tuples as f64)
        } else {
            Err(format!("{tuples} tuples came"))
        }
    })
}

/// A contestant that measures the bytes of an element.
fn held() -> Contestant<'static> {
    let mut state: Option<World> = None;
    Contestant::new("a scope", "", move || {
        if state.is_none() {
            let mut world = World::of(ELEMENTS)?;
            world.beat();
            state = Some(world);
        }
        let world = state.as_ref().ok_or("it was opened")?;
        let mut other = Other::start(HOLD, world.space.path(), 0)?;
        let mut said = String::new();
        other.0.stdout.take().ok_or("it is piped")?.read_to_string(&mut said).map_err(shown)?;
        said.trim().parse().map_err(|_| format!("it says `{}`", said.trim()))
    })
}

/// An application with more threads than processors, which work and record events.
struct Application {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
    space: Space,
}

impl Application {
    fn start() -> Result<Application, String> {
        let mut world = World::of(APPLICATION.0)?;
        world.beat();
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let space = world.space.clone();
        let mut collectors = std::mem::take(&mut world.collectors);
        // The directory is removed with the application.
        std::mem::forget(world);
        let mut threads = Vec::new();
        for n in 0..APPLICATION.1 {
            let share = collectors.len() / (APPLICATION.1 - n);
            let own: Vec<Collector<Beat>> = collectors.drain(..share).collect();
            let (stop, done) = (stop.clone(), done.clone());
            threads.push(std::thread::spawn(move || work(own, &stop, &done)));
        }
        Ok(Application { stop, done, threads, space })
    }

    /// The operations done in this time, and the processor time of the application and of the other
    /// processes.
    fn spent(&self, time: Duration, others: &[Other]) -> Result<[f64; 3], String> {
        let now = || -> Result<[f64; 3], String> {
            let mut aside = 0.0;
            for other in others {
                aside += processor_s(Some(other.0.id()))?;
            }
            Ok([self.done.load(Ordering::Relaxed) as f64, processor_s(None)?, aside])
        };
        let before = now()?;
        std::thread::sleep(time);
        let after = now()?;
        Ok(std::array::from_fn(|n| after[n] - before[n]))
    }
}

/// The processor time of a process in seconds; of this process if none is named.
fn processor_s(process: Option<u32>) -> Result<f64, String> {
    let mut clock = libc::CLOCK_PROCESS_CPUTIME_ID;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write to the given pointers, whose targets are large enough.
    let failed = unsafe {
        process.is_some_and(|process| libc::clock_getcpuclockid(process.cast_signed(), &mut clock) != 0)
            || libc::clock_gettime(clock, &mut time) != 0
    };
    if failed {
        return Err("the processor time of a process cannot be read".to_owned());
    }
    Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

fn work(mut collectors: Vec<Collector<Beat>>, stop: &AtomicBool, done: &AtomicU64) {
    let mut value = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        for collector in &mut collectors {
            // Each event is preceded by a few microseconds of work.
            for _ in 0..4000 {
                value = std::hint::black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ value >> 31);
            }
            collector.record(&Beat { first: value, second: value });
        }
        done.fetch_add(collectors.len() as u64, Ordering::Relaxed);
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        std::fs::remove_dir_all(self.space.path()).ok();
    }
}

/// The slowdown of an application that is observed while all processors are saturated: the ratio of the
/// processor time of an operation with and without scopes, divided by the share of the processors that the
/// scopes leave. All times come from the kernel's accounts, so other programs on the machine do not count.
fn slowdown(scopes: usize, rate: u64) -> Contestant<'static> {
    const EACH: Duration = Duration::from_millis(200);
    let mut state: Option<(Application, Vec<Other>)> = None;
    Contestant::new("Scope::pull, in a process each", "", move || {
        if state.is_none() {
            let application = Application::start()?;
            let path = application.space.path().to_path_buf();
            let others =
                (0..scopes).map(|_| Other::start(PULL, &path, rate)).collect::<Result<Vec<_>, _>>()?;
            std::thread::sleep(Duration::from_secs(1));
            state = Some((application, others));
        }
        let (application, others) = state.as_ref().ok_or("it was opened")?;
        let all = |signal: i32| others.iter().for_each(|other| other.signal(signal));
        let mut sums = [[0.0; 3]; 2];
        for n in [0, 1, 1, 0].repeat(4) {
            all(if n == 0 { libc::SIGSTOP } else { libc::SIGCONT });
            std::thread::sleep(Duration::from_millis(20));
            let spent = application.spent(EACH, others)?;
            sums[n].iter_mut().zip(spent).for_each(|(sum, more)| *sum += more);
        }
        all(libc::SIGCONT);
        let [[done_alone, alone, _], [done, beside, aside]] = sums;
        Ok(beside / done / (alone / done_alone) * (beside + aside) / beside)
    })
}
