//! `thalweg top`: a run on a terminal while it goes on.

mod screen;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use thalweg_host::amount::time;
use thalweg_host::{Interrupt, LiveRun, chain, spaces};
use thalweg_monitor::Follower;
use thalweg_view::Decisions;

use crate::commands::look::Sort;
use crate::commands::set::change_text;
use crate::failure::Failure;
use screen::{Asking, Screen};

const EXAMPLES: &str = "\
Examples:
  # the newest run
  thalweg top
  # the run of process 4242, measured over five seconds
  thalweg top 4242 --window 5s

Keys: Up and Down scroll, s changes the order (flow, load, name), / filters by a part of the name, : sets a setting \
(its name, a space, its value), Space pauses, q ends.
Where NO_COLOR is set, or the terminal has no colours, nothing is shown by colour alone.";

/// The arguments of `thalweg top`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A space: its path, or a name or process id that `thalweg ls` shows; or a session. The newest space if
    /// omitted.
    #[arg(value_name = "SPACE")]
    space: Option<String>,
    /// The figures cover this much time until now.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s")]
    window: Duration,
}

/// The interval at which the keyboard and the run are polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The interval at which the screen is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(500);
/// The largest number of rows of a table.
const TOP: usize = 100;

pub(crate) fn main(arguments: &Arguments, on: crate::Terminal) -> Result<(), Failure> {
    let path = spaces::find_feed(arguments.space.as_deref())?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "top needs a terminal to draw on: `thalweg report --watch` prints the same as text".to_owned(),
        ));
    }
    let mut follower = Follower::open(&path, TOP).map_err(Failure::usage)?;
    let decisions = Decisions::default();
    let monitor = decisions.clone();
    follower.add_each(move |_| Box::new(monitor.clone()));
    follower.poll();
    let report = follower.report().map_err(Failure::usage)?;
    let interrupt = Interrupt::listen().map_err(|error| Failure::run("cannot listen to signals", error))?;
    let screen = Screen::new(report, on.colour, decisions);
    let mut top = Top { follower, screen, window: arguments.window, began: Instant::now(), path };
    // `try_init` installs a panic hook, so the terminal is restored after a panic, too.
    let mut terminal =
        ratatui::try_init().map_err(|error| Failure::run("cannot draw on this terminal", error))?;
    leave_with_the_terminal(&interrupt);
    let shown = top.show(&mut terminal, &interrupt);
    ratatui::restore();
    shown.map_err(|error| Failure::run("cannot draw on this terminal", error))?;
    if interrupt.is_signalled() { Err(interrupt.error().into()) } else { Ok(()) }
}

/// Ends the program a second after a signal, if it still runs: crossterm reads from a closed terminal in an
/// endless loop, in spite of its timeout.
fn leave_with_the_terminal(interrupt: &Interrupt) {
    let interrupt = interrupt.clone();
    std::thread::spawn(move || {
        while !interrupt.is_signalled() {
            std::thread::sleep(LOOK_EVERY);
        }
        std::thread::sleep(Duration::from_secs(1));
        ratatui::restore();
        let code = Failure::from(interrupt.error()).exit_code();
        std::process::exit(i32::from(code));
    });
}

struct Top {
    follower: Follower<'static>,
    screen: Screen,
    window: Duration,
    began: Instant,
    path: std::path::PathBuf,
}

impl Top {
    fn show(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        interrupt: &Interrupt,
    ) -> std::io::Result<()> {
        let mut drawn = None;
        while !interrupt.is_signalled() {
            self.look();
            if drawn.is_none_or(|at: Instant| at.elapsed() >= DRAW_EVERY) {
                terminal.draw(|frame| self.screen.draw(frame))?;
                drawn = Some(Instant::now());
            }
            if event::poll(LOOK_EVERY)? {
                match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        if !self.key(key) {
                            return Ok(());
                        }
                        drawn = None;
                    }
                    Event::Resize(..) => drawn = None,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Reads new events, and shows a window that has ended.
    fn look(&mut self) {
        let running = self.follower.is_running();
        self.follower.poll();
        if self.screen.ended || self.screen.paused || (running && self.began.elapsed() < self.window) {
            return;
        }
        match self.follower.report() {
            // The last window says little about a run that has ended; `thalweg report` shows the whole run.
            Ok(report) => self.screen.take(report),
            Err(error) => self.screen.show_message(format!("{error:#}")),
        }
        self.screen.ended = !running;
        self.follower.restart();
        self.began = Instant::now();
    }

    /// Handles a key. Returns whether the command continues.
    fn key(&mut self, key: KeyEvent) -> bool {
        let screen = &mut self.screen;
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return false;
        }
        if let Some(asking) = screen.asking {
            match key.code {
                KeyCode::Esc => screen.asking = None,
                KeyCode::Backspace => drop(screen.typed.pop()),
                KeyCode::Char(c) => screen.typed.push(c),
                KeyCode::Enter => {
                    screen.asking = None;
                    match asking {
                        Asking::Filter => screen.filter = std::mem::take(&mut screen.typed),
                        Asking::Set => self.set(),
                    }
                }
                _ => {}
            }
            return true;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Up | KeyCode::Char('k') => screen.scrolled = screen.scrolled.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => screen.scrolled += 1,
            KeyCode::PageUp => screen.scrolled = screen.scrolled.saturating_sub(10),
            KeyCode::PageDown => screen.scrolled += 10,
            KeyCode::Char(' ') => screen.paused = !screen.paused,
            KeyCode::Char('/') => screen.ask(Asking::Filter),
            KeyCode::Char(':') => screen.ask(Asking::Set),
            KeyCode::Char('s') => {
                screen.sort = match screen.sort {
                    Sort::Flow => Sort::Load,
                    Sort::Load => Sort::Name,
                    Sort::Name => Sort::Flow,
                }
            }
            _ => {}
        }
        true
    }

    /// Changes a setting from the typed text (a name, a space, a value), as `thalweg set` does.
    fn set(&mut self) {
        let typed = std::mem::take(&mut self.screen.typed);
        let Some((name, value)) = typed.trim().split_once([' ', '=']) else {
            return self.screen.show_message("write a setting's name, a space, and its value".to_owned());
        };
        let run = LiveRun::open(&self.path).map(|run| run.called("thalweg top"));
        let changed = run.and_then(|run| run.change(name, value.trim(), None));
        self.screen.show_message(match changed {
            Ok(changed) => change_text(&changed, name),
            Err(error) => chain(&error),
        });
    }
}
