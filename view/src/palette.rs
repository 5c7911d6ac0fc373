//! The colours of drawings. The page has the same colours in `page/page.css`.
//!
//! The colours of states can be distinguished with every kind of colour vision, and in print: a test
//! simulates protanopia, deuteranopia and tritanopia (with the matrices of Machado, Oliveira and Fernandes,
//! IEEE Transactions on Visualization and Computer Graphics 15 (6), 2009).

/// The colours of the states busy, starved, blocked, ready.
pub const STATES: [&str; 4] = ["#0072b2", "#d3dae0", "#d55e00", "#f0c808"];
/// The colour of text.
pub const INK: &str = "#16212b";
/// The colour of less important text.
pub const FAINT: &str = "#52606d";
/// The colour of lines.
pub const LINE: &str = "#c3ccd5";

#[cfg(test)]
mod tests {
    use super::*;

    const CSS: &str = include_str!("../page/page.css");

    /// The values of the colour `name` in the style sheet, one for each block that defines it.
    fn in_style(name: &str) -> Vec<String> {
        let key = format!("--{name}: ");
        CSS.match_indices(&key).map(|(at, _)| CSS[at + key.len()..][..7].to_owned()).collect()
    }

    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn seen(colour: &str, vision: &[[f64; 3]; 3]) -> [f64; 3] {
        let rgb = linear(colour);
        vision.map(|row| row.iter().zip(rgb).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0))
    }

    /// CIE L*a*b* under D65.
    fn lab(rgb: [f64; 3]) -> [f64; 3] {
        let [r, g, b] = rgb;
        let x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047;
        let y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
        let z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883;
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        [116.0 * f(y) - 16.0, 500.0 * (f(x) - f(y)), 200.0 * (f(y) - f(z))]
    }

    fn distance(a: &str, b: &str, vision: &[[f64; 3]; 3]) -> f64 {
        let (a, b) = (lab(seen(a, vision)), lab(seen(b, vision)));
        a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
    }

    const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
        ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    #[test]
    fn states_differ_for_every_colour_vision() {
        let themes = in_style("busy").len();
        assert!(themes >= 2, "light and dark");
        for theme in 0..themes {
            let states = ["busy", "starved", "blocked", "ready"].map(|name| in_style(name)[theme].clone());
            for (name, vision) in VISIONS {
                for (n, a) in states.iter().enumerate() {
                    for b in &states[n + 1..] {
                        let far = distance(a, b, &vision);
                        assert!(far > 20.0, "{a} and {b} in theme {theme} by {name}: {far:.1}");
                    }
                }
            }
        }
        assert_eq!(in_style("busy")[0], STATES[0]);
        assert_eq!(in_style("starved")[0], STATES[1]);
        assert_eq!(in_style("blocked")[0], STATES[2]);
        assert_eq!(in_style("ready")[0], STATES[3]);
    }

    #[test]
    fn text_has_the_contrast_that_the_guidelines_ask_for() {
        let light = |colour: &str| {
            let [r, g, b] = linear(colour);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let contrast = |a: &str, b: &str| {
            let (a, b) = (light(a), light(b));
            (a.max(b) + 0.05) / (a.min(b) + 0.05)
        };
        for theme in 0..in_style("paper").len() {
            for ground in ["paper", "panel"] {
                for text in ["ink", "faint", "accent"] {
                    let (ground, text) = (&in_style(ground)[theme], &in_style(text)[theme]);
                    // The contrast required by WCAG 2.2, level AA, is 4.5.
                    assert!(contrast(ground, text) >= 4.5, "{text} on {ground}: {}", contrast(ground, text));
                }
            }
            let (on_busy, busy) = (&in_style("on-busy")[theme], &in_style("busy")[theme]);
            assert!(contrast(on_busy, busy) >= 4.5, "{on_busy} on {busy}");
        }
    }
}
