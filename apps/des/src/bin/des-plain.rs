//! Encrypts a file with the plain loop, for comparison with the network.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command")]

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use app_des::des::{self, Subkeys};

const USAGE: &str = "usage: des-plain [--decrypt] KEY INPUT OUTPUT   (KEY: 16 hexadecimal digits)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("error: {what}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<String, String> {
    let (decrypting, rest) = match arguments {
        [first, rest @ ..] if first == "--decrypt" => (true, rest),
        all => (false, all),
    };
    let [key, input, output] = rest else { return Err(USAGE.to_owned()) };
    let keys = Subkeys::new(parse_key(key)?);
    let plain = std::fs::read(input).map_err(|e| format!("cannot read {input}: {e}"))?;
    let begin = Instant::now();
    let result = if decrypting {
        des::decrypt(&keys.reversed(), &plain).map_err(|e| format!("{input}: {e}"))?
    } else {
        des::encrypt(&keys, &plain)
    };
    let took = begin.elapsed();
    std::fs::write(Path::new(output), &result).map_err(|e| format!("cannot write {output}: {e}"))?;
    Ok(rate(plain.len(), took))
}

fn parse_key(text: &str) -> Result<[u8; 8], String> {
    let wrong = || format!("a DES key is 16 hexadecimal digits, not `{text}`\n{USAGE}");
    if text.len() != 16 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    u64::from_str_radix(text, 16).map(u64::to_be_bytes).map_err(|_| wrong())
}

fn rate(bytes: usize, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    format!("{bytes} bytes in {:.3} ms, {:.1} MB/s", seconds * 1e3, bytes as f64 / 1e6 / seconds)
}
