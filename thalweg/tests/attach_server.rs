//! `thalweg attach` at servers from a Linux distribution, under load: calls are counted, arguments and results
//! shown, an argument changed and given back. The clients check every answer, and none is wrong.
#![allow(clippy::print_stdout, reason = "says what is skipped, and prints the rates")]

mod attached;
#[path = "../../attach/tests/started/code.rs"]
mod code;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use attached::{ran, text};
use code::code_of;
use thalweg_chance::Chance;

const CLIENTS: u64 = 8;
/// The largest value that clients set, which takes several reads of the server.
const VALUE_MAX: u64 = 20_000;
/// The most bytes that a call moves while its argument is changed.
const PART_MAX: u64 = 1024;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Memcached,
    Redis,
    Nginx,
}

impl Kind {
    /// The command of the server, which may use the folder.
    fn command(self, port: u16, folder: &Path) -> Command {
        let port = port.to_string();
        let mut command;
        match self {
            Kind::Nginx => {
                command = Command::new("nginx");
                command
                    .arg("-e")
                    .arg("/dev/null")
                    .arg("-p")
                    .arg(folder)
                    .arg("-c")
                    .arg(folder.join("nginx.conf"));
            }
            Kind::Memcached => {
                command = Command::new("memcached");
                command.args(["-l", "127.0.0.1", "-U", "0", "-t", "4", "-u", "root", "-p", &port]);
            }
            Kind::Redis => {
                command = Command::new("redis-server");
                command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port]);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Writes the configuration of a server that needs one.
    fn prepare(self, port: u16, folder: &Path) {
        if matches!(self, Kind::Nginx) {
            std::fs::create_dir_all(folder.join("www")).expect("a folder");
            let text = format!(
                "daemon off; user root; worker_processes 1; error_log /dev/null; pid nginx.pid;\nevents {{}}\n\
                 http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path body; sendfile on;\n\
                 server {{ listen 127.0.0.1:{port}; root www; dav_methods PUT; client_max_body_size 1m; }} }}\n"
            );
            std::fs::write(folder.join("nginx.conf"), text).expect("a file");
        }
    }

    /// The function by which the server reads what clients send.
    fn reads(self) -> &'static str {
        match self {
            Kind::Memcached | Kind::Redis => "libc.so.6:read",
            Kind::Nginx => "libc.so.6:recv",
        }
    }

    /// The function of which an argument is changed, and the argument: the most bytes of a call. nginx takes a read
    /// of fewer bytes than it asked for as a sign that there are no more, and waits for a client that waits for it;
    /// of a file's bytes it sends the rest.
    fn limited(self) -> (&'static str, u64) {
        match self {
            Kind::Memcached | Kind::Redis => (self.reads(), 2),
            Kind::Nginx => ("libc.so.6:sendfile64", 3),
        }
    }

    fn set(self, key: &str, value: &[u8]) -> Vec<u8> {
        let mut order = match self {
            Kind::Memcached => format!("set {key} 0 0 {}\r\n", value.len()),
            Kind::Redis => {
                format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n", key.len(), value.len())
            }
            Kind::Nginx => {
                format!("PUT /{key} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", value.len())
            }
        }
        .into_bytes();
        order.extend(value);
        if !matches!(self, Kind::Nginx) {
            order.extend(b"\r\n");
        }
        order
    }

