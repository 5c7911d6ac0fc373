//! Random networks of all constructs, with random records.

use std::fmt::Write as _;

use thalweg_chance::Chance;

use crate::boxes::DECLARATIONS;

/// A network and the records that enter it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) net: String,
    /// The records, in JSON.
    pub(crate) records: Vec<String>,
}

impl Case {
    pub(crate) fn random(seed: u64) -> Case {
        let mut writer = Writer::new(seed);
        let net = writer.net();
        let records = (0..writer.below(5) + 1).map(|_| writer.record()).collect();
        Case { net, records }
    }

    /// Reads a case from a file: the network, a line of dashes, the records.
    pub(crate) fn read(text: &str) -> Case {
        let (net, records) = text.split_once("\n---\n").expect("a line of dashes");
        Case { net: net.to_owned(), records: records.lines().map(str::to_owned).collect() }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}\n---", self.net)?;
        self.records.iter().try_for_each(|record| writeln!(f, "{record}"))
    }
}

/// A random writer of networks.
pub(crate) struct Writer(Chance);

impl std::ops::Deref for Writer {
    type Target = Chance;

    fn deref(&self) -> &Chance {
        &self.0
    }
}

impl std::ops::DerefMut for Writer {
    fn deref_mut(&mut self) -> &mut Chance {
        &mut self.0
    }
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Writer {
        Writer(Chance::new(seed))
    }

    fn net(&mut self) -> String {
        let mut text = String::from("net main {\n");
        DECLARATIONS.iter().for_each(|declaration| _ = writeln!(text, "  {declaration};"));
        let inner = self.topology(2, false);
        let signature = self.of(&["", "", "({a} -> ...)", "({a, <n>} -> ..., {b} -> ...)", "({} -> ...)"]);
        let _ = writeln!(text, "  net part {signature} connect {inner};");
        let depth = self.below(3) + 1;
        let main = self.topology(depth, true);
        let _ = write!(text, "}} connect {main};");
        text
    }

    fn topology(&mut self, depth: u64, nets: bool) -> String {
        if depth == 0 {
            return self.leaf(nets);
        }
        let deterministic = self.one_in(2);
        match self.below(12) {
            0..=2 => {
                let parts = self.below(2) + 2;
                self.joined(" .. ", parts, depth, nets)
            }
            3..=5 => {
                let branches = self.below(2) + 2;
                self.joined(if deterministic { " || " } else { " | " }, branches, depth, nets)
            }
            6 | 7 => {
                let (body, star) = (self.topology(depth - 1, nets), if deterministic { "**" } else { "*" });
                let also = self.of(&["", "", ", {c}", ", {b} if <k == 0>"]);
                match self.below(5) {
                    0 => format!("({body} {star} {})", self.pattern()),
                    1 => format!("([| {}, {} |] {star} {{a, b}})", self.pattern(), self.pattern()),
                    _ => format!("(({body} .. {}) {star} {{<n>}} if <n <= 0>{also})", self.less()),
                }
            }
            8 | 9 => {
                let (body, split) = (self.topology(depth - 1, nets), if deterministic { "!!" } else { "!" });
                let tags = self.of(&["<k>", "<k>", "<n>", "<#b>", "<k>:<n>"]);
                let placed = self.of(&["", "", "@"]);
                format!("(({body}) {split}{placed} {tags})")
            }
            10 => {
                let body = self.topology(depth - 1, nets);
                match self.below(4) {
                    0 => format!("(({body}) \\ {})", self.pattern()),
                    _ => format!("(({body} .. {}) \\ {{<n>}} if <n > 0>)", self.less()),
                }
            }
            _ => format!("(({}) @ {})", self.topology(depth - 1, nets), self.below(3)),
        }
    }

    fn joined(&mut self, operator: &str, count: u64, depth: u64, nets: bool) -> String {
        let parts: Vec<String> = (0..count).map(|_| self.topology(depth - 1, nets)).collect();
        format!("({})", parts.join(operator))
    }

