//! The server of a page: a few addresses on this machine, for clients that have the token.
//!
//! A client must have the token, use the address that was printed (another name that resolves to this machine
//! is refused), and, to change anything, from the page itself. The cost of clients is bounded: the number of
//! connections, the size and time of a request, and one page that waits for a client that reads slowly.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use thalweg_host::{LiveRun, Undo};
use thalweg_monitor::{Action, MessageId, story};
use thalweg_scope::ScopeFeed;
use thalweg_view::{Applied, MessageStory, names, policy, served};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, mpsc};

use super::measuring::{Measured, Shown};
use crate::commands::report::page;
use crate::commands::set::change_text;
use crate::failure::Failure;

/// The largest number of connections at a time; further connections are closed at once.
const CONNECTIONS_MAX: usize = 256;
/// The largest number of pages that are followed at a time.
const VIEWERS_MAX: usize = 64;
/// The largest size of a request's body in bytes.
const BODY_MAX: usize = 1 << 16;
/// The longest time for a request to arrive, and for a client to read its answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The interval at which the server sends something to each client, because only then it notices that a
/// client has disconnected.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
/// The largest number of applied changes that the server remembers for undoing.
const APPLIED_MAX: usize = 100;

/// The state of the server.
pub(super) struct Site {
    path: PathBuf,
    token: String,
    hosts: [String; 2],
    measured: Arc<Measured>,
    /// The run to compare with, as JSON.
    other: Option<Bytes>,
    /// A lock of the thread that reads the run's events, so that only one reads at a time.
    reading: tokio::sync::Mutex<()>,
    undos: std::sync::Mutex<Vec<(u64, Undo)>>,
}

type Answer = Response<Either<Full<Bytes>, Events>>;

impl Site {
    pub(super) fn new(path: &Path, token: String, port: u16, measured: Arc<Measured>) -> Site {
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        Site {
            path: path.to_owned(),
            token,
            hosts,
            measured,
            other: None,
            reading: tokio::sync::Mutex::default(),
            undos: std::sync::Mutex::default(),
        }
    }

    /// Sets another run that the page shows beside this one.
    pub(super) fn beside(self, other: Option<Vec<u8>>) -> Site {
        Site { other: other.map(Bytes::from), ..self }
    }
}

/// Serves until it is interrupted.
pub(super) async fn serve(listener: TcpListener, site: Site) -> Result<(), Failure> {
    let site = Arc::new(site);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let failed = |error| Failure::run("cannot listen to signals", error);
    let mut ended =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(failed)?;
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                // If the process has no free file descriptors, the server waits until a connection ends.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = ended.recv() => return Ok(()),
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            let stuck = Arc::new(Notify::new());
            let answering = Arc::clone(&stuck);
            let service = service_fn(move |request| {
                let (site, stuck) = (Arc::clone(&site), Arc::clone(&answering));
                async move { Ok::<_, Infallible>(answer(&site, request, stuck).await) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(1 << 16);
            tokio::select! {
                _ = http.serve_connection(TokioIo::new(stream), service) => {}
                () = stuck.notified() => {}
            }
            drop(permit);
        });
    }
}

async fn answer(site: &Arc<Site>, request: Request<Incoming>, stuck: Arc<Notify>) -> Answer {
    let (parts, body) = request.into_parts();
    let refused = |why: &str| plain(StatusCode::FORBIDDEN, why);
    if !is_addressed(site, &parts.headers) {
        return refused("this server is asked by its own address only");
    }
    let query = parts.uri.query().unwrap_or("");
    if !parameter(query, "token").is_some_and(|token| same(&token, &site.token)) {
        return refused("the token is missing or wrong: take the whole address that `thalweg view` printed");
    }
    if !is_from_here(site, &parts.headers) {
        return refused("another origin may not ask this server");
    }
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/") => html(),
        (&Method::GET, "/events") => events(site, stuck),
        (&Method::GET, "/page.json") => match site.measured.watch().borrow().clone() {
            Some(Shown { failed: Some(why), .. }) => plain(StatusCode::SERVICE_UNAVAILABLE, &why),
            Some(page) => typed(StatusCode::OK, "application/json", page.whole.json()),
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "nothing was measured yet"),
        },
        (&Method::GET, path @ ("/timeline" | "/report")) => {
            let time = |name| parameter(query, name)?.parse().ok().filter(|ns: &f64| ns.is_finite());
            match (time("from"), time("to")) {
                (Some(from), Some(to)) if from < to && path == "/report" => {
                    read(site, move |site| site.measured.report(from, to)).await
                }
                (Some(from), Some(to)) if from < to => {
                    read(site, move |site| Ok(Some(site.measured.detail(from, to)?))).await
                }
                _ => plain(
                    StatusCode::BAD_REQUEST,
                    "from and to are times in nanoseconds, one after the other",
                ),
            }
        }
        (&Method::GET, "/calls") => read(site, |site| Ok(Some(page::calls_of(&site.path)))).await,
        (&Method::GET, "/other") => {
            let none = || Bytes::from_static(b"null");
            typed(StatusCode::OK, "application/json", site.other.clone().unwrap_or_else(none))
        }
        (&Method::GET, path) if path.starts_with("/docs/") => match document(path) {
            Some(text) => plain(StatusCode::OK, text),
            None => {
                plain(StatusCode::NOT_FOUND, "the program does not contain this page of the documentation")
            }
        },
        (&Method::GET, "/story") => story_of(site, parameter(query, "message").unwrap_or_default()).await,
        (&Method::POST, path @ ("/apply" | "/undo")) => {
            let is_json = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/json");
            if !parts.headers.get(header::CONTENT_TYPE).is_some_and(is_json) {
                return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "what is to be done is JSON");
            }
            let body = tokio::time::timeout(PATIENCE, Limited::new(body, BODY_MAX).collect()).await;
            let Ok(Ok(body)) = body else {
                return plain(StatusCode::BAD_REQUEST, "the request is too large or too slow");
            };
            match serde_json::from_slice(&body.to_bytes()) {
                Ok(asked) if path == "/apply" => change(site, asked, apply).await,
                Ok(asked) => change(site, asked, undo).await,
                Err(error) => plain(StatusCode::BAD_REQUEST, &error.to_string()),
            }
        }
        (
            _,
            "/" | "/events" | "/page.json" | "/timeline" | "/report" | "/calls" | "/other" | "/story"
            | "/apply" | "/undo",
        ) => plain(StatusCode::METHOD_NOT_ALLOWED, "not in this way"),
        _ => plain(StatusCode::NOT_FOUND, "there is nothing here"),
    }
}

