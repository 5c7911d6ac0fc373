//! The distributions of arguments and results that `thalweg attach` shows: they are those of the values that the
//! program had, whatever their types.
#![allow(clippy::print_stdout, reason = "says what is skipped")]

mod attached;

use std::path::Path;
use std::process::Stdio;

use attached::{Target, built, built_by, ran, started, text, thalweg, until};

/// The functions of `numbers.c`, each with the type of its argument and result.
const NUMBERS: [(&str, &str); 15] = [
    ("of_char", "char"),
    ("of_small", "signed char"),
    ("of_byte", "unsigned char"),
    ("of_bool", "_Bool"),
    ("of_short", "short"),
    ("of_word", "unsigned short"),
    ("of_int", "int"),
    ("of_unsigned", "unsigned int"),
    ("of_long", "long"),
    ("of_size", "uint64_t"),
    ("of_color", "enum color"),
    ("of_large", "enum size"),
    ("of_pointer", "void *"),
    ("of_float", "float"),
    ("of_double", "double"),
];

/// A number whose order is that of the values: of an integer, a pointer, a truth value, or, if `is_real`, of a
/// floating-point number. `None` stands for what is not a number.
fn ordered(value: &serde_json::Value, is_real: bool) -> Option<i128> {
    if is_real {
        let number = value.as_f64().or_else(|| value.as_str()?.parse().ok()).expect("a number");
        // Zero with a sign becomes zero without a sign.
        let bits = (number + 0.0).to_bits().cast_signed();
        let key = if bits < 0 { -i128::from(bits & i64::MAX) } else { i128::from(bits) };
        return (!number.is_nan()).then_some(key);
    }
    match value {
        serde_json::Value::Bool(is) => Some(i128::from(*is)),
        serde_json::Value::String(text) => {
            Some(i128::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address"))
        }
        number => Some(number.to_string().parse().expect("a number")),
    }
}

/// JSON with its fractions as texts, because the parser of JSON may round the last bit of a fraction.
fn exact(json: &str) -> String {
    let is_end = |character: char| ",:[]{}".contains(character);
    let parts = json.split_inclusive(is_end).map(|part| {
        let word = part.trim_end_matches(is_end);
        let is_fraction = word.contains(['.', 'e']) && word.parse::<f64>().is_ok();
        if is_fraction { part.replace(word, &format!("\"{word}\"")) } else { part.to_owned() }
    });
    parts.collect()
}

/// Asserts that a distribution is that of the values that the program had.
fn assert_distribution(name: &str, of: &serde_json::Value, truth: &[serde_json::Value]) {
    let is_real = ["of_float", "of_double"].contains(&name);
    let keys: Vec<i128> = truth.iter().filter_map(|value| ordered(value, is_real)).collect();
    assert_eq!(of["count"], truth.len(), "{name}: {of}");
    assert_eq!(of["not_numbers"], truth.len() - keys.len(), "{name}: {of}");
    assert_eq!(ordered(&of["least"], is_real), keys.iter().min().copied(), "{name}: {of}");
    assert_eq!(ordered(&of["greatest"], is_real), keys.iter().max().copied(), "{name}: {of}");
    let mut before = None;
    let mut counted = 0;
    for bucket in of["buckets"].as_array().expect("buckets") {
        let (first, last) = (ordered(&bucket[0], is_real), ordered(&bucket[1], is_real));
        let (first, last) = (first.expect("a number"), last.expect("a number"));
        assert!(before.is_none_or(|before| before < first) && first <= last, "{name}: {bucket} of {of}");
        let calls = keys.iter().filter(|key| (first..=last).contains(key)).count();
        assert_eq!(bucket[2], calls, "{name}: {bucket} of {of}");
        (before, counted) = (Some(last), counted + calls);
    }
    assert_eq!(counted, keys.len(), "{name}: {of}");
    let numbers: Vec<f64> = if is_real {
        truth.iter().filter_map(serde_json::Value::as_f64).collect()
    } else {
        keys.iter().map(|key| *key as f64).collect()
    };
    let size: f64 = numbers.iter().map(|number| number.abs()).sum();
    let mean = of["mean"].as_str().and_then(|mean| mean.parse::<f64>().ok());
    match mean.or(of["mean"].as_f64()).filter(|mean| mean.is_finite()) {
        None => assert!(name == "of_pointer" || counted < truth.len(), "{name}: {of}"),
        // A sum of 64 bits may have overflowed; the mean is about right then.
        Some(mean) => {
            let expected = numbers.iter().sum::<f64>() / numbers.len() as f64;
            let part = if is_real || size < 2_f64.powi(60) { 1e-12 } else { 0.125 };
            let allowed = part * size / numbers.len() as f64;
            assert!((mean - expected).abs() <= allowed, "{name}: {mean}, expected {expected}");
        }
    }
}

/// The words of a type's name in their order, without `int`, which compilers may leave out.
fn words(name: &str) -> Vec<&str> {
    let mut words: Vec<&str> = name.split(' ').filter(|word| *word != "int").collect();
    words.sort_unstable();
    words
}

/// Calls a function of `numbers.c`, and returns the values that it got.
fn values_of(target: &mut Target, name: &str) -> Vec<serde_json::Value> {
    let answer = target.ask(name);
    assert!(!answer.contains('!'), "a value was changed: {answer}");
    let value = |word: &str| match (name, word) {
        ("of_pointer", "(nil)") => serde_json::json!("0x0"),
        ("of_pointer", _) => serde_json::json!(word),
        ("of_float" | "of_double", _) => serde_json::json!(f64::from_bits(word.parse().expect("bits"))),
        _ => serde_json::from_str(word).expect("a number"),
    };
    answer.split(' ').skip(1).map(value).collect()
}

/// What `thalweg attach` writes while functions of a program are called.
fn attached_while(
    folder: &Path,
    target: &mut Target,
    arguments: &[&str],
    ask: impl FnOnce(&mut Target),
) -> String {
    let (code, pid) = (target.code(), target.pid());
    let mut command = thalweg(folder, &[&["attach", &pid], arguments].concat());
    let attaching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("thalweg starts");
    until("it attaches", || target.code() != code);
    ask(target);
    // The output is read meanwhile, since it does not fit into a pipe.
    let reading = std::thread::spawn(move || attaching.wait_with_output().expect("it ends"));
    let detached = ran(folder, &["detach", &pid]);
    assert!(detached.status.success(), "{}", text(&detached.stderr));
    let output = reading.join().expect("the output is read");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(target.code() == code);
    text(&output.stdout)
}

/// What `thalweg attach` writes while functions of `numbers.c` are called.
fn of_numbers(
    folder: &Path,
    target: &mut Target,
    arguments: &[&str],
    mut ask: impl FnMut(&mut Target),
) -> String {
    attached_while(folder, target, arguments, |target| {
        ask(target);
        assert_eq!(
            target.ask("flags"),
            "flags 0 1",
            "the state of floating-point numbers is the program's own"
        );
    })
}

/// `--set-arg` and `--when` number the parameters of the declaration, whichever registers they are in.
#[test]
fn changes_and_conditions_number_declared_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [["-O0", "-g"], ["-O2", "-g"]] {
        let mut target = started(built(folder.path(), "typed", &options));
        for (set, expected) in [
            ("scaled:1=0.25", "-0.5 12"),
            ("scaled:1=-2", "8.5 12"),
            ("scaled:2=8", "20.5 12"),
            ("scaled:3=1.25", "-8.75 12"),
        ] {
            attached_while(folder.path(), &mut target, &["--set-arg", set], |target| {
                assert_eq!(target.ask("go"), expected, "{set} {options:?}");
            });
            assert_eq!(target.ask("go"), "-9.5 12");
        }
        for (when, expected) in [
            ("arg1 > 2.25", 1),
            ("arg1 > 2.5", 0),
            ("arg1 >= 2.5", 1),
            ("arg1 != 2.5", 0),
            ("arg2 < 0", 1),
            ("arg2 == -4", 1),
            ("arg2 > -4", 0),
            ("arg3 <= 0.5", 1),
            ("arg3 < 0.5", 0),
            ("arg0 > 0", 1),
        ] {
            let arguments = ["--count", "scaled", "--when", when, "--json"];
            let printed = attached_while(folder.path(), &mut target, &arguments, |target| {
                assert_eq!(target.ask("go"), "-9.5 12");
            });
            let object: serde_json::Value = serde_json::from_str(&printed).expect("an object");
            assert_eq!(object["calls"], expected, "{when} {options:?}");
        }
        for (arguments, expected) in [
            (
                &["--set-arg", "scaled:9=1"][..],
                "scaled declares 4 parameters, counted from 0: there is no argument 9",
            ),
            (
                &["--set-arg", "scaled:2=0.5"],
                "argument 2 (int times) of scaled cannot become 0.5: it is an integer",
            ),
            (
                &["--set-arg", "area:1=3"],
                "argument 1 of area has type box, which is not in a register by itself",
            ),
            (&["--set-arg", "area:2=3"], "argument 2 of area has type long int"),
            (
                &["--set-arg", "area:0=300"],
                "argument 0 (unsigned char unit) of area cannot become 300: it has 1 byte",
            ),
            (
                &["--count", "area", "--when", "arg0 == -1"],
                "cannot be compared with -1: it is always from 0 to 255",
            ),
            (&["--count", "area", "--when", "arg0 == 1.5"], "cannot be compared with 1.5: it is an integer"),
            (
                &["--set-arg", "scaled:1=1", "--set-arg", "scaled:2=1"],
                "two arguments of scaled cannot be changed",
            ),
        ] {
            let pid = target.pid();
            let output = ran(folder.path(), &[&["attach", &pid], arguments].concat());
            let stderr = text(&output.stderr);
            assert!(output.status.code() == Some(2) && stderr.contains(expected), "{arguments:?}: {stderr}");
        }
    }
    // Without debugging information, the integer registers are numbered.
    let mut target = started(built(folder.path(), "typed", &["-O2"]));
    attached_while(folder.path(), &mut target, &["--set-arg", "scaled:1=5"], |target| {
        assert_eq!(target.ask("go"), "13 12");
    });
    let refused = ran(folder.path(), &["attach", &target.pid(), "--set-arg", "scaled:1=0.5"]);
    let stderr = text(&refused.stderr);
    assert!(
        stderr.contains("argument 1 of scaled, of unknown type, cannot become 0.5: it is an integer"),
        "{stderr}"
    );
}

