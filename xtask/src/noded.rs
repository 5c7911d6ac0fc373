//! `cargo xtask bench nodes`: what strangers, and looking at the links, cost a run over two nodes of this
//! machine; and runs over many nodes ([`many`]).
//!
//! Runs take turns, so that other load on the machine affects all alike: without strangers, with strangers
//! that connect to a socket of this program, with strangers that connect to the nodes, and with strangers
//! that connect to the sockets to which the run's links go. The second kind has the cost of the strangers
//! themselves, which would be on another machine. With `--watched` every second run is looked at by `thalweg
//! scope links` instead, and the processor time of the run and its nodes is compared.

mod many;

use crate::paper::Interval;
use crate::pictures::{build, thalweg};
use crate::process;
use anyhow::{Context, Result, bail, ensure};
use lexopt::prelude::*;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HELP: &str = "\
What strangers, or a look at its links, cost a run over two nodes.

usage: cargo xtask bench nodes [--watched | --library | --cut | --hold S] [--rounds N] [--records N]
                               [--rate N] [--strangers N] [--program FILE]

  --watched      compare runs with and without `thalweg scope links --every 200ms`
  --library      how long a new library of 5 MB takes to be on eight nodes
  --cut          compare the processor time of a network on one node and cut in four
  --hold S       run a network over 64 nodes, with some 2,000 links, for S seconds

  --rounds N     by turns (default 15)
  --records N    of a run (default 1,000,000)
  --rate N       with --watched, records a second (default: no limit)
  --strangers N  connections a second (default 1000), half of them held open
  --program FILE the program that is measured; it is built if none is given
";

/// The most that strangers may slow a run, as a factor.
const SLOWER_MAX: f64 = 1.05;
/// The most that a look at the links may cost a run, as a factor.
const WATCHED_MAX: f64 = 1.01;
/// The most connections that strangers hold open.
const HELD_MAX: usize = 500;

struct Bench {
    folder: tempfile::TempDir,
    program: Option<PathBuf>,
    rounds: usize,
    records: u64,
    strangers: u32,
    /// The records a second of a run that is looked at; `None`: as many as it takes.
    rate: Option<u64>,
}

pub(crate) fn run(mut arguments: lexopt::Parser) -> Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let (mut is_watched, mut is_library, mut is_cut, mut hold) = (false, false, false, None);
    let mut bench =
        Bench { folder, program: None, rounds: 15, records: 1_000_000, strangers: 1000, rate: None };
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(ExitCode::SUCCESS);
            }
            Long("watched") => is_watched = true,
            Long("library") => is_library = true,
            Long("cut") => is_cut = true,
            Long("hold") => hold = Some(arguments.value()?.parse()?),
            Long("rounds") => bench.rounds = arguments.value()?.parse::<usize>()?.max(1),
            Long("records") => bench.records = arguments.value()?.parse()?,
            Long("rate") => bench.rate = Some(arguments.value()?.parse()?),
            Long("strangers") => bench.strangers = arguments.value()?.parse::<u32>()?.max(1),
            Long("program") => bench.program = Some(std::path::absolute(arguments.value()?)?),
            other => return Err(other.unexpected().into()),
        }
    }
    if bench.program.is_none() {
        build()?;
    }
    process::run(bench.command().args(["node", "init"]).stdout(Stdio::null()).stderr(Stdio::null()))?;
    if let Some(seconds) = hold {
        return bench.hold(seconds);
    }
    if is_watched {
        return bench.measure_watched();
    }
    if is_library {
        return bench.measure_library();
    }
    if is_cut {
        return bench.measure_cut();
    }
    println!(
        "| nodes | without strangers | strangers elsewhere | at the nodes | at the links | at the nodes, by elsewhere | at the links, by elsewhere | goal | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    bench.measure("TCP", &[])?;
    bench.measure("TCP with TLS", &["--tls"])?;
    Ok(ExitCode::SUCCESS)
}

