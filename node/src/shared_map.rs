//! The exchange of the shared map between the processes of a session, in the questions and answers of control
//! connections.
//!
//! The process that began the session asks its nodes, 40 times a second or more. Each question has the values
//! that changed since the last one, and each answer those that changed on the node. Requests for
//! compare-and-set come in answers; their decisions go out with the next question. A question that is asked
//! again over a new connection changes nothing, because a value has its stamp, and a node's answer is kept.

use serde_json::{Value, json};
use thalweg_space::shared_map::{Ask, Author, Decision, Stamp, Update};
use thalweg_space::{MapType, MapValue, SharedMap};

/// The fields of questions and answers.
const CHANGED: &str = "map";
const ASKS: &str = "map_asks";
const DECIDED: &str = "map_decided";

/// The exchange with one other process.
#[derive(Debug)]
pub(crate) struct Exchange {
    map: SharedMap,
    /// The other process.
    with: usize,
    /// How many of this process's changes the other process has.
    seen: u64,
    /// Decisions for the next question.
    decisions: Vec<Decision>,
}

/// What a message brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Came {
    /// The number of values that changed here.
    pub(crate) values: usize,
    /// The number of requests for compare-and-set.
    pub(crate) asks: usize,
}

impl Exchange {
    /// An exchange with the process `with`, which has no value of the map yet.
    pub(crate) fn new(map: SharedMap, with: usize) -> Exchange {
        Exchange { map, with, seen: 0, decisions: Vec::new() }
    }

    /// Adds to a question what the node does not know.
    pub(crate) fn ask(&mut self, question: &mut Value) {
        self.add_changes(question);
        let decisions = std::mem::take(&mut self.decisions);
        if !decisions.is_empty() {
            question[DECIDED] = decisions.iter().map(decision).collect();
        }
    }

    /// Takes what a node answers, and decides its requests.
    pub(crate) fn answered(&mut self, answer: &Value) -> Came {
        let values = self.map.merge(&read(&answer[CHANGED], read_update));
        let asks = read(&answer[ASKS], read_ask);
        self.decisions.extend(asks.iter().map(|ask| self.map.decide(ask, self.with)));
        Came { values, asks: asks.len() }
    }

    /// Whether decisions wait for the next question.
    pub(crate) fn has_decided(&self) -> bool {
        !self.decisions.is_empty()
    }

    /// Takes what the process that began the session says in a question.
    pub(crate) fn asked(&mut self, question: &Value) {
        self.map.merge(&read(&question[CHANGED], read_update));
        let decisions = read(&question[DECIDED], read_decision);
        if !decisions.is_empty() {
            self.map.take_decisions(decisions);
        }
    }

    /// Adds to an answer what the process that began the session does not know.
    pub(crate) fn answer(&mut self, answer: &mut Value) {
        self.add_changes(answer);
        let asks = self.map.take_asks();
        if !asks.is_empty() {
            answer[ASKS] = asks.iter().map(ask).collect();
        }
    }

    /// The session has begun, so compare-and-set can be asked for.
    pub(crate) fn meet(&self) {
        self.map.meet();
    }

    fn add_changes(&mut self, to: &mut Value) {
        let changed = self.map.changes_since(&mut self.seen, self.with);
        if !changed.is_empty() {
            to[CHANGED] = changed.iter().map(update).collect();
        }
    }
}

/// The valid elements of an array.
fn read<T>(all: &Value, one: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    all.as_array().into_iter().flatten().filter_map(one).collect()
}

/// A value as its type, its word and its text.
fn value(value: &MapValue) -> Value {
    let (word, text) = value.parts();
    json!([value.type_of() as u8, word, text])
}

fn read_value(value: &Value) -> Option<MapValue> {
    let kind = MapType::of(value[0].as_u64()?)?;
    let text = value[2].as_str()?;
    (text.len() <= MapValue::TEXT_BYTES_MAX)
        .then(|| Some(MapValue::of_parts(kind, value[1].as_u64()?, text)))
        .flatten()
}

fn update(one: &Update) -> Value {
    json!([one.key, value(&one.value), one.stamp.time, one.stamp.node, one.writer])
}

fn read_update(one: &Value) -> Option<Update> {
    let number = |at: usize| one[at].as_u64()?.try_into().ok();
    Some(Update {
        key: one[0].as_str()?.to_owned(),
        value: read_value(&one[1])?,
        stamp: Stamp { time: one[2].as_u64()?, node: number(3)? },
        writer: number(4)?,
    })
}

fn ask(one: &Ask) -> Value {
    let Ask { number, key, expected, value: to, author } = one;
    json!([number, key, value(expected), value(to), author.pid, author.user, author.tool])
}