    fn get(self, key: &str) -> String {
        match self {
            Kind::Memcached => format!("get {key}\r\n"),
            Kind::Redis => format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()),
            Kind::Nginx => format!("GET /{key} HTTP/1.1\r\nHost: test\r\n\r\n"),
        }
    }

    /// Sets a value and gets it back; returns what was wrong.
    fn exchange(self, stream: &mut BufReader<TcpStream>, key: &str, value: &[u8]) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        if matches!(self, Kind::Nginx) {
            stream.get_mut().write_all(&self.set(key, value)).map_err(failed)?;
            answer_of_http(stream, "HTTP/1.1 20")?;
            stream.get_mut().write_all(self.get(key).as_bytes()).map_err(failed)?;
            let back = answer_of_http(stream, "HTTP/1.1 200 ")?;
            return if back == value { Ok(()) } else { Err(format!("another value of {key}")) };
        }
        let expect = |stream: &mut BufReader<TcpStream>, expected: &str| {
            let mut line = String::new();
            stream.read_line(&mut line).map_err(failed)?;
            if line == expected { Ok(()) } else { Err(format!("{line:?} in place of {expected:?}")) }
        };
        stream.get_mut().write_all(&self.set(key, value)).map_err(failed)?;
        expect(stream, if matches!(self, Kind::Redis) { "+OK\r\n" } else { "STORED\r\n" })?;
        stream.get_mut().write_all(self.get(key).as_bytes()).map_err(failed)?;
        match self {
            Kind::Memcached => expect(stream, &format!("VALUE {key} 0 {}\r\n", value.len()))?,
            _ => expect(stream, &format!("${}\r\n", value.len()))?,
        }
        let mut back = vec![0; value.len()];
        stream.read_exact(&mut back).map_err(failed)?;
        expect(stream, "\r\n")?;
        if matches!(self, Kind::Memcached) {
            expect(stream, "END\r\n")?;
        }
        if back == value { Ok(()) } else { Err(format!("another value of {key}")) }
    }
}

/// Reads an answer of HTTP, checks that its first line begins with `begins`, and returns the body.
fn answer_of_http(stream: &mut BufReader<TcpStream>, begins: &str) -> Result<Vec<u8>, String> {
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).map_err(|error| error.to_string())?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.trim_end().is_empty() {
            break;
        }
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().map_err(|_| line.clone())?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).map_err(|error| error.to_string())?;
    if first.starts_with(begins) { Ok(body) } else { Err(format!("{first:?} in place of {begins:?}")) }
}

/// Clients that set and get values until they are stopped.
struct Clients {
    threads: Vec<JoinHandle<Result<(), String>>>,
    is_over: Arc<AtomicBool>,
    exchanges: Arc<AtomicU64>,
}