impl Bench {
    fn command(&self) -> Command {
        let mut command = match &self.program {
            Some(program) => Command::new(program),
            None => thalweg(),
        };
        command.env("THALWEG_CLUSTER", self.folder.path().join("cluster"));
        command.env("THALWEG_SPACES", self.folder.path().join("spaces")).env_remove("THALWEG_SESSION");
        command
    }

    fn measure(&self, what: &str, more: &[&str]) -> Result<()> {
        let (net, input) = self.files()?;
        let nodes = [self.node("a", more)?, self.node("b", more)?];
        let elsewhere = Elsewhere::listen()?;
        let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
        let processes: Vec<u32> = nodes.iter().map(|node| node.process.id()).collect();
        let kinds = [
            Target::Nobody,
            Target::Addresses(vec![elsewhere.address.clone()]),
            Target::Addresses(addresses),
            Target::Links(processes),
        ];
        let recorded = self.recorded(more)?;
        let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        let mut came = [0; 4];
        // The first round warms caches up.
        for round in 0..=self.rounds {
            for (kind, target) in kinds.iter().enumerate() {
                let (took, strangers) = self.time((&net, &input), target, &recorded)?;
                came[kind] += strangers;
                if round > 0 {
                    times[kind].push(took);
                }
            }
        }
        ensure!(came[1..].iter().all(|&came| came > 0), "no stranger has come: {came:?}");
        let by_elsewhere = |kind: usize| {
            Interval::of(times[kind].iter().zip(&times[1]).map(|(with, without)| with / without).collect())
        };
        let ratios = [by_elsewhere(2), by_elsewhere(3)];
        let is_met = ratios.iter().all(|ratio| ratio.median <= SLOWER_MAX);
        let shown = times.map(|times| Interval::of(times).shown(3, " s")).join(" | ");
        let ratios = ratios.map(|ratio| ratio.shown(3, "")).join(" | ");
        let met = if is_met { "ok" } else { "MISS" };
        println!("| {what} | {shown} | {ratios} | ≤ {SLOWER_MAX} | {met} |");
        Ok(())
    }

