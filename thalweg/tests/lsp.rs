//! `thalweg lsp`: complete sessions over pipes, as with an editor.

mod des_run;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

/// An editor.
struct Client {
    server: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: i64,
    notified: VecDeque<Value>,
}

impl Client {
    fn start() -> Client {
        let mut command = des_run::thalweg();
        command.arg("lsp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("thalweg starts");
        let to = server.stdin.take();
        let from = BufReader::new(server.stdout.take().expect("piped"));
        Client { server, to, from, next: 0, notified: VecDeque::new() }
    }

    /// Started and initialised.
    fn ready() -> Client {
        let mut client = Client::start();
        let answer =
            client.ask("initialize", json!({ "processId": null, "rootUri": null, "capabilities": {} }));
        assert_eq!(answer["result"]["serverInfo"]["name"], "thalweg", "{answer}");
        client.notify("initialized", json!({}));
        client
    }

    fn write(&mut self, body: &str) {
        let to = self.to.as_mut().expect("open");
        write!(to, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("it reads");
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// Sends a request without waiting for the answer.
    fn request(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        let id = self.next;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    fn read(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert_ne!(self.from.read_line(&mut line).expect("text"), 0, "the server went away");
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", bytes)) => length = bytes.parse().expect("a number"),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.from.read_exact(&mut body).expect("a body");
        serde_json::from_slice(&body).expect("JSON")
    }

    /// The next answer of the server; notifications that arrive before it are kept for later.
    fn answer(&mut self) -> Value {
        loop {
            let message = self.read();
            assert_eq!(message["jsonrpc"], "2.0", "{message}");
            match message.get("method") {
                Some(_) => self.notified.push_back(message),
                None => return message,
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The next diagnostics of a text: their codes with places, and the version of the text.
    fn diagnostics(&mut self, uri: &str) -> (Vec<String>, Value) {
        loop {
            let message = self.notified.pop_front().unwrap_or_else(|| self.read());
            let params = &message["params"];
            if message["method"] != "textDocument/publishDiagnostics" || params["uri"] != uri {
                continue;
            }
            let shown = |d: &Value| {
                let start = &d["range"]["start"];
                let end = &d["range"]["end"];
                let code = d["code"].as_str().expect("a code");
                format!("{code} {}:{}-{}", start["line"], start["character"], end["character"])
            };
            let found = params["diagnostics"].as_array().expect("a list").iter().map(shown).collect();
            return (found, params["version"].clone());
        }
    }

    fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "snet", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn change(&mut self, uri: &str, version: i64, changes: Value) {
        let document = json!({ "uri": uri, "version": version });
        self.notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": changes }));
    }

    /// Ends the session as the protocol says. Returns the exit code.
    fn end(mut self) -> Option<i32> {
        assert_eq!(self.result("shutdown", Value::Null), Value::Null);
        self.notify("exit", Value::Null);
        self.server.wait().expect("it ends").code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn at(uri: &str, line: u32, character: u32) -> Value {
    json!({ "textDocument": { "uri": uri }, "position": { "line": line, "character": character } })
}

fn range(line: u32, start: u32, end: u32) -> Value {
    json!({ "start": { "line": line, "character": start }, "end": { "line": line, "character": end } })
}

fn uri(folder: &Path, name: &str) -> String {
    format!("file://{}/{name}", folder.display())
}

const MAIN: &str = "// Twice one more.
net main {
    // Adds one, wherever 🌊 flows.
    box inc ((x) -> (x));
    net helper connect inc;
}
connect inc .. /* 🌊 */ helper .. [{x, <t>} -> {y = x, <t>}];
";

#[test]
fn a_whole_conversation() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let main = uri(folder.path(), "main.snet");
    let mut client = Client::ready();
    client.open(&main, MAIN);
    assert_eq!(client.diagnostics_or_none(&main), [""; 0]);

    // Columns count UTF-16 units, so the wave before these places counts as two columns.
    let helper = 24;
    let definition = client.result("textDocument/definition", at(&main, 6, helper));
    assert_eq!(definition, json!({ "uri": main, "range": range(4, 8, 14) }));

    let mut params = at(&main, 6, 9);
    params["context"] = json!({ "includeDeclaration": false });
    let references = client.result("textDocument/references", params.clone());
    let places =
        json!([{ "uri": main, "range": range(4, 23, 26) }, { "uri": main, "range": range(6, 8, 11) }]);
    assert_eq!(references, places);
    params["context"] = json!({ "includeDeclaration": true });
    assert_eq!(client.result("textDocument/references", params).as_array().expect("a list").len(), 3);

    let hover = client.result("textDocument/hover", at(&main, 6, 10));
    let text = hover["contents"]["value"].as_str().expect("text");
    assert!(text.contains("box inc ((x) -> (x))") && text.contains("Adds one, wherever 🌊 flows."), "{text}");
    assert_eq!(hover["range"], range(6, 8, 11));
    let hover = client.result("textDocument/hover", at(&main, 1, 5));
    let text = hover["contents"]["value"].as_str().expect("text");
    assert!(text.contains("Twice one more.") && text.contains("inferred: `{x, <t>} -> {y, <t>}`"), "{text}");
    let hover = client.result("textDocument/hover", at(&main, 6, helper + 10));
    let text = hover["contents"]["value"].as_str().expect("text");
    assert!(text.starts_with("filter: `{x, <t>} -> {y, <t>}`"), "{text}");
    assert_eq!(client.result("textDocument/hover", at(&main, 99, 0)), Value::Null);

    let symbols = client.result("textDocument/documentSymbol", json!({ "textDocument": { "uri": main } }));
    let symbols = symbols.as_array().expect("a list");
    assert_eq!((symbols.len(), &symbols[0]["name"]), (1, &json!("main")));
    let children: Vec<&Value> =
        symbols[0]["children"].as_array().expect("a list").iter().map(|s| &s["name"]).collect();
    assert_eq!(children, ["inc", "helper"]);

    assert_eq!(client.format(&main), json!([]));
    client.change(&main, 2, json!([{ "range": range(6, 7, 7), "text": "    " }]));
    let edits = client.format(&main);
    assert_eq!(edits[0]["range"]["start"], json!({ "line": 6, "character": 0 }), "{edits}");
    assert!(
        edits[0]["newText"].as_str().expect("text").starts_with("connect inc .. /* 🌊 */ helper"),
        "{edits}"
    );

    assert_eq!(client.end(), Some(0));
}

impl Client {
    fn format(&mut self, uri: &str) -> Value {
        let options = json!({ "tabSize": 4, "insertSpaces": true });
        self.result("textDocument/formatting", json!({ "textDocument": { "uri": uri }, "options": options }))
    }

    /// The codes of a text after all messages were processed; empty if there never was an error.
    fn diagnostics_or_none(&mut self, uri: &str) -> Vec<String> {
        // The server's answer to this request comes after diagnostics for all earlier messages.
        self.result("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
        let of_text = |m: &Value| m["params"]["uri"] == uri;
        match self.notified.iter().any(of_text) {
            true => self.diagnostics(uri).0,
            false => Vec::new(),
        }
    }

    fn complete(&mut self, uri: &str, line: u32, character: u32) -> Vec<String> {
        let items = self.result("textDocument/completion", at(uri, line, character));
        let items = items.as_array().expect("a list").clone();
        items.iter().map(|item| item["label"].as_str().expect("a label").to_owned()).collect()
    }
}

#[test]
fn errors_come_and_go_while_one_types() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let main = uri(folder.path(), "main.snet");
    let mut client = Client::ready();
    client.open(&main, "net main connect /* ä🌊 */ incc;\n");
    assert_eq!(client.diagnostics(&main), (vec!["E0301 0:27-31".to_owned()], json!(1)));
    // Replaces the name by a filter, in UTF-16 units.
    client.change(&main, 2, json!([{ "range": range(0, 27, 31), "text": "[]" }]));
    assert_eq!(client.diagnostics(&main), (vec![], json!(2)));
    // Several changes in one message, each applied to the result of the one before.
    let changes = json!([
        { "range": range(0, 27, 29), "text": "" },
        { "range": range(0, 27, 27), "text": "[{a} -> {b = a}" },
    ]);
    client.change(&main, 3, changes);
    let (codes, version) = client.diagnostics(&main);
    assert_eq!((codes.len(), &codes[0][..3], version), (1, "E02", json!(3)), "{codes:?}");
    client.change(&main, 4, json!([{ "text": "net main connect [{a, a} -> {b = a}];" }]));
    assert_eq!(client.diagnostics(&main), (vec!["W0604 0:22-23".to_owned()], json!(4)));
    // A closed text without a file has no diagnostics.
    client.notify("textDocument/didClose", json!({ "textDocument": { "uri": main } }));
    assert_eq!(client.diagnostics(&main), (vec![], Value::Null));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn what_is_not_saved_wins_in_external_nets_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (main, inner) = (uri(folder.path(), "main.snet"), uri(folder.path(), "inner.snet"));
    std::fs::write(folder.path().join("inner.snet"), "net inner connect [{a} -> {b = a];\n").expect("a file");
    let mut client = Client::ready();
    client.open(&main, "net main { net inner; } connect inner;\n");
    let (codes, version) = client.diagnostics(&inner);
    assert_eq!(
        (&codes[0][..5], version),
        ("E0202", Value::Null),
        "errors of a file that is not open: {codes:?}"
    );
    client.open(&inner, "net inner connect [{a} -> {b = a}];\n");
    assert_eq!(client.diagnostics(&inner).0, [""; 0]);
    // The request is made at the declaration, and at a use of it.
    for character in [16, 33] {
        let definition = client.result("textDocument/definition", at(&main, 0, character));
        assert_eq!(definition, json!({ "uri": inner, "range": range(0, 4, 9) }));
    }
    // References from the other file are found, too.
    let mut params = at(&inner, 0, 5);
    params["context"] = json!({ "includeDeclaration": false });
    let references = client.result("textDocument/references", params);
    let places =
        json!([{ "uri": main, "range": range(0, 15, 20) }, { "uri": main, "range": range(0, 32, 37) }]);
    assert_eq!(references, places);
    // The text of `inner` is changed without saving and now has an error; the main text is checked with the
    // changed text.
    client.change(&inner, 2, json!([{ "text": "net other connect [];" }]));
    assert_eq!(&client.diagnostics(&inner).0[0][..5], "E0303");
    // After the text is closed, the file's content is used again.
    client.notify("textDocument/didClose", json!({ "textDocument": { "uri": inner } }));
    assert_eq!(&client.diagnostics(&inner).0[0][..5], "E0202");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn completion_offers_what_fits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let main = uri(folder.path(), "main.snet");
    std::fs::write(folder.path().join("other.snet"), "net other connect [];").expect("a file");
    let mut client = Client::ready();
    let text = "type point = {x, y};
net main {
    box inc ((x, <n>) -> (x));
    net helper { box hidden ((z) -> (z)); } connect hidden;
} connect inc .. helper .. [{x, <t>} -> {<u = t>}] ..
";
    client.open(&main, text);
    client.change(&main, 2, json!([{ "range": range(4, 53, 53), "text": " h" }]));
    let components = client.complete(&main, 4, 55);
    assert!(
        components.iter().any(|c| c == "helper") && components.iter().any(|c| c == "other"),
        "{components:?}"
    );
    assert!(!components.iter().any(|c| c == "hidden" || c == "main.snet" || c == "x"), "{components:?}");
    client.change(&main, 3, json!([{ "range": range(4, 53, 55), "text": " [{" }]));
    let labels = client.complete(&main, 4, 56);
    for label in ["x", "y", "z", "<n>", "<t>", "<u>"] {
        assert!(labels.iter().any(|l| l == label), "no {label} in {labels:?}");
    }
    client.change(&main, 4, json!([{ "range": range(4, 56, 56), "text": "<" }]));
    assert_eq!(client.complete(&main, 4, 57), ["n", "t", "u"]);
    client.change(&main, 5, json!([{ "text": "type point = {x};\nnet main (" }]));
    assert_eq!(client.complete(&main, 1, 10), ["point"]);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn what_is_wrong_with_messages_is_answered_and_survived() {
    let mut client = Client::start();
    let early = client.ask("textDocument/hover", at("file:///a.snet", 0, 0));
    assert_eq!(early["error"]["code"], -32002);
    client.notify("textDocument/didOpen", json!({}));
    client.result("initialize", json!({ "capabilities": {} }));
    assert_eq!(client.ask("initialize", json!({}))["error"]["code"], -32600);
    client.notify("initialized", json!({}));

    for malformed in ["{", "[]", "7", "{\"jsonrpc\": \"2.0\"}", "\u{1f30a}", ""] {
        client.write(malformed);
        let answer = client.answer();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)), "{malformed}");
    }
    assert_eq!(client.ask("no/such/method", json!({}))["error"]["code"], -32601);
    assert_eq!(client.ask("$/no/such/method", json!({}))["error"]["code"], -32601);
    assert_eq!(client.ask("textDocument/hover", json!({ "position": 7 }))["error"]["code"], -32602);
    client.notify("$/no/such/notification", json!({ "a": [1, 2] }));
    client.notify("textDocument/didChange", json!({ "text": 7 }));
    client.write(r#"{"jsonrpc": "2.0", "id": 77, "result": null}"#);
    // Requests may name texts that were never opened, and addresses that are no files.
    assert_eq!(client.result("textDocument/hover", at("file:///no/such.snet", 0, 0)), Value::Null);
    client.change("file:///no/such.snet", 2, json!([{ "text": "net" }]));
    client.open("untitled:Untitled-1", "net a connect b");
    assert!(!client.diagnostics("untitled:Untitled-1").0.is_empty());
    client.change("untitled:Untitled-1", 2, json!([{ "range": range(99, 99, 98), "text": "🌊" }]));
    assert!(client.complete("untitled:Untitled-1", 99, 99).len() < 100);

    assert_eq!(client.result("shutdown", Value::Null), Value::Null);
    assert_eq!(client.ask("textDocument/hover", at("file:///a.snet", 0, 0))["error"]["code"], -32600);
    client.notify("exit", Value::Null);
    assert_eq!(client.server.wait().expect("it ends").code(), Some(0));
}

#[test]
fn the_exit_code_shows_whether_it_was_shut_down() {
    let mut client = Client::ready();
    client.notify("exit", Value::Null);
    assert_eq!(client.server.wait().expect("it ends").code(), Some(1), "exit without shutdown");
    let mut client = Client::start();
    client.notify("exit", Value::Null);
    assert_eq!(client.server.wait().expect("it ends").code(), Some(1), "exit before initialize");
    let mut client = Client::ready();
    drop(client.to.take());
    assert_eq!(client.server.wait().expect("it ends").code(), Some(1), "the editor went away");
    assert_eq!(Client::ready().end(), Some(0));
}

/// A network of 10,000 lines.
fn large() -> String {
    let mut text = "net main {\n    box step ((x) -> (x));\n".to_owned();
    (0..9_995).for_each(|i| {
        text += &format!("    net n{i} connect step .. [{{x, <t>}} -> {{x, <t = t + {i}>}}];\n")
    });
    let used: Vec<String> = (0..9_995).map(|i| format!("n{i}")).collect();
    text + &format!("}} connect {};\n", used.join(" .. "))
}

#[test]
fn a_large_file_can_be_edited_quickly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let main = uri(folder.path(), "main.snet");
    let mut client = Client::ready();
    client.open(&main, &large());
    client.result("textDocument/definition", at(&main, 5000, 8));
    client.notified.clear();
    // 500 keys are typed, with a request after each tenth that is cancelled at once; all messages are sent
    // before any answer is read.
    let typed = "a".repeat(500);
    let mut asked = Vec::new();
    for (i, _) in typed.char_indices() {
        let column = 4 + i as u32;
        client.change(&main, 2 + i as i64, json!([{ "range": range(5000, column, column), "text": "a" }]));
        if i % 10 == 9 {
            let id = client.request("textDocument/completion", at(&main, 5000, column));
            client.notify("$/cancelRequest", json!({ "id": id }));
            asked.push(id);
        }
    }
    let last = client.request("textDocument/documentSymbol", json!({ "textDocument": { "uri": main } }));
    // Every request has exactly one answer, in order.
    let answers: Vec<Value> = (0..=asked.len()).map(|_| client.answer()).collect();
    asked.push(last);
    assert_eq!(answers.iter().map(|a| a["id"].as_i64().expect("an id")).collect::<Vec<_>>(), asked);
    for answer in &answers[..asked.len() - 1] {
        assert!(answer["result"].is_array() || answer["error"]["code"] == -32800, "{answer}");
    }
    // The diagnostics of the last text are reported; those of earlier texts may be left out.
    loop {
        let (codes, version) = client.diagnostics(&main);
        if version == json!(501) {
            assert!(codes.iter().any(|code| code.starts_with("E0201 5000:")), "{codes:?}");
            break;
        }
    }
    assert_eq!(client.end(), Some(0));
}