#[test]
fn distributions_are_those_of_the_types() {
    let folder = tempfile::tempdir().expect("a folder");
    for (compiler, option, is_odd) in [("cc", "-O0", false), ("cc", "-O2", true), ("clang", "-O2", false)] {
        let Some(program) = built_by(compiler, folder.path(), "numbers", &[option, "-g", "-lm"]) else {
            println!("skipped: there is no {compiler}");
            continue;
        };
        let mut target = started(program);
        let mut truth = std::collections::HashMap::new();
        let arguments = ["--time", "of_*", "--args", "0", "--result", "--json"];
        let said = of_numbers(folder.path(), &mut target, &arguments, |target| {
            for (name, _) in NUMBERS {
                truth.insert(name, values_of(target, name));
            }
            if is_odd {
                target.ask("odd");
                let odd = ["NaN", "inf", "-inf", "5e-324", "-1e-300", "1e300"];
                truth.get_mut("of_double").expect("values").extend(odd.map(serde_json::Value::from));
            }
        });
        let objects: Vec<serde_json::Value> =
            said.lines().map(|line| serde_json::from_str(&exact(line)).expect("an object")).collect();
        assert_eq!(objects.len(), NUMBERS.len(), "{said}");
        for (name, of) in NUMBERS {
            let object = objects.iter().find(|object| object["function"] == name).expect("a function");
            for values in [&object["arguments"]["0"], &object["results"]] {
                assert_distribution(name, values, &truth[name]);
                let known = values["type"].as_str().expect("a type");
                // Compilers name the same type by different words.
                assert_eq!(words(known), words(of), "{name}");
            }
        }
        // Arguments have the numbers of the declaration, whichever registers they are in.
        let arguments = ["--count", "mixed", "--args", "0,1,2,3,4", "--result", "--json"];
        let said = of_numbers(folder.path(), &mut target, &arguments, |target| {
            assert_eq!(target.ask("mixed"), "mixed -14.25");
        });
        let object: serde_json::Value = serde_json::from_str(&said).expect("an object");
        let least = |number: &str| object["arguments"][number]["least"].clone();
        assert_eq!(
            ["0", "1", "2", "3"].map(least),
            [-7.0, 2.5, -3.0, 0.25].map(|number| {
                if number % 1.0 == 0.0 { serde_json::json!(number as i64) } else { serde_json::json!(number) }
            }),
            "{said}"
        );
        assert!(least("4").as_str().is_some_and(|address| address.starts_with("0x")), "{said}");
        assert_eq!(object["results"]["greatest"], -14.25, "{said}");
    }
}

