//! Random well-formed programs of the whole language, token by token.

use thalweg_chance::Chance;

/// Pseudo-random numbers, the same for the same seed.
pub(crate) struct Random(Chance);

impl Random {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(Chance::new(seed))
    }

    /// A number below `below`.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.0.below(below as u64) as usize
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// The tokens of a program with a net `main`: every name in it is defined.
pub(crate) fn program(random: &mut Random) -> Vec<String> {
    let mut writer = Writer { random, tokens: Vec::new(), components: Vec::new(), defined: 0 };
    writer.program();
    writer.tokens
}

/// The tokens with random spaces, line breaks and comments between them.
pub(crate) fn spelled(tokens: &[String], random: &mut Random) -> String {
    let mut text = String::new();
    let mut first = true;
    for token in tokens {
        let gap = match random.below(12) {
            _ if first => "",
            0..=3 => "",
            4..=6 => " ",
            7 => "\n",
            8 => "  \t\n\n\n ",
            9 => " /* why */ ",
            10 => "// because\n",
            _ => "\n  /* two\n lines */\n",
        };
        first = false;
        let gap = if gap.is_empty() && (merge(&text, token) || opens_comment(&text)) { " " } else { gap };
        // A sign before a comment must not become part of the comment.
        let gap = if gap.starts_with('/') && text.ends_with(['/', '<']) { " // because\n" } else { gap };
        text += gap;
        text += token;
    }
    text
}

fn opens_comment(text: &str) -> bool {
    text.ends_with('/')
}

/// Whether two adjacent tokens without a space could be read as other tokens.
fn merge(before: &str, after: &str) -> bool {
    let (Some(a), Some(b)) = (before.chars().next_back(), after.chars().next()) else { return false };
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let bracket = |c: char| matches!(c, '(' | ')' | '{' | '}' | ',' | ';');
    if word(a) || word(b) { word(a) && word(b) } else { !bracket(a) && !bracket(b) }
}

const LABELS: [&str; 6] = ["a", "b", "c", "count", "left_over", "x1"];

struct Writer<'a> {
    random: &'a mut Random,
    tokens: Vec<String>,
    /// The components that a topology can name here.
    components: Vec<String>,
    defined: usize,
}

