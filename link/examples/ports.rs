//! Draws what goes through each port of a sender over time, and the sum: 1, 2, 4 and 8 ports, with a limit of
//! the bandwidth and without, as P-land's figure of throttled ports does.
//!
//! `cargo run --release -p thalweg-link --example ports -- FILE.svg [SECONDS]`: two links more than ports
//! send messages of 2,000 B over loopback all the time. A point is the rate in a window of 100 ms. The table
//! that is printed has the most and the mean of the sum in a window, by the limit, and the share of the bytes
//! that each port had.
#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thalweg_link::{
    Address, LinkId, Listener, Ports, Receiver, ReceiverOptions, Sender, SenderOptions, Tuning,
};

const TOKEN: [u8; 32] = [1; 32];
/// The limit of the bandwidth, in bytes per second.
const LIMIT: u64 = 20_000_000;
const WINDOW: Duration = Duration::from_millis(100);
/// The windows that are left out of the table, because links are made in them.
const BEGINNING: usize = 10;
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 190.0;
const MARGIN: f64 = 55.0;
const COLOURS: [&str; 8] =
    ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf"];

/// The bytes that had gone through each port at the end of each window, and the time of that end in seconds.
struct Measured {
    ports: u32,
    bandwidth: u64,
    windows: Vec<(f64, Vec<u64>)>,
}

fn measure(ports: u32, bandwidth: u64, seconds: u64) -> Result<Measured, thalweg_link::Error> {
    let listener = Listener::new(&Address::Tcp("127.0.0.1:0".into()), TOKEN)?;
    let sending = Ports::new(ports, bandwidth);
    let is_over = Arc::new(AtomicBool::new(false));
    let (mut threads, mut stops) = (Vec::new(), Vec::new());
    for number in 0..u64::from(ports) + 2 {
        let (tuning, link) = (Tuning::new(listener.address().clone()), LinkId { session: [0; 16], number });
        let mut receiver = Receiver::new(listener.place(link)?, ReceiverOptions::new(tuning.clone()))?;
        let options =
            SenderOptions { token: TOKEN, ports: sending.clone(), ..SenderOptions::new(link, tuning) };
        let mut sender = Sender::new(options)?;
        stops.extend([sender.stop(), receiver.stop()]);
        let is_over = is_over.clone();
        threads.push(std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) && sender.push(&[1; 2000]).is_ok() {}
        }));
        threads.push(std::thread::spawn(move || while receiver.recv().is_ok_and(|got| got.is_some()) {}));
    }
    let begun = Instant::now();
    let mut windows = vec![(0.0, sending.carried_by_port())];
    while begun.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep((WINDOW * windows.len() as u32).saturating_sub(begun.elapsed()));
        let carried = sending.carried_by_port();
        windows.push((begun.elapsed().as_secs_f64(), carried));
    }
    is_over.store(true, Ordering::Relaxed);
    stops.iter().for_each(thalweg_link::Stop::stop);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    Ok(Measured { ports, bandwidth, windows })
}

impl Measured {
    /// The rates of each port in each window, in megabytes per second.
    fn rates(&self) -> Vec<(f64, Vec<f64>)> {
        let of = |all: &[u64], port: usize| all.get(port).copied().unwrap_or(0);
        let pairs = self.windows.windows(2);
        pairs
            .map(|pair| {
                let [(from, before), (to, after)] = pair else { return (0.0, Vec::new()) };
                let rate = |port| (of(after, port) - of(before, port)) as f64 / (to - from) / 1e6;
                (*to, (0..self.ports as usize).map(rate).collect())
            })
            .collect()
    }

    /// A row of the table.
    fn row(&self) -> String {
        let rates: Vec<Vec<f64>> = self.rates().into_iter().skip(BEGINNING).map(|(_, rates)| rates).collect();
        let sums: Vec<f64> = rates.iter().map(|rates| rates.iter().sum()).collect();
        let mean = sums.iter().sum::<f64>() / sums.len() as f64;
        let most = sums.iter().copied().fold(0.0, f64::max);
        let shares: Vec<f64> = (0..self.ports as usize)
            .map(|port| rates.iter().map(|rates| rates[port]).sum::<f64>() / sums.iter().sum::<f64>())
            .map(|share| share * f64::from(self.ports))
            .collect();
        let least = shares.iter().copied().fold(f64::MAX, f64::min);
        let greatest = shares.iter().copied().fold(0.0, f64::max);
        let (limit, by_limit) = match self.bandwidth {
            0 => ("none".to_owned(), ["–".to_owned(), "–".to_owned()]),
            limit => {
                let of = |rate: f64| format!("{:.3}", rate * 1e6 / limit as f64);
                (format!("{} MB/s", limit / 1_000_000), [of(mean), of(most)])
            }
        };
        let [mean_by, most_by] = by_limit;
        format!(
            "| {} | {limit} | {mean:.1} MB/s | {mean_by} | {most_by} | {least:.3} to {greatest:.3} |",
            self.ports
        )
    }

