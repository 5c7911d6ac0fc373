//! `thalweg message`: one message's story, or the stories of those that took longest or led to failures.

use thalweg_host::spaces;
use thalweg_monitor::{FailedMessage, Hop, MessageId, MessageTimes, Report, Story, report, slowest, story};

use crate::Terminal;
use crate::commands::look::usage;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{ShapeArguments, Table, number, text};
use crate::units::{count, counted, duration};

const EXAMPLES: &str = "\
Examples:
  # message 1042 of stream 3: its ancestors and descendants
  thalweg message 3:1042
  # the five that took longest, and where they waited
  thalweg message kept-run --slowest 5
  # which input messages led to records that failed
  thalweg message kept-run --failed";

/// The arguments of `thalweg message`.
#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "thalweg message [OPTIONS] [SPACE] STREAM:INDEX\n       thalweg message [OPTIONS] [SPACE] --slowest N\n       thalweg message [OPTIONS] [SPACE] --failed"
)]
pub(crate) struct Arguments {
    /// A space (as in `thalweg report`; the newest if omitted) or a session, and the message: its stream's id
    /// and its index there, from 0, which `thalweg events` shows. In a session, write SPACE/STREAM:INDEX.
    #[arg(value_name = "[SPACE] STREAM:INDEX", num_args = 0..=2, required_unless_present_any = ["slowest", "failed"])]
    space_and_message: Vec<String>,
    /// The input messages that took longest, at most 100.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    slowest: Option<u64>,
    /// Messages that failed, and the input messages they came from.
    #[arg(long, conflicts_with = "slowest")]
    failed: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: ShapeArguments,
}

pub(crate) fn main(arguments: &Arguments, terminal: Terminal) -> Result<(), Failure> {
    let (space, message) = split(arguments)?;
    let feed = spaces::feed(space)?;
    let mut output = Output::shaped(terminal, &arguments.shape);
    if arguments.failed {
        let report = report(feed, usize::MAX).map_err(usage)?;
        return print(&mut output, arguments.json, &report.failures, |output| {
            print_failures(&report, output)
        });
    }
    if let Some(count) = arguments.slowest {
        let found = slowest(&feed, count as usize).map_err(usage)?;
        return print(&mut output, arguments.json, &found, |output| print_slowest(&found, output));
    }
    let Some(text) = message else { return Ok(()) };
    let message: MessageId = text.parse().map_err(usage)?;
    let story = story(&feed, message).map_err(usage)?.ok_or_else(|| {
        Failure::Usage(format!(
            "the events of {} say nothing of a message {message}: it never was, or its events were overwritten; \
             only mode full records single messages (`thalweg events` shows streams and indices)",
            space.unwrap_or("the newest run")
        ))
    })?;
    print(&mut output, arguments.json, &story, |output| print_story(&story, output))
}

/// The space and the message. With `--slowest` or `--failed`, a single argument is a space.
fn split(arguments: &Arguments) -> Result<(Option<&str>, Option<&str>), Failure> {
    let many = arguments.failed || arguments.slowest.is_some();
    match arguments.space_and_message.as_slice() {
        [] => Ok((None, None)),
        [space] if many => Ok((Some(space), None)),
        [message] if message.parse::<MessageId>().is_err() && spaces::find_feed(Some(message)).is_ok() => {
            Err(Failure::Usage(format!(
                "{message} is a space: give a message too, STREAM:INDEX, or --slowest N, or --failed"
            )))
        }
        [message] => Ok((None, Some(message))),
        [_, message, ..] if many => {
            Err(Failure::Usage(format!("{message}: --slowest and --failed choose the messages themselves")))
        }
        [space, message, ..] => Ok((Some(space), Some(message))),
    }
}

fn print<T: serde::Serialize>(
    output: &mut Output,
    json: bool,
    value: &T,
    text: impl Fn(&mut Output) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if json {
        let json =
            serde_json::to_string_pretty(value).map_err(|error| Failure::run("cannot write JSON", error))?;
        output.line(&json)?;
    } else {
        text(output)?;
    }
    output.flush()
}

