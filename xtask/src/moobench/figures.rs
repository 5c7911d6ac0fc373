//! Figures from raw data: a driver's bins of a second, and the distribution of times in the second half.

use super::Settings;
use super::cases::Case;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Below this time, there is a bucket for each nanosecond; above, there are 32 buckets for each power of two.
/// The drivers divide times into the same buckets.
const LINEAR: u64 = 2048;

/// The measurements of one process.
pub(super) struct Run {
    /// The number of traces in each second, of all threads.
    pub(super) bins: Vec<u64>,
    /// The total time of the traces of each second, in nanoseconds.
    sums: Vec<u64>,
    /// The number of traces in the second half, by buckets of time.
    buckets: BTreeMap<u64, u64>,
    /// The number of events that did not reach the disk.
    pub(super) lost: Option<u64>,
    pub(super) disk_bytes: Option<u64>,
    /// Processor time of the threads that call, in the second half, in nanoseconds.
    cpu_ns: u64,
    /// Processor time of all threads of the process, in the second half, in nanoseconds. The driver in Rust
    /// does not measure it.
    process_ns: Option<u64>,
}

impl Run {
    pub(super) fn read(path: &Path) -> Result<Run> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Run::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Run> {
        let mut run = Run {
            bins: Vec::new(),
            sums: Vec::new(),
            buckets: BTreeMap::new(),
            lost: None,
            disk_bytes: None,
            cpu_ns: 0,
            process_ns: None,
        };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let numbers: Vec<u64> = words[1..].iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
            match (words[0], numbers.as_slice()) {
                ("bin", [_, second, count, sum]) => {
                    let second = *second as usize;
                    if run.bins.len() <= second {
                        run.bins.resize(second + 1, 0);
                        run.sums.resize(second + 1, 0);
                    }
                    run.bins[second] += count;
                    run.sums[second] += sum;
                }
                ("cpu", [_, nanoseconds]) => run.cpu_ns += nanoseconds,
                ("process", [nanoseconds]) => run.process_ns = Some(*nanoseconds),
                ("lost", [events]) => run.lost = Some(*events),
                ("disk", [bytes]) => run.disk_bytes = Some(*bytes),
                ("bucket", [_, bucket, count]) => *run.buckets.entry(*bucket).or_default() += count,
                _ => bail!("the driver wrote `{line}`"),
            }
        }
        if run.bins.len() < 2 || run.buckets.is_empty() {
            bail!("the driver wrote no bins");
        }
        Ok(run)
    }

    /// The mean time of a trace in each second after the warm-up.
    fn means(&self) -> impl Iterator<Item = f64> {
        let seconds = self.bins.iter().zip(&self.sums).skip(self.bins.len() / 2);
        seconds.filter(|(count, _)| **count > 0).map(|(count, sum)| *sum as f64 / *count as f64)
    }

    /// The bins after the warm-up.
    fn measured(&self) -> &[u64] {
        &self.bins[self.bins.len() / 2..]
    }
}

/// The middle of a bucket, in nanoseconds.
fn time_of(bucket: u64) -> f64 {
    if bucket < LINEAR {
        return bucket as f64;
    }
    let (octave, part) = ((bucket - LINEAR) / 32, (bucket - LINEAR) % 32);
    (LINEAR << octave) as f64 * (1.0 + (part as f64 + 0.5) / 32.0)
}

/// The figures of all runs of a case.
pub(super) struct Figures {
    pub(super) runs: Vec<Run>,
    pub(super) missing: Option<String>,
    /// Traces a second: the mean, and half of the interval that holds the mean with 95 % confidence.
    pub(super) rate: f64,
    pub(super) half: f64,
    /// The time of a trace in nanoseconds: mean and quartiles.
    pub(super) mean: f64,
    /// Half of the interval that holds the mean with 95 % confidence, from the means of seconds.
    pub(super) mean_half: f64,
    pub(super) quartiles: [f64; 3],
    /// The processor time of a trace, the driver's own included.
    pub(super) cpu: f64,
    /// The processor time of a trace, that of all other threads of the process included.
    pub(super) process: Option<f64>,
}

