//! Coefficients are fitted to windows, and compared with those from which the windows were computed.

use thalweg_chance::Chance;
use thalweg_pack::{Fits, Pack, Schema, Values};

const PACK: &str = r#"
format = 1
name = "sends"
about = "What sends cost."
area = "test"

[[point]]
setting = "route"
argument = "f:0"
default = 1

[[fit]]
name = "send"
is = "took"
when = "counted"
apart = ["route"]

[[fit.term]]
name = "fragment"
times = "ceil(message / piece)"
unit = "us"
start = 50
min = 0.5
max = 500

[[fit.term]]
name = "byte"
times = "message"
unit = "ns/B"
start = 5
min = 0.05
max = 50

[[measure]]
name = "message"
is = "size * 1 B"

[[measure]]
name = "wanted"
is = "send.fragment / (2 % * send.byte)"
unit = "B"
"#;

/// A window: the time of a message in ns, its size, the size of a fragment, whether it counts, and the way.
#[derive(Clone, Copy, Debug)]
struct Window {
    took: f64,
    size: f64,
    piece: f64,
    counts: bool,
    route: f64,
}

/// The values of a window, with the coefficients at the end.
struct Row(Vec<f64>);

impl Values for Row {
    fn number(&self, field: usize) -> f64 {
        self.0[field]
    }
}

