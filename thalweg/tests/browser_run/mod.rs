//! A browser that tests drive: Chromium by its DevTools protocol over two pipes, through which both sides
//! send JSON objects, each ended by a zero byte.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The longest time for any answer of the browser.
const PATIENCE: Duration = Duration::from_secs(60);

/// The names under which the browser is looked for.
const PROGRAMS: [&str; 2] = ["chromium", "chromium-browser"];

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    answers: Receiver<Value>,
    session: String,
    next: u64,
    /// The page's events: exceptions, errors on its console, requests.
    pub(crate) events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// Starts a browser. Without Chromium, reports the test as skipped and returns `None`.
pub(crate) fn browser(test: &str) -> Option<Browser> {
    let found = PROGRAMS.iter().find(|name| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    });
    match found {
        Some(program) => Some(Browser::start(program)),
        None => {
            let line =
                format!("skipped: {test}: no `chromium`: on Debian `apt-get install chromium` brings it");
            let _ = writeln!(std::io::stdout(), "{line}");
            None
        }
    }
}

impl Browser {
    fn start(program: &str) -> Browser {
        let profile = tempfile::tempdir().expect("a temporary folder");
        // The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        let line = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1";
        let mut command = Command::new("sh");
        command.args([
            "-c",
            line,
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ]);
        command.args([
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
        ]);
        command.args(["--force-prefers-reduced-motion", "--hide-scrollbars", "--window-size=1280,1000"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        // Chromium writes its other files into the test's folder as well.
        command.env("HOME", profile.path()).env("TMPDIR", profile.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a shell starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let (send, answers) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok_and(|count| count > 0) {
                bytes.pop();
                let Ok(value) = serde_json::from_slice(&bytes) else { break };
                if send.send(value).is_err() {
                    break;
                }
                bytes.clear();
            }
        });
        let input = child.stdin.take().expect("piped");
        let mut browser = Browser {
            child,
            input,
            answers,
            session: String::new(),
            next: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the DevTools protocol, and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser reads");
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Goes to an address and waits until the page shows its data.
    pub(crate) fn open(&mut self, address: &str) {
        self.call("Page.navigate", json!({ "url": address }));
        self.wait("window.thalweg !== undefined && document.getElementById('verdict-text') !== null");
    }

    pub(crate) fn open_file(&mut self, path: &Path) {
        self.open(&format!("file://{}", path.display()));
    }

    /// The value of an expression, also of a promise.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.value(expression) != true {
            if Instant::now() > until {
                let body = self.text("document.body ? document.body.innerText : ''");
                panic!("never true: {expression}\n{body}\n{:#?}", self.troubles());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Scrolls to the top of the page, and returns the left edge, the upper edge and the width of an element
    /// once they stay the same for two frames: a page draws at the next frame after a key, and may move its
    /// elements then.
    pub(crate) fn place_of(&mut self, element: &str) -> [f64; 3] {
        let script = format!(
            "(async () => {{
                window.scrollTo(0, 0);
                const frame = () => new Promise((done) => requestAnimationFrame(done));
                const edges = () => {{
                    const at = document.getElementById('{element}').getBoundingClientRect();
                    return [at.left, at.top, at.width];
                }};
                let [before, same] = [edges(), 0];
                while (same < 2) {{
                    await frame();
                    const now = edges();
                    same = now.every((edge, n) => edge === before[n]) ? same + 1 : 0;
                    before = now;
                }}
                return before;
            }})()"
        );
        let place = self.value(&script);
        [0, 1, 2].map(|n| place[n].as_f64().expect("a number"))
    }

    /// Presses a key.
    pub(crate) fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "text": text }));
        }
    }

    /// Moves the mouse, presses or releases it: `mouseMoved`, `mousePressed`, `mouseReleased`.
    pub(crate) fn mouse(&mut self, kind: &str, x: f64, y: f64, shift: bool) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let modifiers = if shift { 8 } else { 0 };
        let asked = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1, "modifiers": modifiers });
        self.call("Input.dispatchMouseEvent", asked);
    }

    /// What went wrong on the page: exceptions, errors on the console, and violations of the content-security
    /// policy.
    pub(crate) fn troubles(&self) -> Vec<&Value> {
        let is_trouble = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            _ => false,
        };
        self.events.iter().filter(is_trouble).collect()
    }

    /// The requested addresses.
    pub(crate) fn requests(&self) -> Vec<&str> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // After this message the browser ends with its child processes; if it does not end, it is killed.
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let until = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > until {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