    /// A filter that makes a loop end.
    fn less(&mut self) -> &'static str {
        self.of(&[
            "[{<n>} -> {<n = n - 1>}]",
            "[{<n>} -> {<n = n - 1>}]",
            "([{<n>} -> {<n = n - 1>}] | [{<n>, c} -> {<n = n - 2>}])",
            "[{<n>} -> if <n == 2> then {<n = 0>}; {<n = 1>} else {<n = n - 1>}]",
        ])
    }

    fn leaf(&mut self, nets: bool) -> String {
        match self.below(10) {
            0..=3 => {
                let declaration = self.of(&DECLARATIONS);
                declaration.split_whitespace().nth(1).expect("box NAME").to_owned()
            }
            4 if nets => "part".to_owned(),
            4 | 5 => format!("[| {}, {} |]", self.pattern(), self.pattern()),
            6 => "[]".to_owned(),
            _ => self.filter(),
        }
    }

    fn filter(&mut self) -> String {
        let pattern = self.of(&["{}", "{a}", "{b}", "{<n>}", "{a, <k>}", "{a, b}", "{<#b>}"]);
        let (one, other) = (self.outputs(pattern), self.outputs(pattern));
        match self.one_in(3) {
            true => format!("[{pattern} -> if <{}> then {one} else {other}]", self.expression()),
            false => format!("[{pattern} -> {one}]"),
        }
    }

    /// The output of a filter: only copies of labels that surely exist.
    fn outputs(&mut self, pattern: &str) -> String {
        let count = self.of(&[1, 1, 1, 2, 0]);
        let has = |label: &str| pattern.contains(label);
        let mut outputs = Vec::new();
        for _ in 0..count {
            let mut items = Vec::new();
            let mut add = |item: String| items.push(item);
            for _ in 0..self.below(3) {
                match self.below(7) {
                    0 if has("a") => add("a".to_owned()),
                    1 if has("a") => add("c = a".to_owned()),
                    2 if has("a") => add("b = a".to_owned()),
                    3 if has("{b") || has(" b") => add("a = b".to_owned()),
                    4 => add(format!("<n = {}>", self.expression())),
                    5 => add(self.of(&["<k>", "<n>", "<#b>", "<#b = 1>"]).to_owned()),
                    _ => add(format!("<k = {}>", self.expression())),
                }
            }
            items.sort();
            items.dedup_by_key(|item| item.split([' ', '>']).next().map(str::to_owned));
            outputs.push(format!("{{{}}}", items.join(", ")));
        }
        outputs.join("; ")
    }

    fn pattern(&mut self) -> String {
        let labels = self.of(&["{a}", "{b}", "{c}", "{a, b}", "{<k>}", "{}", "{<#b>}", "{a, <n>}"]);
        match self.one_in(3) {
            true => format!("{labels} if <{}>", self.expression()),
            false => labels.to_owned(),
        }
    }

    fn expression(&mut self) -> &'static str {
        self.of(&[
            "n",
            "k",
            "n - 1",
            "n % 2",
            "k == 1",
            "n > 1 && k > 0",
            "6 / k",
            "k < 1 ? n : n / 2",
            "min(n, k)",
            "!k",
            "9223372036854775807 + n",
            "0",
            "abs(k - 1) == 1 || n >= 2",
        ])
    }

    fn record(&mut self) -> String {
        let mut items = Vec::new();
        let mut add = |name: &str, value: u64| items.push(format!("\"{name}\": {value}"));
        for (name, one_in, below) in
            [("a", 5, 7), ("b", 2, 4), ("c", 1, 3), ("<n>", 6, 4), ("<k>", 4, 3), ("<#b>", 0, 2)]
        {
            if self.below(8) <= one_in {
                add(name, self.below(below));
            }
        }
        format!("{{{}}}", items.join(", "))
    }
}