    /// What a process of the cluster sends first to a node that was started with these arguments.
    fn recorded(&self, more: &[&str]) -> Result<Vec<u8>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let known = self.folder.path().join("cluster/nodes/recorded");
        let tls = if more.contains(&"--tls") { "tls/" } else { "" };
        std::fs::write(&known, format!("{tls}{address}\n"))?;
        let mut asks = self.command().arg("nodes").stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let (mut stream, _) = listener.accept()?;
        let mut bytes = vec![0; 4096];
        let read = stream.read(&mut bytes)?;
        bytes.truncate(read);
        asks.kill()?;
        asks.wait()?;
        std::fs::remove_file(known)?;
        ensure!(!bytes.is_empty(), "nothing was recorded");
        Ok(bytes)
    }

    /// The network and its input.
    fn files(&self) -> Result<(PathBuf, PathBuf)> {
        let folder = self.folder.path();
        let (net, input) = (folder.join("two.snet"), folder.join("input"));
        std::fs::write(
            &net,
            "net two connect ([{<n>} -> {<n = n + 1>}] @ 0) .. ([{<n>} -> {<n = n * 2>}] @ 1);",
        )?;
        let mut lines = std::io::BufWriter::new(std::fs::File::create(&input)?);
        (0..self.records).try_for_each(|n| writeln!(lines, "{{\"<n>\": {n}}}"))?;
        lines.into_inner()?;
        Ok((net, input))
    }

    /// Compares runs with and without a look at their links.
    fn measure_watched(&self) -> Result<ExitCode> {
        let (net, input) = self.files()?;
        let _nodes = [self.node("a", &[])?, self.node("b", &[])?];
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..=self.rounds {
            for turn in 0..2 {
                // The order changes, so that neither kind is always the first of its pair.
                let is_watched = (turn + round) % 2 == 0;
                let took = self.processor_time(&net, &input, is_watched)?;
                if round > 0 {
                    costs[usize::from(is_watched)].push(took);
                }
            }
        }
        let [without, with] = costs;
        let ratio = Interval::of(with.iter().zip(&without).map(|(with, without)| with / without).collect());
        let met = if ratio.median <= WATCHED_MAX { "ok" } else { "MISS" };
        println!("| not looked at | looked at | looked at, by not looked at | goal | |");
        println!("|---|---|---|---|---|");
        let more = with.iter().zip(&without).map(|(with, without)| with - without).collect();
        let shown = [without, with].map(|times| Interval::of(times).shown(3, " s")).join(" | ");
        println!("| {shown} | {} | ≤ {WATCHED_MAX} | {met} |", ratio.shown(3, ""));
        println!("looked at, less not looked at: {}", Interval::of(more).shown(3, " s"));
        Ok(ExitCode::SUCCESS)
    }

    /// The processor time of a run and of its parts on the nodes, in seconds.
    fn processor_time(&self, net: &Path, input: &Path, is_watched: bool) -> Result<f64> {
        let mut run = self.command();
        run.arg("run").arg(net).args(["--nodes", "a,b", "--output", "/dev/null", "--input"]).arg(input);
        run.args(self.rate.map(|rate| format!("--rate={rate}")));
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let session = format!("two-nodes-{}", run.id());
        let path = self.folder.path().join("spaces").join(&session);
        let looking = is_watched.then(|| -> Result<Child> {
            while !path.join("session").exists() && run.try_wait()?.is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
            let mut look = self.command();
            look.args(["scope", "links", &session, "--every", "200ms"]);
            Ok(look.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
        });
        let mut looking = looking.transpose()?;
        let mut said = String::new();
        let from = run.stderr.take().context("piped")?;
        BufReader::new(from).read_to_string(&mut said)?;
        let before = process::children_s()?;
        ensure!(run.wait()?.success(), "{said}");
        let own = process::children_s()? - before;
        if let Some(looking) = &mut looking {
            let _ = looking.kill();
            looking.wait()?;
        }
        Ok(nodes_s(&said) + own)
    }

    /// The seconds of a run while strangers connect, and the number of these.
    fn time(&self, (net, input): (&Path, &Path), target: &Target, recorded: &[u8]) -> Result<(f64, u64)> {
        let mut run = self.command();
        run.arg("run").arg(net).args(["--nodes", "a,b", "--output", "/dev/null", "--input"]).arg(input);
        let begun = Instant::now();
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let strangers = Strangers::come(target.clone(), run.id(), self.strangers, recorded.to_vec());
        let status = run.wait()?;
        let took = begun.elapsed().as_secs_f64();
        let came = strangers.leave()?;
        ensure!(status.success(), "the run failed: {status}");
        Ok((took, came))
    }

    fn node(&self, name: &str, more: &[&str]) -> Result<Node> {
        Node::start(self.command().args(["node", "--name", name]).args(more))
    }
}

/// The processor time of the parts on nodes, as a run says at its end, in seconds.
fn nodes_s(said: &str) -> f64 {
    let of_node = |line: &str| -> Option<f64> {
        let (_, rest) = line.strip_prefix("node ")?.split_once(" tasks, ")?;
        rest.split(' ').next()?.parse().ok()
    };
    said.lines().filter_map(of_node).sum()
}

struct Node {
    process: Child,
    address: String,
}

impl Node {
    fn start(command: &mut Command) -> Result<Node> {
        let mut process = command.stderr(Stdio::piped()).spawn().context("the program does not start")?;
        let mut from = BufReader::new(process.stderr.take().context("piped")?);
        let mut line = String::new();
        from.read_line(&mut line)?;
        std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()));
        let Some((_, address)) = line.trim().rsplit_once(' ') else { bail!("no address of a node: {line}") };
        let address = address.strip_prefix("tls/").unwrap_or(address).to_owned();
        Ok(Node { process, address })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Errors are ignored: the node may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A socket that accepts connections and closes each when another 64 have come, as a node does.
struct Elsewhere {
    address: String,
}

impl Elsewhere {
    /// The thread that accepts ends with this program.
    fn listen() -> Result<Elsewhere> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        std::thread::spawn(move || {
            let mut held = VecDeque::new();
            while let Ok((stream, _)) = listener.accept() {
                held.push_back(stream);
                if held.len() > 64 {
                    held.pop_front();
                }
            }
        });
        Ok(Elsewhere { address })
    }
}

