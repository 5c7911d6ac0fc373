//! Generated programs in Java with random methods of every sort, which write the expected calls to a file.

use thalweg_chance::Chance;

/// The sort of a method.
#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Static,
    Instance,
    Synchronized,
    /// A pair of methods with the same name.
    Overloaded,
    /// A class whose constructor makes calls, and may throw before, in and after the constructor of its super
    /// class.
    Constructor,
    /// A method that makes its calls in a lambda.
    Lambda,
    /// A default method of an interface.
    Interface,
}

const SORTS: [Sort; 7] = [
    Sort::Static,
    Sort::Instance,
    Sort::Synchronized,
    Sort::Overloaded,
    Sort::Constructor,
    Sort::Lambda,
    Sort::Interface,
];

/// Names in scripts of all sorts.
const WORDS: [&str; 8] = ["order", "größe", "заказ", "価格", "τιμή", "سعر", "qty_2", "𝒳"];

/// The source of a class of this package whose `call` calls one of its operations.
pub(crate) fn program(package: &str, seed: u64, is_ascii: bool) -> String {
    let mut chance = Chance::new(seed);
    let sorts: Vec<Sort> = (0..8).map(|_| SORTS[chance.below(SORTS.len() as u64) as usize]).collect();
    let mut members = String::new();
    let mut cases = String::new();
    for (n, sort) in sorts.iter().enumerate() {
        let name = format!("{}{n}", WORDS[chance.below(WORDS.len() as u64) as usize]);
        let name = if is_ascii { format!("op{n}") } else { name };
        members += &member(package, &name, n, *sort, &mut chance);
        cases += &format!("            case {n}: call_{n}(); break;\n");
    }
    let root = logged(&format!("{package}.Program.call"), "Dispatch.go(which);\n");
    format!(
        "package {package};\nimport truth.Truth;\npublic class Program implements Truth.Roots {{\n\
         \x20   public void call(int which) {{\n{root}    }}\n\
         \x20   static final Program THIS = new Program();\n{members}}}\n\
         class Dispatch {{\n    static void go(int which) {{\n        switch (which % 8) {{\n{}        }}\n    }}\n}}\n",
        cases.replace("call_", "Program.call_")
    )
}

/// The body of a method: calls of other methods, with or without a catch clause, and a throw or a return.
fn body(chance: &mut Chance, may_catch: bool) -> String {
    let (calls, breaks, fails) = (2 + chance.below(3), 2 + chance.below(3), 4 + chance.below(6));
    let mut text = format!(
        "double wide = 0.5; String word = \"a\";\n\
         \x20       for (int n = Truth.below({calls}); n > 0 && Truth.more(); n--) {{\n"
    );
    // A lambda contains no statement that would change the calls of its caller.
    let way = chance.below(if may_catch { 5 } else { 4 });
    text += &match way * u64::from(may_catch || way == 3) {
        4 => "            if (Truth.below(4) == 0) Truth.handOver(Program.THIS, Truth.below(1000)); else Dispatch.go(Truth.below(1000));\n".to_owned(),
        0 => "            Dispatch.go(Truth.below(1000));\n".to_owned(),
        1 => format!(
            "            int level = Truth.level();\n\
             \x20           try {{ Dispatch.go(Truth.below(1000)); }} catch (Truth.Boom boom) {{ Truth.cut(level, 'u'); \
             if (Truth.below({breaks}) == 0) throw boom; }}\n"
        ),
        2 => "            int level = Truth.level();\n\
             \x20           try { Dispatch.go(Truth.below(1000)); } finally { Truth.cut(level, 'u'); Dispatch.go(Truth.below(1000)); }\n"
            .to_owned(),
        _ => format!(
            "            long x = n; word += x; wide *= 2; if (word.length() > 3 && wide > 1) Dispatch.go((int) (x + Truth.below({breaks})));\n"
        ),
    };
    text + &format!("        }}\n        if (Truth.below({fails}) == 0) throw new Truth.Boom();\n")
}

/// A body that writes its beginning and end to the file.
fn logged(operation: &str, body: &str) -> String {
    format!(
        "        int at = Truth.enter(\"{operation}\"); char how = 'u';\n        try {{\n        {body}        how = 'r';\n\
         \x20       }} finally {{ Truth.cut(at + 1, 'u'); Truth.cut(at, how); }}\n"
    )
}

fn member(package: &str, name: &str, n: usize, sort: Sort, chance: &mut Chance) -> String {
    let full = format!("{package}.Program.{name}");
    // A lambda has no probe: if a lambda catches an exception, and the exception came from a super class's
    // constructor, the end of the calling constructor is not recorded.
    let body = body(chance, sort != Sort::Lambda);
    match sort {
        Sort::Static => format!(
            "    static long {name}(long a, double b) {{\n{}        return a; }}\n    static void call_{n}() {{ {name}(1L, 2.0); }}\n",
            logged(&full, &body)
        ),
        Sort::Instance => format!(
            "    Object {name}(Object o, int... rest) {{\n{}        o = \"x\"; return o; }}\n    static void call_{n}() {{ THIS.{name}(\"y\", 1, 2); }}\n",
            logged(&full, &body)
        ),
        Sort::Synchronized => format!(
            "    synchronized boolean {name}() {{\n{}        return at > 3; }}\n    static void call_{n}() {{ THIS.{name}(); }}\n",
            logged(&full, &body)
        ),
        Sort::Overloaded => format!(
            "    static int {name}(int a) {{\n{}        return a; }}\n    static void {name}(String[] a, byte b) {{\n{}        }}\n\
             \x20   static void call_{n}() {{ if (Truth.below(2) == 0) {name}(1); else {name}(null, (byte) 1); }}\n",
            logged(&format!("{full}(int)"), &body),
            logged(&format!("{full}(String[], byte)"), &body)
        ),
        Sort::Constructor => {
            let (made, base) = (format!("Made{n}"), format!("Base{n}"));
            format!(
                "    static class {base} {{ {base}(int a) {{\n{}        }} }}\n\
                 \x20   static class {made} extends {base} {{ final int kept; {made}(int a) {{\n\
                 \x20       super(Truth.enter(\"{package}.Program${made}.<init>\", a) + Truth.below(3));\n\
                 \x20       int at = Truth.level() - 1; char how = 'u'; kept = a;\n        try {{\n        {body}        how = 'r';\n\
                 \x20       }} finally {{ Truth.cut(at + 1, 'u'); Truth.cut(at, how); }} }} }}\n\
                 \x20   static void call_{n}() {{ int level = Truth.level(); boolean done = false; \
                 try {{ new {made}(n0()); done = true; }} finally {{ if (!done) Truth.cut(level, 'u'); }} }}\n\
                 \x20   static int n0() {{ return 0; }}\n",
                logged(&format!("{package}.Program${base}.<init>"), &body)
            )
            .replace("n0()", &format!("n{n}()"))
        }
        Sort::Lambda => format!(
            "    static void {name}() {{\n{}        }}\n    static void call_{n}() {{ {name}(); }}\n",
            logged(&full, &format!("Runnable work = () -> {{ {body} }};\n        work.run();\n"))
        ),
        Sort::Interface => format!(
            "    interface Has{n} {{ default int {name}(int a) {{\n{}        return a; }} }}\n    static class Does{n} implements Has{n} {{}}\n\
             \x20   static final Has{n} HAS{n} = new Does{n}();\n    static void call_{n}() {{ HAS{n}.{name}(1); }}\n",
            logged(&format!("{package}.Program$Has{n}.{name}"), &body)
        ),
    }
}
