//! `cargo xtask bench nodes`: what strangers, and looking at the links, cost a run over two nodes of this
//! machine; and runs over many nodes ([`many`]).
//!
//! Runs take turns, so that other load on the machine affects all alike: without strangers, with strangers
//! that connect to a socket of this program, with strangers that connect to the nodes, and with strangers
//! that connect to the sockets to which the run's links go. The second kind has the cost of the strangers
//! themselves, which would be on another machine. With `--watched` every second run is looked at by `thalweg
//! scope links` instead, and the processor time of the run and its nodes is compared.

mod many;
mod strangers;

use crate::paper::Interval;
use crate::pictures::{build, thalweg};
use crate::process;
use anyhow::{Context, Result, bail, ensure};
use lexopt::prelude::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use strangers::{Elsewhere, Relay, Strangers, Target, children};

const HELP: &str = "\
What strangers, or a look at its links, cost a run over two nodes.

usage: cargo xtask bench nodes [--each | --watched | --library | --cut | --hold S] [--tcp | --tls]
                               [--rounds N] [--records N] [--rate N] [--strangers N] [--program FILE]

  --each         the processor time that a stranger of each kind takes of nodes and of ends of links
  --watched      compare runs with and without `thalweg scope links --every 200ms`
  --library      how long a new library of 5 MB takes to be on eight nodes
  --cut          compare the processor time of a network on one node and cut in four
  --hold S       run a network over 64 nodes, with some 2,000 links, for S seconds

  --tcp, --tls   only without, or only with TLS
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

/// What a run took.
struct Took {
    seconds: f64,
    /// The processor time of the run, of the nodes and of their parts.
    processor_s: f64,
    /// The strangers that came meanwhile.
    came: u64,
}

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
    let (mut is_each, mut only) = (false, None::<String>);
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
            Long("each") => is_each = true,
            Long("tcp") => only = Some("TCP".to_owned()),
            Long("tls") => only = Some("TCP with TLS".to_owned()),
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
    let kinds: [(&str, &[&str]); 2] = [("TCP", &[]), ("TCP with TLS", &["--tls"])];
    let kinds = kinds.into_iter().filter(|(what, _)| only.as_deref().is_none_or(|only| *what == only));
    if is_each {
        println!("| strangers | {} |", strangers::KINDS.join(" | "));
        println!("|---|{}", "---|".repeat(strangers::KINDS.len()));
        return kinds
            .into_iter()
            .try_for_each(|(what, more)| bench.measure_each(what, more))
            .map(|()| ExitCode::SUCCESS);
    }
    println!(
        "| nodes | without strangers | strangers elsewhere | at the nodes | at the links | at the nodes, by elsewhere | at the links, by elsewhere | goal | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (what, more) in kinds {
        bench.measure(what, more)?;
    }
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
            Target::Links(processes.clone()),
        ];
        let recorded = self.recorded(&nodes[0].address, more)?;
        let mut taken = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        // The first run warms caches up.
        self.time((&net, &input), &Target::Nobody, &recorded, &processes)?;
        for round in 0..self.rounds {
            for turn in 0..kinds.len() {
                // The order changes, so that no kind is always the first one.
                let kind = (turn + round) % kinds.len();
                let took = self.time((&net, &input), &kinds[kind], &recorded, &processes)?;
                ensure!(took.came > 0 || kind == 0, "no stranger has come to {:?}", kinds[kind]);
                let Took { seconds, processor_s, came } = &took;
                eprintln!(
                    "{what}, kind {kind}: {seconds:.3} s, processor time {processor_s:.2} s, {came} strangers"
                );
                taken[kind].push(took);
            }
        }
        for (name, is_time) in [("time", true), ("processor time", false)] {
            let value = |took: &Took| if is_time { took.seconds } else { took.processor_s };
            let values = taken.each_ref().map(|taken| taken.iter().map(value).collect::<Vec<f64>>());
            let by_elsewhere = |kind: usize| {
                let pairs = values[kind].iter().zip(&values[1]);
                Interval::of(pairs.map(|(with, without)| with / without).collect())
            };
            let ratios = [by_elsewhere(2), by_elsewhere(3)];
            let is_met = ratios.iter().all(|ratio| ratio.median <= SLOWER_MAX);
            let shown = values.map(|values| Interval::of(values).shown(3, " s")).join(" | ");
            let ratios = ratios.map(|ratio| ratio.shown(3, "")).join(" | ");
            let met = if is_met { "ok" } else { "MISS" };
            println!("| {what}, {name} | {shown} | {ratios} | ≤ {SLOWER_MAX} | {met} |");
        }
        let came =
            taken.map(|taken| taken.iter().map(|took| took.came as f64).sum::<f64>() / taken.len() as f64);
        println!(
            "strangers a run: {:.0} elsewhere, {:.0} at the nodes, {:.0} at the links",
            came[1], came[2], came[3]
        );
        Ok(())
    }

    /// What a process of the cluster sends to the node at this address.
    fn recorded(&self, node: &str, more: &[&str]) -> Result<Vec<u8>> {
        let relay = Relay::to(node)?;
        let known = self.folder.path().join("cluster/nodes/recorded");
        let tls = if more.contains(&"--tls") { "tls/" } else { "" };
        std::fs::write(&known, format!("{tls}{}\n", relay.address))?;
        let listed = self.command().arg("nodes").stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        std::fs::remove_file(known)?;
        ensure!(listed.success(), "the nodes are not listed: {listed}");
        relay.sent()
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

    /// A run while strangers connect.
    fn time(
        &self,
        (net, input): (&Path, &Path),
        target: &Target,
        recorded: &[u8],
        nodes: &[u32],
    ) -> Result<Took> {
        let mut run = self.command();
        run.arg("run").arg(net).args(["--nodes", "a,b", "--output", "/dev/null", "--input"]).arg(input);
        let before = nodes.iter().map(|node| process::used_s(*node)).sum::<Result<f64>>()?;
        let begun = Instant::now();
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let strangers = Strangers::come(target.clone(), run.id(), self.strangers, recorded.to_vec());
        let before_run = process::children_s()?;
        let status = run.wait()?;
        let seconds = begun.elapsed().as_secs_f64();
        let came = strangers.leave()?;
        ensure!(status.success(), "the run failed: {status}");
        let run_s = process::children_s()? - before_run;
        // A node counts the time of a part when it has waited for the part's end.
        let until = Instant::now() + Duration::from_secs(5);
        while nodes.iter().any(|node| !children(*node).is_empty()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let after = nodes.iter().map(|node| process::used_s(*node)).sum::<Result<f64>>()?;
        Ok(Took { seconds, processor_s: after - before + run_s, came })
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
