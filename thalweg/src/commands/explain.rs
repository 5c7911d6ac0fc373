//! `thalweg explain`: prints the page on the code of an error or a warning.

use thalweg_pack::nearest;

use crate::Terminal;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  # what E0203 means, with an example, and how to mend it
  thalweg explain E0203
  # all codes
  thalweg explain";

/// The arguments of `thalweg explain`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The code, such as E0203. Without one, all codes are listed.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

macro_rules! pages {
    ($($code:ident,)*) => {
        /// The codes in ascending order, with their pages.
        const PAGES: &[(&str, &str)] = &[
            $((stringify!($code), include_str!(concat!("../../../docs/errors/", stringify!($code), ".md"))),)*
        ];
    };
}

pages! {
    E0101, E0102, E0103, E0104, E0105, E0201, E0202, E0203, E0204, E0205, E0206, E0207, E0208,
    E0301, E0302, E0303, E0304, E0305, E0306, E0307, E0308, E0309, E0310, E0401, E0402, E0403, E0501,
    E0502, E0503, E0504, E0505, E0506, E0507, E0801, E0802, E0803, E0804, E0901, E0902, E0903, E0904, E0905,
    W0601, W0602, W0603, W0604, W0605, W0606, W0607,
}

pub(crate) fn main(arguments: Arguments, terminal: Terminal) -> Result<(), Failure> {
    let mut output = Output::new(terminal);
    match arguments.code {
        Some(code) => output.text(page(&code)?)?,
        None => {
            for (code, page) in PAGES {
                output.line(&format!("{code}  {}", title(page)))?;
            }
        }
    }
    output.flush()
}

fn page(asked: &str) -> Result<&'static str, Failure> {
    let code = asked.trim().to_ascii_uppercase();
    if let Some((_, page)) = PAGES.iter().find(|(known, _)| *known == code) {
        return Ok(page);
    }
    let near = nearest(&code, PAGES.iter().map(|(known, _)| *known));
    let help = match near {
        Some(near) => format!("did you mean {near}?"),
        None => "`thalweg explain` lists all codes".to_owned(),
    };
    Err(Failure::Usage(format!("there is no code `{}`; {help}", asked.escape_debug())))
}

/// The text after the code in the page's first line.
fn title(page: &str) -> &str {
    let first = page.lines().next().unwrap_or("");
    first.split_once(": ").map_or(first, |(_, title)| title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_here() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors");
        let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut codes: Vec<String> = names.map(|n| n.trim_end_matches(".md").to_owned()).collect();
        codes.retain(|code| code != "README");
        codes.sort();
        assert_eq!(PAGES.iter().map(|(code, _)| *code).collect::<Vec<_>>(), codes);
        assert!(PAGES.iter().all(|(code, page)| page.starts_with(&format!("# {code}: "))));
    }

    #[test]
    fn codes_are_found_in_any_case_and_near_ones_are_named() {
        assert!(page("e0203").unwrap().starts_with("# E0203: "));
        let answer = |code| match page(code) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(answer("E203").contains("did you mean E0203?"));
        assert!(answer("network").contains("lists all codes"));
    }
}