fn pack() -> Pack {
    Pack::read(PACK, &schema()).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn schema() -> Schema {
    let mut schema = Schema::default();
    for (name, unit) in [("took", "ns"), ("size", ""), ("piece", "B")] {
        schema.number(name, unit).expect("a field");
    }
    schema.truth("counted").expect("a field");
    schema
}

/// The time per fragment in us, the time per byte in ns, and the size of fragments that the pack wants, after
/// these windows, and whether they are fitted.
fn fitted(windows: &[Window]) -> ([f64; 3], bool) {
    let (pack, mut fits) = (pack(), Fits::default());
    let row = |window: &Window| {
        let counts = if window.counts { 1.0 } else { 0.0 };
        Row(vec![window.took, window.size, window.piece, counts, window.route, f64::NAN, f64::NAN])
    };
    for window in windows {
        fits.add(&pack, &pack.measured(&row(window)));
    }
    let mut last = row(windows.last().expect("a window"));
    for (field, value) in fits.coefficients(&pack, &last) {
        last.0[field] = value;
    }
    let wanted = pack.measures[1].is.number(&pack.measured(&last));
    ([last.0[5], last.0[6], wanted], !fits.fitted(&pack, &last).is_empty())
}

/// Windows of messages that cost 20 us a fragment and 2 ns a byte, or what `cost` says, with noise.
fn windows(seed: u64, sizes: &[f64], pieces: &[f64], noise: f64, cost: (f64, f64)) -> Vec<Window> {
    let mut chance = Chance::new(seed);
    let of = |_| {
        let (size, piece) = (chance.of(sizes), chance.of(pieces));
        let exact = cost.0 * 1e3 * (size / piece).ceil() + cost.1 * size;
        let took = exact * (1.0 + noise * (chance.uniform() - 0.5));
        Window { took, size, piece, counts: true, route: 1.0 }
    };
    (0..40).map(of).collect()
}

const COST: (f64, f64) = (20.0, 2.0);
const SIZES: [f64; 4] = [4.0, 10_000.0, 100_000.0, 1_000_000.0];
const PIECES: [f64; 3] = [4080.0, 65_536.0, 524_288.0];

#[test]
fn coefficients_are_those_from_which_windows_were_computed() {
    for seed in 0..50 {
        let ([fragment, byte, wanted], is_fitted) = fitted(&windows(seed, &SIZES, &PIECES, 0.2, COST));
        assert!(is_fitted, "{seed}");
        assert!((18.0..22.0).contains(&fragment) && (1.8..2.2).contains(&byte), "{seed}: {fragment}, {byte}");
        // 20 us / (2 % of 2 ns) = 500 kB.
        assert!((430_000.0..580_000.0).contains(&wanted), "{seed}: {wanted}");
    }
    let ([fragment, byte, _], _) = fitted(&windows(1, &SIZES, &PIECES, 0.0, COST));
    assert!((fragment - 20.0).abs() < 1e-6 && (byte - 2.0).abs() < 1e-6, "{fragment}, {byte}");
}

#[test]
fn windows_that_are_few_or_alike_leave_the_start_values() {
    let start = ([50.0, 5.0, 500_000.0], false);
    let all = windows(1, &SIZES, &PIECES, 0.2, COST);
    assert_eq!(fitted(&all[..5]), start, "too few");
    for noise in [0.0, 0.2, 0.01] {
        assert_eq!(
            fitted(&windows(2, &[100_000.0], &[4080.0], noise, COST)),
            start,
            "one size, noise {noise}"
        );
        // Fragments that are full cost the same for each byte, so the two terms cannot be told apart.
        let full: Vec<f64> = [1.0, 5.0, 20.0].map(|count| count * 4080.0).to_vec();
        assert_eq!(
            fitted(&windows(3, &full, &[4080.0], noise, COST)),
            start,
            "full fragments, noise {noise}"
        );
    }
    let other = |window: &Window| Window { counts: false, ..*window };
    assert_eq!(fitted(&all.iter().map(other).collect::<Vec<_>>()), start, "windows that do not count");
    let unknown = |window: &Window| Window { took: f64::NAN, ..*window };
    assert_eq!(fitted(&all.iter().map(unknown).collect::<Vec<_>>()), start, "unknown times");
}

#[test]
fn noise_alone_is_hardly_ever_fitted() {
    let fitted_by_chance = |seed: &u64| {
        let mut chance = Chance::new(*seed);
        let mut all = windows(*seed, &[1e5], &[4080.0, 3900.0], 0.0, COST);
        all.iter_mut().for_each(|window| window.took = 1e6 * chance.uniform());
        fitted(&all).1
    };
    // Each of the two coefficients may look sure by chance.
    let count = (0..100).filter(fitted_by_chance).count();
    assert!(count <= 5, "{count}");
}

#[test]
fn coefficients_follow_what_changes_and_stay_within_their_bounds() {
    let first = windows(4, &SIZES, &PIECES, 0.1, COST);
    // Cheap windows weigh more in relative terms, so costs that rise are followed only because windows are
    // forgotten.
    let dear = |seed| windows(seed, &SIZES, &PIECES, 0.1, (80.0, 4.0));
    let ([fragment, byte, _], _) = fitted(&[first.clone(), (5..12).flat_map(dear).collect()].concat());
    assert!((70.0..85.0).contains(&fragment) && (3.5..4.2).contains(&byte), "{fragment}, {byte}");
    // Windows that say nothing new leave what was fitted before.
    let alike = windows(6, &[100_000.0], &[4080.0], 0.01, COST);
    let ([fragment, ..], is_fitted) = fitted(&[first, alike].concat());
    assert!(is_fitted && (18.0..22.0).contains(&fragment), "{fragment}");
    // Fragments that cost nothing have the least coefficient, and the other one is right nevertheless.
    let ([fragment, byte, _], is_fitted) = fitted(&windows(7, &SIZES[1..], &PIECES, 0.0, (0.0, 2.0)));
    assert!(is_fitted && fragment == 0.5 && (1.8..2.01).contains(&byte), "{fragment}, {byte}");
}

#[test]
fn each_way_has_its_own_coefficients() {
    let one = windows(8, &SIZES, &PIECES, 0.1, COST);
    let two = windows(9, &SIZES, &PIECES, 0.1, (100.0, 4.0));
    let two = two.into_iter().map(|window| Window { route: 2.0, ..window });
    let mixed: Vec<Window> = one.iter().copied().zip(two).flat_map(|(one, two)| [two, one]).collect();
    let ([fragment, byte, _], _) = fitted(&mixed);
    assert!((18.0..22.0).contains(&fragment) && (1.8..2.2).contains(&byte), "{fragment}, {byte}");
    let other = Window { route: 3.0, ..mixed[0] };
    assert_eq!(fitted(&[mixed, vec![other]].concat()), ([50.0, 5.0, 500_000.0], false));
}

#[test]
fn mistakes_in_fits_have_their_places() {
    let check = |from: &str, to: &str, expected: &str| {
        let text = PACK.replacen(from, to, 1);
        let problems = Pack::read(&text, &schema()).expect_err(to);
        let found = problems.iter().any(|problem| problem.render("pack", &text).contains(expected));
        assert!(found, "{to}: {problems:?}");
    };
    check(
        "unit = \"us\"",
        "unit = \"B\"",
        "the coefficient (a size) times this (a plain number) is not of the kind",
    );
    check("unit = \"us\"\n", "", "give the term's `unit`");
    // A size that is kept without a unit is a plain number.
    check("times = \"message\"", "times = \"size\"", "`argument 2 in B`");
    check("start = 50\n", "start = 5000\n", "between `min` and `max`");
    check("start = 50\n", "", "a term needs `start`");
    check("min = 0.5", "min = -0.5", "not negative");
    check("apart = [\"route\"]", "apart = [\"rout\"]", "did you mean `route`?");
    check("times = \"message\"", "times = \"mesage\"", "mesage");
    check("max = 50\n", "max = 50\nmost = 4\n", "a term has no `most`");
    check("name = \"byte\"", "name = \"fragment\"", "declared twice");
    let without =
        PACK.split("[[fit.term]]").next().expect("a part").to_owned() + "[[measure]]\nname=\"m\"\nis=\"1\"\n";
    let problems = Pack::read(&without, &schema()).expect_err("it has no terms");
    assert!(problems.iter().any(|problem| problem.message.contains("1 to 4 terms")), "{problems:?}");
}

#[test]
fn a_mistake_is_reported_once() {
    const ACTION: &str = r#"
[[condition]]
name = "many"
when = "piece"
says = "There are many."

[[model]]
name = "faster"
is = "piece / oops"

[[action]]
on = "many"
set = "route"
to = "2"
gain = "faster"
"#;
    let problems = Pack::read(&(PACK.to_owned() + ACTION), &schema()).expect_err("two mistakes");
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems.iter().all(|problem| !problem.message.contains("there is no condition")),
        "{problems:?}"
    );
}