impl Figures {
    pub(super) fn of(runs: Vec<Run>, missing: Option<String>) -> Figures {
        let rates: Vec<f64> = runs.iter().flat_map(|run| run.measured()).map(|count| *count as f64).collect();
        let (rate, half) = interval(&rates);
        let means: Vec<f64> = runs.iter().flat_map(Run::means).collect();
        let (_, mean_half) = interval(&means);
        let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut count, mut sum, mut cpu) = (0, 0, 0);
        for run in &runs {
            count += run.measured().iter().sum::<u64>();
            cpu += run.cpu_ns;
            sum += run.sums[run.sums.len() / 2..].iter().sum::<u64>();
            for (bucket, times) in &run.buckets {
                *buckets.entry(*bucket).or_default() += times;
            }
        }
        let quartiles = [0.25, 0.5, 0.75].map(|part| quantile(&buckets, part));
        let of_one = |all: u64| all as f64 / count.max(1) as f64;
        let process: Option<u64> = runs.iter().map(|run| run.process_ns).sum();
        Figures {
            process: process.filter(|_| !runs.is_empty()).map(of_one),
            runs,
            missing,
            rate,
            half,
            mean: of_one(sum),
            mean_half,
            quartiles,
            cpu: of_one(cpu),
        }
    }

    /// The bytes kept or sent of a trace, and the number of lost events; `None` for phases that keep nothing.
    pub(super) fn bytes_a_trace(&self) -> Option<(f64, Option<u64>)> {
        let bytes: Option<u64> = self.runs.iter().map(|run| run.disk_bytes).sum();
        let traces: u64 = self.runs.iter().flat_map(|run| &run.bins).sum();
        let bytes = bytes.filter(|_| !self.runs.is_empty())?;
        Some((bytes as f64 / traces.max(1) as f64, self.runs[0].lost))
    }
}

/// The mean, and half of the interval that holds the mean with 95 % confidence, by Student's t.
fn interval(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / count;
    if values.len() == 1 {
        return (mean, f64::INFINITY);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, student(values.len() - 1) * (variance / count).sqrt())
}

/// The 97.5 % quantile of Student's t distribution.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 12] =
        [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];
    TABLE.get(freedom - 1).copied().unwrap_or(1.96 + 2.6 / freedom as f64)
}

fn quantile(buckets: &BTreeMap<u64, u64>, part: f64) -> f64 {
    let all: u64 = buckets.values().sum();
    let mut before = 0;
    for (bucket, count) in buckets {
        before += count;
        if before as f64 >= part * all as f64 {
            return time_of(*bucket);
        }
    }
    0.0
}

/// The table of results, as Markdown.
pub(super) fn table(settings: &Settings, cases: &[Case], all: &[Figures]) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("a text");
    line(format!(
        "{} runs of {} s each, by turns, the first half left out; depth {}, {} thread(s), method time {} ns, {}.\n",
        settings.repeats,
        settings.seconds,
        settings.depth,
        settings.threads,
        settings.method_ns,
        if settings.by_user_time { "user time" } else { "wall clock" }
    ));
    line("| language | probes | phase | traces/s, 95 % | × T | a trace: mean, quartiles | a call more than T | processor time a call more than T | lost; bytes kept or sent a trace |".to_owned());
    line("|---|---|---|---|---|---|---|---|---|".to_owned());
    for (case, figures) in cases.iter().zip(all) {
        let head = format!("| {} | {} | {} ", case.language, case.who, case.phase);
        if let Some(why) = &figures.missing {
            line(format!("{head}| not measured: {} | | | | | |", why.replace('|', "/")));
            continue;
        }
        let plain =
            cases.iter().zip(all).find(|(other, _)| other.language == case.language && other.phase == 'T');
        let (times, more, cpu) = plain.map_or((1.0, 0.0, 0.0), |(_, plain)| over(figures, plain, settings));
        let [first, median, third] = figures.quartiles;
        line(format!(
            "{head}| {:.3} M ± {:.3} | {times:.3} | {:.0} ns, {first:.0} {median:.0} {third:.0} | {more:.1} ns | {cpu:.1} ns | {} |",
            figures.rate / 1e6,
            figures.half / 1e6,
            figures.mean,
            kept(figures)
        ));
    }
    out
}

/// The comparison with phase T, which has no probe: the ratio of rates, and the additional time and processor
/// time of a call.
fn over(figures: &Figures, plain: &Figures, settings: &Settings) -> (f64, f64, f64) {
    let calls = f64::from(settings.depth);
    (figures.rate / plain.rate, (figures.mean - plain.mean) / calls, (figures.cpu - plain.cpu) / calls)
}