/// The pages of the documentation to which the page's help refers.
fn document(path: &str) -> Option<&'static str> {
    Some(match path {
        "/docs/nodes.md" => include_str!("../../../../docs/nodes.md"),
        "/docs/probes.md" => include_str!("../../../../docs/probes.md"),
        "/docs/report.md" => include_str!("../../../../docs/report.md"),
        "/docs/settings.md" => include_str!("../../../../docs/settings.md"),
        "/docs/tuning.md" => include_str!("../../../../docs/tuning.md"),
        "/docs/view.md" => include_str!("../../../../docs/view.md"),
        _ => return None,
    })
}

/// Whether the request names this server's own address as its host.
fn is_addressed(site: &Site, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host.is_some_and(|host| site.hosts.iter().any(|own| own == host))
}

/// Whether the request comes from the page itself or from the address bar, and not from a page of another
/// origin.
fn is_from_here(site: &Site, headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let origin = header("origin").is_none_or(|origin| {
        site.hosts.iter().any(|own| origin.strip_prefix("http://") == Some(own.as_str()))
    });
    origin && header("sec-fetch-site").is_none_or(|place| matches!(place, "same-origin" | "none"))
}

/// Compares two texts in constant time, so that the time does not reveal where the texts differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// A parameter of an address; only plain characters, and `%3A` and `%2F` for `:` and `/`, are decoded.
fn parameter(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.replace("%3A", ":").replace("%2F", "/"))
}

