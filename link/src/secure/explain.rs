//! Errors of TLS as sentences about the other end, which say what a user has to change.

use std::{fmt, io};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};

/// The reason why one end does not accept the other one.
#[derive(Debug)]
struct Explained {
    text: String,
    /// Whether the other end does not accept this one.
    is_refused: bool,
    /// Whether that is because of this end's secret.
    is_denied: bool,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Explained {}

/// The other end does not answer as an end with TLS of this version does.
pub(super) const NO_TLS: &str = "it does not speak TLS: it is no node of this version of thalweg, or one that listens on its \
                                 own machine alone";

/// The error as one of input and output.
pub(super) fn io(error: Error) -> io::Error {
    let is_refused = matches!(error, Error::AlertReceived(_));
    let is_denied = error == Error::AlertReceived(AlertDescription::AccessDenied);
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        Explained { text: explain(&error), is_refused, is_denied },
    )
}

/// Whether the other end has refused this one.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    let explained = error.get_ref().and_then(|error| error.downcast_ref::<Explained>());
    explained.is_some_and(|explained| explained.is_refused)
}

/// Whether the other end has refused this one because it does not know its secret.
pub fn is_denied(error: &io::Error) -> bool {
    let explained = error.get_ref().and_then(|error| error.downcast_ref::<Explained>());
    explained.is_some_and(|explained| explained.is_denied)
}

fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => "it shows no certificate".into(),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::InvalidMessage(_) => NO_TLS.into(),
        error => format!("TLS failed: {error}"),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!(
                "its certificate expired on {}: `thalweg node init` there makes another one",
                day(*not_after)
            )
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("its certificate is valid from {} on: one of the clocks is wrong", day(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let shown: Vec<&str> = presented.iter().map(|name| host_of(name)).collect();
            let expected = expected.to_str();
            format!(
                "its certificate is for {}, not for {expected}: `thalweg node init --host {expected}` there makes another one",
                shown.join(", ")
            )
        }
        CertificateError::Revoked => "its certificate was revoked (`thalweg node revoke`)".into(),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is of another cluster".into()
        }
        error => format!("its certificate is not accepted: {error}"),
    }
}

/// An alert is the other end's reason to refuse this end.
fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => {
            "it refuses the certificate of this machine, which has expired: `thalweg node init` makes another one".into()
        }
        AlertDescription::CertificateRevoked => {
            "it refuses the certificate of this machine, which was revoked: a token of `thalweg node invite` is needed for \
             another one"
                .into()
        }
        AlertDescription::UnknownCA | AlertDescription::BadCertificate | AlertDescription::DecryptError => {
            "it refuses the certificate of this machine, which is of another cluster".into()
        }
        AlertDescription::AccessDenied => {
            "it refuses the token of this machine: it belongs to another cluster".into()
        }
        AlertDescription::CertificateRequired => "it refuses a connection without a certificate".into(),
        alert => format!("it refuses TLS: {alert:?}"),
    }
}

/// The host in a name as `rustls` shows it, such as `DnsName("a")` or `IpAddress(10.0.0.1)`.
fn host_of(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')'));
    inner.trim_matches('"')
}

/// The day of a time in UTC, as `YYYY-MM-DD`.
fn day(time: UnixTime) -> String {
    // The calendar repeats every 400 years, which begin in March here, so the leap day is a year's last day.
    let days = time.as_secs() / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, shown) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_735_603_200, "2024-12-31"),
            (4_102_444_799, "2099-12-31"),
        ] {
            assert_eq!(day(UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))), shown);
        }
    }

    #[test]
    fn names_are_shown_as_users_write_them() {
        assert_eq!(host_of("DnsName(\"a.example\")"), "a.example");
        assert_eq!(host_of("IpAddress(10.0.0.1)"), "10.0.0.1");
        assert_eq!(host_of("a"), "a");
    }
}
