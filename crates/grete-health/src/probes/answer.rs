//! What is answered, and how it goes over the wire.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::json::Json;

const JSON: &str = "application/json";
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// An answer to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Anything as JSON.
    #[must_use]
    pub fn json(status: u16, json: Json) -> Self {
        let mut body = json.into_bytes();
        body.push(b'\n');
        Self { status, content_type: JSON, body }
    }

    /// Why there is no better answer.
    #[must_use]
    pub fn refusal(status: u16, text: &str) -> Self {
        let mut json = Json::default();
        json.open(b'{').name("error").text(text);
        json.close(b'}');
        Self::json(status, json)
    }

    /// Adds it to `wire`. `head`: without the body, but with its length. `keep`: the connection goes on.
    pub fn encode(&self, wire: &mut Vec<u8>, head: bool, keep: bool) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let allow = if self.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        // A vector takes everything.
        let _ = write!(
            wire,
            "HTTP/1.1 {} {}\r\nDate: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n{allow}Connection: {}\r\n\r\n",
            self.status,
            reason(self.status),
            date(since),
            self.content_type,
            self.body.len(),
            if keep { "keep-alive" } else { "close" },
        );
        if !head {
            wire.extend_from_slice(&self.body);
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}

/// As HTTP writes a point in time, given in seconds since 1970.
fn date(since: u64) -> String {
    let (days, second) = (since / 86_400, since % 86_400);
    let weekday = usize::try_from(days % 7).ok().and_then(|at| DAYS.get(at)).unwrap_or(&"Thu");
    // Years that begin in March have their odd day last; 400 of them are 146,097 days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    let month = usize::try_from(month).ok().and_then(|at| MONTHS.get(at)).unwrap_or(&"Jan");
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (since, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (1_735_689_600, "Wed, 01 Jan 2025 00:00:00 GMT"),
        ] {
            assert_eq!(date(since), text);
        }
    }

    #[test]
    fn a_head_has_the_length_of_its_body_and_no_body() {
        let (mut whole, mut head) = (Vec::new(), Vec::new());
        let answer = Answer::refusal(405, "no");
        answer.encode(&mut whole, false, true);
        answer.encode(&mut head, true, false);
        let (whole, head) = (String::from_utf8(whole).expect("UTF-8"), String::from_utf8(head).expect("UTF-8"));
        assert!(
            whole.starts_with("HTTP/1.1 405 Method Not Allowed\r\n") && whole.ends_with("\r\n\r\n{\"error\":\"no\"}\n")
        );
        assert!(whole.contains("\r\nAllow: GET, HEAD\r\n") && whole.contains("\r\nConnection: keep-alive\r\n"));
        assert!(head.ends_with("\r\nConnection: close\r\n\r\n"));
        assert!(head.contains("\r\nContent-Length: 15\r\n") && whole.contains("\r\nContent-Length: 15\r\n"));
    }
}
