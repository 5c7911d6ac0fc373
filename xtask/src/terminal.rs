//! Converts a screen of characters, as `tmux capture-pane -e` prints it, to a drawing.

use std::fmt::Write as _;

/// The width of a character and the height of a line, in pixels.
const WIDTH: f64 = 8.4;
const LINE: f64 = 17.0;
const MARGIN: f64 = 10.0;
/// The default colours of text and background.
const INK: &str = "#d8dee6";
const GROUND: &str = "#11171d";
/// The sixteen named colours of a terminal.
const COLOURS: [&str; 16] = [
    "#11171d", "#ff7a6b", "#7bd88f", "#ffd866", "#6cb6ff", "#d8a0ff", "#78dce8", "#d8dee6", "#6b7785",
    "#ff9d91", "#a0e8b0", "#ffe8a3", "#9dd0ff", "#e6c2ff", "#a5e9f0", "#ffffff",
];

/// The style of a character.
#[derive(Clone, Debug, Default, PartialEq)]
struct Look {
    ink: Option<String>,
    ground: Option<String>,
    bold: bool,
    faint: bool,
    swapped: bool,
}

impl Look {
    /// Applies the numbers of an escape sequence, which stand between `ESC [` and `m`.
    fn take(&mut self, codes: &str) {
        let mut codes = codes.split(';').map(|code| code.parse().unwrap_or(0_u32));
        while let Some(code) = codes.next() {
            match code {
                0 => *self = Look::default(),
                1 => self.bold = true,
                2 => self.faint = true,
                7 => self.swapped = true,
                22 => (self.bold, self.faint) = (false, false),
                27 => self.swapped = false,
                30..=37 => self.ink = Some(COLOURS[code as usize - 30].to_owned()),
                90..=97 => self.ink = Some(COLOURS[code as usize - 82].to_owned()),
                40..=47 => self.ground = Some(COLOURS[code as usize - 40].to_owned()),
                100..=107 => self.ground = Some(COLOURS[code as usize - 92].to_owned()),
                38 => self.ink = extended(&mut codes),
                48 => self.ground = extended(&mut codes),
                39 => self.ink = None,
                49 => self.ground = None,
                _ => {}
            }
        }
    }
}

/// A colour out of 256, or one of 24 bits.
fn extended(codes: &mut impl Iterator<Item = u32>) -> Option<String> {
    match codes.next()? {
        2 => {
            let (red, green, blue) = (codes.next()?, codes.next()?, codes.next()?);
            Some(format!("#{:02x}{:02x}{:02x}", red & 255, green & 255, blue & 255))
        }
        5 => Some(match codes.next()? {
            named @ 0..=15 => COLOURS[named as usize].to_owned(),
            cube @ 16..=231 => {
                let part = |by: u32| match (cube - 16) / by % 6 {
                    0 => 0,
                    step => 55 + 40 * step,
                };
                format!("#{:02x}{:02x}{:02x}", part(36), part(6), part(1))
            }
            grey => format!("#{0:02x}{0:02x}{0:02x}", 8 + 10 * (grey.min(255) - 232)),
        }),
        _ => None,
    }
}

/// The screen as SVG, `width` characters wide.
pub(crate) fn drawn(screen: &str, columns: usize) -> String {
    let lines: Vec<&str> = screen.lines().collect();
    let (width, height) = (columns as f64 * WIDTH + 2.0 * MARGIN, lines.len() as f64 * LINE + 2.0 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"monospace\" font-size=\"14\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{GROUND}\"/>\n"
    );
    for (row, line) in lines.iter().enumerate() {
        for (column, text, look) in runs(line) {
            let (x, y) = (MARGIN + column as f64 * WIDTH, MARGIN + row as f64 * LINE);
            let wide = text.chars().count() as f64 * WIDTH;
            let (mut ink, mut ground) = (look.ink.as_deref().unwrap_or(INK), look.ground.as_deref());
            if look.swapped {
                (ink, ground) = (ground.unwrap_or(GROUND), Some(ink));
            }
            if let Some(ground) = ground {
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{LINE}\" fill=\"{ground}\"/>"
                );
            }
            if !text.trim().is_empty() {
                let weight = if look.bold { " font-weight=\"bold\"" } else { "" };
                let faint = if look.faint { " fill-opacity=\"0.65\"" } else { "" };
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{ink}\" textLength=\"{wide:.1}\" xml:space=\"preserve\"{weight}{faint}>{}</text>",
                    y + 13.0,
                    escaped(&text)
                );
            }
        }
    }
    out + "</svg>\n"
}

/// Divides a line into pieces of characters with equal style, each with its column.
fn runs(line: &str) -> Vec<(usize, String, Look)> {
    let (mut runs, mut look, mut text): (Vec<(usize, String, Look)>, Look, String) = Default::default();
    let (mut column, mut begun) = (0, 0);
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            text.push(c);
            column += 1;
            continue;
        }
        let mut codes = String::new();
        let mut last = None;
        for c in rest.by_ref().skip(1) {
            if c.is_ascii_alphabetic() {
                last = Some(c);
                break;
            }
            codes.push(c);
        }
        if last == Some('m') {
            if !text.is_empty() {
                runs.push((begun, std::mem::take(&mut text), look.clone()));
            }
            begun = column;
            look.take(&codes);
        }
    }
    if !text.is_empty() {
        runs.push((begun, text, look));
    }
    runs
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_places_are_those_of_the_screen() {
        let runs = runs("ab\u{1b}[1;34mcd\u{1b}[0m \u{1b}[48;5;16me\u{1b}[38;2;1;2;3mf");
        let of = |n: usize| (runs[n].0, runs[n].1.as_str());
        assert_eq!((of(0), of(1), of(2), of(3), of(4)), ((0, "ab"), (2, "cd"), (4, " "), (5, "e"), (6, "f")));
        assert!(
            runs[1].2.bold && runs[1].2.ink.as_deref() == Some(COLOURS[4]) && runs[2].2 == Look::default()
        );
        assert_eq!(runs[3].2.ground.as_deref(), Some("#000000"));
        assert_eq!(runs[4].2.ink.as_deref(), Some("#010203"));
        let drawn = drawn("<a>\n\u{1b}[7mb", 5);
        assert!(
            drawn.contains("&lt;a&gt;") && drawn.contains(&format!("height=\"17\" fill=\"{INK}\"")),
            "{drawn}"
        );
    }
}
