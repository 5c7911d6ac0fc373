//! Compares the measurements of simulated queues, which record the events of a program, with queueing theory.

use thalweg_chance::Chance;
use thalweg_monitor::events::*;
use thalweg_monitor::*;

/// The mean service time in ticks, which are nanoseconds.
const SERVICE: f64 = 10_000.0;
const MESSAGES: usize = 300_000;

#[derive(Clone, Copy, PartialEq)]
enum Service {
    Exponential,
    Constant,
}

/// The result of a simulation.
struct Simulated {
    report: Report,
    /// The mean time from arrival to the start of service, by station.
    waits: Vec<f64>,
    /// The number of arrivals per tick.
    rate: f64,
}

/// Poisson arrivals at load `rho`, served by one station after the other.
fn simulate(stations: &[Service], rho: f64, seed: u64) -> Simulated {
    let mut chance = Chance::new(seed);
    let mut arrivals = Vec::with_capacity(MESSAGES);
    let mut now = 1_000_000.0;
    for _ in 0..MESSAGES {
        now += chance.exponential(SERVICE / rho);
        arrivals.push(now as u64);
    }
    let span = (arrivals[MESSAGES - 1] - arrivals[0]) as f64;
    let mut events: Vec<(u64, u64, Observation)> = Vec::new();
    let tasks = stations.len() as u64 + 2;
    for task in 1..=tasks {
        events.push((
            1,
            0,
            Observation::from(TaskCreated {
                task,
                component: 100 + task,
                parent: 0,
                replica: 0,
                one_to_one: true,
                blocking: task == 1,
                ..TaskCreated::default()
            }),
        ));
    }
    for stream in 1..tasks {
        let (writer, reader) = (stream, stream + 1);
        events.push((1, 0, StreamOpened { stream, name: stream, reader, writer, capacity: 0 }.into()));
    }
    events.push((1, 0, Entry { stream: 1 }.into()));
    events.push((1, 0, Exit { stream: tasks - 1 }.into()));
    for (index, &time) in arrivals.iter().enumerate() {
        events.extend(dispatch(1, time, time, None, Some((1, index as u64))));
    }
    let mut waits = Vec::new();
    for (station, &service) in stations.iter().enumerate() {
        let task = station as u64 + 2;
        let (mut free, mut waited) = (0u64, 0.0);
        for (index, time) in arrivals.iter_mut().enumerate() {
            let start = free.max(*time);
            waited += (start - *time) as f64;
            let lasts = match service {
                Service::Exponential => chance.exponential(SERVICE),
                Service::Constant => SERVICE,
            };
            free = start + lasts as u64;
            *time = free;
            let index = index as u64;
            events.extend(dispatch(task, start, free, Some((task - 1, index)), Some((task, index))));
        }
        waits.push(waited / MESSAGES as f64);
    }
    events.sort_by_key(|&(time, writer, _)| (time, writer));
    Simulated { report: report(&events), waits, rate: MESSAGES as f64 / span }
}

/// The events of a dispatch of one message.
fn dispatch(
    task: u64,
    start: u64,
    end: u64,
    read: Option<(u64, u64)>,
    wrote: Option<(u64, u64)>,
) -> Vec<(u64, u64, Observation)> {
    let run = |(stream, first)| Run { stream, first, count: 1 };
    let mut events: Vec<(u64, u64, Observation)> = vec![(
        end,
        task,
        TaskDispatched { task, worker: task, duration_ticks: end - start, ..TaskDispatched::default() }
            .into(),
    )];
    events.extend(read.map(|at| (end, task, StreamRead::from(run(at)).into())));
    events.extend(wrote.map(|at| (end, task, StreamWrote::from(run(at)).into())));
    events.push((end, task, TaskBlockedInput { task, stream: read.map_or(0, |(stream, _)| stream) }.into()));
    events
}