/// What strangers connect to.
#[derive(Clone)]
enum Target {
    Nobody,
    Addresses(Vec<String>),
    /// The sockets for links of the run and of its parts, which these nodes have started.
    Links(Vec<u32>),
}

impl Target {
    fn addresses(self, run: u32) -> Vec<String> {
        match self {
            Target::Nobody => Vec::new(),
            Target::Addresses(addresses) => addresses,
            Target::Links(nodes) => {
                let until = Instant::now() + Duration::from_secs(2);
                loop {
                    let parts = nodes.iter().flat_map(|node| children(*node));
                    let addresses: Vec<String> = parts.chain([run]).flat_map(listening).collect();
                    if addresses.len() > nodes.len() || Instant::now() > until {
                        return addresses;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }
}

/// The processes that this one has started.
fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let listed = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children = listed.collect::<Vec<_>>().concat();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The addresses of IPv4 at which a process listens.
fn listening(process: u32) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let sockets: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    let all = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
    let address = |line: &str| -> Option<String> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let socket = format!("socket:[{}]", fields.get(9)?);
        // State 0A is a socket that listens.
        let is_own = fields.get(3) == Some(&"0A") && sockets.contains(&socket);
        let (host, port) = fields.get(1).filter(|_| is_own)?.split_once(':')?;
        let host = u32::from_str_radix(host, 16).ok()?.to_le_bytes();
        Some(format!("{}:{}", std::net::Ipv4Addr::from(host), u16::from_str_radix(port, 16).ok()?))
    };
    all.lines().filter_map(address).collect()
}

/// A thread that connects at a constant rate, to each of the addresses in turn.
struct Strangers {
    over: Arc<AtomicBool>,
    came: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Strangers {
    fn come(target: Target, run: u32, a_second: u32, recorded: Vec<u8>) -> Strangers {
        let (over, came) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, count) = (over.clone(), came.clone());
        let thread = std::thread::spawn(move || {
            let addresses = target.addresses(run);
            let (begun, mut held) = (Instant::now(), VecDeque::new());
            let mut made = 0_u32;
            while !addresses.is_empty() && !is_over.load(Ordering::Acquire) {
                let due = begun + Duration::from_secs(1) * made / a_second;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                made += 1;
                let Ok(mut stream) = TcpStream::connect(&addresses[made as usize % addresses.len()]) else {
                    continue;
                };
                count.fetch_add(1, Ordering::Relaxed);
                // An error is ignored: the other end may have closed the connection.
                let _ = stream.write_all(&greeting(made, &recorded));
                if made.is_multiple_of(2) {
                    held.push_back(stream);
                    if held.len() > HELD_MAX {
                        held.pop_front();
                    }
                }
            }
        });
        Strangers { over, came, thread }
    }

    /// Ends them; returns how many came.
    fn leave(self) -> Result<u64> {
        self.over.store(true, Ordering::Release);
        if self.thread.join().is_err() {
            bail!("the thread of strangers panicked");
        }
        Ok(self.came.load(Ordering::Relaxed))
    }
}

/// What a stranger sends: nothing, another protocol, garbage, a greeting of a node or of a link that is made
/// up, the beginning of a handshake of TLS, or what it has recorded of a connection of the cluster.
fn greeting(number: u32, recorded: &[u8]) -> Vec<u8> {
    let garbage = |count: u32| (0..count).map(move |n| (n.wrapping_mul(number) ^ (n >> 3)) as u8);
    match number / 2 % 7 {
        0 => Vec::new(),
        1 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        2 => garbage(200).collect(),
        3 => b"thalwgn1".iter().copied().chain(garbage(64)).collect(),
        4 => recorded.to_vec(),
        5 => {
            let begin =
                [&[1, 0, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &b"thalwegl\x01\0\0\0\0\0\0\0"[..]]
                    .concat();
            begin.into_iter().chain(garbage(64)).collect()
        }
        _ => [22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3].into_iter().chain(garbage(194)).collect(),
    }
}
