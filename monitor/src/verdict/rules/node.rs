//! Another node takes records more slowly than they come. What limits the flow there, its own report says.

use crate::report::{Finding, VerdictKind, Words};
use crate::verdict::facts::Facts;

pub(super) fn find(facts: &Facts<'_>) -> Option<Finding> {
    let waited = facts.linked(|link| link.credit_wait_ns)?;
    Some(Finding::new(VerdictKind::Node).with(waited).rooted(facts))
}

pub(super) fn describe(found: &Finding) -> Words {
    let (node, share) = (found.name_of("waited"), found.percent("waited"));
    Words::text(format!(
        "The part on {node} limits the flow: links to it waited for room there for {share} of their time."
    ))
    .so("look at the report of the session, which has that part, or place fewer components on this node")
}

#[cfg(test)]
mod tests {
    use crate::report::{LinkUse, Report};
    use crate::verdict::facts::Facts;
    use crate::verdict::rules::RULES;

    /// A run of 1 s in which the source is held back, and two links to node b waited.
    fn report(waited: impl Fn(&mut LinkUse)) -> Report {
        let mut link = LinkUse { node: "b".into(), direction: "out".into(), links: 2, ..LinkUse::default() };
        waited(&mut link);
        let idle = LinkUse { node: "a".into(), direction: "out".into(), links: 50, ..LinkUse::default() };
        let mut report = Report { links: vec![idle, link], ..Report::empty() };
        report.window.duration_ns = 1e9;
        report
    }

    fn rule(report: &Report, held_back: f64) -> Option<(&'static str, String)> {
        let facts = Facts { held_back: Some(held_back), ..Facts::new(report) };
        let of_links = RULES.iter().filter(|rule| ["link", "port", "node"].contains(&rule.name));
        of_links.filter_map(|rule| Some((rule.name, (rule.describe)(&(rule.find)(&facts)?).text))).next()
    }

    #[test]
    fn what_links_wait_for_is_named() {
        // Of two links, each waited for 0.4 s.
        type Wait = fn(&mut LinkUse);
        let cases: [(&str, &str, Wait); 4] = [
            ("link", "bandwidth that is allowed", |link| link.pace_wait_ns = 0.8e9),
            ("link", "network to node b", |link| link.connection_wait_ns = 0.8e9),
            ("port", "Too few ports", |link| link.port_wait_ns = 0.8e9),
            ("node", "part on node b", |link| link.credit_wait_ns = 0.8e9),
        ];
        for (name, part, waited) in cases {
            let report = report(waited);
            let (rule, text) = rule_of(&report);
            assert!(rule == name && text.contains(part) && text.contains("40 %"), "{rule}: {text}");
        }
        // Two links that waited for 0.2 s each, and a source that was not held back.
        assert_eq!(rule(&report(|link| link.port_wait_ns = 0.4e9), 0.9), None);
        assert_eq!(rule(&report(|link| link.port_wait_ns = 0.8e9), 0.05), None);
    }

    fn rule_of(report: &Report) -> (&'static str, String) {
        rule(report, 0.9).expect("a rule applies")
    }
}