fn guarded(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    let always = [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ];
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn typed(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body.into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    guarded(answer)
}

fn plain(status: StatusCode, text: &str) -> Answer {
    typed(status, "text/plain; charset=utf-8", text.as_bytes().to_vec())
}

fn html() -> Answer {
    let mut answer = typed(StatusCode::OK, "text/html; charset=utf-8", served().into_bytes());
    let policy = format!("{} frame-ancestors 'none';", policy());
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

/// Server-sent events: one page after the other, the newest each time.
fn events(site: &Arc<Site>, stuck: Arc<Notify>) -> Answer {
    if site.measured.viewers.fetch_add(1, Ordering::Relaxed) >= VIEWERS_MAX {
        site.measured.viewers.fetch_sub(1, Ordering::Relaxed);
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open");
    }
    let viewer = Viewer(Arc::clone(&site.measured));
    let (send, receive) = mpsc::channel(1);
    let mut shown = viewer.0.watch();
    shown.mark_changed();
    tokio::spawn(async move {
        let _viewer = viewer;
        let mut seen = 0;
        loop {
            let next = match tokio::time::timeout(SIGN_OF_LIFE, shown.changed()).await {
                Ok(Ok(())) => shown.borrow_and_update().clone().map(|page| {
                    let had = std::mem::replace(&mut seen, page.sequence);
                    if had > 0 && had + 1 == page.sequence { page.part } else { page.whole.event() }
                }),
                Ok(Err(_)) => return,
                Err(_) => Some(Bytes::from_static(b": still here\n\n")),
            };
            let Some(next) = next else { continue };
            match tokio::time::timeout(PATIENCE, send.send(next)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                // The client does not read, so its connection is closed.
                Err(_) => return stuck.notify_one(),
            }
        }
    });
    let mut answer = Response::new(Either::Right(Events(receive)));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    guarded(answer)
}

/// Counts the viewers.
struct Viewer(Arc<Measured>);

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of a response that is sent as its parts arrive.
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Answers a request whose answer takes long to compute. Such requests are processed one after the other, so
/// that they do not occupy all processors. If `reads` returns `None`, the status is 404.
async fn read<T: serde::Serialize + Send + 'static>(
    site: &Arc<Site>,
    reads: impl FnOnce(&Site) -> Result<Option<T>, String> + Send + 'static,
) -> Answer {
    let _turn = site.reading.lock().await;
    let at = Arc::clone(site);
    let found = tokio::task::spawn_blocking(move || {
        let found = reads(&at)?;
        found.map(|found| names::json(&found).map_err(|error| error.to_string())).transpose()
    });
    match found.await {
        Ok(Ok(Some(json))) => typed(StatusCode::OK, "application/json", json),
        Ok(Ok(None)) => plain(StatusCode::NOT_FOUND, "the events that are left say nothing of this"),
        Ok(Err(why)) => plain(StatusCode::BAD_REQUEST, &why),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn story_of(site: &Arc<Site>, message: String) -> Answer {
    read(site, move |site| {
        let id: MessageId = message.parse().map_err(|error| format!("{error}"))?;
        let feed = ScopeFeed::of(&site.path).map_err(|error| error.to_string())?;
        let story = story(&feed, id).map_err(|error| error.to_string())?;
        let mut found = story.map(|story| MessageStory { times: None, story });
        page::later(found.as_mut_slice(), &site.measured.later());
        Ok(found)
    })
    .await
}

/// Changes the run on a thread of its own, because `does` may take long.
async fn change(site: &Arc<Site>, asked: Value, does: fn(&Site, Value) -> Result<(), String>) -> Answer {
    let site = Arc::clone(site);
    match tokio::task::spawn_blocking(move || does(&site, asked)).await {
        Ok(Ok(())) => {
            typed(StatusCode::OK, "application/json", json!({ "done": true }).to_string().into_bytes())
        }
        Ok(Err(why)) => plain(StatusCode::CONFLICT, &why),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Applies an action of a verdict, or a setting's new value, as `thalweg set` does.
fn apply(site: &Site, asked: Value) -> Result<(), String> {
    let action: Action = serde_json::from_value(asked).map_err(|error| error.to_string())?;
    let (setting, value) = match action {
        Action::Set(new) => (new.setting, new.value),
        Action::Run(line) => match (&line.command[..], &line.arguments[..]) {
            ("set", [setting, value]) => (setting.clone(), value.clone()),
            _ => {
                return Err("this cannot be done to a run that goes on: call the command yourself".to_owned());
            }
        },
    };
    let (result, undo) = changed(site, &setting, &value)?;
    site.measured.applied(|applied| {
        let id = applied.first().map_or(1, |last| last.id + 1);
        if let Some(undo) = undo.clone() {
            site.undos.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((id, undo));
        }
        let what = format!("thalweg set {setting} {value}");
        applied.insert(0, Applied { id, what, result, undone: undo.is_none() });
        applied.truncate(APPLIED_MAX);
    });
    Ok(())
}

fn undo(site: &Site, asked: Value) -> Result<(), String> {
    let id = asked["id"].as_u64().ok_or("which change?")?;
    let taken = {
        let mut undos = site.undos.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = undos.iter().position(|(of, _)| *of == id).ok_or("this change was undone, or cannot be")?;
        undos.remove(at).1
    };
    if let Err(why) = changed(site, &taken.setting, &taken.value) {
        // After a failed undo, the change is put back into the list, so that undoing can be tried again.
        site.undos.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((id, taken));
        return Err(why);
    }
    site.measured.applied(|applied| {
        if let Some(change) = applied.iter_mut().find(|change| change.id == id) {
            change.undone = true;
        }
    });
    Ok(())
}

fn changed(site: &Site, setting: &str, value: &str) -> Result<(String, Option<Undo>), String> {
    let text = |error: thalweg_host::Error| thalweg_host::chain(&error);
    let owner = page::owner(&site.path, setting);
    let (path, name) = owner.as_ref().map_or((&site.path, setting), |(path, name)| (path, name));
    let run = LiveRun::open(path).map_err(text)?.called("thalweg view");
    let changed = crate::commands::set::changed(&run, name, value, None).map_err(text)?;
    let undo = changed.undo(name).map(|undo| Undo { setting: setting.to_owned(), ..undo });
    Ok((change_text(&changed, name), undo))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_tokens() {
        assert_eq!(parameter("token=ab&message=3%3A7", "message").as_deref(), Some("3:7"));
        assert_eq!(parameter("message=2%2F3%3A7", "message").as_deref(), Some("2/3:7"));
        assert_eq!(parameter("tokens=ab", "token"), None);
        assert!(same("abc", "abc") && !same("abc", "abd") && !same("abc", "ab") && !same("", "a"));
    }
}
