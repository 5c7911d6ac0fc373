//! Runs over many nodes: 64 nodes with some 2,000 links, a library of 5 MB on eight nodes, and a network cut
//! in four.

use super::{Bench, Node};
use crate::paper::Interval;
use crate::process;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The nodes of the long run, and the splits over all of them that follow each other in its network. A split
/// has a link to each of its replicas, and one back.
const NODES: usize = 64;
const SPLITS: usize = 16;
/// Records a second of the long run.
const RATE: &str = "200";
/// The most seconds until the first record with a new library.
const LIBRARY_MAX_S: f64 = 1.0;
const LIBRARY_NODES: usize = 8;
const LIBRARY_BYTES: usize = 5_000_000;
/// The most processor time of a network cut in four, by that on one node.
const CUT_MAX: f64 = 1.1;
/// The rounds of work in a box, each some nanoseconds long, and the records of a run with them.
const WORK: [(u32, u32); 2] = [(10_000, 20_000), (100_000, 4_000)];

/// A library with a box that counts up and works for a while. `BYTES` and `FIRST` make its file long and unlike
/// others.
const BOX: &str = r#"#include "thalweg.h"
__attribute__((used)) static const unsigned char content[BYTES] = {FIRST};
static thalweg_status work(const void *data, thalweg_value *arguments, uint32_t count, thalweg_out *out) {
    thalweg_value values[1];
    volatile uint32_t state = 1;
    (void)data, (void)count;
    for (uint32_t round = 0; round < ROUNDS; round++) state = state * 1664525 + 1013904223;
    values[0] = thalweg_take(&arguments[0]);
    thalweg_emit(out, 1, 1, values);
    return THALWEG_DONE;
}
static const thalweg_box boxes[] = {THALWEG_BOX("box work ((<n>) -> (<n>))", 1, work)};
THALWEG_LIBRARY(boxes)
"#;

impl Bench {
    /// Builds such a library.
    fn box_library(&self, name: &str, bytes: usize, first: usize, rounds: u32) -> Result<PathBuf> {
        let folder = self.folder.path();
        let (source, library) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
        std::fs::write(&source, BOX)?;
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-shared", "-fPIC", "-O1", "-I"]).arg(process::root().join("bindings/c"));
        compiler.args([format!("-DBYTES={bytes}"), format!("-DFIRST={first}"), format!("-DROUNDS={rounds}")]);
        process::run(compiler.arg(&source).arg("-o").arg(&library))?;
        Ok(library)
    }

