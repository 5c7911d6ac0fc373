//! A scope's leaf as a feed of unchanged events, for monitors and commands that read events by their fields.

use crate::error::Error;
use crate::leaf::Target;
use crate::view::Leaf;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_glob::Glob;
use thalweg_space::discover;
use thalweg_space::reader::{Feed, Item, Merged, PathFeed, Session, SpaceReader};

/// The least time between two listings of directories.
const LIST_PAUSE: Duration = Duration::from_millis(100);

/// The events of the elements that a leaf selects, merged by time. Monitors and commands read events by this
/// feed.
///
/// ```
/// use thalweg_scope::{Leaf, ScopeFeed, Target};
/// use thalweg_space::reader::{Feed, Item};
/// # use thalweg_space::{Kind, Space, SpaceOptions};
/// # #[derive(Kind)]
/// # #[kind(name = "example.step")]
/// # struct Step { count: u64 }
/// # let parent = std::env::temp_dir().join(format!("thalweg-scope-feed-{}", std::process::id()));
/// # let space = Space::create(SpaceOptions { parent: Some(parent.clone()), ..Default::default() })?;
/// # let mut writer = space.writer("worker 1")?;
/// # let step = writer.declare::<Step>()?;
/// # writer.emit(step, &Step { count: 7 });
/// let leaf = Leaf::of_kinds(["example.*"]).element("worker *");
/// let mut feed = ScopeFeed::open(Target::of(space.path()), leaf)?;
/// let mut steps = 0;
/// feed.poll(usize::MAX, &mut |_, item| steps += u64::from(matches!(item, Item::Event(_))))?;
/// assert_eq!(steps, 1);
/// # std::fs::remove_dir_all(parent).unwrap();
/// # Ok::<(), thalweg_scope::Error>(())
/// ```
#[derive(Debug)]
pub struct ScopeFeed {
    target: Target,
    leaf: Leaf,
    kinds: Vec<Glob>,
    element: Option<Glob>,
    inner: Inner,
    /// For each space, whether the leaf selects it.
    wanted: Vec<bool>,
    /// For the writers of each space, whether the leaf selects their elements.
    elements: HashMap<(usize, u32), bool>,
    /// Second readers of the spaces for the names of elements during a poll, if the leaf selects by names.
    names: Vec<SpaceReader>,
}

#[derive(Debug)]
enum Inner {
    Path(PathFeed),
    All { parent: PathBuf, merged: Merged, known: HashSet<PathBuf>, listed: Option<Instant> },
}

impl ScopeFeed {
    /// Opens the spaces of the target that exist.
    ///
    /// # Errors
    /// When there is no space or session, or it cannot be read. When the leaf selects live rows, or selects
    /// by task or condition, which only views support. Unreadable spaces of a session are left out; if all
    /// are unreadable, that is an error.
    pub fn open(target: Target, leaf: Leaf) -> Result<ScopeFeed, Error> {
        if !leaf.rows.is_empty() || leaf.component.is_some() || leaf.task.is_some() || leaf.when.is_some() {
            let what = "a feed hands over events as they are: it chooses by host, process, session, element and kind";
            return Err(Error::new(what));
        }
        let inner = match &target {
            Target::Space(path) | Target::Session(path) => Inner::Path(PathFeed::open(path)?),
            Target::All(parent) => Inner::All {
                parent: parent.clone(),
                merged: Merged::default(),
                known: HashSet::new(),
                listed: None,
            },
        };
        Ok(ScopeFeed::made(target, leaf, inner)?)
    }

    /// All events of the space or session in this directory.
    ///
    /// # Errors
    /// When the directory holds neither a space nor a session, or cannot be read. Unreadable spaces of a
    /// session are left out; if all are unreadable, that is an error.
    pub fn of(path: impl AsRef<Path>) -> Result<ScopeFeed, thalweg_space::Error> {
        let path = path.as_ref();
        ScopeFeed::made(Target::of(path), Leaf::default(), Inner::Path(PathFeed::open(path)?))
    }

    /// All events of a session. [`Feed::look`] finds the session's processes, and reports those that cannot
    /// be read.
    ///
    /// # Errors
    /// When there is no session.
    pub fn of_session(path: impl AsRef<Path>) -> Result<ScopeFeed, thalweg_space::Error> {
        let path = path.as_ref().to_path_buf();
        let inner = Inner::Path(PathFeed::Session(Box::new(Session::open(&path)?.events())));
        ScopeFeed::made(Target::Session(path), Leaf::default(), inner)
    }

    fn made(target: Target, leaf: Leaf, inner: Inner) -> Result<ScopeFeed, thalweg_space::Error> {
        let kinds = leaf.kinds.iter().map(|kind| Glob::new(kind)).collect();
        let element = leaf.element.as_deref().map(Glob::new);
        let (wanted, elements, names) = (Vec::new(), HashMap::new(), Vec::new());
        let mut feed = ScopeFeed { target, leaf, kinds, element, inner, wanted, elements, names };
        feed.choose()?;
        Ok(feed)
    }

    /// Restricts the feed to the events between two times, which count from the start of the first process.
    /// Must be called before the first poll. Events outside are neither read nor counted as lost.
    ///
    /// # Errors
    /// When a space cannot be read.
    pub fn between(self, from: Duration, to: Duration) -> Result<ScopeFeed, Error> {
        let inner = match self.inner {
            Inner::Path(feed) => Inner::Path(feed.between(from, to)?),
            Inner::All { parent, mut merged, known, listed } => {
                merged.between(from, to)?;
                Inner::All { parent, merged, known, listed }
            }
        };
        Ok(ScopeFeed { inner, ..self })
    }