/// The measurements at one value of a parameter.
pub(super) type Swept = (u64, Settings, Vec<Case>, Vec<Figures>);

/// A sweep's table: a row for each case, a column for each value of the parameter. The row of phase T has the
/// time of a trace, the others the time that a call takes more, with its interval, and its processor time.
pub(super) fn sweep(what: &str, rows: &[Swept]) -> String {
    let mut out = format!("| {what} | phase |");
    rows.iter().for_each(|(value, ..)| write!(out, " {value} |").expect("a text"));
    out += &format!("\n|---|---|{}\n", "---|".repeat(rows.len()));
    let Some((_, _, first, _)) = rows.first() else { return out };
    for (n, case) in first.iter().enumerate() {
        write!(out, "| {}: {} | {} |", case.language, case.who, case.phase).expect("a text");
        for (_, settings, cases, all) in rows {
            let cell = match (&all[n].missing, case.phase) {
                (Some(why), _) => format!("not measured: {}", why.replace('|', "/")),
                (None, 'T') => format!("a trace {:.0}{} ns", all[n].mean, within(all[n].mean_half, 0)),
                (None, _) => more(&all[n], case.language, settings, cases, all),
            };
            write!(out, " {cell} |").expect("a text");
        }
        out.push('\n');
    }
    out
}

/// A cell of a sweep: the time that a call takes more than without a probe, and its processor time.
fn more(figures: &Figures, language: &str, settings: &Settings, cases: &[Case], all: &[Figures]) -> String {
    let is_plain = |(case, of): &(&Case, &Figures)| {
        case.language == language && case.phase == 'T' && of.missing.is_none()
    };
    let Some((_, plain)) = cases.iter().zip(all).find(is_plain) else { return "T is missing".to_owned() };
    let (_, more, cpu) = over(figures, plain, settings);
    let half = (figures.mean_half.powi(2) + plain.mean_half.powi(2)).sqrt() / f64::from(settings.depth);
    format!("{more:.1}{}, {cpu:.1} ns", within(half, 1))
}

/// Half an interval with so many digits; empty where there are too few seconds for one.
fn within(half: f64, digits: usize) -> String {
    if half.is_finite() { format!(" ± {half:.digits$}") } else { String::new() }
}

/// The bytes that reached the disk, if they were measured.
fn kept(figures: &Figures) -> String {
    let Some((bytes, lost)) = figures.bytes_a_trace() else { return String::new() };
    let lost = lost.map_or_else(|| "–".to_owned(), |lost| lost.to_string());
    format!("{lost}; {bytes:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_the_second_half() {
        let text = "process 16000\ncpu 0 4000\ncpu 1 8000\nbin 0 0 5 500\nbin 0 1 10 1000\nbin 1 0 7 700\nbin 1 1 30 9000\nbucket 0 100 10\nbucket 1 300 30\n";
        let run = Run::parse(text).unwrap();
        assert_eq!(run.bins, [12, 40]);
        let figures = Figures::of(vec![run], None);
        assert_eq!((figures.rate, figures.mean, figures.cpu), (40.0, 250.0, 300.0));
        assert_eq!(figures.process, Some(400.0));
        assert_eq!(figures.quartiles, [100.0, 300.0, 300.0]);
        assert!(Run::parse("bin 0 0 5").is_err() && Run::parse("").is_err());
    }

    #[test]
    fn intervals_are_students() {
        let (mean, half) = interval(&[1.0, 2.0, 3.0]);
        assert_eq!(mean, 2.0);
        assert!((half - 4.303 / 3f64.sqrt()).abs() < 1e-9, "{half}");
        assert!((student(30) - 2.042).abs() < 0.01 && (student(13) - 2.160).abs() < 0.01);
    }

    /// The drivers' division into buckets, with the times for which the buckets stand.
    #[test]
    fn a_bucket_stands_for_its_times() {
        for duration in [0u64, 5, 2047, 2048, 2111, 4095, 4096, 1_000_000, 123_456_789] {
            let bucket = if duration < LINEAR {
                duration
            } else {
                let power = u64::from(duration.ilog2());
                LINEAR + (power - 11) * 32 + (duration >> (power - 5) & 31)
            };
            let time = time_of(bucket);
            assert!((time - duration as f64).abs() <= duration as f64 / 32.0, "{duration}: {time}");
        }
    }
}