fn read_ask(one: &Value) -> Option<Ask> {
    let number = |at: usize| one[at].as_u64()?.try_into().ok();
    Some(Ask {
        number: one[0].as_u64()?,
        key: one[1].as_str()?.to_owned(),
        expected: read_value(&one[2])?,
        value: read_value(&one[3])?,
        author: Author { pid: number(4)?, user: number(5)?, tool: one[6].as_str()?.to_owned() },
    })
}

fn decision(one: &Decision) -> Value {
    let (is_done, why) = match &one.is_done {
        Ok(is_done) => (json!(is_done), Value::Null),
        Err(why) => (Value::Null, json!(why)),
    };
    json!([one.number, is_done, why, one.now.as_ref().map(update)])
}

fn read_decision(one: &Value) -> Option<Decision> {
    let is_done = match one[1].as_bool() {
        Some(is_done) => Ok(is_done),
        None => Err(one[2].as_str()?.to_owned()),
    };
    Some(Decision { number: one[0].as_u64()?, is_done, now: read_update(&one[3]) })
}

#[cfg(test)]
mod tests {
    use super::{Came, Exchange, json, read, read_ask, read_decision, read_update};
    use thalweg_space::shared_map::Author;
    use thalweg_space::{MapValue, SharedMap, Space, SpaceOptions};

    /// The maps of a process that began a session and of a node, each with a key.
    fn two(folder: &std::path::Path) -> (SharedMap, SharedMap) {
        let map = |here: usize| {
            let name = format!("map{here}");
            let options = SpaceOptions { name, parent: Some(folder.into()), ..SpaceOptions::default() };
            let map = Space::create(options).unwrap().shared_map().unwrap();
            map.join(here, &["here".to_owned(), "a".to_owned()]);
            map.declare("count", "", MapValue::Integer(0)).unwrap();
            map.declare("ratio", "", MapValue::Float(0.5)).unwrap();
            map.declare("mode", "", MapValue::Text("plain".to_owned())).unwrap();
            map
        };
        (map(0), map(1))
    }

    #[test]
    fn values_and_decisions_go_over_control_connections_once() {
        let folder = tempfile::tempdir().unwrap();
        let (root, node) = two(folder.path());
        let author = Author::of_box();
        let (mut to_node, mut to_root) = (Exchange::new(root.clone(), 1), Exchange::new(node.clone(), 0));
        let key = |map: &SharedMap, key: &str| map.find(key).unwrap();
        let early = key(&node, "count").compare_and_set(&MapValue::Integer(0), MapValue::Integer(1), &author);
        assert!(early.unwrap_err().to_string().contains("before the session has begun"));
        to_root.meet();
        let mode = MapValue::Text("schön".to_owned());
        key(&node, "mode").set(mode.clone(), &author).unwrap();
        key(&root, "ratio").set(MapValue::Float(f64::NAN), &author).unwrap();
        let (asking, counted) = (node.clone(), author.clone());
        let asked = std::thread::spawn(move || {
            let count = asking.find("count").unwrap();
            let first = count.compare_and_set(&MapValue::Integer(0), MapValue::Integer(-7), &counted);
            let second = count.compare_and_set(&MapValue::Integer(0), MapValue::Integer(9), &counted);
            (first.unwrap(), second.unwrap())
        });
        let mut came = Came::default();
        while !asked.is_finished() {
            let mut question = json!({});
            to_node.ask(&mut question);
            // Every message comes twice, as over a connection that was made again.
            to_root.asked(&question);
            to_root.asked(&question);
            let mut answer = json!({});
            to_root.answer(&mut answer);
            let one = to_node.answered(&answer);
            root.merge(&read(&answer["map"], read_update));
            came = Came { values: came.values + one.values, asks: came.asks + one.asks };
        }
        let other = MapValue::Integer(-7);
        assert_eq!(asked.join().unwrap(), (Ok(()), Err(other.clone())), "the second expects 0");
        assert_eq!(came, Came { values: 1, asks: 2 });
        for map in [&root, &node] {
            assert_eq!((key(map, "count").get(), key(map, "mode").get()), (other.clone(), mode.clone()));
            assert_eq!(key(map, "ratio").get(), MapValue::Float(f64::NAN));
        }
        let (mut late, mut all) = (Exchange::new(root, 2), json!({}));
        late.ask(&mut all);
        assert_eq!(read(&all["map"], read_update).len(), 3, "a process that comes late gets all");
    }

    #[test]
    fn nonsense_is_left_out() {
        let long = "x".repeat(65);
        for one in [
            json!(null),
            json!([]),
            json!(["k"]),
            json!(["k", [3, 1, long], 1, 1, 1]),
            json!([1, 2, 3, 4, 5]),
        ] {
            assert!(read_update(&one).is_none() && read_ask(&one).is_none() && read_decision(&one).is_none());
        }
        let far = json!(["k", [1, 5, ""], 1, 1_u64 << 40, 1]);
        assert!(read_update(&far).is_none(), "there is no such process");
    }
}