    /// Whether other processes may join.
    pub fn is_open(&self) -> bool {
        !matches!(self.target, Target::Space(_))
    }

    /// Decides which of the newly found spaces the leaf selects.
    fn choose(&mut self) -> Result<(), thalweg_space::Error> {
        let session = match &self.target {
            Target::Session(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            _ => String::new(),
        };
        while let Some(space) = self.spaces().get(self.wanted.len()) {
            let is_wanted = self.leaf.wants(&space.info()?, &session);
            self.wanted.push(is_wanted);
        }
        while self.element.is_some()
            && let Some(space) = self.spaces().get(self.names.len())
        {
            let opened = SpaceReader::open(space.path())?;
            self.names.push(opened);
        }
        Ok(())
    }

    /// Whether the leaf selects all events.
    fn wants_all(&self) -> bool {
        self.kinds.is_empty() && self.element.is_none() && self.wanted.iter().all(|wanted| *wanted)
    }
}

/// Looks for new processes on this machine.
fn find(
    (parent, leaf): (&Path, &Leaf),
    merged: &mut Merged,
    known: &mut HashSet<PathBuf>,
    listed: &mut Option<Instant>,
) -> Result<(), thalweg_space::Error> {
    if listed.is_some_and(|listed| listed.elapsed() < LIST_PAUSE) {
        return Ok(());
    }
    *listed = Some(Instant::now());
    let mut problem = None;
    for found in discover::list(parent)?.into_iter().filter(|space| space.alive && space.info.is_ok()) {
        if !known.insert(found.path.clone()) {
            continue;
        }
        let session =
            found.session.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        if !found.info.as_ref().is_ok_and(|info| leaf.wants(info, &session)) {
            continue;
        }
        let added = SpaceReader::open(&found.path).and_then(|space| merged.add(space));
        problem = problem.or(added.err());
    }
    problem.map_or(Ok(()), Err)
}

impl Feed for ScopeFeed {
    fn spaces(&self) -> &[SpaceReader] {
        match &self.inner {
            Inner::Path(feed) => feed.spaces(),
            Inner::All { merged, .. } => merged.spaces(),
        }
    }

    fn is_single(&self) -> bool {
        matches!(self.target, Target::Space(_))
    }

    fn look(&mut self) -> Result<(), thalweg_space::Error> {
        let found = match &mut self.inner {
            Inner::Path(feed) => feed.look(),
            Inner::All { parent, merged, known, listed } => find((parent, &self.leaf), merged, known, listed),
        };
        if let Inner::All { merged, .. } = &self.inner {
            // Spaces that the leaf does not select were not added.
            self.wanted.resize(merged.spaces().len(), true);
        }
        self.choose()?;
        found
    }

    fn poll(
        &mut self,
        limit: usize,
        take: &mut impl FnMut(usize, Item<'_>),
    ) -> Result<usize, thalweg_space::Error> {
        if self.wants_all() {
            return match &mut self.inner {
                Inner::Path(feed) => feed.poll(limit, take),
                Inner::All { merged, .. } => merged.poll(limit, take),
            };
        }
        let ScopeFeed { kinds, element, inner, wanted, elements, names, .. } = self;
        let mut choose = |place: usize, item: Item<'_>| {
            if !wanted.get(place).copied().unwrap_or(true) {
                return;
            }
            let (writer, is_kind, name) = match &item {
                Item::Event(event) => {
                    let kind = &event.kind.name;
                    let is_kind = kinds.is_empty() || kinds.iter().any(|wanted| wanted.matches(kind));
                    (event.writer, is_kind, Some(event.writer_name))
                }
                Item::Gap { writer, .. } => (*writer, true, None),
            };
            let is_element = match (&*element, elements.get(&(place, writer)), name) {
                (None, ..) => true,
                (_, Some(known), _) => *known,
                (Some(element), None, Some(name)) => {
                    let name = names.get_mut(place).and_then(|space| space.name(name)).unwrap_or_default();
                    let fits = element.matches(&name);
                    elements.insert((place, writer), fits);
                    fits
                }
                // A gap before the first event of its writer is handed over, because the leaf may select the
                // events that the gap stands for.
                (Some(_), None, None) => true,
            };
            if is_kind && is_element {
                take(place, item);
            }
        };
        match inner {
            Inner::Path(feed) => feed.poll(limit, &mut choose),
            Inner::All { merged, .. } => merged.poll(limit, &mut choose),
        }
    }

    fn focus(
        &mut self,
        from: Duration,
        to: Duration,
        is_needed: fn(&str) -> bool,
    ) -> Result<(), thalweg_space::Error> {
        match &mut self.inner {
            Inner::Path(feed) => feed.focus(from, to, is_needed),
            Inner::All { merged, .. } => merged.focus(from, to, is_needed),
        }
    }

    fn leave_out(&mut self) {
        match &mut self.inner {
            Inner::Path(feed) => feed.leave_out(),
            Inner::All { merged, .. } => merged.leave_out(),
        }
    }

    fn has_more(&self, space: usize) -> bool {
        match &self.inner {
            Inner::Path(feed) => feed.has_more(space),
            Inner::All { merged, .. } => merged.has_more(space),
        }
    }

    fn again(&self) -> Result<ScopeFeed, thalweg_space::Error> {
        let inner = match &self.inner {
            Inner::Path(feed) => Inner::Path(feed.again()?),
            Inner::All { parent, .. } => {
                let (merged, known) = (Merged::default(), HashSet::new());
                Inner::All { parent: parent.clone(), merged, known, listed: None }
            }
        };
        let mut again = ScopeFeed::made(self.target.clone(), self.leaf.clone(), inner)?;
        again.look()?;
        Ok(again)
    }
}
