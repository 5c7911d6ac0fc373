//! Counts as a person reads them.

/// A count with its thousands apart: `63,640`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of things, in singular or plural: `1 record`, `63,640 records`.
pub fn counted(value: u64, what: &str) -> String {
    format!("{} {what}{}", count(value), if value == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(count(1_063_640), "1,063,640");
        assert_eq!(count(63), "63");
        assert_eq!([0, 1, 2000].map(|n| counted(n, "record")), ["0 records", "1 record", "2,000 records"]);
    }
}
