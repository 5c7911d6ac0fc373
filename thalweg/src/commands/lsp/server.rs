//! The protocol: the states of the server, and the handling of each message.

use std::io::{self, Write as _};

use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::{
    CompletionOptions, CompletionParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DocumentFormattingParams, DocumentSymbolParams, GotoDefinitionParams,
    HoverParams, HoverProviderCapability, OneOf, PositionEncodingKind, ReferenceParams, ServerCapabilities,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thalweg_net::check::KnownBoxes;

use super::inbox::{Inbox, Incoming};
use super::workspace::Workspace;
use super::{completion, outline};

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Waits for `initialize`.
    Fresh,
    Running,
    /// After `shutdown`: waits for `exit`.
    Ended,
}

/// One server for one editor.
pub(super) struct Server {
    state: State,
    workspace: Workspace,
    /// Whether the editor has closed its end, so that nothing more is written.
    deaf: bool,
}

/// The reason why a request has no result.
struct Refusal(ErrorCode, String);

impl Server {
    pub(super) fn new(boxes: Option<KnownBoxes>) -> Server {
        Server { state: State::Fresh, workspace: Workspace::new(boxes), deaf: false }
    }

    /// Serves until `exit` or the end of the messages. Returns the exit code.
    pub(super) fn serve(mut self, mut inbox: Inbox) -> u8 {
        while let Some(incoming) = inbox.next(|| self.publish_news()) {
            match incoming {
                Incoming::Message(Message::Request(request)) => self.request(request),
                Incoming::Message(Message::Notification(n)) if n.method == "exit" => {
                    return u8::from(self.state != State::Ended);
                }
                Incoming::Message(Message::Notification(notification)) => self.notification(notification),
                // The server sends no requests, so no response is expected.
                Incoming::Message(Message::Response(_)) => {}
                Incoming::Cancelled(id) => {
                    let text = "the request was cancelled".to_owned();
                    self.send(Response::new_err(id, ErrorCode::RequestCanceled as i32, text).into());
                }
                Incoming::Malformed(why) => self.malformed(&why),
            }
        }
        1
    }

    fn send(&mut self, message: Message) {
        self.deaf = self.deaf || message.write(&mut io::stdout().lock()).is_err();
    }

    /// Answers a message that can't be parsed, and whose id is therefore unknown.
    fn malformed(&mut self, why: &str) {
        let error = json!({ "code": ErrorCode::ParseError as i32, "message": why });
        let text = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
        let mut output = io::stdout().lock();
        let written =
            write!(output, "Content-Length: {}\r\n\r\n{text}", text.len()).and_then(|()| output.flush());
        self.deaf = self.deaf || written.is_err();
    }

    fn publish_news(&mut self) {
        if self.state == State::Running {
            for params in self.workspace.news() {
                self.send(Notification::new("textDocument/publishDiagnostics".into(), params).into());
            }
        }
    }

    fn request(&mut self, request: Request) {
        let Request { id, method, params } = request;
        let answer = match (self.state, method.as_str()) {
            (State::Fresh, "initialize") => self.initialize(),
            (State::Fresh, _) => {
                Err(Refusal(ErrorCode::ServerNotInitialized, "the first request is `initialize`".to_owned()))
            }
            (State::Running, "shutdown") => {
                self.state = State::Ended;
                Ok(Value::Null)
            }
            (State::Running, "initialize") => {
                Err(Refusal(ErrorCode::InvalidRequest, "this server is initialized already".to_owned()))
            }
            (State::Running, _) => self.answer(&method, params),
            (State::Ended, _) => {
                Err(Refusal(ErrorCode::InvalidRequest, "after `shutdown` only `exit` follows".to_owned()))
            }
        };
        self.respond(id, answer);
    }

    fn respond(&mut self, id: RequestId, answer: Result<Value, Refusal>) {
        let response = match answer {
            Ok(result) => Response::new_ok(id, result),
            Err(Refusal(code, text)) => Response::new_err(id, code as i32, text),
        };
        self.send(response.into());
    }

    fn initialize(&mut self) -> Result<Value, Refusal> {
        self.state = State::Running;
        let synchronise = TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(true.into()),
            ..TextDocumentSyncOptions::default()
        };
        let complete = CompletionOptions {
            trigger_characters: Some(vec!["<".to_owned(), "#".to_owned(), "{".to_owned()]),
            ..CompletionOptions::default()
        };
        let capabilities = ServerCapabilities {
            position_encoding: Some(PositionEncodingKind::UTF16),
            text_document_sync: Some(TextDocumentSyncCapability::Options(synchronise)),
            hover_provider: Some(HoverProviderCapability::Simple(true)),
            definition_provider: Some(OneOf::Left(true)),
            references_provider: Some(OneOf::Left(true)),
            document_symbol_provider: Some(OneOf::Left(true)),
            document_formatting_provider: Some(OneOf::Left(true)),
            completion_provider: Some(complete),
            ..ServerCapabilities::default()
        };
        let server = json!({ "name": "thalweg", "version": env!("CARGO_PKG_VERSION") });
        Ok(json!({ "capabilities": capabilities, "serverInfo": server }))
    }

    fn answer(&self, method: &str, params: Value) -> Result<Value, Refusal> {
        let texts = &self.workspace;
        match method {
            "textDocument/hover" => answered(params, |p: HoverParams| outline::hover(texts, &p)),
            "textDocument/definition" => {
                answered(params, |p: GotoDefinitionParams| outline::definition(texts, &p))
            }
            "textDocument/references" => {
                answered(params, |p: ReferenceParams| outline::references(texts, &p))
            }
            "textDocument/documentSymbol" => {
                answered(params, |p: DocumentSymbolParams| outline::symbols(texts, &p))
            }
            "textDocument/formatting" => {
                answered(params, |p: DocumentFormattingParams| outline::format(texts, &p))
            }
            "textDocument/completion" => {
                answered(params, |p: CompletionParams| completion::complete(texts, &p))
            }
            _ => Err(Refusal(ErrorCode::MethodNotFound, format!("there is no method `{method}` here"))),
        }
    }

    /// Handles a notification. Notifications have no answer, so an unknown or malformed one is ignored.
    fn notification(&mut self, notification: Notification) {
        if self.state != State::Running {
            return;
        }
        let Notification { method, params } = notification;
        match method.as_str() {
            "textDocument/didOpen" => {
                if let Some(DidOpenTextDocumentParams { text_document: text }) = read(params) {
                    self.workspace.open(text.uri, text.version, text.text);
                }
            }
            "textDocument/didChange" => {
                if let Some(DidChangeTextDocumentParams { text_document: text, content_changes }) =
                    read(params)
                {
                    self.workspace.change(&text.uri, text.version, content_changes);
                }
            }
            "textDocument/didClose" => {
                if let Some(DidCloseTextDocumentParams { text_document: text }) = read(params) {
                    self.workspace.close(&text.uri);
                }
            }
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => self.workspace.forget_all(),
            _ => {}
        }
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}

fn answered<P: DeserializeOwned, R: Serialize>(
    params: Value,
    answer: impl FnOnce(P) -> R,
) -> Result<Value, Refusal> {
    let params = serde_json::from_value(params);
    let params = params.map_err(|e| Refusal(ErrorCode::InvalidParams, format!("bad parameters: {e}")))?;
    serde_json::to_value(answer(params)).map_err(|e| Refusal(ErrorCode::InternalError, e.to_string()))
}