    /// How long a library takes to be on eight nodes, which have a folder each, as on a machine each.
    pub(super) fn measure_library(&self) -> Result<ExitCode> {
        let folder = self.folder.path();
        let token = std::fs::read(folder.join("cluster/token"))?;
        let mut nodes = vec![self.node("n0", &[])?];
        let first = nodes[0].address.clone();
        for number in 1..LIBRARY_NODES {
            let own = folder.join(format!("cluster-{number}"));
            process::run(Command::new("mkdir").args(["-m", "700"]).arg(&own))?;
            let file = own.join("token");
            std::fs::write(&file, &token)?;
            process::run(Command::new("chmod").arg("600").arg(&file))?;
            let mut command = self.command();
            command.env("THALWEG_CLUSTER", &own).args(["node", "--join", &first, "--name"]);
            nodes.push(Node::start(command.arg(format!("n{number}")))?);
        }
        let net = folder.join("split.snet");
        std::fs::write(&net, "net split { box work ((<n>) -> (<n>)); } connect work !@ <k>;")?;
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            let library = self.box_library(&format!("library{round}"), LIBRARY_BYTES, round + 1, 1)?;
            // The second run finds the library on the nodes.
            for times in &mut times {
                times.push(self.until_all_answer(&net, &library)?);
            }
        }
        let new = Interval::of(times[0].clone());
        let met = if new.median <= LIBRARY_MAX_S { "ok" } else { "MISS" };
        let shown = times.map(|times| Interval::of(times).shown(3, " s")).join(" | ");
        println!(
            "| a new library, a record from each of {LIBRARY_NODES} nodes | the same with the library there | goal | |"
        );
        println!("|---|---|---|---|");
        println!("| {shown} | ≤ {LIBRARY_MAX_S} s | {met} |");
        Ok(ExitCode::SUCCESS)
    }

    /// The seconds from the start of a run until a record has come back from each node.
    fn until_all_answer(&self, net: &Path, library: &Path) -> Result<f64> {
        let names: Vec<String> = (0..LIBRARY_NODES).map(|number| format!("n{number}")).collect();
        let mut command = self.command();
        command.arg("run").arg(net).arg("--boxes").arg(library).args(["--nodes", &names.join(",")]);
        let begun = Instant::now();
        let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut input = run.stdin.take().context("piped")?;
        for number in 0..LIBRARY_NODES {
            writeln!(input, "{{\"<n>\": {number}, \"<k>\": {number}}}")?;
        }
        input.flush()?;
        let output = BufReader::new(run.stdout.take().context("piped")?);
        let came = output.lines().take(LIBRARY_NODES).filter(Result::is_ok).count();
        let took = begun.elapsed().as_secs_f64();
        drop(input);
        let mut said = String::new();
        run.stderr.take().context("piped")?.read_to_string(&mut said)?;
        ensure!(run.wait()?.success() && came == LIBRARY_NODES, "{came} records: {said}");
        Ok(took)
    }

    /// Compares the processor time of a network on one node and cut in four.
    pub(super) fn measure_cut(&self) -> Result<ExitCode> {
        let _nodes =
            ["a", "b", "c", "d"].map(|name| self.node(name, &[])).into_iter().collect::<Result<Vec<_>>>()?;
        println!("| a box's work | on one node | cut in four | cut in four, by one | goal | |");
        println!("|---|---|---|---|---|---|");
        for (rounds, records) in WORK {
            let library = self.box_library(&format!("work{rounds}"), 1, 1, rounds)?;
            let input = self.folder.path().join(format!("input{rounds}"));
            let lines: String = (0..records).map(|n| format!("{{\"<n>\": {n}}}\n")).collect();
            std::fs::write(&input, lines)?;
            let nets = [("one", [0, 0, 0, 0]), ("four", [0, 1, 2, 3])].map(|(name, places)| {
                let parts = match name {
                    "one" => "(work .. work .. work .. work) @ 0".to_owned(),
                    _ => places.map(|place| format!("(work @ {place})")).join(" .. "),
                };
                let net = self.folder.path().join(format!("{name}.snet"));
                let text = format!("net {name} {{ box work ((<n>) -> (<n>)); }} connect {parts};");
                std::fs::write(&net, text).map(|()| net)
            });
            let nets = nets.into_iter().collect::<Result<Vec<_>, _>>()?;
            let mut costs = [Vec::new(), Vec::new()];
            for round in 0..=self.rounds {
                for turn in 0..2 {
                    let which = (turn + round) % 2;
                    let cost = self.processor_time_over(&nets[which], &library, &input)?;
                    if round > 0 {
                        costs[which].push(cost);
                    }
                }
            }
            let pairs = costs[1].iter().zip(&costs[0]);
            let ratio = Interval::of(pairs.map(|(cut, whole)| cut / whole).collect());
            let met = if ratio.median <= CUT_MAX { "ok" } else { "MISS" };
            let work_us = Interval::of(costs[0].clone()).median / f64::from(records) / 4.0 * 1e6;
            let shown = costs.map(|times| Interval::of(times).shown(3, " s")).join(" | ");
            println!("| {work_us:.1} µs | {shown} | {} | ≤ {CUT_MAX} | {met} |", ratio.shown(3, ""));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn processor_time_over(&self, net: &Path, library: &Path, input: &Path) -> Result<f64> {
        let mut run = self.command();
        run.arg("run").arg(net).arg("--boxes").arg(library).args([
            "--nodes",
            "a,b,c,d",
            "--output",
            "/dev/null",
        ]);
        let before = process::children_s()?;
        let output = run.arg("--input").arg(input).stderr(Stdio::piped()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{said}");
        Ok(process::children_s()? - before + super::nodes_s(&said))
    }

    /// Runs a network over 64 nodes for this time, and checks each record.
    pub(super) fn hold(&self, seconds: u64) -> Result<ExitCode> {
        let begun = Instant::now();
        let names: Vec<String> = (0..NODES).map(|number| format!("n{number}")).collect();
        let nodes = names.iter().map(|name| self.node(name, &[])).collect::<Result<Vec<_>>>()?;
        println!("{NODES} nodes listen after {:.2} s", begun.elapsed().as_secs_f64());
        let net = self.folder.path().join("chain.snet");
        let splits = vec!["([{<n>} -> {<n = n + 1>}] !@ <k>)"; SPLITS].join(" .. ");
        std::fs::write(&net, format!("net chain connect {splits};"))?;
        let mut command = self.command();
        command.arg("run").arg(&net).args(["--nodes", &names.join(","), "--rate", RATE]);
        let (begun, mut run) = (
            Instant::now(),
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?,
        );
        let mut input = run.stdin.take().context("piped")?;
        let output = BufReader::new(run.stdout.take().context("piped")?);
        let is_over = AtomicBool::new(false);
        let (sent, held) = std::thread::scope(|scope| -> Result<_> {
            let feeding = scope.spawn(|| -> std::io::Result<u64> {
                let mut sent = 0;
                while !is_over.load(Ordering::Relaxed) {
                    writeln!(input, "{{\"<n>\": 0, \"<k>\": {}, \"id\": {sent}}}", sent % NODES as u64)?;
                    sent += 1;
                }
                drop(input);
                Ok(sent)
            });
            let reading = scope.spawn(|| Held::read(output, begun));
            let until = begun + Duration::from_secs(seconds);
            while Instant::now() < until && run.try_wait()?.is_none() {
                std::thread::sleep(Duration::from_millis(200));
            }
            println!("{} links of the run", links(&run, &nodes));
            is_over.store(true, Ordering::Relaxed);
            let sent = feeding.join().map_err(|_| anyhow::anyhow!("the thread that feeds panicked"))??;
            let held = reading.join().map_err(|_| anyhow::anyhow!("the thread that reads panicked"))??;
            Ok((sent, held))
        })?;
        let mut said = String::new();
        run.stderr.take().context("piped")?.read_to_string(&mut said)?;
        ensure!(run.wait()?.success(), "{said}");
        let ran = begun.elapsed().as_secs_f64();
        ensure!(held.ids.len() as u64 == sent, "{} of {sent} records came out", held.ids.len());
        println!(
            "{sent} records in {ran:.1} s, each once and right; first after {:.2} s, longest pause {:.3} s, {:.1} s of the \
             nodes' processor time",
            held.first_s,
            held.longest_s,
            super::nodes_s(&said)
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// The connections between the run and the parts on these nodes: both ends of each are sockets of these
/// processes.
fn links(run: &Child, nodes: &[Node]) -> usize {
    let parts = nodes.iter().flat_map(|node| super::children(node.process.id()));
    let is_socket = |path: PathBuf| path.to_string_lossy().starts_with("socket:");
    let sockets = parts.chain([run.id()]).map(|process| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        files.filter(|file| std::fs::read_link(file.path()).is_ok_and(is_socket)).count()
    });
    // Each process has a socket where it listens, two for control (a part has one), and one for each end of a
    // link.
    sockets.sum::<usize>().saturating_sub(4 * nodes.len()) / 2
}

/// What came out of the long run.
struct Held {
    ids: std::collections::HashSet<u64>,
    first_s: f64,
    longest_s: f64,
}

impl Held {
    fn read(output: impl BufRead, begun: Instant) -> Result<Held> {
        let mut held = Held { ids: std::collections::HashSet::new(), first_s: 0.0, longest_s: 0.0 };
        let mut last = None::<Instant>;
        for line in output.lines() {
            let record: Value = serde_json::from_str(&line?)?;
            match last.replace(Instant::now()) {
                Some(last) => held.longest_s = held.longest_s.max(last.elapsed().as_secs_f64()),
                None => held.first_s = begun.elapsed().as_secs_f64(),
            }
            let id = record["id"].as_u64().context("a number")?;
            ensure!(record["<n>"] == SPLITS && held.ids.insert(id), "a wrong record: {record}");
        }
        Ok(held)
    }
}