#[test]
fn tables_of_values_are_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    for is_typed in [true, false] {
        let options: &[&str] = if is_typed { &["-O2", "-g", "-lm"] } else { &["-O2", "-lm"] };
        let mut target = started(built(folder.path(), "numbers", options));
        let arguments = ["--count", "of_short", "--count", "of_double", "--args", "0"];
        let said = of_numbers(folder.path(), &mut target, &arguments, |target| {
            values_of(target, "of_short");
            values_of(target, "of_double");
        });
        let part = |heading: &str| {
            let part = said.split(heading).nth(1).unwrap_or_else(|| panic!("{heading}: {said}"));
            part.split("\n\n").next().expect("a part").to_owned()
        };
        if !is_typed {
            let part = part("argument 0 of of_short, of unknown type, read without a sign: mean ");
            assert!(part.contains("least 0, greatest ") && !part.contains('-'), "{said}");
            continue;
        }
        let short = part("argument 0 (short int value) of of_short: mean ");
        assert!(short.contains(", least -32768, greatest 32767\n"), "{said}");
        let rows = |part: &str| -> Vec<(String, String)> {
            let rows = part.lines().skip(2).map(|row| row.split_whitespace().map(str::to_owned));
            rows.map(|mut row| (row.next().expect("a cell"), row.next().expect("a cell"))).collect()
        };
        let of_short = rows(&short);
        let bounds: Vec<i64> =
            of_short.iter().flat_map(|(first, last)| [first.parse(), last.parse()]).flatten().collect();
        assert!(bounds.len() == 2 * of_short.len() && bounds.is_sorted(), "{said}");
        assert_eq!(bounds.first(), Some(&-32768), "{said}");
        let double = rows(&part("argument 0 (double value) of of_double: mean "));
        let has = |first: &str, last: &str| double.contains(&(first.to_owned(), last.to_owned()));
        assert!(has("0", "0") && has("1", "<2") && has(">-2", "-1"), "{said}");
        let zero = double.iter().position(|(first, _)| first == "0").expect("zero");
        assert!(double[..zero].iter().all(|(_, last)| last.starts_with(['-', '<'])), "{said}");
    }
}