fn print_story(story: &Story, output: &mut Output) -> Result<(), Failure> {
    let from = match &story.input {
        Some(input) if *input == story.message => "it is an input message of the network".to_owned(),
        Some(input) => format!("it descends from the input message {input}"),
        None => "the input message it descends from is not known".to_owned(),
    };
    output.line(&output.styled("1", &format!("Message {}: {from}", story.message)))?;
    output.line("")?;
    output.table(&tree(&story.hops, Some(&story.message)))?;
    if let Some(error_ns) = story.clock_error_ns {
        let error = duration(error_ns);
        output.line(&format!(
            "Times of other machines are those of this one, with an error of at most {error}."
        ))?;
    }
    if story.clamped > 0 {
        output.line(&format!(
            "{} received before it was sent, by these clocks: the time of sending is shown",
            counted(story.clamped, "message")
        ))?;
    }
    if story.cut_short {
        output.line("… it has more descendants than are followed")?;
    }
    Ok(())
}

/// A table with one message in each row, below the message from which it descends.
fn tree(hops: &[Hop], marked: Option<&str>) -> Table {
    let mut table = Table::new(&[
        text("MESSAGE"),
        text("WRITTEN BY"),
        number("AT", 1),
        number("WAITED", 0),
        text("READ BY"),
        number("WORKER", 2),
        number("SERVICE", 0),
        text("THEN").loose(),
    ]);
    let known = |time: Option<f64>| time.map_or(String::new(), duration);
    for hop in hops {
        let indent = "  ".repeat(hop.depth.min(20) as usize);
        let cells = vec![
            format!("{indent}{}", hop.message),
            hop.writer.clone().unwrap_or_default(),
            known(hop.written_ns),
            known(hop.waited_ns),
            hop.reader.clone().unwrap_or_default(),
            hop.worker.map_or(String::new(), |worker| worker.to_string()),
            known(hop.service_ns),
            hop.fate.clone(),
        ];
        table.row(cells, marked == Some(&hop.message));
    }
    table
}

fn print_slowest(found: &[(MessageTimes, Story)], output: &mut Output) -> Result<(), Failure> {
    if found.is_empty() {
        return output
            .line("No input message left the network, as far as was recorded (mode full records messages).");
    }
    let mut table = Table::new(&[
        text("MESSAGE"),
        number("ENTERED", 1),
        number("END TO END", 0),
        number("SERVICE", 0),
        text("LONGEST WAIT"),
        number("THERE", 0),
    ]);
    for (times, story) in found {
        let waited = |hop: &&Hop| hop.waited_ns.unwrap_or(0.0);
        let longest = story.hops.iter().max_by(|a, b| waited(a).total_cmp(&waited(b)));
        let at = longest.map_or(String::new(), |hop| {
            format!("{} for {}", hop.message, hop.reader.as_deref().unwrap_or("?"))
        });
        let cells = vec![
            times.message.clone(),
            duration(times.entered_ns),
            duration(times.end_to_end_ns),
            duration(times.service_ns),
            at,
            longest.and_then(|hop| hop.waited_ns).map_or(String::new(), duration),
        ];
        table.row(cells, false);
    }
    output.table(&table)
}

fn print_failures(report: &Report, output: &mut Output) -> Result<(), Failure> {
    let failures = &report.failures;
    if !failures.is_empty() {
        output.table(&failed(failures))?;
    }
    let all: u64 = report.components.iter().map(|component| component.work.failed).sum();
    let unlisted = all.saturating_sub(failures.len() as u64);
    if unlisted > 0 {
        let more = if failures.is_empty() { "" } else { " more" };
        let messages = counted(unlisted, "message");
        return output.line(&format!("{messages}{more} failed that are not listed: at most 1,000 are, and none whose events were overwritten."));
    }
    if failures.is_empty() {
        let lost = report.window.lost;
        let unless = if lost == 0 {
            String::new()
        } else {
            format!(" in the events that are left ({} were lost)", count(lost))
        };
        return output.line(&format!("No message failed{unless}."));
    }
    Ok(())
}

fn failed(failures: &[FailedMessage]) -> Table {
    let mut table = Table::new(&[text("FAILED"), text("IN"), number("AT", 1), text("INPUT MESSAGE")]);
    for failed in failures {
        let cells = vec![
            failed.message.clone(),
            failed.component.clone().unwrap_or_else(|| format!("task {}", failed.task)),
            duration(failed.at_ns),
            failed.input.clone().unwrap_or_else(|| "not known".to_owned()),
        ];
        table.row(cells, false);
    }
    table
}