fn report(events: &[(u64, u64, Observation)]) -> Report {
    let mut analysis = Analysis::new(Options { ns_per_tick: 1.0, top: 10 });
    for (time, writer, observation) in events {
        analysis.observe(*time, *writer, observation);
    }
    analysis.finish(&Names::default(), Ending::default())
}

fn near(what: &str, got: f64, want: f64, share: f64) {
    assert!((got / want - 1.0).abs() <= share, "{what}: {got} instead of {want}");
}

/// The mean time that a message spends in an M/M/1 queue and in its server.
fn mm1(rho: f64) -> f64 {
    SERVICE / (1.0 - rho)
}

#[test]
fn one_exponential_server() {
    let rho = 0.6;
    let found = simulate(&[Service::Exponential], rho, 1).report;
    let latency = found.latency.end_to_end.unwrap();
    assert_eq!(latency.count as usize, MESSAGES);
    near("mean", latency.mean_ns, mm1(rho), 0.03);
    // The time that a message spends in an M/M/1 queue and its server is exponentially distributed.
    near("jitter", latency.jitter_ns, mm1(rho), 0.03);
    near("median", latency.p50_ns, mm1(rho) * 2f64.ln(), 0.03);
    near("p99", latency.p99_ns, mm1(rho) * 100f64.ln(), 0.03);
    near("service", found.latency.service.unwrap().mean_ns, SERVICE, 0.03);
    near("waiting", found.latency.waiting.unwrap().mean_ns, mm1(rho) - SERVICE, 0.03);
    let busy = found.tasks.iter().find(|task| task.id.number == 2).unwrap().work.shares.unwrap().busy;
    near("busy", busy, rho, 0.03);
}

#[test]
fn one_constant_server() {
    let rho = 0.7;
    let found = simulate(&[Service::Constant], rho, 2).report;
    // The expected value comes from the formula of Pollaczek and Khinchine.
    let want = SERVICE + rho * SERVICE / (2.0 * (1.0 - rho));
    near("mean", found.latency.end_to_end.unwrap().mean_ns, want, 0.03);
    near("service", found.latency.service.unwrap().jitter_ns + 1.0, 1.0, 0.03);
}

#[test]
fn servers_in_a_row() {
    let rho = 0.5;
    let found = simulate(&[Service::Exponential, Service::Exponential, Service::Exponential], rho, 3).report;
    // By Burke's theorem, the departures of an M/M/1 queue arrive at the next one as a Poisson process of the
    // same rate.
    near("mean", found.latency.end_to_end.unwrap().mean_ns, 3.0 * mm1(rho), 0.03);
    near("jitter", found.latency.end_to_end.unwrap().jitter_ns, 3f64.sqrt() * mm1(rho), 0.03);
}

#[test]
fn littles_law_holds_on_every_stream() {
    for (stations, rho, seed) in [
        (vec![Service::Exponential], 0.6, 4),
        (vec![Service::Constant], 0.8, 5),
        (vec![Service::Exponential, Service::Constant, Service::Exponential], 0.5, 6),
    ] {
        let Simulated { report, waits, rate } = simulate(&stations, rho, seed);
        for (station, waited) in waits.iter().enumerate() {
            let name = format!("component {} → component {}", 101 + station, 102 + station);
            let stream = report.streams.iter().find(|stream| stream.name == name).unwrap();
            // A dispatch of one message is assumed to read and write the message in the middle of the
            // dispatch.
            let written = if station == 0 { 0.0 } else { SERVICE / 2.0 };
            let wait = waited + written + SERVICE / 2.0;
            near("wait", stream.wait_ns.unwrap(), wait, 0.02);
            near("occupancy", stream.occupancy_mean.unwrap(), rate * wait, 0.02);
            let course = stream.occupancy.clone().unwrap();
            // The occupancy over time counts a message as read when its dispatch ends.
            let steps: f64 = course.messages.iter().sum::<f64>() * course.step_ns;
            near("course", steps / report.window.duration_ns, rate * (waited + SERVICE), 0.02);
        }
    }
}