impl Clients {
    fn start(kind: Kind, port: u16) -> Clients {
        let (is_over, exchanges) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = |number: u64| {
            let (is_over, exchanges) = (Arc::clone(&is_over), Arc::clone(&exchanges));
            std::thread::spawn(move || {
                let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
                stream.set_nodelay(true).map_err(|error| error.to_string())?;
                let mut stream = BufReader::new(stream);
                let mut chance = Chance::new(number);
                while !is_over.load(Ordering::Relaxed) {
                    let bytes = chance.below(VALUE_MAX) + 1;
                    let first = chance.below(256) as u8;
                    let value: Vec<u8> = (0..bytes).map(|at| first.wrapping_add(at as u8)).collect();
                    kind.exchange(&mut stream, &format!("key{number}-{}", chance.below(10)), &value)?;
                    exchanges.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        Clients { threads: (0..CLIENTS).map(client).collect(), is_over, exchanges }
    }

    /// Exchanges a second, while `work` is done.
    fn rate<T>(&self, work: impl FnOnce() -> T) -> (T, f64) {
        let (begin, before) = (Instant::now(), self.exchanges.load(Ordering::Relaxed));
        let result = work();
        let exchanges = self.exchanges.load(Ordering::Relaxed) - before;
        (result, exchanges as f64 / begin.elapsed().as_secs_f64())
    }

    fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            assert_eq!(thread.join().expect("no client panics"), Ok(()));
        }
        self.exchanges.load(Ordering::Relaxed)
    }
}

/// A server, which is killed when the value is dropped.
struct Server(Child);

impl Server {
    fn start(kind: Kind, port: u16, folder: &Path) -> Option<Server> {
        kind.prepare(port, folder);
        let server = Server(kind.command(port, folder).spawn().ok()?);
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{kind:?} does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    /// The process that answers clients: nginx has one besides the process that was started.
    fn works(&self, kind: Kind) -> u32 {
        let own = self.0.id();
        if !matches!(kind, Kind::Nginx) {
            return own;
        }
        let mut children = String::new();
        attached::until("nginx has started its worker", || {
            let path = format!("/proc/{own}/task/{own}/children");
            children = std::fs::read_to_string(path).expect("children");
            !children.trim().is_empty()
        });
        children.trim().parse().expect("one child")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // nginx ends its worker process if it is asked to end, and not if it is killed.
        let asked = Command::new("kill").arg(self.0.id().to_string()).status();
        let begin = Instant::now();
        while asked.is_ok() && begin.elapsed() < Duration::from_secs(5) {
            if self.0.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lines_of(code: &[(String, Vec<u8>)]) -> Vec<&str> {
    code.iter().map(|(line, _)| line.as_str()).collect()
}

fn session(kind: Kind) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = Server::start(kind, port, folder.path()) else {
        return println!(
            "skipped: there is no {kind:?} (its package in Debian is {:?})",
            kind.command(0, folder.path()).get_program()
        );
    };
    let works = server.works(kind);
    let (pid, reads) = (works.to_string(), kind.reads());
    let code = code_of(works);
    let clients = Clients::start(kind, port);
    let wait = || std::thread::sleep(Duration::from_secs(2));
    let ((), before) = clients.rate(wait);

    let attach = |more: &[&str]| {
        let arguments = [&["attach", &pid, "--for", "3s", "--json"], more].concat();
        let output = ran(folder.path(), &arguments);
        let stderr = text(&output.stderr);
        assert!(output.status.success() && stderr.contains("threads were stopped for"), "{stderr}");
        let lines = text(&output.stdout);
        let object = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("an object");
        let stopped = stderr.split("stopped for ").nth(1).unwrap_or("").trim_end().to_owned();
        (lines.lines().map(object).collect::<Vec<_>>(), stopped)
    };
    let ((counted, _), counting) = clients.rate(|| attach(&["--count", reads]));
    assert!(counted[0]["calls"].as_u64().expect("calls") > 100, "{counted:?}");
    let ((timed, stopped), timing) = clients.rate(|| attach(&["--time", reads, "--args", "2", "--result"]));
    let (arguments, results) = (&timed[0]["arguments"]["2"], &timed[0]["results"]);
    assert!(arguments["count"].as_u64() > Some(100) && timed[0]["times"]["count"].as_u64() > Some(100));
    assert!(results["buckets"].as_array().is_some_and(|buckets| !buckets.is_empty()), "{results}");
    let (limited, argument) = kind.limited();
    let set = format!("{limited}:{argument}={PART_MAX}");
    let ((changed, _), changing) =
        clients.rate(|| attach(&["--time", limited, "--result", "--set-arg", &set]));
    // A failed call returns -1.
    let buckets = changed[0]["results"]["buckets"].as_array().expect("buckets").iter();
    let sizes: Vec<(u64, u64)> =
        buckets.filter_map(|bucket| Some((bucket[0].as_u64()?, bucket[2].as_u64()?))).collect();
    assert!(sizes.iter().all(|(size, _)| *size <= PART_MAX), "{changed:?}");
    assert!(sizes.iter().any(|(size, calls)| *size > PART_MAX / 2 && *calls > 0), "{changed:?}");
    let ((), after) = clients.rate(wait);
    let exchanges = clients.end();
    // Libraries that the server has loaded since are no change of its code.
    let now = code_of(works);
    let changed = code.iter().filter(|part| !now.contains(part)).map(|(line, _)| line);
    assert_eq!(
        changed.collect::<Vec<_>>(),
        <Vec<&String>>::new(),
        "the code is as before: {:?}",
        lines_of(&now)
    );
    println!(
        "{kind:?}: {exchanges} values set and got by {CLIENTS} clients, none wrong; a second: {before:.0} before, \
         {counting:.0} with reads counted, {timing:.0} timed with their sizes and results (threads stopped for {stopped}), \
         {changing:.0} with at most {PART_MAX} bytes a call, {after:.0} after"
    );
}

#[test]
#[ignore = "needs servers of Debian's packages"]
fn clients_of_memcached_notice_nothing() {
    session(Kind::Memcached);
}

#[test]
#[ignore = "needs servers of Debian's packages"]
fn clients_of_nginx_notice_nothing() {
    session(Kind::Nginx);
}

#[test]
#[ignore = "needs servers of Debian's packages"]
fn clients_of_redis_notice_nothing() {
    session(Kind::Redis);
}
