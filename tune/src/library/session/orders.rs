//! The orders of users to a session: to undo what it kept, and to leave settings alone.

use thalweg_pack::Change;

use super::Session;
use crate::control::What;
use crate::library::order::{Order, PIN, UNDO};

impl Session<'_, '_> {
    /// Carries out the orders that have arrived. Each order is answered, even if it cannot be carried out.
    pub(super) fn obey(&mut self) -> Result<(), String> {
        let Some(mailbox) = &self.library.orders else { return Ok(()) };
        loop {
            let received = mailbox.borrow_mut().poll().map_err(|error| error.to_string())?;
            let Some(received) = received else { return Ok(()) };
            let done = match Order::read(received.command()) {
                Some(Order::Undo(number)) => self.undo(number),
                Some(Order::Pin(setting)) => self.pin(&setting),
                None => Err(format!("a tuner of a library knows `{UNDO}` and `{PIN}`")),
            };
            let answered = match done {
                Ok(result) => received.done(&result),
                Err(why) => received.failed(&why),
            };
            answered.map_err(|error| error.to_string())?;
        }
    }

    /// Undoes what a decision kept, and makes the tuner leave the setting alone from then on.
    fn undo(&mut self, number: u64) -> Result<String, String> {
        let pack = self.library.pack;
        let action = self.kept_by.get(&number).copied().filter(|action| self.kept.contains(action));
        let Some(action) = action else {
            return Err(format!("decision {number} has nothing in force: what was kept can be undone"));
        };
        let Change::Setting { point, .. } = &pack.actions[action].change else {
            return Err(format!("decision {number} set nothing"));
        };
        let setting = pack.points[*point].setting.clone();
        let failed = self.undo_everywhere(*point);
        self.kept.retain(|kept| *kept != action);
        self.pinned.push(setting.clone());
        let candidate = self.candidate(action, *point, Vec::new());
        self.decide(
            What::Undone,
            Some(&candidate),
            None,
            format!("the user asked for it (decision {number})"),
        );
        self.clear_rates();
        match failed {
            0 => Ok(format!("{setting} is as the program had it; the tuner leaves it alone from now on")),
            _ => Err(format!("{setting} is not put back in {failed} processes yet: the tuner says why")),
        }
    }

    /// Makes the tuner leave a setting alone from now on. A trial of the setting ends, but a value that was
    /// kept stays.
    fn pin(&mut self, setting: &str) -> Result<String, String> {
        let points = &self.library.pack.points;
        let Some(point) = points.iter().position(|point| point.setting == setting) else {
            let names: Vec<&str> = points.iter().map(|point| point.setting.as_str()).collect();
            return Err(format!("the pack has no point `{setting}`: there are {}", names.join(", ")));
        };
        if !self.is_pinned(point) {
            self.pinned.push(setting.to_owned());
        }
        let asked = "the user asked for it";
        if let Some(running) = self.trial.take_if(|running| running.candidate.point == point) {
            self.undo_everywhere(point);
            self.decide(What::TakenBack, Some(&running.candidate), None, asked.to_owned());
        }
        self.decide(What::Pinned, None, None, format!("{setting}: {asked}"));
        Ok(format!("the tuner leaves {setting} alone from now on"))
    }
}
