//! The pictures: stacked bars of the time that each cause adds to a trace, and traces a second over time.

use super::cases::Case;
use super::figures::Figures;
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const COLOURS: [&str; 8] =
    ["#4a5568", "#2b6cb0", "#dd6b20", "#2f855a", "#b83280", "#805ad5", "#c53030", "#718096"];

/// The family of a row: the name of its probes, up to the first comma.
fn family(who: &str) -> &str {
    who.split(',').next().unwrap_or(who)
}

fn languages(cases: &[Case]) -> Vec<&'static str> {
    let mut languages: Vec<&'static str> = cases.iter().map(|case| case.language).collect();
    languages.dedup();
    languages
}

/// The picture of a language: a bar for each family, made of the time in phase T and what the phases I, C and
/// W add.
pub(super) fn bars(cases: &[Case], all: &[Figures]) -> Vec<(&'static str, String)> {
    let of = |language: &'static str| {
        let measured: Vec<_> = cases
            .iter()
            .zip(all)
            .filter(|(case, of)| case.language == language && of.missing.is_none())
            .collect();
        let plain = measured.iter().find(|(case, _)| case.phase == 'T').map_or(0.0, |(_, of)| of.mean);
        // The cheapest row of each family in each phase.
        let mut rows: BTreeMap<&str, BTreeMap<char, f64>> = BTreeMap::new();
        for (case, figures) in measured.iter().filter(|(case, _)| !"TF".contains(case.phase)) {
            let mean = rows.entry(family(case.who)).or_default().entry(case.phase).or_insert(f64::INFINITY);
            *mean = mean.min(figures.mean);
        }
        (language, drawn_bars(language, plain, &rows))
    };
    languages(cases).into_iter().map(of).collect()
}

fn drawn_bars(language: &str, plain: f64, rows: &BTreeMap<&str, BTreeMap<char, f64>>) -> String {
    let most =
        rows.values().flat_map(|phases| phases.values()).fold(plain, |most, value| most.max(*value)).max(1.0);
    let height = 70 + 44 * rows.len();
    let mut out = begun(height as f64, &format!("What a trace takes, {language}: nanoseconds, by cause"));
    let scale = (WIDTH - 200.0) / most;
    for (row, (who, phases)) in rows.iter().enumerate() {
        let y = 44 + 44 * row;
        let mut at = 0.0;
        text(&mut out, 8.0, y as f64 + 18.0, who);
        let parts = std::iter::once(('T', plain)).chain(phases.iter().map(|(phase, mean)| (*phase, *mean)));
        let mut order: Vec<(char, f64)> = parts.collect();
        order.sort_by_key(|(phase, _)| "TICW".find(*phase));
        for (n, (phase, mean)) in order.iter().enumerate() {
            let width = (mean - at).max(0.0) * scale;
            let colour = COLOURS[n];
            writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"26\" fill=\"{colour}\"><title>{phase}: {mean:.0} ns</title></rect>",
                180.0 + at * scale
            )
            .expect("a text");
            at = mean.max(at);
        }
        text(
            &mut out,
            184.0 + at * scale - if at * scale > WIDTH - 260.0 { 70.0 } else { 0.0 },
            y as f64 + 40.0,
            &format!("{at:.0} ns"),
        );
    }
    for (n, phase) in
        ["T the method", "I the probe is off", "C it records", "W all is kept on disk"].iter().enumerate()
    {
        let x = 180.0 + 140.0 * n as f64;
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/>",
            height - 18,
            COLOURS[n]
        )
        .expect("a text");
        text(&mut out, x + 14.0, height as f64 - 9.0, phase);
    }
    out + "</svg>\n"
}

/// The picture of a language with the traces a second over the time of the runs, on a scale of powers of ten.
pub(super) fn series(cases: &[Case], all: &[Figures]) -> Vec<(&'static str, String)> {
    let of = |language: &'static str| {
        let rows: Vec<_> = cases
            .iter()
            .zip(all)
            .filter(|(case, of)| case.language == language && of.missing.is_none())
            .collect();
        (language, drawn_series(language, &rows))
    };
    languages(cases).into_iter().map(of).collect()
}

fn drawn_series(language: &str, rows: &[(&Case, &Figures)]) -> String {
    let height = 340.0 + 16.0 * rows.len() as f64;
    let mut out = begun(height, &format!("Traces a second over time, {language}; each run a line"));
    let bins = || rows.iter().flat_map(|(_, figures)| &figures.runs).flat_map(|run| &run.bins);
    let (least, most) = bins().fold((f64::INFINITY, 1.0f64), |(least, most), count| {
        let count = (*count as f64).max(1.0);
        (least.min(count), most.max(count))
    });
    let (low, high) = (least.log10().floor(), most.log10().ceil());
    let place = |count: f64| 310.0 - 260.0 * (count.max(1.0).log10() - low) / (high - low).max(1.0);
    for power in low as i32..=high as i32 {
        let y = place(10f64.powi(power));
        writeln!(out, "<line x1=\"60\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>")
            .expect("a text");
        text(&mut out, 8.0, y + 4.0, &format!("10^{power}"));
    }
    let seconds =
        rows.iter().flat_map(|(_, figures)| &figures.runs).map(|run| run.bins.len()).max().unwrap_or(1);
    for (n, (case, figures)) in rows.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let dash = if n >= COLOURS.len() { " stroke-dasharray=\"4 3\"" } else { "" };
        for run in &figures.runs {
            let points: Vec<String> = run
                .bins
                .iter()
                .enumerate()
                .map(|(second, count)| {
                    let x = 60.0 + (WIDTH - 70.0) * (second as f64 + 0.5) / seconds as f64;
                    format!("{x:.1},{:.1}", place(*count as f64))
                })
                .collect();
            writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\"{dash} points=\"{}\"/>",
                points.join(" ")
            )
            .expect("a text");
        }
        let y = 336.0 + 16.0 * n as f64;
        writeln!(
            out,
            "<line x1=\"60\" x2=\"84\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>"
        )
        .expect("a text");
        text(&mut out, 90.0, y + 4.0, &format!("{}: {}", case.phase, case.who));
    }
    out + "</svg>\n"
}

fn begun(height: f64, title: &str) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut out, 8.0, 22.0, title);
    out
}

fn text(out: &mut String, x: f64, y: f64, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>").expect("a text");
}