impl Writer<'_> {
    fn put(&mut self, tokens: &str) {
        self.tokens.extend(tokens.split(' ').map(str::to_owned));
    }

    fn whole(&mut self, token: &str) {
        self.tokens.push(token.to_owned());
    }

    fn fresh(&mut self, what: &str) -> String {
        self.defined += 1;
        format!("{what}{}", self.defined)
    }

    /// Writes `least` to `most` items, with a token between them.
    fn several(&mut self, least: usize, most: usize, between: &str, mut each: impl FnMut(&mut Self)) {
        let count = least + self.random.below(most - least + 1);
        for i in 0..count {
            if i > 0 {
                self.put(between);
            }
            each(self);
        }
    }

    fn program(&mut self) {
        if self.random.chance(3) {
            self.whole("<metadata> <a b=\"1\"/> </metadata>");
        }
        self.put("type t =");
        self.type_(true);
        self.put(";");
        self.put("typesig s =");
        self.signature(false);
        self.put(";");
        let boxes = 1 + self.random.below(3);
        (0..boxes).for_each(|_| self.box_def());
        let nets = self.random.below(3);
        (0..nets).for_each(|_| self.net_def(1));
        self.net_named("main", 2);
        if self.random.chance(4) {
            self.tokens.pop();
        }
    }

    fn net_def(&mut self, depth: usize) {
        let name = self.fresh("net");
        self.net_named(&name, depth);
        self.components.push(name);
    }

    fn net_named(&mut self, name: &str, depth: usize) {
        self.put("net");
        self.put(name);
        if self.random.chance(3) {
            self.put("(");
            self.signature(true);
            self.put(")");
        }
        let outside = self.components.clone();
        if self.random.chance(2) {
            self.put("{");
            for _ in 0..self.random.below(3) {
                match self.random.below(4) {
                    0 if depth > 0 => self.net_def(depth - 1),
                    1 => self.whole("<metadata>m</metadata>"),
                    _ => self.box_def(),
                }
            }
            self.put("}");
        }
        self.put("connect");
        self.topo(4);
        self.put(";");
        self.components = outside;
    }

    fn box_def(&mut self) {
        let name = self.fresh("box_");
        self.put("box");
        self.put(&name);
        self.put("(");
        if !self.random.chance(8) {
            self.tuple();
        }
        self.put("->");
        self.several(0, 3, "|", Self::tuple);
        self.put(")");
        if self.random.chance(4) {
            self.put("{");
            self.several_codes();
            self.put("}");
        } else {
            self.put(";");
        }
        self.components.push(name);
    }

    fn several_codes(&mut self) {
        for _ in 0..self.random.below(3) {
            match self.random.below(3) {
                0 => self.whole("<metadata> in a box </metadata>"),
                1 => self.whole("<<< C | int f() { return 1 >> 2; } >>>"),
                _ => self.whole("<<<SAC|\n  two = 2; // lines\n>>>"),
            }
        }
    }

    /// Writes different labels.
    fn labels(&mut self, most: usize) {
        let first = self.random.below(LABELS.len());
        let mut next = first;
        self.several(0, most, ",", |w| {
            match w.random.below(5) {
                0 => w.put(&format!("<# {} >", LABELS[next])),
                1 | 2 => w.put(&format!("< {} >", LABELS[next])),
                _ => w.put(LABELS[next]),
            }
            next = (next + 1) % LABELS.len();
        });
    }

    fn tuple(&mut self) {
        self.put("(");
        self.labels(4);
        self.put(")");
    }

    fn set(&mut self) {
        self.put("{");
        self.labels(3);
        self.put("}");
    }

    fn type_(&mut self, plain: bool) {
        self.several(1, 3, "|", |w| if !plain && w.random.chance(4) { w.put("t") } else { w.set() });
    }

    fn signature(&mut self, names: bool) {
        self.several(1, 2, ",", |w| {
            if names && w.random.chance(4) {
                return w.put("s");
            }
            if !w.random.chance(6) {
                w.type_(false);
            }
            w.put("->");
            match w.random.below(4) {
                0 => {}
                1 => w.put("..."),
                _ => w.type_(false),
            }
        });
    }

    fn topo(&mut self, depth: usize) {
        let sign = self.random.one_of(&["|", "||"]);
        let most = if depth == 0 { 1 } else { 1 + self.random.below(3) };
        self.several(1, most, sign, |w| w.serial(depth));
    }

    fn serial(&mut self, depth: usize) {
        let most = if depth == 0 { 1 } else { 1 + self.random.below(4) };
        self.several(1, most, "..", |w| w.postfix(depth));
    }

    fn postfix(&mut self, depth: usize) {
        self.component(depth);
        while self.random.chance(4) {
            match self.random.below(6) {
                0 => self.put("@ 3"),
                1 | 2 => {
                    let sign = self.random.one_of(&["*", "**", "\\"]);
                    self.put(sign);
                    self.several(1, 3, ",", Self::pattern);
                }
                _ => {
                    let sign = self.random.one_of(&["!", "!!", "!@", "!!@"]);
                    self.put(sign);
                    self.tag();
                    if self.random.chance(3) {
                        self.put(":");
                        self.tag();
                    }
                }
            }
        }
    }

    fn tag(&mut self) {
        let tag = self.random.one_of(&["< a >", "<# b >", "< count >"]);
        self.put(tag);
    }

    fn component(&mut self, depth: usize) {
        match self.random.below(7) {
            0 | 1 if depth > 0 => {
                self.put("(");
                self.topo(depth - 1);
                self.put(")");
            }
            2 => self.filter(),
            3 => self.put("[ ]"),
            4 if self.random.chance(2) => {
                self.put("[|");
                self.several(1, 3, ",", Self::pattern);
                self.put("|]");
            }
            _ => {
                let name = self.components[self.random.below(self.components.len())].clone();
                self.put(&name);
            }
        }
    }

    fn pattern(&mut self) {
        self.set();
        if self.random.chance(4) {
            self.put("if");
            self.guard();
        }
    }

    fn guard(&mut self) {
        self.put("<");
        self.expression(2);
        self.put(">");
    }

    fn filter(&mut self) {
        self.put("[");
        self.set();
        self.put("->");
        for _ in 0..self.random.below(3) {
            self.put("if");
            self.guard();
            self.put("then");
            self.records();
            self.put("else");
        }
        self.records();
        self.put("]");
    }

    fn records(&mut self) {
        self.several(0, 2, ";", |w| {
            w.put("{");
            let mut next = w.random.below(LABELS.len());
            w.several(0, 3, ",", |w| {
                let label = LABELS[next];
                next = (next + 1) % LABELS.len();
                match w.random.below(6) {
                    0 => w.put(label),
                    1 => w.put(&format!("{label} = a")),
                    2 => w.put(&format!("< {label} >")),
                    3 => w.put(&format!("<# {label} >")),
                    kind => {
                        w.put(if kind == 4 { "<" } else { "<#" });
                        w.put(label);
                        w.put("=");
                        w.expression(2);
                        w.put(">");
                    }
                }
            });
            w.put("}");
        });
    }

    fn expression(&mut self, depth: usize) {
        let form = if depth == 0 { self.random.below(2) } else { self.random.below(8) };
        match form {
            0 => {
                let number = self.random.one_of(&["0", "7", "0x1F", "017", "9223372036854775807"]);
                self.put(number);
            }
            1 => {
                let tag = self.random.one_of(&LABELS);
                self.put(tag);
            }
            2 => {
                let sign = self.random.one_of(&["-", "!", "!!"]);
                self.put(sign);
                self.expression(depth - 1);
            }
            3 => {
                self.put("(");
                self.expression(depth - 1);
                self.put(")");
            }
            4 => {
                self.put("abs (");
                self.expression(depth - 1);
                self.put(")");
            }
            5 => {
                let name = self.random.one_of(&["min (", "max ("]);
                self.put(name);
                self.expression(depth - 1);
                self.put(",");
                self.expression(depth - 1);
                self.put(")");
            }
            6 => {
                self.put("(");
                self.expression(depth - 1);
                self.put("?");
                self.expression(depth - 1);
                self.put(":");
                self.expression(depth - 1);
                self.put(")");
            }
            _ => {
                const SIGNS: [&str; 13] =
                    ["||", "&&", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"];
                self.expression(depth - 1);
                let sign = self.random.one_of(&SIGNS);
                self.put(sign);
                self.expression(depth - 1);
            }
        }
    }
}
