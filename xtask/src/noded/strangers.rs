//! Strangers, which connect to nodes and to the sockets of links, and what each of them costs.

use super::Bench;
use crate::process;
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most connections that strangers hold open.
const HELD_MAX: usize = 500;
/// The kinds of strangers, in the order of [`greeting`].
pub(super) const KINDS: [&str; 7] =
    ["silent", "HTTP", "garbage", "greeting of a node", "recorded", "greeting of a link", "begin of TLS"];
/// The bytes of a recording.
const RECORDED_MAX: usize = 4096;
/// The strangers of each kind that are measured.
const EACH: u32 = 3000;

impl Bench {
    /// The processor time of a stranger of each kind.
    pub(super) fn measure_each(&self, what: &str, more: &[&str]) -> Result<()> {
        let (net, _) = self.files()?;
        let nodes = [self.node("a", more)?, self.node("b", more)?];
        let recorded = self.recorded(&nodes[0].address, more)?;
        let mut run = self.command();
        run.arg("run").arg(&net).args(["--nodes", "a,b"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut run = run.stderr(Stdio::null()).spawn()?;
        let mut input = run.stdin.take().context("piped")?;
        input.write_all(b"{\"<n>\": 1}\n")?;
        // All links exist when a record has come through.
        BufReader::new(run.stdout.take().context("piped")?).read_line(&mut String::new())?;
        let ids: Vec<u32> = nodes.iter().map(|node| node.process.id()).collect();
        let parts: Vec<u32> = ids.iter().flat_map(|node| children(*node)).chain([run.id()]).collect();
        let addresses = nodes.iter().map(|node| node.address.clone()).collect();
        let links = Target::Links(ids.clone()).addresses(run.id());
        for (at, addresses, processes) in [("a node", addresses, ids), ("an end of a link", links, parts)] {
            let idle = self.of_each(&[], None, &processes, &recorded)?;
            let costs = (0..KINDS.len() as u32).map(|kind| {
                let cost = self.of_each(&addresses, Some(kind), &processes, &recorded)? - idle;
                Ok(format!("{:.0} µs", cost * 1e6 / f64::from(EACH)))
            });
            println!("| {what}, at {at} | {} |", costs.collect::<Result<Vec<_>>>()?.join(" | "));
        }
        drop(input);
        ensure!(run.wait()?.success(), "the run failed");
        Ok(())
    }

    /// The processor time that these processes take while strangers of a kind come, in seconds.
    fn of_each(&self, to: &[String], kind: Option<u32>, processes: &[u32], recorded: &[u8]) -> Result<f64> {
        let used = || processes.iter().map(|process| process::used_s(*process)).sum::<Result<f64>>();
        let (before, begun, mut held) = (used()?, Instant::now(), VecDeque::new());
        for made in 0..EACH {
            let due = begun + Duration::from_secs(1) * made / self.strangers;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let Some(kind) = kind else { continue };
            let Ok(mut stream) = TcpStream::connect(&to[made as usize % to.len()]) else { continue };
            let _ = stream.write_all(&greeting(2 * (kind + made * KINDS.len() as u32), recorded));
            held.extend((made % 2 == 0).then_some(stream));
            held.drain(..held.len().saturating_sub(HELD_MAX));
        }
        // The last ones are given up after two seconds.
        std::thread::sleep(Duration::from_millis(2200));
        Ok(used()? - before)
    }
}

/// Carries connections to a node, and keeps what is sent there.
pub(super) struct Relay {
    pub(super) address: String,
    kept: std::sync::mpsc::Receiver<Vec<u8>>,
}

impl Relay {
    pub(super) fn to(node: &str) -> Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let (keeps, kept) = std::sync::mpsc::channel();
        let node = node.to_owned();
        std::thread::spawn(move || {
            while let Ok((from, _)) = listener.accept() {
                // A connection that breaks leaves a shorter recording.
                let _ = carry(from, &node, &keeps);
            }
        });
        Ok(Relay { address, kept })
    }

    /// What the first connection has sent.
    pub(super) fn sent(self) -> Result<Vec<u8>> {
        let sent = self.kept.recv_timeout(Duration::from_secs(10)).context("nothing was recorded")?;
        ensure!(!sent.is_empty(), "nothing was recorded");
        Ok(sent)
    }
}

fn carry(mut from: TcpStream, node: &str, keeps: &std::sync::mpsc::Sender<Vec<u8>>) -> std::io::Result<()> {
    let mut to = TcpStream::connect(node)?;
    let (mut back_from, mut back_to) = (to.try_clone()?, from.try_clone()?);
    std::thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
    let (mut sent, mut bytes) = (Vec::new(), [0; RECORDED_MAX]);
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        sent.extend(&bytes[..read.min(RECORDED_MAX - sent.len())]);
        to.write_all(&bytes[..read])?;
    }
    // The other end may have closed both directions.
    let _ = to.shutdown(Shutdown::Write);
    let _ = keeps.send(sent);
    Ok(())
}

/// A socket that accepts connections and closes each when another 64 have come, as a node does.
pub(super) struct Elsewhere {
    pub(super) address: String,
}

impl Elsewhere {
    /// The thread that accepts ends with this program.
    pub(super) fn listen() -> Result<Elsewhere> {
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
#[derive(Clone, Debug)]
pub(super) enum Target {
    Nobody,
    Addresses(Vec<String>),
    /// The sockets for links of the run and of its parts, which these nodes have started.
    Links(Vec<u32>),
}

impl Target {
    pub(super) fn addresses(self, run: u32) -> Vec<String> {
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
pub(super) fn children(process: u32) -> Vec<u32> {
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
pub(super) struct Strangers {
    over: Arc<AtomicBool>,
    came: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Strangers {
    pub(super) fn come(target: Target, run: u32, a_second: u32, recorded: Vec<u8>) -> Strangers {
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
    pub(super) fn leave(self) -> Result<u64> {
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
