//! Parser of the `Retry-After` header.

use std::time::{Duration, SystemTime};

/// Maximum delay, whatever the header requests.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses a number of seconds, or a date like "Sun, 06 Nov 1994 08:49:37 GMT". `None`: the value is neither.
pub(crate) fn parse(value: &str, now: SystemTime) -> Option<Duration> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit the type exceeds the maximum anyway.
        return Some(value.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs).min(MAX_RETRY_AFTER));
    }
    let then = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(parse_http_date(value)?))?;
    Some(then.duration_since(now).unwrap_or_default().min(MAX_RETRY_AFTER))
}

/// Returns seconds since 1970.
fn parse_http_date(value: &str) -> Option<u64> {
    let (_weekday, rest) = value.split_once(", ")?;
    let mut words = rest.split(' ');
    let mut word = || words.next();
    let (day, month, year, time, zone) = (word()?, word()?, word()?, word()?, word()?);
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let number = |text: &str, most: u64| text.parse().ok().filter(|&number: &u64| number <= most);
    let (day, year) = (number(day, 31)?, number(year, 9999).filter(|&year| year >= 1970)?);
    let mut parts = time.split(':');
    let mut part = |most| number(parts.next()?, most);
    let (hours, minutes, seconds) = (part(23)?, part(59)?, part(60)?);
    if zone != "GMT" || day == 0 || parts.next().is_some() {
        return None;
    }
    // Years begin in March here, so that a leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_and_dates_are_read() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 37);
        let wait = |value| parse(value, now).map(|wait| wait.as_secs());
        assert_eq!(wait("0"), Some(0));
        assert_eq!(wait("120"), Some(120));
        assert_eq!(wait("99999999999999999999999"), Some(300));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(37));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!(wait("Sun, 06 Nov 1994 23:00:00 GMT"), Some(300));
        for none in
            ["", "-1", "1.5", "soon", "Sun, 06 Nov 1994", "Sun, 06 Nov 1994 08:49:37 CET", "x, 0 Nov 1994 1:1:1 GMT"]
        {
            assert_eq!(wait(none), None, "{none}");
        }
    }

    #[test]
    fn days_are_counted_right() {
        assert_eq!(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse_http_date("Tue, 29 Feb 2000 12:00:00 GMT"), Some(951_825_600));
        assert_eq!(parse_http_date("Fri, 31 Dec 9999 23:59:59 GMT"), Some(253_402_300_799));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(value in "([A-Z][a-z]{2}, )?[0-9]{0,5}( (Jan|Feb|Mar|Dec|x))?( [0-9]{1,9})?( [0-9:]{0,10})?( GMT)?") {
            parse(&value, SystemTime::UNIX_EPOCH);
        }
    }
}