    /// A panel; its upper left corner is at `x`, `y`.
    fn draw(&self, into: &mut String, x: f64, y: f64) {
        let rates = self.rates();
        let sum = |rates: &[f64]| rates.iter().sum::<f64>();
        let highest = rates.iter().map(|(_, rates)| sum(rates)).fold(self.bandwidth as f64 / 1e6, f64::max);
        let (top, end) = (highest.max(1e-9) * 1.08, rates.last().map_or(1.0, |(at, _)| *at));
        let across = |at: f64| x + MARGIN + at / end * WIDTH;
        let up = |rate: f64| y + HEIGHT - rate / top * (HEIGHT - 22.0);
        let what = match self.bandwidth {
            0 => "without a limit".to_owned(),
            limit => format!("limit {} MB/s", limit / 1_000_000),
        };
        let ports = if self.ports == 1 { "1 port".to_owned() } else { format!("{} ports", self.ports) };
        let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
            _ = writeln!(into, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
        };
        text(x + MARGIN, y + 12.0, "start", &format!("{ports}, {what} (MB/s by seconds)"));
        for part in 0..=4 {
            let rate = highest * f64::from(part) / 4.0;
            text(x + MARGIN - 6.0, up(rate) + 4.0, "end", &format!("{rate:.0}"));
        }
        for second in 0..=end as u32 {
            text(across(f64::from(second)), y + HEIGHT + 14.0, "middle", &second.to_string());
        }
        let mut line = |points: Vec<(f64, f64)>, colour: &str, more: &str| {
            let points: Vec<String> =
                points.iter().map(|(at, rate)| format!("{:.1},{:.1}", across(*at), up(*rate))).collect();
            let points = points.join(" ");
            _ = writeln!(into, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" {more}/>");
        };
        line(vec![(0.0, highest), (0.0, 0.0), (end, 0.0)], "#999999", "");
        if self.bandwidth > 0 {
            let limit = self.bandwidth as f64 / 1e6;
            line(vec![(0.0, limit), (end, limit)], "#d62728", "stroke-dasharray=\"6 4\"");
        }
        for port in 0..self.ports as usize {
            let of_port = rates.iter().map(|(at, rates)| (*at, rates[port])).collect();
            line(of_port, COLOURS[port % COLOURS.len()], "stroke-width=\"0.8\"");
        }
        line(rates.iter().map(|(at, rates)| (*at, sum(rates))).collect(), "#000000", "stroke-width=\"1.6\"");
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: ports FILE.svg [SECONDS]")?;
    let seconds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let (panel_width, panel_height) = (WIDTH + MARGIN + 20.0, HEIGHT + 34.0);
    let mut drawn = String::new();
    println!("| ports | limit | mean of the sum | by the limit | most in a window | a port's bytes by 1/k |");
    println!("|---|---|---|---|---|---|");
    for (row, ports) in [1, 2, 4, 8].into_iter().enumerate() {
        for (column, bandwidth) in [LIMIT, 0].into_iter().enumerate() {
            let measured = measure(ports, bandwidth, seconds)?;
            println!("{}", measured.row());
            measured.draw(&mut drawn, column as f64 * panel_width, row as f64 * panel_height + 4.0);
        }
    }
    let (width, height) = (2.0 * panel_width, 4.0 * panel_height + 24.0);
    let legend = "Thin: each port. Black: the sum. Dashed: the limit.";
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{drawn}<text x=\"{MARGIN}\" \
         y=\"{:.1}\">{legend}</text>\n</svg>\n",
        height - 8.0
    );
    std::fs::write(file, svg)?;
    Ok(())
}
