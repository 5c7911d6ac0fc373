//! Other programs that read thousands of present values: a Prometheus client that is scraped over HTTP, and
//! Performance Co-Pilot's memory-mapped values, fetched by libpcp from its daemon.

use crate::foreign::output;
use crate::measure::Contestant;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// A Prometheus client with `values` labelled gauges, served by a thread. A sample is the nanoseconds of a
/// value: the request, its answer, and the parsing of the numbers.
pub(crate) fn prometheus(values: usize) -> Contestant<'static> {
    let mut state: Option<(Vec<Gauge>, TcpStream)> = None;
    let mut beats = 0;
    Contestant::new("Prometheus client, scraped", env!("VERSION_prometheus-client"), move || {
        if state.is_none() {
            state = Some(scraped(values).map_err(|error| error.to_string())?);
        }
        let (gauges, stream) = state.as_mut().ok_or("it was opened")?;
        let (mut took, rounds) = (0.0, 5);
        for _ in 0..rounds {
            beats += 1;
            for gauge in gauges.iter() {
                gauge.set(beats);
            }
            let begin = Instant::now();
            let sum = scrape(stream).map_err(|error| error.to_string())?;
            took += begin.elapsed().as_secs_f64();
            if sum != values as i64 * beats {
                return Err(format!("the values add up to {sum}"));
            }
        }
        Ok(took * 1e9 / f64::from(rounds) / values as f64)
    })
}

fn scraped(values: usize) -> std::io::Result<(Vec<Gauge>, TcpStream)> {
    let family = Family::<Vec<(String, String)>, Gauge>::default();
    let gauge = |n: usize| family.get_or_create(&vec![("path".to_owned(), format!("path {n}"))]).clone();
    let gauges = (0..values).map(gauge).collect();
    let mut registry = Registry::default();
    registry.register("beat", "What went through a path", family.clone());
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    stream.set_nodelay(true)?;
    let (mut served, _) = listener.accept()?;
    served.set_nodelay(true)?;
    std::thread::spawn(move || {
        let mut request = [0; 1024];
        while served.read(&mut request).is_ok_and(|read| read > 0) {
            let mut body = String::new();
            let head = |length: usize| {
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text\r\nContent-Length: {length}\r\n\r\n"
                )
            };
            let encoded = encode(&mut body, &registry);
            let answer = if encoded.is_ok() { head(body.len()) + &body } else { head(0) };
            if served.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    Ok((gauges, stream))
}

/// Requests all values; returns their sum.
fn scrape(stream: &mut TcpStream) -> std::io::Result<i64> {
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if let Some(bytes) = line.strip_prefix("Content-Length: ") {
            length = bytes.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body);
    let values = body.lines().filter(|line| !line.starts_with('#'));
    Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<i64>().ok()).sum())
}

const SOURCE: &str = include_str!("pcp.c");
const INSTALL: &str =
    "apt-get install pcp libpcp3-dev libpcp-mmv1-dev, and a pmcd that runs with its agent mmv";

/// Values in a memory-mapped file of PCP, fetched by libpcp from pmcd, which asks its agent `mmv`.
/// Nanoseconds a value.
pub(crate) fn performance_co_pilot(values: usize) -> Contestant<'static> {
    let name = "PCP: MMV through pmcd, by libpcp";
    let version = match output(Command::new("pkg-config").args(["--modversion", "libpcp"])) {
        Ok(version) => version,
        Err(why) => return Contestant::missing(name, "", format!("{why}: {INSTALL}")),
    };
    let mut state: Option<Fetched> = None;
    Contestant::new(name, version.leak(), move || {
        if state.is_none() {
            state = Some(Fetched::start(values)?);
        }
        state.as_mut().ok_or("it was opened")?.sample()
    })
}

/// A program that maps values and fetches them.
struct Fetched {
    process: Child,
    asks: ChildStdin,
    took: Lines<BufReader<ChildStdout>>,
    folder: PathBuf,
}

impl Fetched {
    fn start(values: usize) -> Result<Fetched, String> {
        let folder = std::env::temp_dir().join(format!("thalweg-bench-pcp-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let (source, program) = (folder.join("pcp.c"), folder.join("pcp"));
        std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
        let flags = output(Command::new("pkg-config").args(["--cflags", "--libs", "libpcp"]))?;
        let mut compiler = Command::new("cc");
        compiler.arg("-O2").arg(source).arg("-o").arg(&program).arg("-lpcp_mmv");
        output(compiler.args(flags.split_whitespace()))?;
        let mut command = Command::new(program);
        command.arg(values.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| error.to_string())?;
        let asks = process.stdin.take().ok_or("it is piped")?;
        let took = BufReader::new(process.stdout.take().ok_or("it is piped")?).lines();
        Ok(Fetched { process, asks, took, folder })
    }

    fn sample(&mut self) -> Result<f64, String> {
        writeln!(self.asks, "5").map_err(|_| format!("it ended: {INSTALL}"))?;
        let line = self.took.next().ok_or_else(|| format!("it ended: {INSTALL}"))?;
        let line = line.map_err(|error| error.to_string())?;
        line.parse().map_err(|_| line)
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}
