//! A served page, for tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::controlled::Run;

/// `thalweg view` of a space.
pub(crate) struct View {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl View {
    pub(crate) fn start(space: &Path, more: &[&str]) -> View {
        View::started(Command::new(env!("CARGO_BIN_EXE_thalweg")), space, more)
    }

    /// Starts the server by `command`, whose environment is kept.
    pub(crate) fn started(mut command: Command, space: &Path, more: &[&str]) -> View {
        command.arg("view").arg(space).args(["--no-open", "--every", "100ms"]);
        if !more.contains(&"--window") {
            command.args(["--window", "500ms"]);
        }
        command.args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("thalweg starts");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut address).expect("text");
        View { child, address: address.trim().to_owned() }
    }

    pub(crate) fn port(&self) -> &str {
        self.address.split(['/', ':']).nth(4).expect("a port")
    }

    pub(crate) fn token(&self) -> &str {
        self.address.rsplit('=').next().expect("a token")
    }

    /// The server's answer to this raw request.
    pub(crate) fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port())).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// The body of the answer to a request for `path` with the server's token.
    pub(crate) fn body(&self, path: &str) -> String {
        let and = if path.contains('?') { '&' } else { '?' };
        let until = Instant::now() + Duration::from_secs(60);
        let mut answer = String::from("HTTP/1.1 503");
        // The answer is 503 until the first measurement is complete.
        while answer.starts_with("HTTP/1.1 503") && Instant::now() < until {
            answer = self.get(&format!("{path}{and}token={}", self.token()), "");
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {}", answer.lines().next().unwrap_or_default());
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    pub(crate) fn get(&self, path: &str, headers: &str) -> String {
        let host = format!("127.0.0.1:{}", self.port());
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that goes on until its input ends.
pub(crate) fn live() -> (Run, std::thread::JoinHandle<()>) {
    let net = "net first connect [{<n>} -> {<n = n + 1>}] .. [{<n>} -> {<n = n + 1>}];";
    let mut run =
        Run::start_in(tempfile::tempdir().expect("a temporary folder"), net, &["--monitor", "full"]);
    let mut output = run.child.stdout.take().expect("piped");
    let reading = std::thread::spawn(move || {
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    });
    (run, reading)
}

pub(crate) fn feed(run: &mut Run, count: usize) {
    let input = run.child.stdin.as_mut().expect("piped");
    for n in 0..count {
        writeln!(input, "{{\"<n>\": {n}}}").expect("it reads");
    }
}

/// A port of this machine that is free now.
pub(crate) fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("one").port().to_string()
}
