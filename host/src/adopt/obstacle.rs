//! The sentences that say why a program cannot run.

use std::path::{Path, PathBuf};

/// Headers of S-Net's runtime that sources of boxes include; headers that begin with `snet` also count as
/// such.
const RUNTIME_HEADERS: &[&str] = &[
    "handle.h",
    "handle_p.h",
    "record.h",
    "record_p.h",
    "typeencode.h",
    "buffer.h",
    "stream.h",
    "networkinterface.h",
    "observers.h",
    "metadata.h",
    "interface_functions.h",
    "distribution.h",
    "threading.h",
    "C2SNet.h",
    "C4SNetc.h",
    "C4SNetText.h",
    "c4snet.h",
];
/// Headers of boxes in SAC.
const SAC_HEADERS: &[&str] = &["SAC4SNet.h", "SAC2SNet.h", "sacinterface.h", "sac.h", "cwrapper.h"];

/// A path relative to the folder to adopt.
pub(super) fn shown(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Why a file cannot be compiled, according to the compiler's messages.
pub(super) fn of_compiling(source: &Path, text: &str, root: &Path) -> String {
    let source = shown(source, root);
    let lines = || text.lines().filter(|line| line.contains("error:"));
    let missing = lines().find_map(|line| {
        let (before, _) =
            line.split_once(": No such file or directory").or_else(|| line.split_once("' file not found"))?;
        Some(before.rsplit([' ', '\'', ':']).next()?.to_owned())
    });
    if let Some(header) = missing {
        return of_header(&source, &header);
    }
    let Some(line) = lines().next() else {
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
        return format!("{source} cannot be compiled: {}", first.trim());
    };
    let (place, what) = line.split_once("error:").unwrap_or(("", line));
    let number = place.split(':').nth(1).filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    let place = number.map_or(source.clone(), |number| format!("{source}:{number}"));
    format!("{place} cannot be compiled: {}", what.trim())
}

fn of_header(source: &str, header: &str) -> String {
    let name = header.rsplit('/').next().unwrap_or(header);
    if SAC_HEADERS.contains(&name) {
        return format!(
            "{source} includes {header}, the interface of boxes in SAC: Thalweg calls boxes in C, C++ and Rust, so write \
             this box in one of them"
        );
    }
    if name.to_ascii_lowercase().starts_with("snet") || RUNTIME_HEADERS.contains(&name) {
        return format!(
            "{source} includes {header}, an old header of S-Net's runtime, which is not needed here: include C4SNet.h \
             instead, which has all that a box may call"
        );
    }
    format!(
        "{source} includes {header}, which is not there: install what has it, or say where it is (--cflag=-IDIR)"
    )
}

/// Why objects cannot be linked, according to the linker's messages.
pub(super) fn of_linking(text: &str, put_aside: &[(PathBuf, String)]) -> Vec<String> {
    let mut sentences = Vec::new();
    for line in text.lines() {
        if let Some(name) = quoted_behind(line, "undefined reference to ") {
            sentences.push(of_undefined(name, put_aside));
        } else if let Some(name) = quoted_behind(line, "multiple definition of ") {
            sentences.push(format!("`{name}` is defined in several files: keep one of them"));
        } else if let Some((_, library)) = line.split_once("cannot find -l") {
            let library = library.split(':').next().unwrap_or(library);
            sentences
                .push(format!("there is no library lib{library}: install it, or leave --link {library} out"));
        }
    }
    if sentences.is_empty() {
        let line = text.lines().find(|line| line.contains("error")).or(text.lines().next()).unwrap_or("");
        sentences.push(format!("the boxes cannot be linked: {}", line.trim()));
    }
    sentences.sort();
    sentences.dedup();
    sentences
}

fn of_undefined(name: &str, put_aside: &[(PathBuf, String)]) -> String {
    if name.starts_with("SNet") {
        return format!(
            "a box calls {name}, a function of S-Net's runtime: boxes may call what C4SNet.h declares, and nothing else of \
             the runtime"
        );
    }
    if name.starts_with("SAC") {
        return format!(
            "a box calls {name}, a function of SAC's runtime: Thalweg calls boxes in C, C++ and Rust"
        );
    }
    if let Some((_, why)) = put_aside.first() {
        return format!("the function {name} is not defined, and {why}");
    }
    format!("the function {name} is not defined: name the library that has it (--link NAME)")
}

/// The quoted name that follows `words` in a line.
fn quoted_behind<'t>(line: &'t str, words: &str) -> Option<&'t str> {
    let (_, behind) = line.split_once(words)?;
    let name = behind.trim_start_matches(['`', '\'', '"']);
    name.split(['`', '\'', '"', ';']).next()
}

/// The first error that `thalweg run` printed, without its code.
pub(super) fn of_running(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let (line, at) = loop {
        let line = lines.next()?;
        if let Some(behind) = line.strip_prefix("error") {
            break (behind, line);
        }
    };
    let message = line.split_once(": ").map_or(at, |(_, message)| message).trim().to_owned();
    // If the error is in a network's text, the next line has its place.
    let place = lines.next().and_then(|line| line.trim().strip_prefix("--> "));
    Some(place.map_or(message.clone(), |place| format!("{message} ({place})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_compiler_or_linker_becomes_a_sentence() {
        let compiling = |text: &str| of_compiling(Path::new("/p/boxes/step.c"), text, Path::new("/p"));
        let missing =
            "/p/boxes/step.c:2:10: fatal error: snetentities.h: No such file or directory\n    2 | #include";
        assert!(
            compiling(missing)
                .starts_with("boxes/step.c includes snetentities.h, an old header of S-Net's runtime")
        );
        let clang = "/p/boxes/step.c:1:10: fatal error: 'SAC4SNet.h' file not found";
        assert!(compiling(clang).contains("includes SAC4SNet.h, the interface of boxes in SAC"));
        let syntax =
            "/p/boxes/step.c: In function 'step':\n/p/boxes/step.c:7:3: error: expected ';' before '}' token";
        assert_eq!(compiling(syntax), "boxes/step.c:7 cannot be compiled: expected ';' before '}' token");

        let text = "/usr/bin/ld: 0-a.o: in function `a':\na.c:5: undefined reference to `jpeg_start'\n\
                    a.c:6: undefined reference to `jpeg_start'\na.c:7: undefined reference to `SNetRecGetTag'\n\
                    /usr/bin/ld: 1-b.o:b.c:3: multiple definition of `total'; 0-a.o:a.c:1: first defined here";
        let sentences = of_linking(text, &[]);
        assert_eq!(sentences.len(), 3, "{sentences:?}");
        assert!(sentences.iter().any(|one| one.starts_with("the function jpeg_start is not defined")));
        assert!(sentences.iter().any(|one| one.starts_with("a box calls SNetRecGetTag")));
        assert!(sentences.iter().any(|one| one.starts_with("`total` is defined in several files")));
        let absent = of_linking("/usr/bin/ld: cannot find -lnone: No such file or directory", &[]);
        assert_eq!(absent, ["there is no library libnone: install it, or leave --link none out"]);
    }

    #[test]
    fn of_what_a_run_prints_the_first_error_counts() {
        let text =
            "warning[W0607]: main/x: waits\nerror[E0801]: main/box: too large (message 0)\n1 record in";
        assert_eq!(of_running(text).unwrap(), "main/box: too large (message 0)");
        let text = "error[E0301]: there is no `f`\n --> main.snet:1:2\n  |";
        assert_eq!(of_running(text).unwrap(), "there is no `f` (main.snet:1:2)");
        assert_eq!(of_running("2 records in"), None);
    }
}
